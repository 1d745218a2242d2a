#!/usr/bin/env bash
# Compiles the example programs in C and Swift to .build/examples: minimal-c, manager-c, minimal-swift, demo-swift and
# switch-camera-swift. The package itself must have been built.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

examples="$repo/pipelines/examples"
folder="$build_folder/examples"
mkdir -p "$folder"

# compile NAME SOURCE COMMAND...: compile unless the program is newer than its source; print the log only on failure.
compile() {
    local program="$folder/$1" source="$2"
    shift 2
    if [ "$program" -nt "$source" ]; then return 0; fi
    "$@" -o "$program" "$source" "${libraries[@]}" >"$program.log" 2>&1 ||
        { tail -n 20 "$program.log" >&2; fail "${source##*/} does not compile"; }
}

mapfile -t flags < <(pkg-config --cflags gstreamer-1.0 | tr ' ' '\n' | grep .)
mapfile -t libraries < <(pkg-config --libs gstreamer-1.0 | tr ' ' '\n' | grep '^-[lL]')
compile minimal-c "$examples/minimal.c" cc -std=gnu11 -Wall -O2 "${flags[@]}"
compile manager-c "$examples/manager.c" cc -std=gnu11 -Wall -O2 "${flags[@]}"

compile_swift "$folder/minimal-swift" "$examples/minimal.swift"
compile_swift "$folder/demo-swift" "$examples/demo.swift"
compile_swift "$folder/switch-camera-swift" "$examples/switch-camera.swift" \
    "$repo/Tests/DecartElementsTests/Support/VirtualCameras.swift"
