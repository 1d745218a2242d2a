#!/usr/bin/env bash
# Shows a viewer of a session: one pipeline publishes, another one displays the same transformed video without a camera.
#
#   pipelines/watch.sh          leaves demo/watch.png, the viewer's last image
#   pipelines/watch.sh --show   opens a window too
#
# pipelines/watch.py passes the token from the one to the other, as an application would.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
take_install "$@"
set -- ${arguments[@]+"${arguments[@]}"}

prepare_demo required recommended
log="$build_folder/watch.log"
start_standin "$port" "$build_folder/standin.log"

timeout --kill-after=5 60 /usr/bin/python3 "$repo/pipelines/watch.py" "ws://127.0.0.1:$port" "$repo/demo/watch.png" "$@" \
    >"$log" 2>&1 &
started_pids+=("$!")
wait "$!" || { tail -n 5 "$log" >&2; fail "the pipelines failed ($log)"; }
say "Look at $repo/demo/watch.png"
