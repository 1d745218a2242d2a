#!/usr/bin/env bash
# Runs the README's pipelines as a user types them: stand-in, environment, gst-launch-1.0, a window (in Xvfb).
# Prints "ok NAME", "not ok NAME: why" or "skip NAME: why".
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib.sh"
# shellcheck source=pipelines/env.sh
source "$repo/pipelines/env.sh"

name="launch: gst-launch-1.0 shows frames"
work=$(mktemp -d)
trap 'stop_started; rm -rf "$work"' EXIT
export GST_REGISTRY_1_0="$work/registry"
unset DECART_API_KEY WAYLAND_DISPLAY

if ! command -v Xvfb >/dev/null; then
    say "skip $name: no Xvfb"
    exit 0
fi
# It chooses a free display itself, and writes its number when the display is ready. Without -noreset it resets when its
# last client disconnects, at which moment the next client may connect.
Xvfb -displayfd 3 -screen 0 1280x800x24 -noreset -nolisten tcp 3>"$work/display" >"$work/xvfb.log" 2>&1 &
started_pids+=("$!")
for _ in $(seq 1 100); do
    [ ! -s "$work/display" ] || break
    sleep 0.1
done
[ -s "$work/display" ] || { say "not ok $name: Xvfb does not start: $(tail -n 1 "$work/xvfb.log")"; exit 1; }
DISPLAY=":$(cat "$work/display")"
export DISPLAY

port=$(free_port)
start_standin "$port" "$work/standin.log"

# shows NAME ELEMENT...: run gst-launch-1.0 with these elements and a window. With -e an interrupt ends the stream first,
# as a user's Ctrl-C does. --foreground: otherwise timeout also sends the interrupt to the group, and a second one ends
# gst-launch-1.0 at once.
shows() {
    local name="launch: $1 shows frames" code=0
    shift
    timeout --foreground --signal=INT --kill-after=10 8 gst-launch-1.0 -e -v "$@" ! videoconvert ! autovideosink name=window \
        >"$work/out" 2>&1 || code=$?
    if grep -q '^ERROR' "$work/out"; then
        say "not ok $name: $(grep -A 2 '^ERROR' "$work/out" | tr '\n' ' ')"
    elif [ "$code" -ne 124 ] && [ "$code" -ne 0 ]; then
        say "not ok $name: status $code: $(tail -n 2 "$work/out" | tr '\n' ' ')"
    elif ! grep -q 'window.*caps = video/x-raw' "$work/out"; then
        say "not ok $name: nothing reached the window"
    elif ! grep -q 'Got EOS' "$work/out"; then
        say "not ok $name: an interrupt does not end the stream"
    else
        say "ok $name"
        return 0
    fi
    return 1
}

status=0
service=("base-url=ws://127.0.0.1:$port" api-key=x prompt="Lego World")
shows "the README's line" videotestsrc is-live=true ! decarttransform "${service[@]}" || status=1
shows "decartmirror before it" videotestsrc is-live=true ! decartmirror mode=auto position=front ! decarttransform \
    "${service[@]}" || status=1
shows "decartsrc with a test pattern" decartsrc source=test mirror=on "${service[@]}" || status=1
exit "$status"
