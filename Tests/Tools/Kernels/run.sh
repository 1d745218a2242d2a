#!/usr/bin/env bash
# Runs the flip kernels on random frames under AddressSanitizer and UndefinedBehaviorSanitizer, in memory without a spare byte.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-gcc}" -std=c11 -O1 -g -Wall -Wextra -fsanitize=address,undefined -fno-sanitize-recover=all \
    -I Sources/CFlipKernels Tests/Tools/Kernels/flip_memory.c -o "$work/flip"
"$work/flip"
