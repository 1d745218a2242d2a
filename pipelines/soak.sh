#!/usr/bin/env bash
# Leave one pipeline to its fate for half an hour: a fault every 20 to 40 s, each recovery against its bound, and what
# the process holds at minute 2 and at the end. Needs root (network namespaces).
#
#   pipelines/soak.sh [--minutes N] [--seed N] [--table FILE]      the seed is printed: it chooses the faults
set -euo pipefail
# shellcheck source=pipelines/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

install_packages required recommended test
# shellcheck disable=SC2119 # build takes arguments of swift's, not of ours
build
unset DECART_API_KEY
exec /usr/bin/python3 "$repo/Tests/Faults/soak.py" "$@"
