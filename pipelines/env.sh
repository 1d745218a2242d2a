# shellcheck shell=sh
# Source this in bash or zsh: it puts the plugin and the programs that `swift build -c release` made on the path.
#
#   source pipelines/env.sh
#   gst-inspect-1.0 decarttransform

if [ -n "${BASH_VERSION:-}" ]; then
    # shellcheck disable=SC3028,SC3054
    _decart_file="${BASH_SOURCE[0]}"
elif [ -n "${ZSH_VERSION:-}" ]; then
    # In zsh $0 is the sourced file (unless functionargzero was turned off); bash would read this as an error.
    eval '_decart_file="${(%):-%x}"'
else
    _decart_file="$0"
fi
_decart_repo="$(cd "$(dirname "$_decart_file")/.." && pwd)"
_decart_plugins="$_decart_repo/.build/gstreamer-1.0"

# The plugin has a folder of its own, because GStreamer would scan .build/release with everything below it.
mkdir -p "$_decart_plugins"
ln -sfn ../release/libgstdecart.so "$_decart_plugins/libgstdecart.so"

case ":$PATH:" in
    *":$_decart_repo/.build/release:"*) ;;
    *) export PATH="$_decart_repo/.build/release:$PATH" ;;
esac

# GStreamer takes the first of two files of the same name, and of two elements of the same name the one that it scans
# last. plugins-bad has an element `mirror` too. To prefer ours, also to that of an installed package, the variable lists
# a folder with a link to the other plugin, then our folder, and then the system's, as GStreamer finds them when it is
# not set.
if [ -z "${GST_PLUGIN_SYSTEM_PATH_1_0:-}" ]; then
    # The older variable counts when the newer one is not set.
    _decart_system="${GST_PLUGIN_SYSTEM_PATH:-}"
    if [ -z "$_decart_system" ]; then
        _decart_system="$(pkg-config --variable=pluginsdir gstreamer-1.0 2>/dev/null || true)"
        [ -n "$_decart_system" ] ||
            _decart_system="/usr/lib/$(uname -m)-linux-gnu/gstreamer-1.0"
        _decart_system="${XDG_DATA_HOME:-$HOME/.local/share}/gstreamer-1.0/plugins:$_decart_system"
    fi
    export GST_PLUGIN_SYSTEM_PATH_1_0="$_decart_system"
    unset _decart_system
fi
case ":$GST_PLUGIN_SYSTEM_PATH_1_0:" in
    *":$_decart_plugins:"*) ;;
    *)
        _decart_bad="$_decart_repo/.build/plugins-bad"
        mkdir -p "$_decart_bad"
        _decart_rest="$GST_PLUGIN_SYSTEM_PATH_1_0:"
        while [ -n "$_decart_rest" ]; do
            _decart_folder="${_decart_rest%%:*}"
            _decart_rest="${_decart_rest#*:}"
            if [ -e "$_decart_folder/libgstgeometrictransform.so" ]; then
                ln -sfn "$_decart_folder/libgstgeometrictransform.so" "$_decart_bad/libgstgeometrictransform.so"
            fi
        done
        export GST_PLUGIN_SYSTEM_PATH_1_0="$_decart_bad:$_decart_plugins:$GST_PLUGIN_SYSTEM_PATH_1_0"
        unset _decart_bad _decart_folder _decart_rest
        ;;
esac

# The registry is separate from the user's. That one would keep the plugin on its blacklist if it was ever scanned
# half-built (until the file changes), and each shell without these paths would remove our entries from it again.
: "${GST_REGISTRY_1_0:=$_decart_repo/.build/gstreamer-1.0.registry}"
export GST_REGISTRY_1_0

unset _decart_file _decart_repo _decart_plugins
