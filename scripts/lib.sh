# shellcheck shell=bash
# Functions that all scripts share: packages, build, stand-in. Sourced, never run; needs `set -euo pipefail`.

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_folder="$repo/.build"
release_folder="$build_folder/release"
plugin_folder="$build_folder/gstreamer-1.0"
# Says whether maintainer scripts may start services.
policy_file=/usr/sbin/policy-rc.d
# The oldest OpenSSL 3.0 without a known DTLS bug that affects the plugin.
oldest_good_libssl=3.0.22

say() { printf '%s\n' "$*"; }

# usage: print the comment at the top of the script.
usage() { sed -n '2,/^set /{ /^set /d; s/^# \{0,1\}//; p }' "$0"; }

# Each script answers --help before it does anything else: a file that is sourced sees the arguments of the script.
if [ "${1:-}" = --help ]; then
    usage
    exit 0
fi

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# --- Packages -------------------------------------------------------------------------------------------------------

# packages_in SECTION...: print the packages of these sections of debian/control, one a line. "a|b" means the first that
# the distribution has. Sections: required (build and run time), recommended, test, package (tools that build packages).
packages_in() {
    local section
    for section in "$@"; do
        awk -v section="$section" '
            /^#/ { next }
            /^[A-Za-z]/ { field = $1; sub(/:.*/, "", field); sub(/^[^:]*:/, "") }
            {
                count = split($0, entries, ",")
                for (entry = 1; entry <= count; entry++) {
                    name = entries[entry]
                    isTest = name ~ /<!nocheck>/
                    # Without version, profile, and the variables that dpkg-gencontrol replaces.
                    gsub(/\([^)]*\)|<[^>]*>|\$\{[^}]*\}|[ \t]/, "", name)
                    if (name == "debhelper-compat") name = "debhelper"
                    if (name == "" || name in seen) continue
                    if (field == "Build-Depends") belongs = section == "package"
                    else if (field == "Build-Depends-Arch") belongs = section == (isTest ? "test" : "required")
                    else if (field == "Depends") belongs = section == "required"
                    else if (field == "Recommends" || field == "Suggests") belongs = section == "recommended"
                    else belongs = 0
                    # The packages built here suggest each other.
                    if (belongs && name !~ /decart/) { print name; seen[name] }
                }
            }' "$repo/debian/control"
    done
}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

has_candidate() {
    apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ { found = $2 } END { exit !(found && found != "(none)") }'
}

# Reads lines of alternatives ("a|b"). For each line without an installed package, prints the first name that apt knows,
# or else the first name. Any `swift` on the PATH replaces the distribution's, and apt cannot install one that the
# distribution does not have: then the build says where a toolchain comes from.
missing_packages() {
    local line name chosen
    while read -r line; do
        if [ "$line" = swiftlang ] && { command -v swift >/dev/null || ! has_candidate swiftlang; }; then continue; fi
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

# Refreshes apt's lists, at most once a day. The time stamp is a file of this build, because apt has none that exists in
# every distribution.
update_lists() {
    local mark="$build_folder/.apt-updated"
    if [ -e "$mark" ] && [ -n "$(find "$mark" -mmin -1440)" ]; then return 0; fi
    say "Refreshing apt's package lists"
    run_apt update -qq || return 1
    mkdir -p "$build_folder"
    touch "$mark"
}

# Prints the services that start with the system.
enabled_services() {
    find /etc/systemd/system/*.wants /etc/rc2.d -maxdepth 1 \( -name '*.service' -o -name 'S*' \) -printf '%f\n' 2>/dev/null |
        sed -E 's/^S[0-9]+//; s/\.service$//' | sort -u || true
}

# run_apt_without_services ARGUMENT...: run_apt, but services of the new packages neither start nor are enabled: the tests
# run servers of their own.
run_apt_without_services() {
    local before name status=0
    before=$(enabled_services)
    # The policy must not outlive an interrupted run. A subshell has traps of its own.
    (
        if [ ! -e "$policy_file" ]; then
            trap 'as_root rm -f "$policy_file"' EXIT
            trap 'exit 129' HUP
            trap 'exit 130' INT
            trap 'exit 143' TERM
            printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy_file" >/dev/null && as_root chmod 755 "$policy_file"
        fi
        run_apt "$@"
    ) || status=$?
    while read -r name; do
        [ -z "$name" ] || as_root update-rc.d "$name" disable || true
    done <<<"$(comm -13 <(printf '%s\n' "$before") <(enabled_services))"
    return "$status"
}

# install_packages SECTION...: install the missing packages of these sections. Only [recommended] may fail.
install_packages() {
    local missing section log="$build_folder/install.log"
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "No apt: packages are not checked (debian/control lists them by their Debian names)"
        return 0
    fi
    mkdir -p "$build_folder"
    for section in "$@"; do
        missing=$(packages_in "$section" | missing_packages)
        [ -n "$missing" ] || continue
        update_lists || say "Could not refresh apt's lists: using the existing ones"
        # Repeated, because fresh lists may have an alternative that the old ones did not have.
        missing=$(packages_in "$section" | missing_packages | tr '\n' ' ')
        say "Installing $section packages: $missing"
        # The services of the other sections' packages are the user's.
        local install=run_apt
        if [ "$section" = test ]; then install=run_apt_without_services; fi
        # shellcheck disable=SC2086 # a list of names
        if ! $install install -y --no-install-recommends $missing >"$log" 2>&1; then
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

# take_install ARGUMENT...: set may_install to yes if --install is among the arguments, and arguments to the others.
take_install() {
    local argument
    may_install=
    arguments=()
    for argument in "$@"; do
        if [ "$argument" = --install ]; then may_install=yes; else arguments+=("$argument"); fi
    done
}

# require_packages SECTION...: check that the packages of these sections are installed. Missing ones are installed only
# after --install (see take_install) or a yes on a terminal. Otherwise the script ends with the command to type, and goes
# on if only packages of [recommended] are missing.
require_packages() {
    local section missing answer
    if ! command -v dpkg-query >/dev/null; then
        install_packages "$@"
        return 0
    fi
    for section in "$@"; do
        missing=$(packages_in "$section" | missing_packages | tr '\n' ' ')
        [ -n "$missing" ] || continue
        if [ "${may_install:-}" != yes ] && [ -t 0 ] && [ -t 2 ]; then
            read -r -p "These packages are missing: ${missing% }. Install them? [y/N] " answer
            if [[ $answer == [yY]* ]]; then may_install=yes; fi
        fi
        if [ "${may_install:-}" = yes ]; then
            install_packages "$section"
        elif [ "$section" = recommended ]; then
            say "H.264 or a window may be missing. To install ${missing% }, type: $0 --install"
        else
            fail "these packages are missing: ${missing% }. To install them, type: $0 --install"
        fi
    done
    warn_of_old_libssl
}

# confirm_installation SECTION...: on a terminal, ask before packages of these sections are installed and OpenSSL is
# upgraded, unless --install was given (see take_install). Without a terminal there is no question.
confirm_installation() {
    local package installed missing answer
    if [ "${may_install:-}" = yes ] || ! [ -t 0 ] || ! [ -t 2 ] || ! command -v dpkg-query >/dev/null; then return 0; fi
    missing=$(packages_in "$@" | missing_packages | tr '\n' ' ')
    read -r package installed <<<"$(installed_libssl)"
    if [ -n "$package" ] && [ -n "$(newer_version "$package" "$installed")" ]; then missing+="$package (an upgrade) "; fi
    [ -n "$missing" ] || return 0
    read -r -p "To be installed: ${missing% }. Go on? [y/N] " answer
    [[ $answer == [yY]* ]] || fail "nothing is installed. To install without a question, type: $0 --install"
}

# newer_version PACKAGE VERSION: print the version to which apt would upgrade a package, or nothing.
newer_version() {
    local candidate
    candidate=$(apt-cache policy "$1" | awk '/Candidate:/ { print $2 }')
    if [ -n "$candidate" ] && [ "$candidate" != "(none)" ] && dpkg --compare-versions "$candidate" gt "$2"; then
        printf '%s\n' "$candidate"
    fi
}

# Prints name and version of the installed OpenSSL library, or nothing if there is none.
installed_libssl() {
    local package
    for package in libssl3 libssl3t64; do
        if is_installed "$package"; then
            # Only the first line: a second architecture may be installed too.
            printf '%s %s\n' "$package" "$(dpkg-query -W -f='${Version}\n' "$package" | head -n 1)"
            return 0
        fi
    done
}

is_old_libssl() {
    [ -n "$1" ] && dpkg --compare-versions "$1" lt "$oldest_good_libssl"
}

# The demonstrations only warn, because the user decides about the system's libraries. The tests upgrade this one.
warn_of_old_libssl() {
    local package installed
    read -r package installed <<<"$(installed_libssl)"
    if is_old_libssl "$installed"; then
        say "Note: $package $installed may have DTLS bugs that $oldest_good_libssl does not have." \
            "Upgrade it: apt-get install --only-upgrade $package"
    fi
}

# Upgrades OpenSSL for the tests, because security updates fix DTLS bugs.
upgrade_libssl() {
    local package installed candidate name upgrade=()
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then return 0; fi
    read -r package installed <<<"$(installed_libssl)"
    [ -n "$package" ] || return 0
    if is_old_libssl "$installed"; then
        update_lists || true
    fi
    candidate=$(newer_version "$package" "$installed")
    if [ -n "$candidate" ]; then
        # Packages of the same source depend on the same version.
        for name in "$package" libssl-dev openssl; do
            if is_installed "$name"; then upgrade+=("$name"); fi
        done
        say "Upgrading $package from $installed to $candidate (security fixes in DTLS)"
        run_apt install -y --only-upgrade "${upgrade[@]}" >"$build_folder/install.log" 2>&1 ||
            say "Could not upgrade $package: it stays at $installed (see $build_folder/install.log)"
    elif is_old_libssl "$installed"; then
        say "Note: $package $installed is the newest of this distribution; check that it has the DTLS fixes" \
            "of $oldest_good_libssl"
    fi
}

# --- Build ----------------------------------------------------------------------------------------------------------

# release_version: print the version of the sources.
release_version() {
    sed -n 's/^#define DECART_VERSION "\(.*\)"$/\1/p' "$repo/Sources/CRelease/include/CRelease.h"
}

# has_git: whether the sources are a checkout. A tarball may lie in the checkout of another project.
has_git() {
    [ "$(git -C "$repo" rev-parse --show-toplevel 2>/dev/null)" = "$(cd "$repo" && pwd -P)" ]
}

# source_fact NAME: print the fact `commit`, `time` (of the commit) or `names` (tags and branches) of the sources, if
# they know it. A checkout has git's formats in .git_archival.txt; in a tarball, git has replaced them by the facts.
source_fact() {
    local format
    format=$(sed -n "s/^$1: //p" "$repo/.git_archival.txt" 2>/dev/null || true)
    case $format in
        \$Format:*) if has_git; then git -C "$repo" log -1 --format="$(sed 's/^.Format://; s/.$//' <<<"$format")"; fi ;;
        *) printf '%s\n' "$format" ;;
    esac
}

# commit_name: print the commit that a build names, with "+changes" if files differ from it; nothing if it is not known.
commit_name() {
    local commit
    commit=$(source_fact commit | cut -c -12)
    [ -n "$commit" ] || return 0
    if has_git && ! git -C "$repo" diff --quiet HEAD --; then commit+=+changes; fi
    printf '%s\n' "$commit"
}

# package_version: print the version of packages. A tag has that of the sources. Any other commit adds its time, by which
# apt takes a later build for newer, and its name; files that differ from the commit add the present time.
package_version() {
    local version commit time
    version=$(release_version)
    commit=$(commit_name)
    time=$(source_fact time)
    case "$commit: $(source_fact names)," in
        *+changes:*) time=$(date +%s) ;;
        :* | *" tag: v$version,"*) printf '%s\n' "$version" && return ;;
    esac
    printf '%s+git%s.%s\n' "$version" "$(date -u -d "@$time" +%Y%m%d%H%M%S)" "${commit/+/.}"
}

# Shows each 25th step of a build on a terminal, and reads the others.
show_steps() {
    if [ -t 2 ]; then awk '/^\[[0-9]+\/[0-9]+\]/ && ++count % 25 == 1 { print "  " $0; fflush() }' >&2; else cat >/dev/null; fi
}

# shellcheck disable=SC2120 # only other scripts pass arguments
# build [ARGUMENT...]: run `swift build -c release`, and print its output only if it fails.
build() {
    local log="$build_folder/build.log" started=$SECONDS
    command -v swift >/dev/null ||
        fail "no Swift on the PATH. Debian 13 and later: apt-get install swiftlang. Others, 6.0 or later:" \
            "https://www.swift.org/install/linux"
    mkdir -p "$build_folder"
    if [ -e "$release_folder/libgstdecart.so" ]; then
        say "Building"
    else
        say "Building (the first build takes minutes)"
    fi
    # Swift prints nothing for minutes while it compiles a large module.
    (while sleep 60 && kill -0 $$ 2>/dev/null; do say "Building for $((SECONDS - started)) s (log: $log)"; done) 2>/dev/null &
    local beat=$! failed=0
    (cd "$repo" && DECART_COMMIT=$(commit_name) swift build -c release "$@") 2>&1 | tee "$log" | show_steps || failed=1
    # The loop's sleep too, which holds the output open.
    pkill -P "$beat" 2>/dev/null || true
    kill "$beat" 2>/dev/null || true
    wait "$beat" 2>/dev/null || true
    if [ "$failed" = 1 ]; then
        if grep -q 'was compiled with module cache path' "$log"; then
            fail "this folder was built at another path. Remove that build, and try again: rm -r $(readlink -f "$release_folder")"
        fi
        grep -E '(^|: )error:' "$log" | head -n 20 >&2 || tail -n 40 "$log" >&2
        fail "the build failed; complete output: $log"
    fi
    link_plugin
    say "Built in $((SECONDS - started)) s"
}

# GStreamer scans a folder with everything below it, and .build/release contains thousands of objects and, in time, other
# libraries. So the plugin gets a folder of its own.
link_plugin() {
    mkdir -p "$plugin_folder"
    ln -sfn ../release/libgstdecart.so "$plugin_folder/libgstdecart.so"
}

# --- Python -----------------------------------------------------------------------------------------------------------

# test_python [NAME]: prepare the virtual environment of the Python referees, or the separate one called NAME, and print
# the path of its Python. The system's Python creates it, because PyGObject comes from the system. It is created again
# when the list of requirements has changed.
test_python() {
    local name=${1:+-$1}
    local wanted="$repo/Tests/System/Peers/requirements$name.txt" folder="$build_folder/venv$name" log="$build_folder/venv$name.log"
    # An upgrade of the system may replace Python, and the new one does not find the folder's packages.
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

# Stops the processes that this script started, by id: with SIGTERM, and after a second with SIGKILL.
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

# Prints a TCP port of the loopback interface that has no listener.
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

# compile_swift PROGRAM SOURCE...: compile a program on the product GStreamerKit against its build, which must exist, unless
# the program is newer than its sources. An application has a package of its own, as README.md says.
compile_swift() {
    local program=$1 source newer='' release="$build_folder/release"
    shift
    for source in "$@"; do if [ ! "$program" -nt "$source" ]; then newer=yes; fi; done
    if [ -z "$newer" ]; then return 0; fi
    local flags libraries objects
    # The build's own list: a source that has gone leaves its object behind.
    mapfile -t objects < <(
        sed -n 's|\\/|/|g; s|.*"object" *: *"\(.*\.swift\.o\)".*|\1|p' "$release"/{GStreamerKit,Log}.build/output-file-map.json)
    # Swift needs only the include folders of C's flags, behind -Xcc.
    mapfile -t flags < <(pkg-config --cflags gstreamer-video-1.0 | tr ' ' '\n' | sed -n 's/^-I/-Xcc\n-I/p')
    mapfile -t libraries < <(pkg-config --libs gstreamer-video-1.0 | tr ' ' '\n' | grep '^-[lL]')
    # More than one file has its entry point by @main.
    if [ $# -gt 1 ]; then flags+=(-parse-as-library); fi
    swiftc -swift-version 6 -O -I "$release/Modules" -I "$repo/Sources/CGStreamer" "${flags[@]}" -o "$program" "$@" \
        "${objects[@]}" "${libraries[@]}" >"$program.log" 2>&1 ||
        { tail -n 20 "$program.log" >&2; fail "${1##*/} does not compile"; }
}

# prepare_demo SECTION...: the common start of all demonstrations: stops started processes on exit, requires packages,
# builds, puts the plugin on the path, removes the user's key, creates the folder demo. Sets port to a free one.
prepare_demo() {
    trap stop_started EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    require_packages "$@"
    # shellcheck disable=SC2119 # build takes arguments of swift's, not of ours
    build
    # shellcheck source=pipelines/env.sh
    source "$repo/pipelines/env.sh"
    unset DECART_API_KEY
    mkdir -p "$repo/demo"
    port=$(free_port)
}

# start_standin PORT LOG [ARGUMENT...]: start the stand-in and wait up to 10 s until it prints that it listens.
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
