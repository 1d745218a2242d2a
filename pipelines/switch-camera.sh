#!/usr/bin/env bash
# Shows camera switches within one session: front, back and front again. The front camera is mirrored, the back camera
# is not. The driver contains a device provider with two virtual cameras.
#
#   pipelines/switch-camera.sh     leaves demo/switch-camera-{1,2,3}.png and prints how long each switch took
#   pipelines/switch-camera.sh --cameras    takes the cameras of this machine
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
take_install "$@"
set -- ${arguments[@]+"${arguments[@]}"}

prepare_demo required recommended

driver="$build_folder/switch-camera"
compile_swift "$driver" "$repo/pipelines/examples/switch-camera.swift" \
    "$repo/Tests/DecartElementsTests/Support/VirtualCameras.swift"

start_standin "$port" "$build_folder/standin.log"
timeout --kill-after=5 90 "$driver" "ws://127.0.0.1:$port" "$repo/demo/switch-camera" "$@" &
started_pids+=("$!")
wait "$!" || fail "the driver failed (log of the stand-in: $build_folder/standin.log)"
say "Look at $repo/demo/switch-camera-1.png, -2.png, -3.png"
