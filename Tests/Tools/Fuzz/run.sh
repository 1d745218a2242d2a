#!/usr/bin/env bash
# Fuzzes all input from outside with libFuzzer and AddressSanitizer, SECONDS (default 60) for each target: session
# descriptions and offers (sdp), messages of the control channel and recordings of them (message), the signalling of a room
# (room), reference images (image), packets after SRTP, and Opus (packet), HTTP (http), WebSocket frames (websocket), TLS
# (tls), TURN over TCP, ICE-TCP, STUN and candidates (ice).
#
#   Tests/Tools/Fuzz/run.sh [SECONDS [TARGET...]]
#
# Prints "ok fuzz TARGET" or "not ok fuzz TARGET: why", and keeps logs and corpora in .build/fuzz/.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib.sh"

seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- sdp message room image packet http websocket tls ice
folder="$build_folder/fuzz"
mkdir -p "$folder"

export DECART_FUZZ=1
# The package manager hands both sanitizers over as options of their own, and swiftc obeys the last one only: the code would
# not be instrumented for coverage.
swift build --package-path "$repo" -c release --product fuzz --sanitize=fuzzer --sanitize=address \
    -Xswiftc -sanitize=fuzzer,address \
    --scratch-path "$folder/build" >"$folder/build.log" 2>&1 || fail "the build failed: $folder/build.log"
/usr/bin/python3 "$repo/Tests/Tools/Fuzz/seeds.py" "$folder"

failures=0
for target; do
    # A backtrace would hang the crash report, and allocations that GLib never frees are no leaks.
    if (cd "$folder" && SWIFT_BACKTRACE=enable=no ASAN_OPTIONS=detect_leaks=0 FUZZ_TARGET=$target build/release/fuzz \
        -max_total_time="$seconds" -timeout=5 -max_len=70000 -rss_limit_mb=2048 -print_final_stats=1 \
        "$target") >"$folder/$target.log" 2>&1 && grep -q 'Loaded .* PC tables' "$folder/$target.log"; then
        say "ok fuzz $target: $(grep -o 'number_of_executed_units: *[0-9]*' "$folder/$target.log")"
    else
        say "not ok fuzz $target: $(grep -m 1 -E 'ERROR|SUMMARY|Fatal|instrumented' "$folder/$target.log") ($folder/$target.log)"
        failures=$((failures + 1))
    fi
done
[ "$failures" -eq 0 ]
