#!/usr/bin/env bash
# Run the tests of everything below the elements with AddressSanitizer and ThreadSanitizer.
#
#   pipelines/sanitize.sh [address] [thread]      both unless told; a build of its own for each, under .build
#
# Prints "ok NAME" or "not ok NAME: why" a target; logs are in .build/sanitize. Not part of pipelines/test.sh: each
# has a build of its own, which takes about as long as that of the tests.
set -euo pipefail
# shellcheck source=pipelines/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo"

kinds=("$@")
[ ${#kinds[@]} -gt 0 ] || kinds=(address thread)
targets=(DecartProtocolTests DecartSessionTests LiveKitProtocolTests LiveKitTransportTests GStreamerKitTests
    MediaSecurityTests ICETests SignallingTests WebRTCTransportTests)
folder="$build_folder/sanitize"
mkdir -p "$folder"
ulimit -c 0
export SWIFT_BACKTRACE=enable=no
# The plugin lets no symbol go unresolved, and a sanitizer's are in the program that loads it.
export DECART_WITHOUT_PLUGIN=1
failures=0

# Leaks are counted by the cycle tests; here they would be the caches of a process's life.
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:exitcode=66
export TSAN_OPTIONS=halt_on_error=0:exitcode=66

for kind in "${kinds[@]}"; do
    case $kind in address | thread) ;; *) fail "address or thread, not '$kind'" ;; esac
    scratch="$build_folder/$kind"
    log="$folder/$kind-build.log"
    if ! swift build -c release --build-tests "--sanitize=$kind" --scratch-path "$scratch" >"$log" 2>&1; then
        grep -E '(^|: )error:' "$log" | head -n 5 >&2 || true
        say "not ok $kind: the build failed ($log)"
        failures=$((failures + 1))
        continue
    fi
    preload=
    # Memory budgets mean nothing here.
    skipped=(--skip CycleTests --skip floodKeepsMemoryBounded)
    if [ "$kind" = thread ]; then
        # Its floods are to be outlived within seconds.
        skipped+=(--skip LengthSweepTests)
        preload="$folder/tsan_shim.so"
        # shellcheck disable=SC2046 # flags
        clang -O1 -shared -fPIC -o "$preload" Tests/Sanitizers/tsan_shim.c $(pkg-config --cflags glib-2.0)
    fi
    for target in "${targets[@]}"; do
        log="$folder/$kind-$target.log"
        status=0
        LD_PRELOAD=$preload timeout --kill-after=10 400 "$scratch/release/gst-decartPackageTests.xctest" \
            --testing-library swift-testing --filter "^${target}[./]" "${skipped[@]}" >"$log" 2>&1 || status=$?
        reports=$(grep -cE '(WARNING|ERROR): (Thread|Address)Sanitizer' "$log" || true)
        if [ "$status" -eq 0 ] && [ "$reports" -eq 0 ] && grep -q 'Test run with [1-9]' "$log"; then
            say "ok $kind $target"
        else
            say "not ok $kind $target: status $status, $reports reports; $(grep -E 'SUMMARY|✘ Test .*recorded' "$log" | head -n 1 | cut -c1-160) ($log)"
            failures=$((failures + 1))
        fi
    done
done
[ "$failures" -eq 0 ]
