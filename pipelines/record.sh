#!/usr/bin/env bash
# See recordings begin, follow each other and end while the stream goes on, without a frame lost between two files: the
# program pipelines/examples/live.py, told what to do by this script.
#
#   pipelines/record.sh            leaves demo/record-{1,2,3}.webm
#   pipelines/record.sh --show     with a window
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

window="fakesink sync=true"
if [ "${1:-}" = --show ]; then window="videoconvert ! autovideosink"; fi

prepare_demo required recommended test
start_standin "$port" "$build_folder/standin.log"

coproc live {
    exec "$repo/pipelines/examples/live.py" --sink "$window" \
        "videotestsrc is-live=true horizontal-speed=4 ! timeoverlay ! video/x-raw,width=640,height=352,framerate=22/1
         ! decarttransform name=decart base-url=ws://127.0.0.1:$port api-key=x
         prompt=\"Lego World\" width=640 height=352"
}
started_pids+=("$live_PID")
# Of our own: bash closes its ends when the program ends, and the last lines would be lost.
exec {answers}<&"${live[0]}" {commands}>&"${live[1]}"
log="$build_folder/record.log"
: >"$log"

# wait_for WORDS: show what it says until these words are among it.
wait_for() {
    local line
    while IFS= read -r -t 60 line <&"$answers"; do
        say "  $line"
        say "$line" >>"$log"
        if [[ $line == *"$1"* ]]; then return 0; fi
    done
    fail "it did not say within a minute: $1"
}
tell() {
    say "> $*"
    say "$*" >&"$commands"
}

wait_for "state: generating"
sleep 1
tell query
wait_for "recording off"
tell "record $repo/demo/record-1.webm"
sleep 3
tell query
wait_for "recording $repo/demo/record-1.webm"
tell "record $repo/demo/record-2.webm"
wait_for "recorded $repo/demo/record-1.webm"
tell "prompt Cyberpunk city"
wait_for "prompt: accepted"
sleep 3
tell "record $repo/demo/record-3.webm"
wait_for "recorded $repo/demo/record-2.webm"
sleep 2
tell stop
wait_for "recorded $repo/demo/record-3.webm"
tell query
wait_for "recording off"
tell quit
wait "$live_PID" || fail "the program failed ($log)"

# What it counted against what is in the files.
next=
while read -r path first last count; do
    in_file=$(gst-launch-1.0 -v filesrc location="$path" ! matroskademux ! fakesink silent=false |
        grep -c 'last-message = chain' || true)
    [ "$in_file" = "$count" ] || fail "$path holds $in_file frames, not $count"
    [ "${next:-$first}" = "$first" ] || fail "between frames $next and $first there is a hole"
    next=$((last + 1))
done < <(sed -nE 's/^recorded (.*): frames ([0-9]+) to ([0-9]+), ([0-9]+) in all$/\1 \2 \3 \4/p' "$log")
[ -n "$next" ] || fail "nothing was recorded"
say "Each file begins with the frame after the last one of the file before, and holds as many as were counted:"
say "  $repo/demo/record-1.webm, -2.webm, -3.webm"
