#!/usr/bin/env bash
# Shows what a session costs in standby: frames and the seconds that the service bills, side by side, once a second.
#
#   pipelines/standby.sh          prints a table
#   pipelines/standby.sh --show   opens a window too
#
# pipelines/standby.py is the application.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
take_install "$@"
set -- ${arguments[@]+"${arguments[@]}"}

prepare_demo required
standin_log="$build_folder/standin.log"
log="$build_folder/standby.log"
start_standin "$port" "$standin_log" --control 0
control=$(sed -n 's/^control on //p' "$standin_log")

timeout --kill-after=5 60 /usr/bin/python3 "$repo/pipelines/standby.py" "ws://127.0.0.1:$port" "$control" "$@" 2>"$log" &
started_pids+=("$!")
wait "$!" || { tail -n 5 "$log" >&2; fail "the pipeline failed ($log)"; }
