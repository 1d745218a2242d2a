#!/usr/bin/env bash
# The scripts of this folder themselves: syntax, the package list, and env.sh in every shell that is here.
# Prints "ok NAME", "not ok NAME: why" or "skip NAME: why".
set -euo pipefail
# shellcheck source=pipelines/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

status=0
check() {
    if [ -z "$2" ]; then
        say "ok scripts: $1"
    else
        say "not ok scripts: $1: $(tr '\n' ' ' <<<"$2")"
        status=1
    fi
}

for script in "$repo"/pipelines/*.sh "$repo"/Tests/Host/*.sh "$repo/.ci/run"; do
    check "${script#"$repo/"} parses" "$(bash -n "$script" 2>&1 || true)"
done
for script in .ci/run pipelines/test.sh pipelines/demo.sh; do
    check "$script can be run" "$([ -x "$repo/$script" ] || echo 'not executable')"
done

check "packages.txt has three sections and nothing outside them" "$(awk '
    /^#/ || !NF { next }
    /^\[(required|recommended|test)\]$/ { inside = 1; seen[$0]++; next }
    !inside || !/^[a-z0-9][a-z0-9.+|-]*$/ { print "line " NR ": " $0 }
    END { if (length(seen) != 3) print "sections: " length(seen) }' "$repo/pipelines/packages.txt")"
check "packages.txt lists nothing twice" "$(packages_in required recommended test | sort | uniq -d)"
if command -v dpkg-query >/dev/null; then
    check "every package is installed" "$(packages_in required test | missing_packages)"
else
    say "skip scripts: every package is installed: no dpkg here"
fi

# Every program of apt is one that writes down what it is asked, and libssl is an old one.
if command -v dpkg >/dev/null; then
    tools=$(mktemp -d)
    trap 'rm -rf "$tools"' EXIT
    # shellcheck disable=SC2016 # expanded by the programs
    printf '%s\n' '#!/bin/sh' 'case "$*" in *Status*) printf installed ;; *) echo 3.0.1-1 ;; esac' >"$tools/dpkg-query"
    printf '%s\n' '#!/bin/sh' 'echo "  Candidate: 3.0.99-1"' >"$tools/apt-cache"
    # shellcheck disable=SC2016
    printf '%s\n' '#!/bin/sh' 'echo "apt-get $*" >>"$(dirname "$0")/asked"' >"$tools/apt-get"
    printf '%s\n' '#!/bin/sh' 'exec "$@"' >"$tools/sudo"
    chmod +x "$tools"/*
    : >"$tools/asked"
    # shellcheck disable=SC2016 # expanded by the inner shell
    said=$(PATH="$tools:$PATH" bash -euo pipefail -c 'source "$1/pipelines/lib.sh"; install_packages required' bash "$repo" 2>&1 || true)
    check "an old OpenSSL is not upgraded unasked" "$(cat "$tools/asked")"
    check "an old OpenSSL is told" "$(grep -q 'libssl3 3.0.1-1.*--only-upgrade libssl3' <<<"$said" || echo "it says: $said")"
fi

# Twice from another folder: the paths stand there once, ours after the system's.
system=$(pkg-config --variable=pluginsdir gstreamer-1.0)
for shell in bash zsh; do
    if ! command -v "$shell" >/dev/null; then
        # zsh is a courtesy: a machine without it has nobody who could miss it.
        continue
    fi
    # shellcheck disable=SC2016 # expanded by the inner shell
    seen=$(cd / && env -u GST_PLUGIN_SYSTEM_PATH -u GST_PLUGIN_SYSTEM_PATH_1_0 -u GST_REGISTRY_1_0 PATH="$PATH" "$shell" -c '
        source "$1/pipelines/env.sh"; source "$1/pipelines/env.sh"
        printf "%s\n" "$GST_PLUGIN_SYSTEM_PATH_1_0" "$PATH" "$GST_REGISTRY_1_0"' "$shell" "$repo")
    check "env.sh in $shell puts our plugins last, once" \
        "$(sed -n 1p <<<"$seen" | grep -qE "(^|:)$system:$plugin_folder\$" || sed -n 1p <<<"$seen")"
    check "env.sh in $shell puts our programs on the path" \
        "$(sed -n 2p <<<"$seen" | grep -q "^$release_folder:" || sed -n 2p <<<"$seen")"
done
# A user's own folders stay, and stay before ours.
# shellcheck disable=SC2016 # expanded by the inner shell
seen=$(GST_PLUGIN_SYSTEM_PATH_1_0=/some/where bash -eu -c 'source "$1/pipelines/env.sh"; echo "$GST_PLUGIN_SYSTEM_PATH_1_0"' \
    bash "$repo")
check "env.sh keeps the user's folders" "$([ "$seen" = "/some/where:$plugin_folder" ] || echo "$seen")"

exit "$status"
