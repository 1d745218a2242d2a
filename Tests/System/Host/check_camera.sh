#!/usr/bin/env bash
# Runs selfie.sh and switch-camera.sh as a user does, and checks the pictures that they leave.
# Prints "ok NAME", "not ok NAME: why" or "skip NAME: why".
#
# Both act after fixed times, so they run for scripts/verify only (DECART_VERIFY=1). scripts/test compiles the driver.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

mapfile -t flags < <(pkg-config --cflags gstreamer-video-1.0 | tr ' ' '\n' | sed -n 's/^-I/-Xcc\n-I/p')
if swiftc -typecheck -swift-version 6 -parse-as-library -I "$repo/Sources/CGStreamer" "${flags[@]}" \
    "$repo/pipelines/switch-camera.swift" "$repo/Tests/DecartElementsTests/Support/VirtualCameras.swift" >"$work/typecheck.log" 2>&1; then
    say "ok camera: the driver of switch-camera.sh compiles"
else
    say "not ok camera: the driver of switch-camera.sh compiles: $(grep -m 1 'error:' "$work/typecheck.log" || tail -n 1 "$work/typecheck.log")"
    status=1
fi
[ -n "${DECART_VERIFY:-}" ] || exit "$status"

# script NAME: run it in a copy of the repository; its last line is the reason when it fails.
script() {
    if /usr/bin/python3 "$repo/Tests/System/Host/checkout.py" "$work/$1" "$1" >"$work/$1.log" 2>&1; then
        say "ok camera: $1 runs"
    else
        say "not ok camera: $1 runs: $(tail -n 1 "$work/$1.log")"
        status=1
    fi
}

script selfie.sh
script switch-camera.sh

for picture in selfie switch-camera-1 switch-camera-2 switch-camera-3; do
    file="$work/${picture%-[0-9]}.sh/demo/$picture.png"
    if [ ! -e "$file" ]; then
        say "not ok camera: $picture.png: the script did not write it"
        status=1
        continue
    fi
    gst-launch-1.0 -q filesrc location="$file" ! pngdec ! videoconvert ! video/x-raw,format=RGB \
        ! videoscale ! video/x-raw,width=640,height=352 ! filesink location="$work/$picture.rgb" >/dev/null 2>&1 || true
    /usr/bin/python3 "$repo/Tests/System/Host/camera_pictures.py" "$picture" "$work/$picture.rgb" || status=1
done

gap=$(sed -n 's/.* \([0-9]*\) ms between two pictures at most/\1/p' "$work/switch-camera.sh.log" | sort -n | tail -n 1)
if [ -n "$gap" ]; then
    say "measured camera: longest time between two frames of a switch: $gap ms <= 500"
else
    say "not ok camera: switch-camera.sh prints how long a switch took"
    status=1
fi
exit "$status"
