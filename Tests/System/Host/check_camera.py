#!/usr/bin/python3
"""Runs selfie.sh and switch-camera.sh as a user does, and checks the images that they leave.

Both act after fixed times, so they run for scripts/verify only (DECART_VERIFY=1). Prints "ok NAME", "not ok NAME: why" or
"skip NAME: why". The test pattern has colour bars: grey (or white), yellow, cyan, green, magenta, red, blue from
left to right, and from right to left where it is mirrored.
"""

import os
import re
import subprocess
import sys
import tempfile

from checkout import checkout, run_script
from checks import VERIFYING, Results, measured

WIDTH, HEIGHT = 640, 352
BARS = ["grey", "yellow", "cyan", "green", "magenta", "red", "blue"]
MIRRORED = BARS[::-1]
# By script, in its folder demo.
IMAGES = {"selfie.sh": ["selfie"], "switch-camera.sh": ["switch-camera-1", "switch-camera-2", "switch-camera-3"]}
report = Results("camera")


def mean(data, x, y, width, height):
    """Returns the mean of a rectangle of pixels as (red, green, blue)."""
    totals = [0, 0, 0]
    for row in range(y, y + height):
        line = data[(row * WIDTH + x) * 3:(row * WIDTH + x + width) * 3]
        for channel in range(3):
            totals[channel] += sum(line[channel::3])
    return [total / (width * height) for total in totals]


def bars(data, left, width):
    """Returns the means of the seven bars between two columns, from left to right."""
    bar = width / 7
    return [mean(data, int(left + (index + 0.3) * bar), 60, int(bar * 0.4), 96) for index in range(7)]


def colour(rgb):
    """Names a colour. A channel counts as on if it is nearer to the brightest channel than to the darkest one."""
    high, low = max(rgb), min(rgb)
    if high - low < 30:
        return "grey"
    on = tuple(value > (high + low) / 2 for value in rgb)
    return {(True, True, False): "yellow", (False, True, True): "cyan", (False, True, False): "green",
            (True, False, True): "magenta", (True, False, False): "red", (False, False, True): "blue"}.get(on, "?")


def problem(name, path):
    if not os.path.exists(path):
        return "the script did not write it"
    raw = f"{path}.rgb"
    done = subprocess.run(["gst-launch-1.0", "-q", "filesrc", f"location={path}", "!", "pngdec", "!", "videoconvert", "!",
                           "video/x-raw,format=RGB", "!", "videoscale", "!", f"video/x-raw,width={WIDTH},height={HEIGHT}", "!",
                           "filesink", f"location={raw}"], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"it cannot be decoded: {done.stderr}"
    with open(raw, "rb") as file:
        data = file.read()
    if len(data) != WIDTH * HEIGHT * 3:
        return f"{len(data)} bytes"
    if name == "selfie":
        # Both halves were squeezed to 320 columns each.
        local, transformed = bars(data, 0, 320), bars(data, 320, 320)
        if [colour(bar) for bar in local] != MIRRORED:
            return f"the local half is not the mirrored test pattern: {[colour(bar) for bar in local]}"
        if any(colour(bar) != "grey" for bar in transformed):
            return f"the transformed half has colours: {transformed}"
        brightness = [bar[1] for bar in transformed]
        if not all(one < other for one, other in zip(brightness, brightness[1:])):
            return f"the transformed half is not the mirrored pattern without its colours: {brightness}"
        return ""
    wanted = BARS if name.endswith("2") else MIRRORED
    seen = [colour(bar) for bar in bars(data, 0, WIDTH)]
    if seen != wanted:
        return f"{seen} in place of {wanted}"
    # The front camera has the bars of 100 %, the back camera those of 75 %.
    yellow = bars(data, 0, WIDTH)[wanted.index("yellow")]
    if (yellow[0] > 215) != (wanted is MIRRORED):
        return f"it is from the other camera: {yellow}"
    return ""


def main():
    if not VERIFYING:
        return report.skip("selfie.sh and switch-camera.sh: scripts/verify runs them, because they act after fixed times")
    with tempfile.TemporaryDirectory() as work:
        for script, images in IMAGES.items():
            folder, environment = checkout(f"{work}/{script}")
            status, output = run_script(folder, environment, script)
            report(f"{script} runs", "" if status == 0 else (output.splitlines() or [f"status {status}"])[-1])
            for name in images:
                report(f"{name}.png shows the expected bars", problem(name, f"{folder}/demo/{name}.png"))
            if script == "switch-camera.sh":
                gaps = [int(gap) for gap in re.findall(r" (\d+) ms between two \w+ at most", output)]
                if gaps:
                    measured("camera: longest time between two frames of a switch", max(gaps), "ms", at_most=500)
                else:
                    report("switch-camera.sh prints how long a switch took", "it does not")
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
