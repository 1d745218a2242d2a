#!/usr/bin/env bash
# Shows one capture in two sessions, each with its own prompt, codec and bitrate, side by side.
#
#   pipelines/two-sessions.sh          leaves demo/two-sessions.webm and demo/two-sessions.png
#   pipelines/two-sessions.sh --show   opens a window too
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
take_install "$@"
set -- ${arguments[@]+"${arguments[@]}"}

window=(fakesink sync=true)
if [ "${1:-}" = --show ]; then window=(videoconvert ! autovideosink); fi

prepare_demo required recommended
log="$build_folder/two-sessions.log"
start_standin "$port" "$build_folder/standin.log"

# The sessions are independent: one may reconnect while the other continues. -v and -m write the negotiated codecs, the
# states and the target bitrates of both sessions to the log. async=false: see outputs.sh.
# The colorimetry is fixed, because compositor adopts that of its first input, and webmmux accepts no change of it.
# The stream ends behind the compositor, because the sessions themselves would not end with the same frame.
timeout --kill-after=5 40 gst-launch-1.0 -e -v -m \
    videotestsrc is-live=true horizontal-speed=4 ! video/x-raw,width=640,height=352,framerate=22/1 \
    ! timeoverlay ! tee name=capture \
    capture. ! queue ! decarttransform name=left base-url="ws://127.0.0.1:$port" api-key=x width=640 height=352 \
    prompt="Lego World" codec=vp8 max-bitrate=2000000 ! queue ! both.sink_0 \
    capture. ! queue ! decarttransform name=right base-url="ws://127.0.0.1:$port" api-key=x width=640 height=352 \
    prompt="Noir film" codec=h264 max-bitrate=400000 ! queue ! both.sink_1 \
    compositor name=both sink_1::xpos=640 \
    ! video/x-raw,format=I420,width=1280,height=352,framerate=22/1,colorimetry=bt601 ! identity eos-after=220 ! tee name=outputs \
    outputs. ! queue leaky=downstream max-size-buffers=0 max-size-bytes=0 max-size-time=1000000000 ! "${window[@]}" \
    outputs. ! queue max-size-buffers=0 max-size-bytes=0 max-size-time=3000000000 ! videoconvert \
    ! vp8enc deadline=1 cpu-used=8 target-bitrate=0 ! webmmux \
    ! filesink location="$repo/demo/two-sessions.webm" async=false \
    outputs. ! queue ! videorate ! video/x-raw,framerate=1/1 ! videoconvert ! pngenc \
    ! multifilesink location="$repo/demo/two-sessions.png" async=false >"$log" 2>&1 &
started_pids+=("$!")
wait "$!" || { tail -n 5 "$log" >&2; fail "the pipeline failed ($log)"; }
say "Look at $repo/demo/two-sessions.webm and $repo/demo/two-sessions.png"
