"""Builds GStreamer's search path with the plugin, in the order of pipelines/env.sh, which explains it."""

import os
import shutil
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


def registry(folder):
    """Returns a value for GST_REGISTRY_1_0: a file in `folder`. It begins as the registry that scripts/test has filled, as
    a scan of all plugins takes seconds."""
    path, filled = os.path.join(folder, "registry"), os.environ.get("GST_REGISTRY_1_0", "")
    if os.environ.get("DECART_TEST_RUN") and os.path.exists(filled) and not os.path.exists(path):
        shutil.copy(filled, path)
    return path
