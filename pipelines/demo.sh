#!/usr/bin/env bash
# Shows the main function: live test video goes to a session with the stand-in and comes back transformed.
#
#   pipelines/demo.sh              leaves demo/before-after.png and demo/transformed.webm
#   pipelines/demo.sh --show       opens a window instead (and writes no files)
#   pipelines/demo.sh --service    uses the real service with the key in DECART_API_KEY instead of the stand-in
#   pipelines/demo.sh --seconds N  sets the duration (default 8; with --show 30)
#   pipelines/demo.sh --install    installs missing packages first; without it, the script asks on a terminal
#
# The first run builds, which takes minutes; later runs take seconds.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
take_install "$@"
set -- ${arguments[@]+"${arguments[@]}"}

show=
service=
seconds=
while [ $# -gt 0 ]; do
    case $1 in
        --show) show=yes ;;
        --service) service=yes ;;
        --seconds)
            shift
            seconds=${1:-}
            [[ $seconds =~ ^[0-9]+$ ]] || fail "--seconds needs a number"
            ;;
        *)
            usage
            exit 2
            ;;
    esac
    shift
done
if [ -n "$service" ] && [ -z "${DECART_API_KEY:-}" ]; then
    fail "--service needs your key in the environment variable DECART_API_KEY"
fi

trap stop_started EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

require_packages required recommended
# shellcheck disable=SC2119 # build takes arguments of swift's, not of ours
build

# The driver is one Swift file, compiled against the package's module map: an application, not a part of the product.
driver="$build_folder/decart-demo"
if [ ! -x "$driver" ] || [ "$repo/pipelines/demo.swift" -nt "$driver" ]; then
    mapfile -t flags < <(pkg-config --cflags gstreamer-video-1.0 | tr ' ' '\n' | sed -n 's/^-I/-Xcc\n-I/p')
    mapfile -t libraries < <(pkg-config --libs gstreamer-video-1.0 | tr ' ' '\n' | grep '^-[lL]')
    swiftc -swift-version 6 -O -I "$repo/Sources/CGStreamer" "${flags[@]}" "$repo/pipelines/demo.swift" \
        -o "$driver" "${libraries[@]}" >"$build_folder/demo.log" 2>&1 ||
        { tail -n 20 "$build_folder/demo.log" >&2; fail "the demo does not compile"; }
fi

# shellcheck source=pipelines/env.sh
source "$repo/pipelines/env.sh"

arguments=(--seconds "${seconds:-$([ -n "$show" ] && echo 30 || echo 8)}" --output "$repo/demo")
if [ -n "$show" ]; then arguments+=(--show); else mkdir -p "$repo/demo"; fi
if [ -z "$service" ]; then
    # A real key must not reach the stand-in.
    unset DECART_API_KEY
    port=$(free_port)
    start_standin "$port" "$build_folder/standin.log"
    arguments+=(--base-url "ws://127.0.0.1:$port")
fi

say ""
timeout --kill-after=5 $((${seconds:-30} + 60)) "$driver" "${arguments[@]}" &
started_pids+=("$!")
wait "$!" || fail "the demo failed${port:+ (log of the stand-in: $build_folder/standin.log)}"

say ""
if [ -z "$show" ]; then
    for file in before-after.png transformed.webm; do
        [ -s "$repo/demo/$file" ] || fail "the demo left no $repo/demo/$file"
    done
    say "Look at:"
    say "  $repo/demo/before-after.png    each original frame beside its transformed frame, one row per prompt"
    say "  $repo/demo/transformed.webm    the transformed video"
    say ""
fi
if [ -z "$service" ]; then
    say "This run used the stand-in. To use the real service:"
    say "  DECART_API_KEY=... pipelines/demo.sh --service"
    say "or, from a camera:"
    say "  source pipelines/env.sh"
    say "  export DECART_API_KEY=..."
    say "  gst-launch-1.0 autovideosrc ! decarttransform prompt=\"Lego World\" ! videoconvert ! autovideosink"
fi
