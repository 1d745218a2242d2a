#!/usr/bin/env bash
# Install, build, run every test. The closing line counts them; everything that failed or was skipped stands above it.
#
#   pipelines/test.sh              all tests
#   pipelines/test.sh --quick      the short ones, for work on the code
#   pipelines/test.sh WORD...      only the steps whose name contains one of the words
#
# Steps run side by side (pipelines/run_tests.py has their list). .build/test/ gets a log for each, and junit.xml.
set -euo pipefail
# shellcheck source=pipelines/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo"

folder="$build_folder/test"
rm -rf "$folder"
mkdir -p "$folder"
ulimit -c 0

# A crash must end the test process at once, not start a debugger in it. A key of the user's has no place in tests.
export SWIFT_BACKTRACE=enable=no
unset DECART_API_KEY
# Test runners have the elements linked in and must never load the plugin beside them (pipelines/env.sh may have been
# sourced by the user): it would register the same types again.
GST_PLUGIN_SYSTEM_PATH_1_0=${GST_PLUGIN_SYSTEM_PATH_1_0:-}
GST_PLUGIN_SYSTEM_PATH_1_0=${GST_PLUGIN_SYSTEM_PATH_1_0//:$plugin_folder/}
[ -n "$GST_PLUGIN_SYSTEM_PATH_1_0" ] || unset GST_PLUGIN_SYSTEM_PATH_1_0

running=
cleanup() {
    if [ -n "$running" ]; then kill "$running" 2>/dev/null || true; fi
    running=
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

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

no_python() { say "No Python peers (see $build_folder/venv$1.log): their tests are skipped"; }
if python=$(test_python); then export DECART_TEST_PYTHON=$python; else no_python ""; fi
if python=$(test_python first-generation); then
    export DECART_TEST_FIRST_GENERATION_PYTHON=$python
else
    no_python -first-generation
fi

/usr/bin/python3 pipelines/run_tests.py --folder "$folder" "$@" &
running=$!
status=0
wait "$running" || status=$?
running=
[ -e "$folder/summary" ] || fail "the tests did not come to their end (status $status)"
say "Took $SECONDS s"
cat "$folder/summary"
exit "$status"
