#!/usr/bin/env bash
# Shows the local video, mirrored (left), beside the transformed video (right).
#
#   pipelines/selfie.sh            uses a test pattern; leaves demo/selfie.webm and one of its frames, demo/selfie.png
#   pipelines/selfie.sh --camera   uses the first camera instead
#   pipelines/selfie.sh --show     opens a window until it is closed, and leaves no files; works with --camera too
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
take_install "$@"
set -- ${arguments[@]+"${arguments[@]}"}

source='test'
show=
for option in "$@"; do
    case $option in
        --camera) source=auto ;;
        --show) show=yes ;;
        *) fail "unknown option $option (--camera, --show, --install)" ;;
    esac
done

prepare_demo required recommended

recording="$repo/demo/selfie.webm"
log="$build_folder/selfie.log"
start_standin "$port" "$build_folder/standin.log"

if [ -n "$show" ]; then
    end=(videoconvert ! autovideosink)
else
    end=(videoconvert ! vp8enc deadline=1 cpu-used=8 target-bitrate=2000000 ! webmmux ! filesink location="$recording")
fi
# The colorimetry is fixed, because compositor adopts that of its first input, and webmmux accepts no change of it.
colours=colorimetry=bt601
half=video/x-raw,format=I420,width=640,height=352,framerate=20/1,$colours
gst-launch-1.0 -e decartsrc name=camera source="$source" mirror=on \
    base-url="ws://127.0.0.1:$port" api-key=x prompt="Film noir" \
    compositor name=both sink_0::xpos=0 sink_1::xpos=640 ! "video/x-raw,width=1280,height=352,framerate=20/1,$colours" ! "${end[@]}" \
    camera.preview ! queue ! videoconvert ! videoscale ! videorate ! "$half" ! both.sink_0 \
    camera.src ! queue ! videoconvert ! videoscale ! videorate ! "$half" ! both.sink_1 >"$log" 2>&1 &
pipeline=$!
started_pids+=("$pipeline")
if [ -n "$show" ]; then
    wait "$pipeline" || true
    exit 0
fi

sleep 8
kill -INT "$pipeline"
wait "$pipeline" || { tail -n 5 "$log" >&2; fail "the pipeline failed ($log)"; }

# Extracts the frame of the seventh second: multifilesink overwrites the earlier ones.
gst-launch-1.0 -q filesrc location="$recording" ! matroskademux ! vp8dec ! videoconvert ! video/x-raw,format=RGB \
    ! videorate ! video/x-raw,framerate=1/1 ! identity eos-after=8 ! pngenc ! multifilesink location="$repo/demo/selfie.png" \
    >>"$log" 2>&1
[ -s "$repo/demo/selfie.png" ] || fail "the recording contains no frame ($log)"
say "Look at:"
say "  $recording"
say "  $repo/demo/selfie.png    the local video, mirrored, beside the transformed video"
