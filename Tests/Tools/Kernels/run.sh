#!/usr/bin/env bash
# Runs the C kernels on random frames under AddressSanitizer and UndefinedBehaviorSanitizer, in memory without a spare byte.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for kernel in Flip Scale; do
    "${CC:-gcc}" -std=c11 -O1 -g -Wall -Wextra -fsanitize=address,undefined -fno-sanitize-recover=all \
        -I "Sources/C${kernel}Kernels" "Tests/Tools/Kernels/${kernel,,}_memory.c" -o "$work/$kernel"
    "$work/$kernel"
done
