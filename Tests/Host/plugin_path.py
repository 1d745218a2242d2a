"""Where GStreamer finds the built plugin, as users have it: our folder last (plugins-bad has a `mirror` too)."""

import os
import subprocess


def system_path(plugin, folder):
    """The value of GST_PLUGIN_SYSTEM_PATH_1_0, with the plugin alone in a folder below `folder`."""
    plugins = os.path.join(folder, "plugins")
    if not os.path.isdir(plugins):
        os.makedirs(plugins)
        os.symlink(plugin, os.path.join(plugins, "libgstdecart.so"))
    system = subprocess.run(["pkg-config", "--variable=pluginsdir", "gstreamer-1.0"], capture_output=True, text=True,
                            check=True).stdout.strip()
    return f"{system}:{plugins}"
