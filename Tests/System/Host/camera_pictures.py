"""Checks a picture that the camera scripts leave, as RGB of 640 × 352, for check_camera.sh.

    camera_pictures.py NAME FILE

Prints "ok NAME" or "not ok NAME: why". The test pattern has colour bars: grey (or white), yellow, cyan, green, magenta,
red, blue from left to right, and from right to left where it is mirrored.
"""

import sys

WIDTH, HEIGHT = 640, 352
BARS = ["grey", "yellow", "cyan", "green", "magenta", "red", "blue"]
MIRRORED = BARS[::-1]


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


def problem(name, data):
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
    name, path = sys.argv[1:]
    try:
        with open(path, "rb") as file:
            why = problem(name, file.read())
    except OSError as error:
        why = str(error)
    print(f"not ok camera: {name}.png: {why}" if why else f"ok camera: {name}.png shows the expected bars")
    sys.exit(bool(why))


main()
