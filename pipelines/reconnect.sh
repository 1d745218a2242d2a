#!/usr/bin/env bash
# Shows reconnects: a gst-launch pipeline records decarttransform's output while the service is killed and restarted
# twice. The result is one continuous recording, and the prompt of the start is still applied after the second restart.
#
#   pipelines/reconnect.sh         leaves demo/reconnect.webm and three of its frames, demo/reconnect-{1,2,3}.png
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
take_install "$@"
set -- ${arguments[@]+"${arguments[@]}"}

prepare_demo required recommended

recording="$repo/demo/reconnect.webm"
log="$build_folder/reconnect.log"

# Seconds from the start of the pipeline.
kill_service() {
    kill -KILL "$standin_pid" 2>/dev/null || true
    wait "$standin_pid" 2>/dev/null || true
    say "$(since) the service was killed"
}
start_service() {
    start_standin "$port" "$build_folder/standin.log"
    say "$(since) the service listens"
}
started=$(date +%s%N)
since() { printf '%5.1f s ' "$(($(date +%s%N) - started))e-9"; }

start_service
gst-launch-1.0 -m -e videotestsrc is-live=true pattern=smpte horizontal-speed=4 ! video/x-raw,width=640,height=360,framerate=30/1 \
    ! timeoverlay font-desc="Sans, 36" \
    ! decarttransform name=decart base-url="ws://127.0.0.1:$port" api-key=x prompt="Lego World" \
    ! video/x-raw,width=640,height=352 ! videoconvert ! vp8enc deadline=1 cpu-used=8 keyframe-max-dist=30 \
    ! webmmux ! filesink location="$recording" >"$log" 2>&1 &
pipeline=$!
started_pids+=("$pipeline")
started=$(date +%s%N)

sleep 4
kill_service
sleep 2
start_service
sleep 6
kill_service
sleep 2
start_service
sleep 7
kill -INT "$pipeline"
wait "$pipeline" || { tail -n 5 "$log" >&2; fail "the pipeline failed ($log)"; }
say "$(since) the pipeline ended"

for moment in 1:3 2:5 3:19; do
    gst-launch-1.0 -q filesrc location="$recording" ! matroskademux ! vp8dec ! videoconvert ! video/x-raw,format=RGB \
        ! videorate ! video/x-raw,framerate=1/1 ! identity eos-after=$((${moment#*:} + 1)) ! pngenc \
        ! multifilesink location="$repo/demo/reconnect-${moment%:*}.png" max-files=1 2>/dev/null
done
say "Look at:"
say "  $recording"
say "  $repo/demo/reconnect-1.png  before the first kill"
say "  $repo/demo/reconnect-2.png  while the service is down: the output repeats the last frame"
say "  $repo/demo/reconnect-3.png  after the second restart: the element has restored the prompt"
