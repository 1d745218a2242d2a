"""Builds GStreamer's search path with the plugin, in users' order: our folder is last (plugins-bad has a `mirror`)."""

import os
import subprocess


def system_path(plugin, folder):
    """Returns a value for GST_PLUGIN_SYSTEM_PATH_1_0. A folder below `folder` then contains only the plugin."""
    plugins = os.path.join(folder, "plugins")
    if not os.path.isdir(plugins):
        os.makedirs(plugins)
        os.symlink(plugin, os.path.join(plugins, "libgstdecart.so"))
    system = subprocess.run(["pkg-config", "--variable=pluginsdir", "gstreamer-1.0"], capture_output=True, text=True,
                            check=True).stdout.strip()
    return f"{system}:{plugins}"
