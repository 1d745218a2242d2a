#!/usr/bin/env bash
# Checks the built plugin as a host application loads it: its dependencies, its exports, the effects of loading on the
# process, and the output of gst-inspect-1.0. Prints "ok NAME", "not ok NAME: why" or "skip NAME: why".
#
#   check_plugin.sh [PLUGIN.so]      default: the one in .build/release
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib.sh"

plugin=$(realpath -m "${1:-$release_folder/libgstdecart.so}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# check NAME WHY: ok if WHY is empty.
check() {
    if [ -z "$2" ]; then
        say "ok plugin: $1"
    else
        say "not ok plugin: $1: $(tr '\n' ' ' <<<"$2" | cut -c1-400)"
        status=1
    fi
}

[ -e "$plugin" ] || { check "exists" "$plugin"; exit 1; }

# The check has its own registry and plugin folder, so that the user's settings have no effect.
export GST_REGISTRY_1_0="$work/registry"
unset GST_REGISTRY DECART_API_KEY GST_PLUGIN_SYSTEM_PATH GST_PLUGIN_SYSTEM_PATH_1_0 GST_PLUGIN_PATH GST_PLUGIN_PATH_1_0
# An ordinary host does not set it: with Swift's backtraces turned off, not even a dynamic runtime touches the signals.
unset SWIFT_BACKTRACE

# --- The file ---------------------------------------------------------------------------------------------------------

dynamic=$(readelf -dW "$plugin")
needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
allowed='libgst[a-z]+-1\.0|libg(lib|object|io|module)-2\.0|libnice|libssl|libcrypto|libsrtp2'
allowed="^($allowed|libstdc\\+\\+|libm|libc|libgcc_s|libpthread|libdl|librt|ld-linux-[a-z0-9_-]+)\\.so[.0-9]*\$"
check "needs only what debian/control installs" "$(grep -vE "$allowed" <<<"$needed" || true)"
check "brings its own Swift" "$(grep -E 'swift|Foundation|dispatch|BlocksRuntime' <<<"$needed" || true)"
# shellcheck disable=SC2016 # the linker's $ORIGIN
check "has no search path but its own folder" \
    "$(sed -n 's/.*(R\(UN\)\?PATH).*\[\(.*\)\]/\2/p' <<<"$dynamic" | tr ':' '\n' | grep -vx '\$ORIGIN' || true)"
check "finds what it needs" "$(ldd "$plugin" | grep 'not found' || true)"
exported=$(nm -D --defined-only --extern-only "$plugin" | awk '{ print $3 }' | sort)
# The second one takes the place of libnice's function: see Sources/ICE/AddressRanking.swift.
check "exports two symbols only" "$([ "$exported" = $'gst_plugin_decart_get_desc\nnice_interfaces_get_local_ips' ] ||
    echo "$(wc -l <<<"$exported") symbols: $(head -n 5 <<<"$exported")")"
check "has no executable stack" "$(readelf -lW "$plugin" | awk '/GNU_STACK/ && /RWE/')"
check "has no text relocations" "$(grep TEXTREL <<<"$dynamic" || true)"
check "has a name without the path of its build" "$(readelf -p .dynstr "$plugin" | grep -F libgstdecart.so | grep / || true)"
for product in "$plugin" "$release_folder/decart-standin" "$release_folder/decart-check"; do
    lacking=
    grep -q 'FLAGS.*BIND_NOW' <<<"$(readelf -dW "$product")" || lacking+="BIND_NOW "
    grep -q GNU_RELRO <<<"$(readelf -lW "$product")" || lacking+="RELRO "
    grep -q 'Type: *DYN' <<<"$(readelf -hW "$product")" || lacking+="PIE"
    check "${product##*/} has full RELRO at a position that is not fixed" "${lacking:+it lacks $lacking}"
done

# --- Processes that load it -------------------------------------------------------------------------------------------

# shellcheck disable=SC2046 # a list of flags
gcc -std=gnu11 -Wall -Wextra -Werror -O1 -o "$work/host_probe" "$repo/Tests/System/Host/host_probe.c" \
    $(pkg-config --cflags --libs gstreamer-1.0)

# run NAME SECONDS COMMAND...: print its result lines, and one more for a crash or a hang.
run() {
    local name=$1 limit=$2 code=0
    shift 2
    timeout --kill-after=5 "$limit" "$@" >"$work/out" 2>"$work/err" || code=$?
    grep -E '^(ok|not ok|skip|measured) ' "$work/out" || true
    if [ "$code" -ne 0 ]; then
        status=1
        if [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then
            check "$name" "not done within $limit s"
        elif ! grep -q '^not ok ' "$work/out"; then
            check "$name" "status $code: $(tail -n 3 "$work/err")"
        fi
    fi
}

run "a C host" 240 "$work/host_probe" load "$plugin"
"$release_folder/decart-standin" --port 0 --quiet >"$work/standin" 2>/dev/null &
server=$!
for _ in {1..600}; do
    grep -q 'ws://' "$work/standin" && break
    sleep 0.1
done
run "a session" 240 env GST_TRACERS=leaks GST_DEBUG=GST_TRACER:7 GST_DEBUG_NO_COLOR=1 "$work/host_probe" session "$plugin" \
    "$(grep -o 'ws://[^ ]*' "$work/standin")"
check "a session leaks no GStreamer object" \
    "$(sed -n 's/.*object-alive, type-name=(string)\(Gst[A-Za-z]*\).*/\1/p' "$work/err" | sort | uniq -c | head -n 8)"
kill "$server" || true
wait "$server" || true

# --- gst-inspect-1.0 --------------------------------------------------------------------------------------------------

mkdir -p "$work/plugins"
ln -s "$plugin" "$work/plugins/libgstdecart.so"
system=$(pkg-config --variable=pluginsdir gstreamer-1.0)
# The order of pipelines/env.sh, which explains it.
mkdir -p "$work/plugins-bad"
ln -s "$system/libgstgeometrictransform.so" "$work/plugins-bad"
GST_PLUGIN_SYSTEM_PATH_1_0="$work/plugins-bad:$work/plugins:$system"
export GST_PLUGIN_SYSTEM_PATH_1_0

inspect() { timeout 200 env G_DEBUG=fatal-criticals gst-inspect-1.0 --no-colors "$@" 2>"$work/err"; }

description=$(inspect decart) || description=
check "gst-inspect-1.0 reads it" "$([ -n "$description" ] || echo "it fails: $(tail -n 3 "$work/err")")"
check "inspecting it writes nothing to stderr" "$(cat "$work/err")"
check "is not on the black list" "$(timeout 200 gst-inspect-1.0 -b 2>/dev/null | grep -i decart || true)"
licence=$(sed -n 's/^ *License *//p' <<<"$description")
check "states its licence" "$([ "$licence" = "Apache 2.0" ] || echo "${licence:-none}")"
for field in Version 'Source module' 'Source release date' 'Binary package' 'Origin URL'; do
    check "states its $field" "$(grep -qE "^ *$field +[^ ]" <<<"$description" || echo missing)"
done
# The project has no public address yet: any URL here would belong to another project.
check "states no origin of another project" "$(grep -E '^ *Origin URL .*://' <<<"$description" || true)"
# A plain `swift build` does not know the commit.
named="gst-decart $(sed -n 's/^ *Version *//p' <<<"$description"), (commit [0-9a-f]{12}(\\+changes)?|development build)\$"
check "names its commit" "$(grep -qE "^ *Binary package +$named" <<<"$description" || echo "not: $named")"
standin="$release_folder/decart-standin"
check "decart-standin names its commit" \
    "$("$standin" --version | grep -qE "^decart-standin ${named#gst-decart }" || "$standin" --version)"
check "decart-standin brings its own Swift" "$(readelf -dW "$standin" | grep -E 'NEEDED.*(swift|Foundation|dispatch)' || true)"
check "lists the models" "$(inspect decarttransform | grep -E '^  model ' | grep -q 'lucy-2.6.*lucy-vton-3.6' || echo missing)"
# In GStreamer's own folder, chance would decide which plugin's `mirror` an application gets.
mkdir "$work/core"
ln -s "$system/libgstcoreelements.so" "$system/libgstgeometrictransform.so" "$plugin" "$work/core"
names=$(GST_PLUGIN_SYSTEM_PATH_1_0="$work/core" GST_REGISTRY_1_0="$work/core.registry" inspect decart |
    sed -n 's/^  \([a-z]*\): .*/\1/p' | tr '\n' ' ')
check "leaves out the name mirror beside GStreamer's core elements" \
    "$([ "$names" = "decartmirror decartsrc decarttransform " ] || echo "it registers: $names")"
# In a copy, because env.sh writes links to the plugins of its path.
copy="$work/copy"
mkdir -p "$copy/.build" "$copy/pipelines"
cp "$repo/pipelines/env.sh" "$copy/pipelines"
ln -s "$(realpath "$release_folder")" "$copy/.build/release"
# shellcheck disable=SC2016 # expanded by the inner shell
seen=$(GST_PLUGIN_SYSTEM_PATH_1_0="$work/core" GST_REGISTRY_1_0="$work/env.registry" bash -c \
    'source "$1/pipelines/env.sh"; gst-inspect-1.0 --no-colors mirror' bash "$copy" | sed -n 's/^ *Filename *//p')
check "env.sh prefers the build to an installed package and to plugins-bad" \
    "$([ "$seen" = "$copy/.build/gstreamer-1.0/libgstdecart.so" ] || echo "${seen:-none}")"
elements=$(sed -n 's/^  \([a-z0-9]*\): .*/\1/p' <<<"$description")

for element in $elements; do
    text=$(inspect "$element") || text=
    check "gst-inspect-1.0 $element" "$([ -n "$text" ] || echo "it fails: $(tail -n 3 "$work/err")")"
    [ -n "$text" ] || continue
    check "$element has a class" "$(grep -qE '^ *Klass +[A-Z]' <<<"$text" || echo missing)"
    # Each of its own properties has a blurb that adds to the name, and every writable one states its mutability.
    problems=$(awk '
        /^Element Properties:/ { inside = 1; next }
        /^[A-Z]/ { inside = 0 }
        inside && /^  [a-z]/ { name = $1; blurb = $0; sub(/^  [a-z0-9-]+ *: */, "", blurb)
            inherited = (name ~ /^(name|parent|qos|async-handling|message-forward|blocksize|num-buffers)$/ ||
                name ~ /^(typefind|do-timestamp|automatic-eos)$/)
            if (!inherited && length(blurb) < 10) print name ": no blurb" }
        inside && /flags:/ && !inherited && /writable/ && !/changeable|only in/ { print name ": no mutability flag" }
    ' <<<"$text")
    check "$element documents its properties" "$problems"
    for name in api-key api-key-headers; do
        secret=$(awk -v name="$name" '$1 == name && /^  [a-z]/ { found = 1; next } found && /flags:/ { print; exit }' <<<"$text")
        if [ -n "$secret" ]; then
            check "$element: $name cannot be read" "$(grep readable <<<"$secret" | grep -v 'not readable' || true)"
        elif [[ $element == decarttransform || $element == decartsrc ]]; then
            check "$element: $name cannot be read" "there is no such property"
        fi
    done
done
while read -r element wanted; do
    klass=$(inspect "$element" | sed -n 's/^ *Klass *//p')
    check "$element's class" "$([ "$klass" = "$wanted" ] || echo "${klass:-none}")"
done <<<'decarttransform Filter/Effect/Video/Network
decartsrc Source/Video/Network
mirror Filter/Effect/Video'
# decartsrc must list every property of decarttransform, as its own or as one of the transform in it.
lacking=$(comm -23 \
    <(inspect decarttransform | sed -n '/^Element Properties:/,$ s/^  \([a-z][a-z-]*\) .*/\1/p' | sort -u) \
    <(inspect decartsrc | sed -n '/^Element Properties:/,$ s/^  \([a-z][a-z-]*\) .*/\1/p' | sort -u))
check "decartsrc has every property of decarttransform" "$lacking"

# --- A Swift host with another runtime --------------------------------------------------------------------------------

if command -v swiftc >/dev/null; then
    if swiftc -swift-version 6 -O -o "$work/swift_host" "$repo/Tests/System/Host/swift_host.swift" 2>"$work/err"; then
        check "the Swift host has a dynamic runtime" \
            "$(readelf -d "$work/swift_host" | grep -q 'NEEDED.*libswiftCore' || echo "it has none: this proves nothing")"
        # shellcheck disable=SC2086 # a list of names
        run "a Swift host" 240 env G_DEBUG=fatal-criticals "$work/swift_host" "$plugin" $elements
    else
        check "the Swift host compiles" "$(head -n 3 "$work/err")"
    fi
else
    say "skip plugin: a Swift host: no swiftc"
fi

exit "$status"
