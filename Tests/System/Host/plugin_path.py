"""Builds GStreamer's search path with the plugin, in the order of pipelines/env.sh, which explains it."""

import os
import subprocess


def system_path(plugin, folder):
    """Returns a value for GST_PLUGIN_SYSTEM_PATH_1_0. A folder below `folder` then contains only the plugin."""
    system = subprocess.run(["pkg-config", "--variable=pluginsdir", "gstreamer-1.0"], capture_output=True, text=True,
                            check=True).stdout.strip()
    folders = []
    for name, file in (("plugins-bad", os.path.join(system, "libgstgeometrictransform.so")), ("plugins", plugin)):
        folders.append(os.path.join(folder, name))
        if not os.path.isdir(folders[-1]):
            os.makedirs(folders[-1])
            os.symlink(file, os.path.join(folders[-1], os.path.basename(file)))
    return ":".join([*folders, system])
