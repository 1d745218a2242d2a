#!/usr/bin/python3
"""Compares the models of the element with those of Decart's newest SDK for Python, whose wheel pip downloads.

The element follows the SDK for JavaScript where the two differ (JAVASCRIPT).

Prints "ok NAME", "not ok NAME: why" or, without a package registry, "skip NAME: why".
"""

import ast
import glob
import os
import subprocess
import sys
import tempfile
import time
import zipfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Host"))
from checks import Results, gstreamer  # noqa: E402
from gst import Gst, text_of  # noqa: E402

LIMIT = 20  # s, for every wait
report = Results("models")
# Of @decartai/sdk 0.1.20: width, height and frame rate in a room; whether Python's 0.2.4 has the model too.
JAVASCRIPT = {
    "lucy-2.1": ((1088, 624, 30), True),
    "lucy-latest": ((1088, 624, 30), True),
    "lucy-vton-2": ((1088, 624, 30), False),
    "lucy-vton-3": ((1088, 624, 30), False),
}


def download(folder):
    """Returns the path of the newest wheel, or None."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest",
               folder, "decart"]
    try:
        subprocess.run(command, check=True, timeout=120, capture_output=True)
    except (subprocess.SubprocessError, OSError):
        return None
    return next(iter(glob.glob(f"{folder}/*.whl")), None)


def realtime_models(source):
    """Returns the arguments of each realtime model in models.py, by name, without running it."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "_MODELS":
            tables = dict(zip((key.value for key in node.value.keys), node.value.values))
            calls = tables["realtime"].values
            return {fields["name"]: fields for fields in (
                {word.arg: ast.literal_eval(word.value) for word in call.keywords} for call in calls)}
    return {}


def element_model(name):
    """Returns width, height and frame rate of the output, and the texts of the warnings with speed=fast."""
    pipeline = Gst.parse_launch(
        "videotestsrc is-live=true ! video/x-raw,width=320,height=180,framerate=30/1"
        f" ! decarttransform model={name} speed=fast api-key=x base-url=ws://127.0.0.1:9 auto-connect=false fallback=black"
        " ! fakesink name=out")
    pad = pipeline.get_by_name("out").get_static_pad("sink")
    pipeline.set_state(Gst.State.PLAYING)
    try:
        end = time.monotonic() + LIMIT
        while not (caps := pad.get_current_caps()) and time.monotonic() < end:
            time.sleep(0.02)
        warnings = []
        while message := pipeline.get_bus().pop_filtered(Gst.MessageType.WARNING | Gst.MessageType.ERROR):
            warnings.append(text_of(message))
        if not caps:
            return None, warnings
        fields = caps.get_structure(0)
        _, rate, _ = fields.get_fraction("framerate")
        return (fields.get_value("width"), fields.get_value("height"), rate), warnings
    finally:
        pipeline.set_state(Gst.State.NULL)


def main():
    with tempfile.TemporaryDirectory() as folder:
        wheel = download(folder)
        if not wheel:
            return report.skip("pip cannot download the package decart")
        with zipfile.ZipFile(wheel) as archive:
            models = realtime_models(archive.read("decart/models.py").decode())
        os.environ.update(gstreamer(folder))
        Gst.init(None)

        version = os.path.basename(wheel).split("-")[1]
        blurb = Gst.ElementFactory.make("decarttransform").find_property("model").blurb
        names = set(blurb.split(", or ")[0].split(", "))
        report(f"those of the SDK {version}", ", ".join(sorted(names ^ set(models) ^ {
            name for name, (_, in_python) in JAVASCRIPT.items() if not in_python})))
        for name, (wanted, in_python) in JAVASCRIPT.items():
            fields = models.get(name)
            size = fields and (fields["width"], fields["height"], fields["fps"])
            report(f"difference of {name}", "" if size != wanted and bool(fields) == in_python else
                   f"the SDK {version} has {size}: correct JAVASCRIPT and MODELS.md")
            if not in_python:
                found, warnings = element_model(name)
                report(f"format of {name}", "" if found == wanted else f"{found}, not {wanted}; {warnings}")
        for name, fields in models.items():
            wanted = JAVASCRIPT[name][0] if name in JAVASCRIPT else (fields["width"], fields["height"], fields["fps"])
            found, warnings = element_model(name)
            report(f"format of {name}", "" if found == wanted else f"{found}, not {wanted}; {warnings}")
            is_fast = not any("speed=fast" in text for text in warnings)
            wanted = "fast" in fields.get("supported_speeds", ())
            report(f"speed of {name}", "" if is_fast == wanted else f"fast is {is_fast}; {warnings}")
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
