#!/usr/bin/env bash
# Runs selfie.sh and switch-camera.sh as a user does, and checks the pictures that they leave.
# Prints "ok NAME", "not ok NAME: why" or "skip NAME: why".
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# script NAME: run it; its last line is the reason when it fails.
script() {
    if timeout --kill-after=10 200 "$repo/pipelines/$1" >"$work/$1.log" 2>&1; then
        say "ok camera: $1 runs"
    else
        say "not ok camera: $1 runs: $(tail -n 1 "$work/$1.log")"
        status=1
    fi
}

# A picture that is older than this file was left by an earlier run.
touch "$work/before"
script selfie.sh
script switch-camera.sh

for picture in selfie switch-camera-1 switch-camera-2 switch-camera-3; do
    if [ ! "$repo/demo/$picture.png" -nt "$work/before" ]; then
        say "not ok camera: $picture.png: this run did not write it"
        status=1
        continue
    fi
    gst-launch-1.0 -q filesrc location="$repo/demo/$picture.png" ! pngdec ! videoconvert ! video/x-raw,format=RGB \
        ! videoscale ! video/x-raw,width=640,height=352 ! filesink location="$work/$picture.rgb" >/dev/null 2>&1 || true
    /usr/bin/python3 "$repo/Tests/System/Host/camera_pictures.py" "$picture" "$work/$picture.rgb" || status=1
done

gap=$(sed -n 's/.* \([0-9]*\) ms between two pictures at most/\1/p' "$work/switch-camera.sh.log" | sort -n | tail -n 1)
if [ -n "$gap" ] && [ "$gap" -le 500 ]; then
    say "ok camera: a switch takes 500 ms at most"
else
    say "not ok camera: a switch takes 500 ms at most: ${gap:-no} ms"
    status=1
fi
exit "$status"
