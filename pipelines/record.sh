#!/usr/bin/env bash
# Shows recordings that start, follow each other without a lost frame and stop while the stream continues. This script
# sends commands to the program pipelines/examples/live.py.
#
#   pipelines/record.sh            leaves demo/record-{1,2,3}.webm
#   pipelines/record.sh --show     opens a window too
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
take_install "$@"
set -- ${arguments[@]+"${arguments[@]}"}

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
# Duplicates both descriptors: bash closes its own when the program ends, and the last lines would be lost.
exec {answers}<&"${live[0]}" {commands}>&"${live[1]}"
log="$build_folder/record.log"
: >"$log"

# wait_for TEXT: show the program's output up to the first line that contains TEXT.
wait_for() {
    local line
    while IFS= read -r -t 60 line <&"$answers"; do
        say "  $line"
        say "$line" >>"$log"
        if [[ $line == *"$1"* ]]; then return 0; fi
    done
    fail "the program did not print within a minute: $1"
}
send() {
    say "> $*"
    say "$*" >&"$commands"
}

wait_for "state: generating"
sleep 1
send query
wait_for "recording off"
send "record $repo/demo/record-1.webm"
sleep 3
send query
wait_for "recording $repo/demo/record-1.webm"
send "record $repo/demo/record-2.webm"
wait_for "recorded $repo/demo/record-1.webm"
send "prompt Cyberpunk city"
wait_for "prompt: accepted"
sleep 3
send "record $repo/demo/record-3.webm"
wait_for "recorded $repo/demo/record-2.webm"
sleep 2
send stop
wait_for "recorded $repo/demo/record-3.webm"
send query
wait_for "recording off"
send quit
wait "$live_PID" || fail "the program failed ($log)"

# Compares the frame numbers that the program printed with the files.
next=
while read -r path first last count; do
    in_file=$(gst-launch-1.0 -v filesrc location="$path" ! matroskademux ! fakesink silent=false |
        grep -c 'last-message = chain' || true)
    [ "$in_file" = "$count" ] || fail "$path contains $in_file frames, not $count"
    [ "${next:-$first}" = "$first" ] || fail "$path begins with frame $first, not $next"
    next=$((last + 1))
done < <(sed -nE 's/^recorded (.*): frames ([0-9]+) to ([0-9]+), ([0-9]+) in all$/\1 \2 \3 \4/p' "$log")
[ -n "$next" ] || fail "nothing was recorded"
say "Each file begins with the frame after the last one of the previous file, and its number of frames is as printed:"
say "  $repo/demo/record-1.webm, -2.webm, -3.webm"
