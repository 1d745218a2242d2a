#!/usr/bin/env bash
# Shows one session with several outputs: a tee passes the transformed video to a window, to a file and, once a second,
# to an image. A queue in each branch decouples the outputs from each other.
#
#   pipelines/outputs.sh           leaves demo/outputs.webm and demo/outputs.png
#   pipelines/outputs.sh --show    opens a window too
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
take_install "$@"
set -- ${arguments[@]+"${arguments[@]}"}

window=(fakesink sync=true)
if [ "${1:-}" = --show ]; then window=(videoconvert ! autovideosink); fi

prepare_demo required recommended
log="$build_folder/outputs.log"
start_standin "$port" "$build_folder/standin.log"

# The window's queue drops late frames; the file's queue drops none. async=false: a pipeline begins to play when each
# sink has its first frame, and the image's sink gets its own a second after the others.
timeout --kill-after=5 90 gst-launch-1.0 -e \
    videotestsrc is-live=true num-buffers=220 horizontal-speed=4 ! video/x-raw,width=640,height=352,framerate=22/1 \
    ! timeoverlay ! decarttransform base-url="ws://127.0.0.1:$port" api-key=x prompt="Lego World" width=640 height=352 \
    ! tee name=outputs \
    outputs. ! queue leaky=downstream max-size-buffers=0 max-size-bytes=0 max-size-time=1000000000 ! "${window[@]}" \
    outputs. ! queue max-size-buffers=0 max-size-bytes=0 max-size-time=3000000000 \
    ! vp8enc deadline=1 cpu-used=8 target-bitrate=0 ! webmmux \
    ! filesink location="$repo/demo/outputs.webm" async=false \
    outputs. ! queue ! videorate ! video/x-raw,framerate=1/1 ! videoconvert ! pngenc \
    ! multifilesink location="$repo/demo/outputs.png" async=false >"$log" 2>&1 &
started_pids+=("$!")
wait "$!" || { tail -n 5 "$log" >&2; fail "the pipeline failed ($log)"; }
say "Look at $repo/demo/outputs.webm and $repo/demo/outputs.png"
