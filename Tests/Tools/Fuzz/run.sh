#!/bin/sh
# Fuzzes all external input with libFuzzer and AddressSanitizer, SECONDS (default 60) each: session descriptions and offers
# (sdp), messages of the control channel and recordings of them (message), the signalling of a room (room), reference images
# (image), packets after SRTP, and Opus (packet), and HTTP responses (http). swift-protobuf and swift-nio come from a
# release build of the tests.
# usage: Tests/Tools/Fuzz/run.sh [SECONDS [TARGET...]]
# After a crash it exits with a status other than 0, and the output names the input.
set -eu
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- sdp message room image packet http
root=$(cd "$(dirname "$0")/../../.." && pwd)
build=$root/.build/fuzz
mkdir -p "$build"
cd "$build"
mkdir -p sdp message room image packet http

flags="-O -swift-version 6 -package-name gst_decart -parse-as-library -sanitize=fuzzer,address"
flags="$flags -enable-upcoming-feature InternalImportsByDefault -enable-upcoming-feature MemberImportVisibility"
flags="$flags -enable-upcoming-feature ExistentialAny -I ."
for module in CGStreamer CNice COpenSSL CSRTP; do
    flags="$flags -Xcc -fmodule-map-file=$root/Sources/$module/module.modulemap"
done
packages="gstreamer-video-1.0 nice openssl libsrtp2"
# shellcheck disable=SC2086 # several packages
for flag in $(pkg-config --cflags-only-I --cflags-only-other $packages | tr ' ' '\n' | grep -v '^-pthread$'); do
    flags="$flags -Xcc $flag"
done

# wanted TARGET...: succeed if one of them was chosen.
chosen=" $* "
wanted() {
    for target; do case $chosen in *" $target "*) return 0 ;; esac; done
    return 1
}

# module NAME SOURCE...: compile a module, after the modules that it imports.
module() {
    name=$1
    shift
    # shellcheck disable=SC2086
    swiftc $flags -module-name "$name" -wmo -emit-module -emit-module-path "$name.swiftmodule" -emit-object -o "$name.o" "$@"
}

# target NAME OBJECT...: compile and link the fuzzer of a target.
target() {
    name=$1
    shift
    # shellcheck disable=SC2046,SC2086
    swiftc $flags -module-name fuzz -o "${name}_fuzz" "$root/Tests/Tools/Fuzz/${name}_fuzz.swift" "$@"
}
sources() { find "$root/Sources/$1" -name '*.swift'; }

# swift-log is a separate package.
if wanted sdp room packet http; then
    logging=$root/.build/checkouts/swift-log/Sources/Logging
    [ -d "$logging" ] || swift package --package-path "$root" resolve
    # shellcheck disable=SC2046
    swiftc -O -swift-version 5 -package-name swift_log -parse-as-library -sanitize=fuzzer,address \
        -module-name Logging -wmo -emit-module -emit-module-path Logging.swiftmodule -emit-object \
        -o Logging.o $(find "$logging" -name '*.swift')
fi
# swift-collections comes from the release build, because it is not fuzzed.
if wanted sdp room packet; then
    release=$root/.build/release
    [ -d "$release/DequeModule.build" ] || swift build --package-path "$root" -c release --build-tests
    flags="$flags -I $release/Modules"
    rm -f collections.a
    find "$release"/DequeModule.build "$release"/InternalCollectionsUtilities.build "$release"/ContainersPreview.build \
        -name '*.o' -print0 | xargs -0 ar qcs collections.a
fi
# The modules come in the order of their imports. No name in Sources contains a space.
# shellcheck disable=SC2046
module DecartProtocol $(sources DecartProtocol)
# shellcheck disable=SC2086
libraries="$(pkg-config --libs $packages) -lgstrtp-1.0 -lgstsdp-1.0 -lgstbase-1.0"
if wanted sdp room packet; then
    # shellcheck disable=SC2046
    for name in GStreamerKit ICE MediaSecurity WebRTCTransport; do module $name $(sources $name); done
fi
transport="Logging.o GStreamerKit.o ICE.o MediaSecurity.o WebRTCTransport.o collections.a"
# shellcheck disable=SC2046
if wanted room http; then module DecartSession $(sources DecartSession); fi

# shellcheck disable=SC2086
if wanted sdp; then target sdp $transport $libraries; fi
if wanted message; then target message DecartProtocol.o; fi
if wanted image; then target image DecartProtocol.o; fi
# shellcheck disable=SC2086
if wanted packet; then
    # One file of it is enough, and uses nothing else of it.
    module MediaPipeline "$root/Sources/MediaPipeline/Audio/OpusPacket.swift"
    target packet MediaPipeline.o DecartProtocol.o $transport $libraries
fi
if wanted room; then
    # swift-protobuf is a separate package. Only those files of the room's client are compiled that use no socket.
    protobuf=$root/.build/checkouts/swift-protobuf/Sources/SwiftProtobuf
    [ -d "$protobuf" ] || swift package --package-path "$root" resolve
    # shellcheck disable=SC2046
    swiftc -O -swift-version 6 -package-name swift_protobuf -parse-as-library -sanitize=fuzzer,address \
        -module-name SwiftProtobuf -wmo -emit-module -emit-module-path SwiftProtobuf.swiftmodule -emit-object \
        -o SwiftProtobuf.o $(find "$protobuf" -name '*.swift')
    # shellcheck disable=SC2046
    module LiveKitProtocol $(sources LiveKitProtocol)
    room=$root/Sources/LiveKitTransport
    module LiveKitTransport "$room/RoomMachine.swift" "$room/RoomConfiguration.swift" "$room/RoomEvent.swift" \
        "$room/RoomPublisher.swift" "$room/RoomResume.swift" "$room/RoomKeepalive.swift" "$room/RoomSubscriptions.swift" \
        "$room/PeerConnectionMode.swift" "$room/CandidateText.swift"
    # shellcheck disable=SC2086
    target room SwiftProtobuf.o LiveKitProtocol.o LiveKitTransport.o DecartSession.o DecartProtocol.o $transport $libraries
fi
if wanted http; then
    # swift-nio comes from the release build, because it is not fuzzed. The fuzzer sees the internals of Signalling.
    nio=$root/.build/release
    [ -d "$nio/NIOEmbedded.build" ] || swift build --package-path "$root" -c release --build-tests
    maps=
    for map in "$nio"/CNIO*.build/module.modulemap "$root"/.build/checkouts/*/Sources/CNIO*/include/module.modulemap \
        "$root"/.build/checkouts/swift-atomics/Sources/_AtomicsShims/include/module.modulemap; do
        maps="$maps -Xcc -fmodule-map-file=$map"
    done
    # Some of its objects have spaces in their names.
    rm -f nio.a
    find "$nio"/*NIO*.build "$nio"/Atomics.build "$nio"/_AtomicsShims.build "$nio"/DequeModule.build \
        "$nio"/InternalCollectionsUtilities.build "$nio"/ContainersPreview.build -name '*.o' -print0 | xargs -0 ar qcs nio.a
    # shellcheck disable=SC2046,SC2086
    swiftc $flags -I "$nio/Modules" $maps -module-name Signalling -wmo -o http_fuzz "$root/Tests/Tools/Fuzz/http_fuzz.swift" \
        $(sources Signalling) DecartSession.o DecartProtocol.o Logging.o nio.a -lstdc++ -lz
fi

# The seeds are a complete description, an almost empty one, one with simulcast, one of an ICE restart, and a message of
# every type.
printf 'v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96 97\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:SAMP\r\na=ice-pwd:0123456789abcdefghijklmn\r\na=fingerprint:sha-256 7B:8B:F0:65:5F:78:E2:51:3B:AC:6F:F3:3F:46:1B:35:DC:B8:5F:64:1A:24:C2:43:F0:A1:58:D0:A1:2C:19:08\r\na=setup:active\r\na=mid:0\r\na=extmap:2 http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time\r\na=sendrecv\r\na=rtcp-mux\r\na=rtpmap:96 VP8/90000\r\na=rtcp-fb:96 nack pli\r\na=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\n' >sdp/offer
printf 'v=0\r\nm=video 9 X 1\r\n' >sdp/short
sed 's/a=sendrecv/a=extmap:5 urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id\r\na=rid:f send\r\na=rid:q send\r\na=simulcast:send f;~h,q;q recv x\r\na=sendonly/' \
    sdp/offer >sdp/simulcast
{
    sed 's/SAMP/NEXT/; s/0123456789/abcdefghij/' sdp/offer
    printf 'a=candidate:1 1 UDP 2130706431 127.0.0.1 40000 typ host ufrag %s\r\n' NEXT SAMP
    printf 'a=end-of-candidates\r\n'
} >sdp/restart
number=0
grep -ohE '\{"type":[^#]*\}' "$root/Tests/DecartProtocolTests/ServerMessageTests.swift" | sort -u | while read -r message; do
    number=$((number + 1))
    printf '%s' "$message" >"message/$number"
done

cat >message/recording <<'END'
{"recording":"decart-control","format":1}
{"attempt":1,"ms":0,"event":"opened"}
{"attempt":1,"ms":3,"event":"sent","type":"prompt"}
{"attempt":1,"ms":5,"event":"received","message":{"type":"prompt_ack","prompt":"prompt-1","success":false,"error":"x"}}
{"attempt":1,"ms":6,"event":"received","message":{"type":"answer"}}
{"attempt":1,"ms":7,"event":"closed","code":1011,"reason":"x"}
{"attempt":2,"ms":9,"event":"failed","status":503,"reason":"x"}
{"attempt":3,"ms":9,"event":"left"}
END

# LiveKit's own package encoded these messages.
python3 - "$root/Tests/LiveKitProtocolTests/GoldenFrames.swift" room <<'END'
import re, sys
text = open(sys.argv[1]).read().replace("\\\n", "")
for number, frame in enumerate(re.findall(r'"""\s*([0-9a-f\s]+?)\s*"""', text)):
    with open(f"{sys.argv[2]}/{number}", "wb") as file:
        file.write(bytes.fromhex("".join(frame.split())))
END

"$root/Tests/Tools/Fuzz/seeds.py" .

# A backtrace would hang the crash report, and allocations that GLib never frees are no leaks.
for target in $chosen; do
    SWIFT_BACKTRACE=enable=no ASAN_OPTIONS=detect_leaks=0 "./${target}_fuzz" -max_total_time="$seconds" -timeout=5 \
        -max_len=70000 -rss_limit_mb=2048 -print_final_stats=1 "$target"
done
