#!/usr/bin/env bash
# Shows H.264 that nothing decodes: an RTSP camera goes through a session and leaves over RTSP, and a second session is
# recorded. The stand-in returns the frames as they came. The camera is an RTSP server with a test pattern.
#
#   pipelines/rtsp-through.sh            leaves demo/through-00.mp4 and -01.mp4
#
# For a camera of your own: put its address into `camera`, leave --echo-encoded and base-url away, and set width, height
# and framerate to what camera and model have.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
take_install "$@"

prepare_demo required recommended test
start_standin "$port" "$build_folder/standin.log" --echo-encoded

# serve NAME LAUNCH: start an RTSP server and set address to its stream.
serve() {
    local log="$build_folder/rtsp-$1.log" attempt
    "$repo/pipelines/rtsp.py" --port 0 "$2" >"$log" 2>&1 &
    started_pids+=("$!")
    for attempt in $(seq 1 100); do
        address=$(grep -m 1 '^rtsp://' "$log" || true)
        if [ -n "$address" ]; then return 0; fi
        sleep 0.1
    done
    tail -n 5 "$log" >&2
    fail "the RTSP server $1 does not start (waited for $((attempt / 10)) s)"
}

serve camera "( videotestsrc is-live=true horizontal-speed=4 ! video/x-raw,width=640,height=352,framerate=22/1
    ! x264enc tune=zerolatency speed-preset=ultrafast bitrate=1000 key-int-max=22
    ! video/x-h264,profile=constrained-baseline ! rtph264pay name=pay0 config-interval=-1 )"
camera=$address
say "camera: $camera"

through="rtspsrc location=$camera protocols=tcp latency=100 ! rtph264depay ! h264parse
    ! decarttransform base-url=ws://127.0.0.1:$port api-key=x prompt=Lego width=640 height=352 framerate=25
    ! h264parse"
serve through "( $through ! rtph264pay name=pay0 config-interval=-1 )"
say "through the service: $address"
timeout --kill-after=5 60 gst-launch-1.0 -q rtspsrc location="$address" protocols=tcp ! rtph264depay ! h264parse \
    ! video/x-h264,stream-format=avc,alignment=au ! identity eos-after=60 ! fakesink ||
    fail "no frames came through"
say "60 frames came through"

rm -f "$repo"/demo/through-*.mp4
# With --eos-on-shutdown, an interrupt ends the files as they have to end.
# shellcheck disable=SC2086 # the pipeline's words
timeout --signal=INT --kill-after=15 7 gst-launch-1.0 -q --eos-on-shutdown $through \
    ! splitmuxsink location="$repo/demo/through-%02d.mp4" max-size-time=2000000000 || [ $? = 124 ] ||
    fail "the recording failed"
for file in "$repo"/demo/through-0[01].mp4; do
    [ -s "$file" ] || fail "$file is missing"
done
say "Look at $repo/demo/through-00.mp4 and -01.mp4"
