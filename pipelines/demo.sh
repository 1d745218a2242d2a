#!/usr/bin/env bash
# Shows the main function: live test video goes to a session with the stand-in and comes back transformed.
#
#   pipelines/demo.sh              leaves demo/before-after-1.png, -2.png and demo/transformed.webm
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
            printf '\nunknown argument: %s\n' "$1" >&2
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

driver="$build_folder/decart-demo"
compile_swift "$driver" "$repo/pipelines/examples/demo.swift"

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
    for file in before-after-1.png before-after-2.png transformed.webm; do
        [ -s "$repo/demo/$file" ] || fail "the demo left no $repo/demo/$file"
    done
    say "Look at:"
    say "  $repo/demo/before-after-1.png, -2.png    an original frame beside its transformed frame, by prompt"
    say "  $repo/demo/transformed.webm              the transformed video"
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
