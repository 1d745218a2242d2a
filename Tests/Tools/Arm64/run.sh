#!/usr/bin/env bash
# Checks the flip kernels for arm64 on another architecture: cross-compiles them, and runs them in qemu-user.
#   apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
aarch64-linux-gnu-gcc -std=c11 -O2 -Wall -Wextra -static -I Sources/CFlipKernels Tests/Tools/Arm64/flip_check.c -o "$work/check"
qemu-aarch64 "$work/check"
