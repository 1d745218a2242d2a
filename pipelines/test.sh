#!/usr/bin/env bash
# Install, build, run every test. The closing line counts them; everything that failed or was skipped stands above it.
#
#   pipelines/test.sh [WORD...]      with words: only the steps whose name contains one of them
#
# Every step has a time limit, and prints (into .build/test/) one line a test: "ok NAME", "not ok NAME: why" or
# "skip NAME: why". Whatever a step leaves running is a failure, and is ended.
set -euo pipefail
# shellcheck source=pipelines/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo"

words=("$@")
folder="$build_folder/test"
results="$folder/results"
rm -rf "$folder"
mkdir -p "$folder"
: >"$results"
ulimit -c 0

# A crash must end the test process at once, not start a debugger in it. A key of the user's has no place in tests.
export SWIFT_BACKTRACE=enable=no
unset DECART_API_KEY
export GST_REGISTRY_1_0="$folder/gstreamer.registry"
# Test runners have the elements linked in and must never load the plugin beside them (pipelines/env.sh may have been
# sourced by the user): it would register the same types again.
GST_PLUGIN_SYSTEM_PATH_1_0=${GST_PLUGIN_SYSTEM_PATH_1_0:-}
GST_PLUGIN_SYSTEM_PATH_1_0=${GST_PLUGIN_SYSTEM_PATH_1_0//:$plugin_folder/}
[ -n "$GST_PLUGIN_SYSTEM_PATH_1_0" ] || unset GST_PLUGIN_SYSTEM_PATH_1_0
# By this mark in their environment the processes of this run are known.
export DECART_TEST_RUN="$$-$RANDOM"

running=
cleanup() {
    if [ -n "$running" ]; then kill "$running" 2>/dev/null || true; fi
    running=
    end_left_overs >/dev/null
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# within SECONDS LOG COMMAND...: run it in its own process group, all of which ends with the time limit.
within() {
    local limit=$1 log=$2 status=0
    shift 2
    timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1 &
    running=$!
    wait "$running" || status=$?
    running=
    return "$status"
}

# The processes of this run that no step waits for any more: list them, or end them too.
left_overs() { find_left_overs list; }
end_left_overs() { find_left_overs end; }
find_left_overs() {
    local environment pid
    for environment in /proc/[0-9]*/environ; do
        pid=${environment#/proc/}
        pid=${pid%/environ}
        if [ "$pid" = "$$" ] || [ "$pid" = "$BASHPID" ]; then continue; fi
        if { tr '\0' '\n' <"$environment" | grep -qx "DECART_TEST_RUN=$DECART_TEST_RUN"; } 2>/dev/null; then
            # Our own helpers of this moment (subshells, tr) are gone by now: what is still there was left behind.
            if [ -r "/proc/$pid/cmdline" ] && ! is_ours "$pid"; then
                printf '%s %s\n' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | cut -c1-120)"
                if [ "$1" = end ]; then kill -KILL "$pid" 2>/dev/null || true; fi
            fi
        fi
    done
}

# Is this one of the script's own shells?
is_ours() {
    local pid=$1
    while [ "$pid" -gt 1 ]; do
        if [ "$pid" = "$BASHPID" ] || [ "$pid" = "$$" ]; then return 0; fi
        pid=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status" 2>/dev/null) || return 0
        [ -n "$pid" ] || return 0
    done
    return 1
}

wanted() {
    local word
    [ ${#words[@]} -gt 0 ] || return 0
    for word in "${words[@]}"; do
        if [[ $1 == *"$word"* ]]; then return 0; fi
    done
    return 1
}

# take NAME SECONDS LINES: add a step's lines to the results, and show what matters of them.
take() {
    local name=$1 seconds=$2 lines=$3 left
    left=$(left_overs)
    if [ -n "$left" ]; then
        # What is just ending may do so.
        sleep 1
        left=$(end_left_overs)
    fi
    if [ -n "$left" ]; then
        printf 'not ok %s leaves nothing running: %s\n' "$name" "$(tr '\n' ';' <<<"$left")" >>"$lines"
    fi
    cat "$lines" >>"$results"
    printf '%-28s %4d ok %4d not ok %4d skipped %5d s\n' "$name" "$(grep -c '^ok ' "$lines" || true)" \
        "$(grep -c '^not ok ' "$lines" || true)" "$(grep -c '^skip ' "$lines" || true)" "$seconds"
    grep -E '^(not ok|skip) ' "$lines" | sed 's/^/    /' || true
}

# swift_tests TARGET SECONDS [MEDIA [SUITES [SKIPPED]]]: a test target, or those of its suites, or all but some, in a process
# of its own, so that what one leaves behind or breaks does not reach the next one. MEDIA is the way that its sessions take.
swift_tests() {
    local target=$1 limit=$2 name=$1${3:+-$3} started=$SECONDS status=0 skip=()
    wanted "$name" || return 0
    if [ -n "${5:-}" ]; then skip=(--skip "^${target}[./]$5"); fi
    export DECART_TEST_MEDIA=${3:-}
    within "$limit" "$folder/$name.log" swift test -c release --skip-build --filter "^${target}[./]${4:-}" \
        ${skip[@]+"${skip[@]}"} --event-stream-output-path "$folder/$name.events" --event-stream-version 0 || status=$?
    /usr/bin/python3 "$repo/pipelines/swift_test_lines.py" "$folder/$name.events" "$status" >"$folder/$name.lines"
    take "$name" $((SECONDS - started)) "$folder/$name.lines"
}

# A script that prints such lines itself. Its status must agree with them.
script() {
    local name=$1 limit=$2 started=$SECONDS status=0 lines
    shift 2
    wanted "$name" || return 0
    lines="$folder/${name//\//-}.lines"
    within "$limit" "$folder/${name//\//-}.log" "$@" || status=$?
    grep -E '^(ok|not ok|skip) ' "$folder/${name//\//-}.log" >"$lines" || true
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        printf 'not ok %s: not done within %s s\n' "$name" "$limit" >>"$lines"
    elif [ "$status" -ne 0 ] && ! grep -q '^not ok ' "$lines"; then
        printf 'not ok %s: status %s: %s\n' "$name" "$status" \
            "$(tail -n 1 "$folder/${name//\//-}.log" | cut -c1-200)" >>"$lines"
    elif [ "$status" -eq 0 ] && [ ! -s "$lines" ]; then
        printf 'not ok %s: it checked nothing\n' "$name" >>"$lines"
    fi
    take "$name" $((SECONDS - started)) "$lines"
}

# One of the functions of lib.sh under a time limit, its output shown.
bounded() {
    local limit=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    timeout --kill-after=10 "$limit" bash -euo pipefail -c 'source "$0/pipelines/lib.sh"; "$@"' "$repo" "$@" &
    running=$!
    wait "$running" || fail "stopped at: $*"
    running=
}

bounded 900 install_packages required recommended test
bounded 300 upgrade_libssl
bounded 1500 build --build-tests

if python=$(test_python); then
    export DECART_TEST_PYTHON=$python
else
    say "No Python peers (see $build_folder/venv.log): their tests are skipped"
fi

for target in Tests/*Tests; do
    swift_tests "$(basename "$target")" 900
done
# Once more for each other way of the media; without a word it is transport=auto and a service with rooms, `older` a service
# that has direct connections only. `livekit` and `webrtc` insist on what those find out: what is long and judges the media of
# a session that runs does not differ there.
swift_tests DecartElementsTests 900 older
for media in livekit webrtc; do
    swift_tests DecartElementsTests 900 "$media" "" \
        "ElementTests/(CaptureTimeTests|FrameRateTests|GenerationTests|LipSyncTests|ProcessorTests)/"
done
# A room's one connection differs in how it comes about: what makes and changes it.
swift_tests DecartElementsTests 300 single "ElementTests/(PictureTests|RoomTests|PublishTests|AudioTests|TeardownTests)/"

if [ -n "${DECART_TEST_PYTHON:-}" ]; then
    script Peers 240 "$DECART_TEST_PYTHON" Tests/Peers/selftest.py
    script Rooms 300 "$DECART_TEST_PYTHON" Tests/Peers/check_rooms.py
else
    printf 'skip Peers: no virtual environment\n' >"$folder/Peers.lines"
    take Peers 0 "$folder/Peers.lines"
fi

if ! wanted FirstGeneration; then
    :
elif first_generation_python=$(test_python first-generation); then
    script FirstGeneration 300 "$first_generation_python" Tests/Peers/check_first_generation.py
else
    printf 'skip FirstGeneration: no virtual environment\n' >"$folder/FirstGeneration.lines"
    take FirstGeneration 0 "$folder/FirstGeneration.lines"
fi

for check in Tests/Host/check_* pipelines/check_*; do
    [ -x "$check" ] || continue
    script "$(basename "${check%.*}")" 300 "$check"
done

# Every fault against its bound, in namespaces side by side: five minutes.
script Faults 1000 Tests/Faults/check_faults.py --table "$folder/faults.md"

passed=$(grep -c '^ok ' "$results" || true)
failed=$(grep -c '^not ok ' "$results" || true)
skipped=$(grep -c '^skip ' "$results" || true)
say ""
if [ "$failed" -gt 0 ]; then
    say "Failed (logs in $folder):"
    grep '^not ok ' "$results" | sed 's/^not ok /  /'
fi
if [ "$skipped" -gt 0 ]; then
    say "Skipped:"
    grep '^skip ' "$results" | sed 's/^skip /  /'
fi
say "Took $SECONDS s"
summary="$passed passed, $failed failed"
if [ "$skipped" -gt 0 ]; then summary="$summary, $skipped skipped"; fi
say "$summary"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
