#!/usr/bin/env bash
# Runs the flip kernels on random frames under AddressSanitizer and UndefinedBehaviorSanitizer, in memory without a spare byte;
# or those for arm64 on another architecture, which it cross-compiles and runs in qemu-user.
#   run.sh [arm64]       apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c11 -Wall -Wextra -I Sources/CFlipKernels Tests/Tools/Kernels/flip_check.c -o "$work/check")
if [ "${1:-}" = arm64 ]; then
    aarch64-linux-gnu-gcc -O2 -static -DGUARD=128 "${flags[@]}"
    qemu-aarch64 "$work/check"
else
    "${CC:-gcc}" -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all "${flags[@]}"
    "$work/check"
fi
