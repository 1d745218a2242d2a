# shellcheck shell=bash
# What the scripts of this folder share: packages, build, the stand-in. Sourced, never run; needs `set -euo pipefail`.

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_folder="$repo/.build"
release_folder="$build_folder/release"
plugin_folder="$build_folder/gstreamer-1.0"
# The oldest OpenSSL 3.0 whose DTLS has no known fault on our path.
oldest_good_libssl=3.0.22

say() { printf '%s\n' "$*"; }

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# --- Packages -------------------------------------------------------------------------------------------------------

# Print the lines of the sections named of packages.txt, without comments.
packages_in() {
    local section
    for section in "$@"; do
        awk -v wanted="[$section]" '
            /^\[/ { inside = ($1 == wanted); next }
            inside { sub(/#.*/, ""); if (NF) print $1 }' "$repo/scripts/packages.txt"
    done
}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

has_candidate() {
    apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ { found = $2 } END { exit !(found && found != "(none)") }'
}

# Read alternatives ("a|b"), print one name a line for each that none of its alternatives satisfies:
# the first that apt knows, else the first.
missing_packages() {
    local line name chosen
    while read -r line; do
        chosen=
        for name in ${line//|/ }; do
            if is_installed "$name"; then
                chosen=-
                break
            fi
        done
        [ "$chosen" != - ] || continue
        for name in ${line//|/ }; do
            if has_candidate "$name"; then
                chosen=$name
                break
            fi
        done
        printf '%s\n' "${chosen:-${line%%|*}}"
    done
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        return 1
    fi
}

run_apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"
}

# Refresh apt's lists, at most once a day (the mark is ours: apt keeps none that every distribution has).
update_lists() {
    local mark="$build_folder/.apt-updated"
    if [ -e "$mark" ] && [ -n "$(find "$mark" -mmin -1440)" ]; then return 0; fi
    say "Refreshing apt's package lists"
    run_apt update -qq || return 1
    mkdir -p "$build_folder"
    touch "$mark"
}

# install_packages SECTION...: make sure that the packages of these sections are there. Those of [recommended] may fail.
install_packages() {
    local missing section log="$build_folder/install.log"
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "No apt here: not checking packages (scripts/packages.txt lists them by their Debian names)"
        return 0
    fi
    mkdir -p "$build_folder"
    for section in "$@"; do
        missing=$(packages_in "$section" | missing_packages)
        [ -n "$missing" ] || continue
        update_lists || say "Could not refresh apt's lists: trying with those that are here"
        # Once more: fresh lists may know an alternative that the old ones did not.
        missing=$(packages_in "$section" | missing_packages | tr '\n' ' ')
        say "Installing $section packages: $missing"
        # shellcheck disable=SC2086 # a list of names
        if ! run_apt install -y --no-install-recommends $missing >"$log" 2>&1; then
            if [ "$section" = recommended ]; then
                say "Could not install all of them (see $log): H.264 or a window may be missing"
            else
                tail -n 20 "$log" >&2 || true
                fail "cannot install: $missing (as root: apt-get install $missing)"
            fi
        fi
    done
    warn_of_old_libssl
}

# Print name and version of the OpenSSL library that is installed; nothing where there is none.
installed_libssl() {
    local package
    for package in libssl3 libssl3t64; do
        if is_installed "$package"; then
            # The line for our architecture only: a second one may be installed beside it.
            printf '%s %s\n' "$package" "$(dpkg-query -W -f='${Version}\n' "$package" | head -n 1)"
            return 0
        fi
    done
}

is_old_libssl() {
    [ -n "$1" ] && dpkg --compare-versions "$1" lt "$oldest_good_libssl"
}

# Whoever tries an example decides about the system's libraries; only the tests upgrade this one.
warn_of_old_libssl() {
    local package installed
    read -r package installed <<<"$(installed_libssl)"
    if is_old_libssl "$installed"; then
        say "Note: $package $installed may have faults in DTLS that $oldest_good_libssl has not." \
            "Upgrade it: apt-get install --only-upgrade $package"
    fi
}

# For the tests. DTLS faults are fixed in security versions: have the latest.
upgrade_libssl() {
    local package installed candidate name upgrade=()
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then return 0; fi
    read -r package installed <<<"$(installed_libssl)"
    [ -n "$package" ] || return 0
    if is_old_libssl "$installed"; then
        update_lists || true
    fi
    candidate=$(apt-cache policy "$package" | awk '/Candidate:/ { print $2 }')
    if [ -n "$candidate" ] && [ "$candidate" != "(none)" ] && dpkg --compare-versions "$candidate" gt "$installed"; then
        # What was built from the same source demands the same version.
        for name in "$package" libssl-dev openssl; do
            if is_installed "$name"; then upgrade+=("$name"); fi
        done
        say "Upgrading $package from $installed to $candidate (security fixes in DTLS)"
        run_apt install -y --only-upgrade "${upgrade[@]}" >"$build_folder/install.log" 2>&1 ||
            say "Could not: $package stays at $installed (see $build_folder/install.log)"
    elif is_old_libssl "$installed"; then
        say "Note: $package $installed is the newest that this distribution has; check that it carries the DTLS fixes" \
            "of $oldest_good_libssl"
    fi
}

# --- Build ----------------------------------------------------------------------------------------------------------

# build [ARGUMENT...]: `swift build -c release`, quiet unless it fails or warns about our own code.
build() {
    local log="$build_folder/build.log" started=$SECONDS
    command -v swift >/dev/null || fail "Swift 6.3 is not on the PATH: https://www.swift.org/install/linux"
    mkdir -p "$build_folder"
    if [ -e "$release_folder/libgstdecart.so" ]; then
        say "Building"
    else
        say "Building (this first time takes minutes)"
    fi
    if ! (cd "$repo" && swift build -c release "$@") >"$log" 2>&1; then
        grep -E '(^|: )error:' "$log" | head -n 20 >&2 || tail -n 40 "$log" >&2
        fail "the build failed; all of its output: $log"
    fi
    link_plugin
    say "Built in $((SECONDS - started)) s"
}

# GStreamer scans a folder with everything below it. .build/release holds thousands of objects and, in time, other
# libraries: the plugin gets a folder of its own.
link_plugin() {
    mkdir -p "$plugin_folder"
    ln -sfn ../release/libgstdecart.so "$plugin_folder/libgstdecart.so"
}

# --- Python -----------------------------------------------------------------------------------------------------------

# test_python [NAME]: the virtual environment of the Python referees, or of those that have one of their own, by name.
# Made from the system's Python, for PyGObject comes from the system. Prints the path of its Python. Made anew when the
# list of requirements has changed.
test_python() {
    local name=${1:+-$1}
    local wanted="$repo/Tests/System/Peers/requirements$name.txt" folder="$build_folder/venv$name" log="$build_folder/venv$name.log"
    # A system that was upgraded has another Python, in which the folder's packages are not found.
    if ! cmp -s "$wanted" "$folder/requirements.txt" || ! "$folder/bin/python" -c 'import aiortc, gi' 2>/dev/null; then
        rm -rf "$folder"
        if ! { /usr/bin/python3 -m venv --system-site-packages "$folder" &&
            "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"; } >"$log" 2>&1; then
            tail -n 5 "$log" >&2
            return 1
        fi
        cp "$wanted" "$folder/requirements.txt"
    fi
    printf '%s\n' "$folder/bin/python"
}

# --- Processes ------------------------------------------------------------------------------------------------------

started_pids=()

# Stop what this script started, by its id: gently, then not.
stop_started() {
    local pid waited
    for pid in ${started_pids[@]+"${started_pids[@]}"}; do
        kill "$pid" 2>/dev/null || continue
        for waited in 1 2 3 4 5 6 7 8 9 10; do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        if [ "$waited" = 10 ]; then kill -KILL "$pid" 2>/dev/null || true; fi
        wait "$pid" 2>/dev/null || true
    done
    started_pids=()
}

# A TCP port on loopback that nobody listens on now.
free_port() {
    local port attempt
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        port=$((20000 + RANDOM % 20000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            printf '%s\n' "$port"
            return 0
        fi
    done
    fail "found no free port in $attempt attempts"
}

# prepare_demo SECTION...: what every script needs that shows something: an end that ends what it started, packages, the
# build, the plugin on the path, no key of the user's, a folder for what is left behind. Sets port to a free one.
prepare_demo() {
    trap stop_started EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    install_packages "$@"
    # shellcheck disable=SC2119 # build takes arguments of swift's, not of ours
    build
    # shellcheck source=pipelines/env.sh
    source "$repo/pipelines/env.sh"
    unset DECART_API_KEY
    mkdir -p "$repo/demo"
    port=$(free_port)
}

# start_standin PORT LOG [ARGUMENT...]: start it and wait (10 s) until it says that it listens.
# Sets standin_pid; the caller's EXIT trap calls stop_started.
start_standin() {
    local port=$1 log=$2 attempt
    shift 2
    "$release_folder/decart-standin" --port "$port" "$@" >"$log" 2>&1 &
    standin_pid=$!
    started_pids+=("$standin_pid")
    for attempt in $(seq 1 100); do
        if grep -q 'listening on' "$log" 2>/dev/null; then return 0; fi
        kill -0 "$standin_pid" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$log" >&2 || true
    fail "the stand-in does not listen on port $port (waited for $((attempt / 10)) s)"
}
