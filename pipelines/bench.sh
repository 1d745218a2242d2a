#!/usr/bin/env bash
# Measure the transport against webrtcbin doing the same work, and what the plugin costs. Prints Markdown.
#
#   pipelines/bench.sh             everything (about 11 minutes on 2 cores)
#   pipelines/bench.sh --quick     one repetition of everything (about three minutes)
#   pipelines/bench.sh --update    writes the report to docs/RESULTS.md too, above the part that is written by hand
#   pipelines/bench.sh ARGUMENT... the rest goes to decart-bench (its --help lists it: --cycles 200, --only load)
#
# Run it on a quiet machine: the report's head says what the load was.
set -euo pipefail
# shellcheck source=pipelines/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

update=
limit=1200
arguments=()
while [ $# -gt 0 ]; do
    case $1 in
        --update) update=yes ;;
        --help)
            sed -n '2,/^set /{ /^set /d; s/^# \{0,1\}//; p }' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        # Beyond the default they need their time.
        --cycles) limit=3600 && arguments+=("$1") ;;
        *) arguments+=("$1") ;;
    esac
    shift
done

trap stop_started EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# webrtcbin is what we are measured against: a package of the tests, not of the product.
install_packages required recommended test >&2
# shellcheck disable=SC2119 # build takes arguments of swift's, not of ours
build >&2

# The plugin is measured as it would be shipped: without debug information.
plugin="$build_folder/bench/libgstdecart.so"
mkdir -p "$build_folder/bench"
strip -o "$plugin" "$release_folder/libgstdecart.so"

report="$build_folder/bench/report.md"
timeout --kill-after=5 "$limit" "$release_folder/decart-bench" run --plugin "$plugin" \
    ${arguments[@]+"${arguments[@]}"} >"$report" &
started_pids+=("$!")
wait "$!" || fail "the benchmark failed or took more than $limit s; what it got as far as: $report"
cat "$report"

if [ -n "$update" ]; then
    results="$repo/docs/RESULTS.md"
    marker='<!-- Above: pipelines/bench.sh --update. Below: by hand. -->'
    below=
    if [ -f "$results" ]; then below=$(sed "1,/^${marker//\//\\/}\$/d" "$results"); fi
    {
        say "# Results"
        say ""
        say "\`pipelines/bench.sh${arguments[*]:+ ${arguments[*]}}\`, $(date -u +%Y-%m-%d), commit" \
            "$(git -C "$repo" rev-parse --short HEAD 2>/dev/null || echo unknown)."
        say ""
        cat "$report"
        say ""
        say "$marker"
        [ -z "$below" ] || say "$below"
    } >"$results.new"
    mv "$results.new" "$results"
fi
