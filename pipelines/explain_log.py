#!/usr/bin/env python3
"""Reads a log of the elements, or what gst-launch-1.0 and decart-standin print, and names the cause of the failures in it.

    GST_DEBUG='decart*:INFO' gst-launch-1.0 … 2>&1 | tee decart.log
    explain_log.py decart.log

Prints one line for each cause: its short name, the remedy, and the line of the log that shows it. The cause comes from the
code and the stage that each error and warning of the elements carries, and the remedy from its text; only where that says
less than is known, a text decides. A message that names no remedy gets none: then the line alone says what is known. The
exit status is 0 if a cause was found, and 1 if not.
"""

import difflib
import json
import re
import sys

# Short name, remedy, texts of the sources with "…" for any text. The first row with a text in a line decides about the line,
# before its code.
CAUSES = [
    ("no-key", "set DECART_API_KEY or api-key-file", ["No API key: set", "The API key is empty", "there is no key. Set"]),
    ("no-key", "correct that file: it holds the key alone", ["that api-key-file names"]),
    ("key", "check the API key", ["rejected the API key", "Check the key and whether it permits"]),
    # Also the request that was under way when the service ended the session and its room, for a cause of its own.
    ("room-token", "the service's room refuses the token of the service: try again later", ["rejected the token of the room"]),
    ("credits", "top up the account's credits", ["the account is out of credits"]),
    ("key-url", "check api-key-url and that backend", ["No API key from api-key-url"]),
    ("base-url", "correct base-url",
     ["base-url…must begin with", "base-url…must not carry", "base-url…has no valid host and port"]),
    ("unencrypted", "use wss://, or set insecure=true", ["is unencrypted and …is another machine"]),
    ("model", "correct model, or set width, height and framerate", ["The frame size and rate of the model", "there is no model "]),
    ("image", "correct reference-image, or set a model that takes images",
     ["The reference image cannot be read", "The reference image is", "The reference image has", "is not known to take reference images"]),
    ("options", "unset it, or set a model that has it", ["is not known to support"]),
    ("prompt", "correct prompt", ["The prompt has"]),
    ("ports", "correct rtp-port-range, or free its ports", ["rtp-port-range must be", "o UDP port from"]),
    ("ice-servers", "correct stun-server and turn-servers", ["stun-server or turn-servers:"]),
    ("proxy", "check http-proxy, and the proxy's log", ["The HTTP proxy", "http-proxy…must begin with"]),
    ("dns", "check base-url and the DNS server", ["is unknown. Check its spelling", "The name server did not answer"]),
    ("refused", "check base-url and that the service runs", ["The connection to …failed: "]),
    ("no-tls", "check scheme and port of base-url", ["does not use TLS on this port"]),
    ("no-http", "use wss:// or https:// if the server speaks TLS, else check the port", ["did not answer the request in HTTP"]),
    ("tls-expired", "renew the certificate, or set the clock",
     ["The certificate of …has expired", "The certificate of …is not valid yet"]),
    ("tls-host", "use the host name of the certificate in base-url", ["The certificate of …is for another host name"]),
    ("tls-authority", "set ca-file", ["The certificate of …is not trusted"]),
    ("rate-limit", "start sessions more slowly, end other sessions, or raise the account's limit",
     ["admits no further session now"]),
    ("session-limit", "end other sessions, or raise the account's limit",
     ["Concurrent session limit reached", "The account's sessions are all in use"]),
    ("unavailable", "the service is down or overloaded: try again later, or allow more max-retries", ["is unavailable (HTTP "]),
    ("captive-portal", "log in to the network's portal, or check base-url",
     ["answered with a page instead", "redirects to another address"]),
    ("camera", "plug a camera in, or correct device and position", ["No camera"]),
    ("encoded-size", "encode the input as the model's size, or send raw video", [" pixels, but the model takes "]),
    ("profile", "encode the input as constrained-baseline", ["he service does not take H.264 of the profile"]),
    ("b-frames", "encode the input without B-frames", ["input has B-frames"]),
    ("no-input", "check the elements in front of the element",
     ["No video has come to the pad sink", "Nothing is linked to the pad sink", "The input has sent no frame"]),
    ("downstream", "check the elements behind src", ["Downstream has taken no frame"]),
    ("audio-link", "put audioconvert behind audio_src", ["Nothing is linked to audio_src"]),
    ("unlinked", "link a sink, with videoconvert before it, to the pad that the text names", ["Nothing is linked to"]),
    ("videoconvert", "put videoconvert behind the element",
     ["Put videoconvert behind", "Downstream does not accept", "refused a buffer: …notNegotiated"]),
    ("no-video", "link video to the element's pad sink", ["no video is linked to the pad"]),
    ("no-codec", "set codec to one that the service knows", ["o video codec in common", "rejected the video"]),
    ("encoder", "install the package of the element, or correct encoder",
     ["A GStreamer element is missing", "is not installed", "he property encoder cannot be used"]),
    ("turn-password", "check user and password in turn-servers", ["refused the connection or the allocation"]),
    ("no-turn", "check turn-servers and the firewall", ["TURN …did not answer within"]),
    ("fingerprint", "the path may be intercepted; do not go on", ["DTLS certificate of the remote peer does not match"]),
    ("dtls-timeout", "check that UDP of this size passes", ["no answer to the DTLS handshake"]),
    ("no-udp", "open UDP, or set turn-servers", ["no answer to the connectivity checks"]),
    ("no-acknowledgement", "the service is overloaded or does not know the message; try again later",
     ["did not acknowledge the first prompt", "not acknowledged within"]),
    ("prompt-refused", "change the prompt",
     ["prompt …: rejected after", "The prompt was not accepted"]),
    ("path-lost", "the network path is down",
     ["nothing has arrived for …neither RTP nor RTCP", "Packets do not reach the service, and no other network path"]),
    ("media-silent", "the service sends no media",
     ["no RTP has arrived for …; RTCP still arrives", "No media arrived from the service"]),
    ("expired", "extend the session, or raise max-session-duration or the token's limit", ["Session expired: "]),
    ("loss", "use a better network, or lower max-bitrate", ["the remote peer reports …loss of our packets"]),
    ("processor", "correct processor: it is a description of elements, as gst-launch-1.0 takes it", ["The processor '"]),
    ("no-turn-server", "set turn-servers, or ice-transport-policy=all", ["needs a TURN server, and neither"]),
    ("camera-unreachable", "check the address of the camera, and that it runs", ["The live view failed: …it cannot be reached"]),
    ("camera", "check the address of source: what answers there is not such a camera, or refuses",
     ["The live view failed: "]),
    ("short-input", "give it a longer input; repeat a single image with imagefreeze",
     ["transformed frame came…the session was not connected", "transformed frame came…the session waits in the service's queue",
      "transformed frame came…the service had not returned one"]),
    ("no-prompt", "set prompt or reference-image", ["No prompt is set: frames come back untransformed"]),
    ("two-sessions", "remove one of the two elements, if that is not meant", ["The input is the output of another session"]),
    ("local-address", "correct local-address, or bring the interface up", ["of local-address "]),
]
# Words of the system and of a service within a message, as expressions; they decide first.
REASONS = [(cause, remedy, re.compile(text)) for cause, remedy, text in [
    ("permission", "permit this user to read that file", r"cannot be read: permission denied"),
    ("open-files", "raise the limit of open files: ulimit -n", r"failed: too many open files"),
    ("route", "this machine has no route to that address: check base-url and the network",
     r"The connection to .*failed: (?:network|host) unreachable"),
    ("session-limit", "end other sessions, or raise the account's limit",
     r"is unavailable \(HTTP 503: .*(?:session|capacity|concurren)"),
    ("fault", "correct the fault: decart-standin --help lists names and keys",
     r"there is no fault|has no key .*; it has |HTTP 400: [a-z]\w*_\w+: "),
    ("uri", "correct the address: no element knows its scheme", r"source cannot be created: no source element for URI"),
    ("capture-caps", "set capture-caps to video/x-raw or image/jpeg of a size that the source has", r"cannot be created: .*capture-caps"),
    ("source", "source takes elements, as source='filesrc location=clip.mp4 ! decodebin'", r"source cannot be created: (?!no (?:element|property) )"),
    ("room-token", "the service gave a token that its room refuses: try again later, and report it", r"The room at .* rejected its token"),
    ("ca-file", "correct ca-file: it names a PEM file of certificates", r"ca-file (?:cannot be read|contains no|is )"),
    ("tls-version", "update that server: it speaks old versions of TLS only", r"supports neither TLS 1\.2 nor TLS 1\.3"),
    ("source", "audio-source takes elements, as gst-launch-1.0 does", r"audio-source is not a valid description: (?!no (?:element|property) )"),
    ("not-the-service", "another server answers: check base-url", r"has no service at this path"),
    ("short-input", "give it a longer input, which shows what the session lacks; repeat a single image with imagefreeze",
     r"transformed frame came: the session was not connected yet"),
    ("equal-names", "two elements have one name: give each its own", r"that don't share a common ancestor|is not unique in bin"),
]]
# Cause by code and stage, the general row of a code last, and a remedy for texts that name none; None: nothing is known.
CODES = [
    ("INVALID_API_KEY", "configuration", "no-key", "correct the key or its file as the text says"),
    ("INVALID_API_KEY", "", "key", "check the API key"),
    ("INVALID_BASE_URL", "", "base-url", "correct base-url"),
    ("INVALID_INPUT", "initialState", "prompt-refused", "change the prompt or the image"),
    ("INVALID_INPUT", "", "input", None),
    ("INVALID_OPTIONS", "media", "encoder", "check encoder and decoder, and that their elements are installed"),
    ("INVALID_OPTIONS", "", "options", None),
    ("MODEL_NOT_FOUND", "", "model", "set another model"),
    ("NETWORK_ERROR", "resolve", "dns", "check base-url and the DNS server"),
    ("NETWORK_ERROR", "tls", "tls", "check scheme and port of base-url"),
    ("NETWORK_ERROR", "channel", "connection-lost", None),
    ("NETWORK_ERROR", "", "network", None),
    ("CONNECTION_TIMEOUT", "initialState", "no-acknowledgement", "try again later, or with a smaller image"),
    ("CONNECTION_TIMEOUT", "media", "media-timeout", "check UDP and transport, or set turn-servers"),
    ("CONNECTION_TIMEOUT", "", "no-answer", "check base-url and the network"),
    ("WEBSOCKET_ERROR", "upgrade", "not-the-service", "check base-url and model"),
    ("WEBSOCKET_ERROR", "", "connection-lost", None),
    ("SERVER_ERROR", "initialState", "prompt-refused", "change the prompt"),
    ("SERVER_ERROR", "", "service", None),
    ("CONCURRENCY_LIMIT", "", "session-limit", "end other sessions, or raise the account's limit"),
    ("QUEUE_ERROR", "", "queue", "try again later"),
    ("WEB_RTC_ERROR", "", "media", None),
    ("PROCESSING_ERROR", "generation", "prompt-refused", "change the prompt"),
    ("INSUFFICIENT_CREDITS", "", "credits", "top up the account's credits"),
    ("MODERATION_VIOLATION", "initialState", "prompt-refused", "change the prompt or the image"),
    ("MODERATION_VIOLATION", "", "moderation", "change the prompt, the image or the input"),
]
# Words with which a sentence of a remedy begins.
IMPERATIVES = ("Add Change Check Choose Connect Convert Correct Decode Download Encode End Export Fork Get Give Install Let Link Log"
               " Lower Make Move Name Open Pad Permit Plug Put Raise Remove Rename Renew Repeat Set Shorten Start Top Try Unset Use"
               " Wait Write").split()

# Packages of elements, by the beginning of the name; the longest counts.
PACKAGES = {
    "plugins-bad": "av1 dash fdkaac h264parse h265parse hlssink hlsdemux kms mpegtsmux nvh26 nvav1 nvdec nvenc nvjpeg nvvp8 nvvp9 nvmpeg msdk v4l2sl openh264 openjpeg qsv rtmp sctp srt tsdemux tsparse va voaac"
                   " webrtcbin webrtcdsp webrtcecho cuda d3d wayland zbar bayer2rgb curl dtls faac faad mpegpsmux mpegvideoparse jpegparse opusparse"
                   " vp9parse av1parse fbdev",
    "plugins-base": "adder alsa appsink appsrc audioconvert audiomixer audiorate audioresample audiotestsrc compositor decodebin"
                    " encodebin oggdemux oggmux opusdec opusenc parsebin playbin subparse theora tcp textoverlay timeoverlay clockoverlay"
                    " uridecodebin videoconvert videorate videoscale videotestsrc volume vorbis videobox",
    "plugins-good": "aasink auto avi cairo deinterlace flac flv gdkpixbuf imagefreeze jpegdec jpegenc lame level matroska mp4mux"
                    " mpg123 multifile multipart navseek pngdec pngenc qt rtp rtsp soup splitmux udp v4l2 video videocrop videoflip"
                    " videobalance videomixer vp8 vp9 wav webm ximagesrc y4menc",
    "plugins-ugly": "a52dec asf dvdread mad mpeg2dec x264 xing",
    "libav": "avdec_ avenc_ avmux_ avdemux_",
    "x": "ximagesink xvimagesink",
    "gl": "gl",
    "alsa": "alsasink alsasrc",
    "pulseaudio": "pulse",
    "pipewire": "pipewire",
    "gtk3": "gtksink gtkglsink",
    "qt5": "qmlgl",
    "vaapi": "vaapi",
    "nice": "nice",
    "libcamera": "libcamera",
}
# Elements of gst-plugins-rs, by the beginning of the name.
RUST = "webrtcsink webrtcsrc whip whep hlssink3 hlscmaf fallback livesync togglerecord gtk4paintable awss3 awstranscriber".split()
OURS = ["decarttransform", "decartsrc", "decartmirror"]
# Names of GStreamer 0.10, and elements of other systems, by the beginning of the name.
FORMER = [("ffmpegcolorspace", "videoconvert"), ("ffdec_", "avdec_"), ("ffenc_", "avenc_"), ("ffmux_", "avmux_"), ("ffdemux_", "avdemux_"), ("decodebin2", "decodebin"),
          ("playbin2", "playbin"), ("gconfvideosink", "autovideosink"), ("gconfaudiosink", "autoaudiosink"), ("gconfaudiosrc", "autoaudiosrc"),
          ("gstrtpbin", "rtpbin"), ("gstrtpjitterbuffer", "rtpjitterbuffer"), ("xvidenc", "x264enc"), ("mad", "mpg123audiodec")]
FOREIGN = [("Windows", ("ks", "mfvideo", "mfh26", "mfaac", "mfvp", "dshow", "wasapi", "d3d", "directsound", "winks", "win", "gdiscreen", "dx9", "dxgi", "mediafoundation")),
           ("macOS or iOS", ("avf", "vtdec", "vtenc", "osx", "iosav", "qtkit", "atdec")), ("Android", ("amc", "ahc", "opensles", "ahs"))]
# Elements of others that are often written; a name that is nearly one of them is misspelt.
COMMON = ("videoconvert videotestsrc videoscale videorate videoflip audioconvert audioresample audiotestsrc autovideosink"
          " autoaudiosink fakesink filesink filesrc fdsink udpsink udpsrc decodebin uridecodebin capsfilter identity imagefreeze"
          " ximagesink ximagesrc xvimagesink v4l2src v4l2sink x264enc x265enc h264parse h265parse jpegenc jpegdec pngenc pngdec"
          " matroskamux matroskademux mp4mux qtmux qtdemux webmmux avimux avidemux flvmux flvdemux mpegtsmux tsdemux rtmpsink"
          " rtmp2sink rtmp2src rtspsrc rtspclientsink compositor textoverlay timeoverlay clockoverlay appsink appsrc opusenc opusdec"
          " vorbisenc vorbisdec pipewiresrc pipewiresink pulsesrc pulsesink alsasrc alsasink splitmuxsink multifilesink multifilesrc"
          " queue queue2 tee vp8enc vp8dec vp9enc vp9dec openh264enc openh264dec avdec_h264 avenc_aac theoraenc theoradec flacenc flacdec"
          " wavenc wavparse oggmux oggdemux rtph264pay rtph264depay rtpvp8pay rtpvp8depay rtpjitterbuffer rtpbin srtsink srtsrc"
          " srtclientsink srtserversink tcpserversink tcpclientsink tcpclientsrc tcpserversrc hlssink hlssink2 hlsdemux souphttpsrc"
          " webrtcbin multipartmux multipartdemux y4menc videobalance videocrop videobox videomixer audiomixer volume level"
          " glimagesink waylandsink kmssink rawvideoparse rawaudioparse vp8parse opusparse aacparse jpegparse pngparse input-selector"
          " output-selector valve fdsrc shmsink shmsrc intervideosink intervideosrc playbin playbin3 decodebin3 uridecodebin3 parsebin"
          " autoaudiosrc autovideosrc audiorate lamemp3enc mpg123audiodec speexenc speexdec gdkpixbufoverlay clocksync fpsdisplaysink").split()
# Texts of GStreamer, GLib, Python, the shell and decart-standin, as expressions.
UPSTREAM = [(cause, remedy, re.compile(text)) for cause, remedy, text in [
    ("no-udp", "open UDP, or set turn-servers", r"The server did not answer over UDP in time"),
    ("no-turn", "check turn-servers and the firewall", r"The server did not answer over T(?:CP|LS) in time"),
    ("property", "set a value in the range that gst-inspect-1.0 shows; the default is used",
     r"is invalid or out of range for property"),
    ("permission", "set --port to 1024 or more: lower ones are root's", r"cannot listen.*(?:[Pp]ermission denied|errno: 13)"),
    ("address", "set --host to an address of this machine", r"cannot listen.*(?:[Cc]annot assign|errno: 99|no address|not an address)"),
    ("port-in-use", "end the other program, or set --port", r"(?:cannot listen|port \d+: ).*(?:in use|errno: 98)"),
    ("address", "set --host to an address of this machine", r"cannot listen: .*--host|cannot listen: the host is unknown"),
    ("file", "check the file's name and permissions", r"--[\w-]+: the file .* cannot be (?:read|written)"),
    ("option", "correct the value", r"is invalid for '--"),
    ("properties", "write properties of elements without dashes: NAME=VALUE", r"Error initializing: Unknown option "),
    ("ffmpeg", "ffmpeg has none of that name: ffmpeg -encoders, -decoders, -formats list them", r"^(?:\[[^\]]*\] )?Unknown (?:encoder|decoder|input format|output format) '"),
    ("ffmpeg", "correct that option of ffmpeg", r"^(?:Unrecognized option '|Option \S+ not found|Error splitting the argument list)"),
    ("ffmpeg", "ffmpeg finds no stream that it knows there: the file is damaged, empty or of another format", r"Invalid data found when processing input|moov atom not found"),
    ("ffmpeg", "name the format with -f, or an output file with a known ending", r"Unable to (?:find|choose) (?:a suitable |an )?output format"),
    ("option", "do what the text says about that option", r"\.py: error: --[\w-]+(?:,? (?:or )?--[\w-]+)*: (?!.*(?:no element|no property|could not|Address already|No such|[Pp]ermission))"),
    ("option", "see the options: --help",
     r"[Uu]nexpected argument|[Uu]nknown option|error: unrecognized arguments|error: (?:argument|the following arguments)|Missing (?:value|argument) |Missing (?:expected argument|option)"),
    ("option", "correct the option as its text says; --help lists the values", r"^(?:Error: )?--[\w-]+(?: is |: )"),
    ("former-name", "such caps are of GStreamer 0.10: write video/x-raw or audio/x-raw with format=", r"handle caps .*(?:video/x-raw-(?:yuv|rgb|gray)|audio/x-raw-(?:int|float))"),
    ("memory-caps", "these caps name memory of a GPU: put the element that makes such memory (nvvidconv, glupload, vapostproc) before them, or leave the memory out",
     r"handle caps .*\(memory:"),
    ("fraction", "write the frame rate as a fraction, such as framerate=30/1 or 30000/1001", r"handle caps .*framerate=\((?:int|double|string)\)"),
    ("format", "write the name that GStreamer has for the format, such as I420, NV12, RGB, BGRx", r"can(?:'t)? handle caps .*format=\(string\)(?![A-Z])"),
    *[("format", f"GStreamer knows no format {written}: write {meant}", rf"handle caps .*format=\(string\){written}(?![\w-])") for written, meant in [
        ("YUV420P?", "I420"), ("YV21", "YV12 or NV21"), ("RGB24", "RGB"), ("BGR24", "BGR"), ("RGB32", "RGBx or BGRx"), ("YUYV(?:422)?", "YUY2"), ("YUV444P?", "Y444"),
        ("YUV422P?", "Y42B"), ("XRGB", "xRGB"), ("YUV", "I420, YUY2 or another"), ("RGBX8?", "RGBx"), ("BGRX", "BGRx"), ("GR[AE]Y", "GRAY8"), ("MJPE?G", "image/jpeg as the caps' name"),
        ("H264", "video/x-h264 as the caps' name"), ("S16|PCM16?|INT16", "S16LE"), ("F32|FLOAT(?:32)?", "F32LE")]],
    ("encoded-caps", "encoded caps need an encoder or a parser of that format in front of them",
     r"can't handle caps (?:video/(?:x-h26|x-vp|x-av1|mpeg)|image/|audio/(?:mpeg|x-opus))"),
    ("filter-caps", "one of the two does not take these caps: correct them, or put audioconvert and audioresample before them",
     r"can(?:'t)? handle caps audio/x-raw"),
    ("filter-caps", "one of the two does not take these caps, or not with its properties: correct them, or put videoconvert, videoscale or"
     " videorate before them", r"can(?:'t)? handle caps video/x-raw"),
    ("filter-caps", "one of the two does not take these caps: correct them, or put the element that makes them before them", r"can(?:'t)? handle caps "),
    ("decoder", "install the plugin that decodes what the text names: gstreamer1.0-libav, -plugins-good, -plugins-bad or -plugins-ugly",
     r"^Missing element: (?!application/|text/).*(?:decoder|demuxer)"),
    ("missing-plugin", "install the plugin that the text names", r"^Missing element: (?!application/|text/)"),
    ("demuxed", "no stream of the demuxer fits the next element, which is for another codec: put decodebin in their place, or the right decoder",
     r"failed delayed linking some pad of Gst\w*Demux "),
    ("rtp-caps", "set caps of the source in front, as caps='application/x-rtp,media=video,encoding-name=H264,clock-rate=90000'",
     r"No RTP format was negotiated|need to have RTP caps"),
    ("queue", "put a queue into each branch, in front of what takes long", r"add (?:enough )?queues|Not enough buffering available|[Ii]mpossible to configure latency"),
    ("caps", "write caps as video/x-raw,width=640,height=352 without blanks or in quotes, and ! between elements", r"could not parse caps"),
    ("syntax", "write the pipeline itself on the line; that of a file as $(cat FILE)", r"unexpected (?:reference|pad-reference)"),
    ("syntax", "write the pipeline behind the command", r"empty pipeline not allowed"),
    ("syntax", "correct the line: each element and link once, properties behind their element without !, values with blanks in quotes, but not the line as a whole",
     r"(?:erroneous pipeline|could not be constructed): (?:syntax error|empty pipeline|unexpected)|^syntax error$"),
    ("name", "write name=decart", r"named decart: write name=decart"),
    ("timeline", "write a time and a prompt in each line, as 0:12.5 Film noir", r"expected a time and a prompt"),
    ("certificate", "give a certificate in PEM with --tls-cert, and its key with --tls-key",
     r"cannot use the certificate of|--tls-cert and --tls-key belong together"),
    ("reference", "correct the name before the point: no element has it. A file is read with filesrc location=FILE",
     r"No (?:src-|sink-)?element named"),
    ("uri", "correct the address, or install an element for its scheme",
     r"[Nn]o (?:source|sink) element for URI|Invalid URI|No URI handler"),
    ("file-type", "that is no video or audio: name another file", r"Missing decoder: (?!video/|audio/|image/)|no suitable plugins found: Missing decoder: (?!video/|audio/|image/)"),
    ("decoder", "install the decoder that the text names: gstreamer1.0-libav, -plugins-good, -plugins-bad", r"Missing decoder: "),
    ("missing-plugin", "install the plugin that the text names, if it is one for video or audio", r"missing a plug-in|no suitable plugins found"),
    ("file-empty", "the file or stream is empty or cut off: check it", r"Stream contains no data|doesn't contain enough data"),
    ("file-type", "the file is damaged, of another type, or was not finished: record with gst-launch-1.0 -e, or let decodebin choose the demuxer",
     r"Could not determine type of stream|type of stream could not be determined|This file is invalid|no playable streams"),
    ("file-type", "the stream is of another type than that element takes: let decodebin choose it",
     r"of a different type than handled|stream is in the wrong format|no codec present that can handle"),
    ("file", "check the file's name: it does not exist", r'while reading from file "|Failed to open file .*No such file'),
    ("missing-page", "correct the address: its server has nothing there", r"\(404\)"),
    ("password", "the server of that address demands a user name and a password, or refuses them", r"\(40[13]\)|Unauthorized"),
    ("file", "check the file's name and permissions", r"""No such file "|^\S*bash: (?:line \d+: )?\S*[/.]\S*: No such file or directory|Could not open file "[^"]*" for reading|\[Errno 2\] No such file"""),
    ("location", "set the element's property location", r"No file name specified"),
    ("folder", "the name is that of a folder: name a file in it", r"[Ii]s a directory"),
    ("permission", "the file system there is read-only: write to another place", r"Read-only file system"),
    ("output-file", "shorten the name of the output file", r"File name too long"),
    ("output-file", "check name, folder and permissions of the output file", r'Could not open file "[^"]*" for writing|Error opening file'),
    ("disk-full", "make room on the disk", r"No space left"),
    ("camera", "check the device (v4l2-ctl --list-devices names them) and its permissions",
     r"It isn't a v4l2 driver|is not a capture device|is not a output device|Cannot identify device|Could not open device '/dev/video|Failed to open.*/dev/video|Cannot open device '/dev/video"),
    ("camera-busy", "another program has the camera: end it",
     r"/dev/video\d+.*(?:is busy|resource busy)"),
    ("sound", "another program has the sound device: end it, or use PulseAudio or PipeWire, which share it",
     r"audio device for \w+\. Device is being used|[Dd]evice '(?:default|hw:|plughw:|dsnoop|dmix)[^']*' is busy"),
    ("graphics", "there is no graphics device (/dev/dri), or a desktop has it: use another sink, or write to a file", r"Could not open DRM"),
    ("display", "there is no display: set DISPLAY, or write to a file or fakesink",
     r"Could not (?:initialise|open) .*(?:[Xx]v? output|display)|[Cc]an(?:not|'t) open display"
     r"|could not connect to display|Could not initialise X|Failed to initialize egl|Could not initialise (?:Wayland|GL)"
     r"|[Ff]ailed to (?:create|open) (?:GL|EGL|window)|no (?:usable )?display"),
    ("desktop", "there is no display: set DISPLAY or WAYLAND_DISPLAY, or write to a file or fakesink", r"XDG_RUNTIME_DIR is"),
    ("sound", "there is no sound device: correct device, or leave the sink out", r"Could not open audio device"),
    ("folder", "make the folder that the path names", r"(?:bind\(\)|open\(\)) failed.*No such file"),
    ("interface", "no network interface leads there: set the element's interface (multicast-iface), or bring one up",
     r"multicast group: No such device|[Nn]etwork is unreachable"),
    ("url", "write the whole address with its scheme, such as rtsp://host:8554/name", r"No valid RTSP URL|[Ii]nvalid (?:URL|uri)\b"),
    ("open-files", "raise the limit of open files: ulimit -n", r"Too many open files"),
    ("architecture", "install the plugin that was built for this machine's architecture",
     r"Failed to load plugin '[^']*decart.*(?:wrong ELF class|invalid ELF|machine type|Exec format)"),
    ("version", "the plugin was built for a later GStreamer or Debian than this one: install it on that, or build it here",
     r"Failed to load plugin '[^']*decart.*(?:undefined symbol|version `)"),
    ("truncated", "the plugin's file is cut off or damaged: copy it again", r"Failed to load plugin '[^']*decart.*(?:file too short|truncated|ELF header)"),
    ("library", "install the library that the text names", r"(?:Failed to load plugin '[^']*decart|error while loading).*cannot open shared object file"
     r"|LD_PRELOAD cannot be preloaded"),
    ("memory", "the process has too little memory: free some, raise the limit (ulimit -v, a container's limit), or use a smaller size",
     r"[Cc]annot allocate memory|[Oo]ut of memory|failed to (?:allocate|map segment)|malloc of size|std::bad_alloc|MemoryError"),
    ("threads", "raise the limit of processes and threads: ulimit -u, pids of the container",
     r"(?:[Tt]hread|fork|retry).*Resource temporarily unavailable|pthread_create|creating thread"),
    ("file-limit", "raise the limit of a file's size: ulimit -f", r"File size limit exceeded|File too large|SIGXFSZ"),
    ("killed", "it had more memory than it may have: raise MemoryMax or the limit of the container, or run fewer sessions",
     r"OOMKilled|oom-kill|OOM killer|Memory cgroup out of memory|[Oo]ut of memory: Killed"),
    ("killed", "the process was killed from outside, often for lack of memory: see dmesg, or the limits of the container",
     r"\bKilled\b|OOMKilled|oom-kill"),
    ("crash", "the process crashed: take a backtrace with gdb -p, and report it as SECURITY.md says",
     r"Caught SIG(?:SEGV|QUIT)|Segmentation fault|Illegal instruction|Aborted|Trace/breakpoint|Bus error"),
    ("gst-init", "call Gst.init(None) before anything else of GStreamer", r"NotInitialized|Please call Gst\.init|GStreamer has not been initiali[sz]ed"),
    ("null-element", "what should be an element, a pad or caps is None or NULL, because it was not made or found: check its name or text",
     r"'NoneType' object has no attribute|assertion 'GST_IS_(?:ELEMENT|BIN|PIPELINE) \((?:element|bin|pipeline|object|e)\)' failed"),
    ("property", "see names and values in gst-inspect-1.0",
     r"does not have property `|has no property named|could not convert .* when setting property|could not convert value for property"),
    ("signal", "give the arguments that gst-inspect-1.0 shows for that signal", r"parameters? needed for signal|could not convert .* for (?:signal|argument)"),
    ("property", "that property is read-only: gst-inspect-1.0 shows its flags", r"property '?[\w-]+'? (?:of .* )?is not writable"),
    ("property", "that property is write-only, because it is a secret: remember what was set", r"property '?[\w-]+'? (?:of .* )?is not readable"),
    ("parent", "an element belongs to one bin, and names in it are unique: add each element once, and give it a name of its own", r"\bAddError\b"),
    ("not-linked", "the two elements do not fit or are not in one bin: add both first, and put a converter between them", r"\bLinkError\b"),
    ("signal", "see the signals in gst-inspect-1.0: there is none of that name", r"unknown signal name|signal name '[^']*' is invalid"),
    ("attribute", "use set_property and get_property, or .props with _ for -", r"'(?:GstDecart\w+|__gi__\.\w+)' object has no attribute"),
    ("two-versions", "two plugins or programs define the same types: let GStreamer find one file of the plugin only",
     r"cannot register existing type"),
    ("still-playing", "set the element to NULL before it is released or leaves its bin", r"Trying to dispose element"),
    ("parent", "add both elements to the same bin before they are linked, and each one once", r"assertion 'GST_OBJECT_PARENT|already has parent"),
    ("headers", "install libgstreamer1.0-dev, and compile with $(pkg-config --cflags --libs gstreamer-1.0)",
     r"fatal error: (?:gst|glib)[\w/-]*\.h: No such file|Package (?:'?gst|'?glib)[\w.+-]*'?,? (?:was not found|required by)"),
    ("linker", "add $(pkg-config --libs gstreamer-1.0) behind the source file", r"undefined reference to `(?:gst|g)_"),
    ("typelib", "install the typelib of that namespace: gir1.2-gst-rtsp-server-1.0 and the like", r"cannot import name Gst\w+, introspection|Namespace Gst(?!Audio\b|App\b|Base\b|Video\b|Pbutils\b)\w+ not available"),
    ("history", "put the line in single quotes, or write \\!: the shell takes ! for a former command", r": event not found"),
    ("redirection", "put values with < and > in quotes: the shell takes them for files", r"^\S*bash: (?:line \d+: )?[^/.: ]+: No such file or directory"),
    ("shell-syntax", "put values with ( ) | ; & < > in quotes: the shell takes them", r"bash: .*syntax error near|ambiguous redirect|zsh: (?:no matches|parse error)"),
    ("executable", "make it executable (chmod +x), or start it with its interpreter", r"^\S*bash: \S+: Permission denied|/[\w.-]+: Permission denied$"),
    ("permission", "permit it to this user, or use another place", r"^\w*Error: \[Errno 13\]|^PermissionError"),
    ("architecture", "the program was built for another processor or system", r"Exec format error|cannot execute binary|does not match system|not a supported wheel"),
    ("root", "type sudo before it: only root may do this", r"are you root|must be root|requires superuser|Could not get lock|[Ii]nteractive authentication required"),
    ("dependencies", "install with sudo apt install ./FILE.deb, which brings what the package needs; it needs Debian 12 or later",
     r"dependency problems|[Uu]nmet dependencies|but it is not (?:installable|going to be installed)"),
    ("pip", "use a virtual environment: python3 -m venv --system-site-packages venv", r"externally-managed-environment"),
    ("file", "check the file's name: there is none, or it is not the name of a wheel", r"looks like a filename, but the file does not exist|is not a valid wheel filename|Invalid wheel filename"),
    ("pip", "pip has no index for it: install the .whl file of a release", r"No matching distribution found|Could not find a version that satisfies"),
    ("syntax", "start it with python3, or correct the program at the line that the text names", r"^SyntaxError"),
    ("syntax", "correct the program at the line that the text names", r"^\S+\.c:\d+:\d+: error: "),
    ("rust", "install libgstreamer1.0-dev, and build with cargo and the crate gstreamer", r"can't find crate for `|required by crate `(?:gst|gl)|unresolved import `gst"),
    ("swift", "install libgstreamer1.0-dev and the other -dev packages, and a Swift that is new enough",
     r"'gst/[\w/.-]+' file not found|no such module '|is using Swift tools version|install \S*gstreamer\S* using your system"),
    ("refused", "nothing listens at that port: start decart-standin with --control, or correct the port", r"^curl: \(7\)"),
    ("dns", "the host is unknown: check its spelling and the name server", r"^curl: \(6\)"),
    ("url", "write the whole address, as http://127.0.0.1:9002/health", r"^curl: \([13]\)"),
    ("not-the-service", "what listens at that port speaks no HTTP: check the port", r"^curl: \((?:1|52|56)\)|Received HTTP/0\.9"),
    ("no-tls", "check scheme and port: that port does not speak TLS as the address says, or its certificate is not trusted", r"^curl: \((?:35|60)\)"),
    ("pytest", "install the wheel of a release in this environment: its package decart_standin has the fixture", r"fixture '?standin'? not found"),
    ("docker", "this user may not use it: type sudo, or add the user to the group docker", r"permission denied while trying to connect to the [Dd]ocker"),
    ("docker", "start its service, and add this user to its group", r"(?:connect to|Cannot connect to) the [Dd]ocker"),
    ("container-file", "put the release's .deb file beside the Containerfile", r"COPY failed|no source files were specified|no items matching glob|failed to solve: .*\.deb"),
    ("container-file", "check the path: the build finds files below its folder only", r"failed to solve: .*(?:not found|no such file)|unable to prepare context|failed to read dockerfile"),
    ("port-in-use", "another program or container has that port: end it, or publish another one", r"port is already allocated|[Bb]ind for \S+:\d+ failed|ports are not available|address already in use"),
    ("container-name", "remove the former container (docker rm -f), or choose another name", r"container name \"[^\"]+\" is already in use"),
    ("image-name", "build that image first, or correct its name: no registry gives it", r"pull access denied|manifest unknown|manifest for \S+ not found|ErrImagePull|ImagePullBackOff|ErrImageNeverPull|repository does not exist"),
    ("container-device", "the host has no such device: plug it in, or correct --device", r"error gathering device information"),
    ("container-program", "the image has no such program: correct the command, or install its package in the image",
     r"executable file not found in \$PATH|unable to start container process: exec: "),
    ("secret", "make the secret that the text names, in the namespace of the pod", r"secrets? \"[^\"]+\" not found|CreateContainerConfigError"),
    ("resources", "no node has what the pod requests: lower its requests, or add a node", r"Insufficient (?:cpu|memory)|FailedScheduling"),
    ("health", "a session has ended with an error or delivers no frames: /health and the log of the exporter name it", r"(?:Liveness|Readiness|Startup) probe failed: HTTP probe failed with statuscode: 503"),
    ("health", "nothing answers at the port of the probe: compare it with --port and --listen of the exporter", r"(?:Liveness|Readiness|Startup) probe failed: .*(?:refused|timeout|deadline)"),
    ("restarts", "it failed several times, and systemd gives up: the first failure is before this line, in journalctl -u", r"Start request repeated too quickly"),
    ("watchdog", "the program no longer reports that frames flow: see its messages before this line", r"Watchdog timeout"),
    ("unit-syntax", "correct the unit at the line that the text names: systemd-analyze verify checks it",
     r"(?:Unknown (?:key|section|lvalue)|Assignment outside of section|Invalid section header|not an absolute path|bad unit file setting|Failed to parse ).*"),
    ("unit-program", "ExecStart names a file that does not exist or is not executable", r"status=203/EXEC|Failed at step EXEC"),
    ("unit-credential", "LoadCredential names a file that does not exist: install the key there", r"status=243/CREDENTIALS|Failed to set up credentials|Failed at step CREDENTIALS"),
    ("unit-environment", "EnvironmentFile names a file that does not exist: make it, or put - before its path", r"Failed to load environment files"),
    ("unit-user", "make the user of the unit, or correct User=", r"status=217/USER|Failed at step USER"),
    ("unit-folder", "WorkingDirectory names a folder that does not exist", r"status=200/CHDIR|Failed at step CHDIR"),
    ("unit-name", "no such unit: copy its file to /etc/systemd/system, and type systemctl daemon-reload", r"Unit \S+ (?:could not be|not) found"),
    ("unit", "see the program, its user and its credentials in the unit: journalctl -u names them",
     r"status=2\d\d/|Failed (?:to load environment|at step)|Failed to set up credentials|Unit \S+ (?:could not be|not) found"),
    ("interpreter", "its first line names an interpreter that is not there; line ends of Windows do that too: sed -i 's/\\r$//' FILE",
     r"bad interpreter|cannot execute: required file not found|env: .*\\r"),
    ("no-systemd", "systemd does not run here, as in most containers: start the program itself", r"not been booted with systemd|Failed to connect to bus"),
    ("cluster", "kubectl reaches no cluster: check its context and KUBECONFIG", r"The connection to the server \S+ was refused|couldn't get current server API group list"),
    ("quote", "close the quotes: one of them has no partner", r"unexpected EOF while looking for matching|unmatched [\"']"),
    ("assignment", "write NAME=VALUE without blanks around =", r"export: `[^']*': not a valid identifier"),
    ("package-folder", "go to the folder of the package first", r"Could not find Package\.swift"),
    ("write", "check folder and permissions of that file", r"^Error: cannot write "),
    ("file", "check the file's name and the folder in which you are", r"^dpkg: error: cannot access archive|can't open file '|: Is a directory$"),
    ("package-path", "correct path: in .package(…): no package is there", r"the package at '[^']*' cannot be accessed|doesn't exist in file system"),
    ("python-gi", "use /usr/bin/python3 with the package python3-gi, or python3 -m venv --system-site-packages",
     r"No module named '?gi\b"),
    ("program", "do what the text says", r"^(?:\w+\.)*(?:FileNotFoundError|ValueError|RuntimeError|KeyError|StandInError): (?!\[Errno).*decart"),
    ("python", "install the module that the text names", r"No module named"),
    ("python-gst", "require a version that is installed: gi.require_version('Gst', '1.0')", r"not available for version"),
    ("python-gst", "install gir1.2-gstreamer-1.0 and gir1.2-gst-plugins-base-1.0", r"Namespace Gst\w* not available"),
    ("package", "a release has the packages as files: sudo apt install ./gstreamer1.0-decart_*.deb",
     r"Unable to locate package \S*decart"),
    ("package", "correct the name, or type sudo apt update first", r"Unable to locate package|has no installation candidate"),
    ("dns", "the host is unknown: check its spelling and the name server", r"Could not resolve host|Temporary failure resolving"),
    ("yaml", "correct the file at the line that the text names", r"(?:^|: )yaml: (?:line \d+|unmarshal)|error (?:parsing|validating) \S+"),
    ("restarts", "the container ends again and again: kubectl logs --previous shows why", r"Back-off restarting failed container|CrashLoopBackOff"),
    ("port-in-use", "another program has that port: end it, or choose another port", r"cannot listen on port \d+$"),
    ("package", "type it in the folder of the release's .deb files", r"Unsupported file \S*decart|\S*decart\S*\.deb: No such file"),
    ("shell", "the shell ended the line at a ; & or |: put the value with it in quotes", r"(?:bash|sh|zsh|line \d+|\d+): !: (?:command )?not found|zsh: command not found: !$"),
    ("shell", "the shell takes an element for a program: link elements with !, end each line but the last with a backslash and nothing behind it, and put values with | ; &"
     " < > in quotes",
     r"\b(?:decart(?:transform|src|mirror)|fakesink|videoconvert|autovideosink|filesink|queue|\w+(?:enc|dec|mux|sink)): (?:command )?not found"),
    ("command", "install gstreamer1.0-tools", r"gst-(?:launch|inspect)-1\.0: (?:command )?not found"),
    ("command", "install the package decart-check", r"decart-check: (?:command )?not found"),
    ("command", "install the package decart-standin", r"decart-standin: (?:command )?not found"),
    ("command", "write the name with the version, as gst-launch-1.0", r"gst-(?:launch|inspect)(?:-0\.10)?: (?:command )?not found"),
    ("command", "no such program: correct its name, or install its package; if it is a part of a value, put the value in quotes", r"\w: (?:command )?not found$"),
    ("line", "correct the line as the text says", r"^WARNING: erroneous pipeline: (?!could not link)|^ERROR: pipeline could not be constructed: |gst_parse_error: (?!could not link|.*handle caps)"),
    ("arguments", "do what the text says; --help explains the options", r"^Error: |^unknown argument: "),
    # The last line of decart-check.
    *[(f"failed-{cause}", remedy, rf"^The first failing cause is {cause} ") for cause, remedy in [
        ("dns", "correct --base-url; check the name server"), ("tcp", "check --base-url, and that outgoing TCP passes"),
        ("tls", "check scheme and port of --base-url, and the certificate"), ("key", "check the key"),
        ("service", "check --base-url, and that the service runs there"), ("limit", "end other sessions, or try again later"),
        ("udp", "open UDP, or set turn-servers"), ("turn", "check turn-servers and the firewall"),
        ("session", "see the warnings of the session above")]],
    ("slow", "the computer is too slow or the sink comes late: put a queue before the sink, or a smaller size",
     r"A lot of buffers are being dropped|computer is too slow"),
]]

# What journalctl, docker compose, kubectl and others put in front of a line.
PREFIX = re.compile(r"^(?:(?:\w{3} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?) (?:\S+ \S+?(?:\[\d+\])?: |std(?:out|err) F )?"
                    r"|[\w.-]+ +\| )")
WHOLE = re.compile(r"^\S+\(\d+\): .*?\(\): (?P<path>/\S+?):(?: |\\n)(?P<details>.+)$")
LOG = re.compile(r"^\S+\s+\d+\s+0x\S+\s+[A-Z]+\s+(?P<category>\S+)\s+\S+?:\d+:\S*?(?:<(?P<object>[^>\s]*)>)?\s+(?P<text>.*)$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# As gst-launch-1.0 prints a message, programs after GStreamer's tutorials in C and Rust, OpenCV, and Python and GLib an error.
MESSAGE = re.compile(r"^(?:ERROR|WARNING): from element (?P<path>\S+): (?P<text>.*)$"
                     r"|^\W*(?:[Ee]rror|ERROR|[Ww]arning|WARNING)(?: received)? from (?:element )?(?:Some\(\")?(?P<path2>[^\s\"]+?)(?:\"\)|:) (?P<text2>.*)$"
                     r"|GStreamer warning: .*[Mm]odule (?P<path4>\S+) reported: (?P<text4>.*)$"
                     r"|gst-(?:core|library|resource|stream)-error-quark: (?P<text3>.*?) \(\d+\)(?P<rest>.*)$")
DEBUG = re.compile(r"^(?:Debugging info(?:rmation)?|[Dd]ebug(?: info)?)[:=] ?(?:Some\(\")?(?P<text>.*?)(?:\"\))?$")
# The place of a message in the sources, and its element; details follow behind a colon.
PLACE = re.compile(r"\S+\(\d+\): \S+ \(\):? ?(?P<path>/\S+?)?(?P<more>:?)$")
CODE = re.compile(r"(?P<code>[A-Z]+(?:_[A-Z]+)+) in stage (?P<stage>\w+)$|\((?P<code2>[A-Z]+(?:_[A-Z]+)+), (?P<stage2>\w+)\)$")
DELAYED_PAD = re.compile(r"linking (?:pad +)?(?P<pad>\w+) .*?of GstDecart")
DEMUX_PAD = re.compile(r"linking pad +(?P<pad>\w+) of Gst(?P<demux>\w*Demux) ")
PROPERTY = re.compile(r'(?:could not set|(?P<lacks>no)) property "(?P<name>[^"]+)" in element "(?P<element>[^"]+)"')
NO_ELEMENT = re.compile(r"no element \"(?P<name>[^\"]*)\"|No such element or plugin '(?P<name2>[^']*)'")
PATTERNS = [(cause, remedy, re.compile("|".join(".*".join(map(re.escape, text.split("…"))) for text in texts)))
            for cause, remedy, texts in CAUSES]
# Reasons of the system and general texts of GStreamer, in messages of elements that are not ours; the first one counts.
SYSTEM = [(cause, remedy, re.compile(text)) for cause, remedy, text in [
    ("sound", "no sound server or device answers {}: start PulseAudio or PipeWire for this user, choose another device, or leave the branch out",
     r"^\S*(?:[Pp]ulse|[Jj]ack|[Aa]lsa|autoaudio|openal|oss)\S* .*(?:[Cc]onnect|refused|[Nn]o such|[Cc]ould not open)"),
    ("pipewire", "the PipeWire daemon does not answer {}: start it for this user, and check XDG_RUNTIME_DIR", r"^\S*[Pp]ipe[Ww]ire\S* .*(?:[Cc]onnect|refused)"),
    ("busy-port", "another program has that port: end it, or set another one", r"Address already in use"),
    ("permission", "{} may not use that port: ports below 1024 are root's", r"(?:[Bb]ind|[Ll]isten)\w*.*Permission denied"),
    ("interface", "{} cannot listen at that address: it must be one of this machine, with a free port", r"[Cc]annot bind|Error binding"),
    ("interface", "no network leads there: check address and interface of {}", r"No route to host|[Nn]etwork is unreachable|[Cc]annot assign requested"),
    ("neighbour-name", "the name of a server in {} is unknown: check its spelling and the name server",
     r"Name or service not known|name resolution|[Cc]ould not resolve|Error resolving"),
    ("neighbour", "{} does not reach its server: check its address, and that it runs",
     r"[Cc]onnection (?:refused|timed out|reset|closed|does not exist|was broken)|Broken pipe|(?:[Ff]ailed to|[Cc]ould not|[Uu]nable to|[Cc]an(?:not|'t)) connect"
     r"|SRT socket|(?:open|write to|read from) SRT"),
    ("protocol", "the server of {} speaks another protocol: check scheme and port of its address", r"Parse error|[Pp]rotocol error|[Bb]ad (?:response|handshake)"),
    ("password", "the server of {} demands a user name and a password, or refuses them", r"[Uu]nauthori[sz]ed|missing authori[sz]ation|[Ff]orbidden"),
    ("device-busy", "another program has the device of {}: end it", r"[Rr]esource busy|is busy|busy or not available|EBUSY"),
    ("permission", "permit it to this user, or use another place", r"Permission denied|Operation not permitted|Read-only file system|Access denied"),
    ("device", "{} finds no such device: check its property device", r"No such device|Inappropriate ioctl|not a (?:capture|output|tty) device"),
    ("folder", "{} has the name of a folder: name a file in it", r"[Ii]s a directory"),
    ("path", "check the path in {}: a file or folder does not exist", r"No such file or directory|Not a directory|Is a directory|Resource not found"),
    ("disk-full", "make room on the disk", r"No space left|Disk quota exceeded"),
    ("file-type", "the stream is damaged or of another type than {} takes: let decodebin choose it",
     r"wrong format|different type|[Cc]ould not demultiplex|[Nn]o valid frames|not a valid|[Cc]orrupt"),
    ("undecodable", "{} cannot decode the stream: it is damaged, or a parser or another decoder is needed", r"[Cc]ould not decode|[Dd]ecode error|Failed to decode"),
    ("encoding", "{} does not take these frames or settings: put videoconvert before it, and check its properties", r"[Cc]ould not encode|[Ff]ailed to encode|Can not initialize .*encoder"),
    ("muxing", "{} does not take a stream so: put a parser before it, and give each stream caps and timestamps",
     r"[Cc]ould not multiplex|no timestamps|without timestamps|timestamps? (?:is|are) (?:not|in)valid"),
    ("encrypted", "the stream is encrypted", r"encrypted"),
    ("driver", "{} needs a driver or library that does not start here: use an element that works on the CPU", r"[Cc]ould not initiali[sz]e supporting library|[Ff]ailed to (?:initiali[sz]e|load) (?:CUDA|VA|encoder|decoder)"),
]]
# The texts that GStreamer has for its codes, if the element gives none of its own and the system's reason is not known.
DEFAULTS = [(cause, remedy, re.compile(text)) for cause, remedy, text in [
    ("open", "{} cannot open what it reads or writes: check its file, device or address", r"Could not open resource"),
    ("settings", "the device or address of {} does not take its settings: check its properties, and the caps behind it", r"Could not get/set settings"),
    ("read", "{} cannot read on: what it reads has ended or failed", r"Could not read from resource"),
    ("write", "{} cannot write on: what it writes to has ended or failed", r"Could not write to resource"),
    ("seek", "{} needs a file, not a pipe or stream", r"Could not perform seek"),
]]
# What a program says of the system's reason at the end of a line; counts if nothing else is known.
STRERROR = re.compile(r"^(?!ALSA lib|lib|MESA|dconf|error: XDG|\(.*(?:WARNING|CRITICAL)|pw\.|.*pipewire).*(?:: |\] |\()(?P<reason>No such file or directory|Permission denied"
                      r"|[Cc]onnection refused|Address already in use|No space left on device|Is a directory|Not a directory|Cannot assign requested address"
                      r"|Network is unreachable|No route to host|[Cc]onnection timed out|Device or resource busy|Read-only file system|No such device"
                      r"|Operation not permitted|Name or service not known|Temporary failure in name resolution)[\]).]*(?:: '.*')?$")
# In the place of the path of a message: a line of our log.
LOGGED = "log"
# Failures of a neighbour that follow from another cause, which counts if there is one.
CONSEQUENCES = {"negotiation", "not-linked", "element", "network", "connection-lost", "media", "media-timeout", "no-answer",
                "service", "unlinked", "link", "room-token", "downstream", "no-prompt", "two-sessions", "desktop", "stream", "undecoded", "demuxed", "crash",
                "still-playing", "short-input", "missing-plugin", "open", "settings", "read", "write", "unit", "health", "watchdog"}


def own_remedy(text):
    """The parts of a message that say what to do, without what a server wrote."""
    parts = re.split(r"(?<=[.;:])\s+", re.sub(r"\(HTTP \d+: .*?\)(?=[.,;]?(?:\s|$))", "", text))
    # A condition may stand in front.
    return " ".join(part for part in parts if re.sub(r"^(?:[Ii]f|[Ff]or) [^,]*, |^else ", "", part).split(" ")[0].strip(
        ",.;:").capitalize() in IMPERATIVES).rstrip(".;")


def of_code(text, code, stage):
    """(cause, remedy) of a message with a code."""
    for known, part, cause, remedy in CODES:
        if code == known and part in ("", stage):
            return cause, own_remedy(text) or remedy or remedy_of_property(text, stage)
    return None


def remedy_of_property(text, stage):
    """A message of the settings begins with the property."""
    name = re.match(r"[a-z][a-z-]+(?= )", text) if stage == "configuration" else None
    return f"correct {name[0]}" if name else f"no remedy is known; the stage is {stage}"


def misspelt(name):
    """The common element whose name is meant. Elements whose names differ in a digit are others."""
    if name in COMMON or len(name) < 4:
        return None
    # The name of one in a pipeline.
    if (plain_name := name.rstrip("0123456789")) in COMMON:
        return plain_name
    same = [each for each in COMMON if sorted(each) == sorted(name)]
    digits = re.sub(r"\D", "", name)
    near = difflib.get_close_matches(name, [each for each in COMMON if re.sub(r"\D", "", each) == digits], 1, 0.86)
    return (same or near or [None])[0]


def of_missing_element(name):
    if name == "decart":
        return "plugin", ("write decarttransform, decartsrc or decartmirror; if they are not found either, install gstreamer1.0-decart, or put"
                          " the built plugin's folder in GST_PLUGIN_PATH")
    if name in OURS:
        return "plugin", ("install gstreamer1.0-decart, or put the built plugin's folder in GST_PLUGIN_PATH; gst-inspect-1.0 -b lists a file that does"
                          " not load")
    if near := difflib.get_close_matches(name, OURS, 1, 0.8):
        return "misspelt", f"write {near[0]}"
    if near := misspelt(name):
        return "misspelt", f"write {near}"
    if today := next((f"{now}{name[len(old):] if old.endswith('_') else ''}" for old, now in FORMER if name.startswith(old)), None):
        return "former-name", f"{name} is a name of GStreamer 0.10: write {today}"
    for system, starts in FOREIGN:
        if name.startswith(starts):
            return "foreign", (f"{name} is for {system}: on Linux v4l2src, pulsesrc, pulsesink, autovideosink or an encoder of this machine stands in"
                               " its place")
    if name in ("video", "audio", "image", "application", "text"):
        return "caps", ("caps stand between two elements, one before and one behind them, without blanks: two caps in a row need a converter such as"
                        " videoscale or videorate between them")
    if len(name) > 4 and name not in COMMON and (longer := [each for each in COMMON if each.startswith(name)]):
        return "misspelt", f"write {' or '.join(longer[:3])}"
    if name.startswith(tuple(RUST)):
        return "missing-element", f"{name} is of gst-plugins-rs: build that, or use another element"
    if ":" in name:
        return "word", "write properties as NAME=VALUE"
    if re.match(r"nv(?:v4l2|vid|arg|compositor|streammux)", name):
        return "missing-element", f"{name} is of NVIDIA's Jetson Linux or DeepStream"
    if re.match(r"(?:nv|va|vaapi|msdk|qsv|amf|d3d11|v4l2)[a-z]*\w*(?:enc|dec|postproc)$", name):
        driver = "NVIDIA's driver" if name.startswith("nv") else "the driver of that hardware"
        package = "vaapi" if name.startswith("vaapi") else "plugins-good" if name.startswith("v4l2") else "plugins-bad"
        return "missing-element", f"{name} needs {driver} and gstreamer1.0-{package}; others work on the CPU"
    fitting = [(len(start), package) for package, starts in PACKAGES.items() for start in starts.split() if name.startswith(start)]
    if fitting:
        return "missing-element", f"install gstreamer1.0-{max(fitting)[1]}, if {name} is spelt so"
    if re.fullmatch(r"(?:[a-z0-9_]{2,}(?:enc|dec|mux|demux|parse|pay|depay|sink|src|convert|scale|filter|overlay|mixer))", name):
        return "missing-element", f"no plugin has {name}: correct the name, or install its plugin; gst-inspect-1.0 lists those that are there"
    return "word", f"{name} is no known element: correct it; if it belongs to a property's value, put the value in quotes"


# Properties whose values are often written otherwise.
FORMS = {"turn-servers": """'<"turn://user:password@host:3478">'""", "api-key-headers": "'headers,NAME=\"VALUE\"'",
         "device-positions": "'<\"camera=front\">'"}


def of_property(name, element, is_known):
    """A name that the element does not have, or a value that it does not take."""
    if not is_known and "::" in name:
        pad, _, rest = name.partition("::")
        return "property", f"the pad {pad} of {element} has no property {rest}: gst-inspect-1.0 shows those of pads too"
    if not is_known:
        return "property", f"{element} has no property {name}: gst-inspect-1.0 {element} shows its properties"
    form = f", as {FORMS[name]}" if name in FORMS else ""
    return "property", f"set {name} to a value that gst-inspect-1.0 {element} shows, without a unit{form}"


LINK = re.compile(r"could not link (?P<source>[\w-]+?)\d* to (?P<sink>[\w-]+?)\d*(?:,| with caps| \(|$)"
                  r"|delayed linking .*? of Gst(?P<source2>\w+) named .* to .* of Gst(?P<sink2>\w+) named")
AUDIO = re.compile(r"audio|alsa|pulse|opus|vorbis|lame|aac|^wav|flac|mp3|mpg123|speex|volume|level|[ua]law|scaletempo|jack|mpa")
VIDEO = re.compile(r"video|x26|vp[89]|h26|jpeg|png|theora|av1|ximage|^xv|^gl|kms|wayland|imagefreeze|decart|rsvg|gdkpixbuf")


def medium(name):
    """What the element takes and gives, by its name; empty: both, or it is not known."""
    name = name.lower()
    return "video" if VIDEO.search(name) else "audio" if AUDIO.search(name) else ""


# What the next element of a chain must be, by the end of a name; the first that fits counts.
ROLES = [(role, re.compile(text)) for role, text in [
    ("depay", r"depay$"), ("pay", r"pay$"), ("demux", r"demux$|^(?:ps|ts)demux$"), ("mux", r"mux(?:er)?$|^(?:splitmuxsink|hlssink\d?)$"), ("parse", r"parse$"),
    ("dec", r"dec$|^avdec_|decoder$"), ("enc", r"enc$|^avenc_|encoder$"),
    ("raw", r"convert$|scale$|rate$|resample$|crop$|flip$|box$|balance$|overlay$|testsrc$|mixer$|compositor$|imagefreeze$|^decart|^volume$|^deinterlace$"
            r"|^(?:ximage|xvimage|autovideo|glimage|wayland|kms|gtk|autoaudio|alsa|pulse|v4l2)sink$")]]


def role(name):
    return next((role for role, pattern in ROLES if pattern.search(name)), "")


def of_roles(source, sink):
    """What is wrong between two elements, by what they are; None: it is not known."""
    behind, before = role(sink), role(source)
    if behind in ("mux", "pay"):
        partner = "payloader" if behind == "pay" else "container"
        if before == "raw":
            return "encoder-behind", f"{sink} takes an encoded stream: put an encoder for that {partner} in front of it"
        if before in ("enc", "parse"):
            return "codec", f"{sink} does not take the stream of {source}: take an encoder and a {partner} that belong together"
        if before in ("mux", "pay"):
            return "codec", f"{sink} does not take what {source} gives: leave one of the two out"
    if behind in ("raw", "enc") and before in ("enc", "parse", "demux", "depay", "pay"):
        if sink.startswith("decarttransform"):
            return "format", f"decarttransform takes raw video, H.264 or VP8: put a decoder, such as decodebin, in front of it, or leave {source} out"
        return "decoder-behind", f"{sink} takes raw frames or samples, and {source} gives an encoded stream: exchange the two, or put a decoder between them"
    if before == "mux" and behind in ("raw", "enc", "dec", "parse", "pay"):
        return "order", f"{source} gives a container, which {sink} does not take: a muxer stands behind the encoders, in front of the sink; or leave it out"
    if behind in ("dec", "parse", "depay", "demux") and before == "raw":
        return "raw", f"{source} gives raw frames or samples, and {sink} takes an encoded stream: leave {sink} out, or put the encoder in front of it"
    return None


def of_link(text, debug):
    """(cause, remedy) of two elements that do not fit."""
    if not (text.startswith("Delayed linking failed") or "could not link " in text):
        return None
    general = "link", ("the two do not fit, or one has no such pad, or only one that is linked: put a converter, encoder, decoder or parser between"
                       " them, or a tee behind an output that is used twice; gst-inspect-1.0 shows pads and caps")
    if not (found := LINK.search(debug) or LINK.search(text)):
        return general
    source, sink = [(found[each] or found[f"{each}2"].lower()).rstrip("-") for each in ("source", "sink")]
    gives, takes = medium(source), medium(sink)
    if sink.endswith("src") or source.endswith("sink"):
        return "order", f"{sink if sink.endswith('src') else source} stands in a wrong place: a source is the first element of its branch, and a sink the last"
    if source.startswith("decart") and sink in ("fakesink", "filesink", "queue", "identity", "tee", "appsink", "fdsink"):
        return "linked", f"the output of {source} is linked already: put a tee behind it, and a queue into each branch"
    if "decodebin" in source or source.startswith("parsebin"):
        converter = "" if sink.startswith("decart") or "convert" in sink else ", or a converter is missing in front of it"
        wanted = takes or "such stream"
        return "stream", f"{source} has no stream that {sink} takes: the input has no {wanted}, or the decoder of it is not installed{converter}"
    if gives and takes and gives != takes:
        return "medium", (f"{source} gives {gives}, and {sink} takes {takes}: put elements for {gives} behind {source}"
                          + ("; audio comes from the pad audio_src" if source.startswith("decart") else "")
                          + ("; audio goes to the pad audio_sink" if sink.startswith("decart") else ""))
    return of_roles(source, sink) or (None if "handle caps" in text else general)


def of_system(name, reason):
    """(cause, remedy) of a reason of the system."""
    return next(((cause, remedy.format(name)) for cause, remedy, pattern in SYSTEM if pattern.search(reason)), None)


def of_neighbour(path, text, debug):
    """(cause, remedy) of an error of an element that is not ours."""
    kind, name = path.rpartition("/")[2].split(":") if ":" in path else ("", path)
    if "not-negotiated" in debug:
        if re.search(r"FileSrc|HTTPSrc|HttpSrc|MultiFileSrc|UDPSrc|TCPClientSrc", kind):
            return "undecoded", f"put a decoder, such as decodebin, behind {name}: it gives bytes, not video"
        if re.search(r"V4l2|LibCamera|PipeWire|KsVideo|Uvc", kind):
            return "negotiation", (f"{name} does not give what is behind it: correct the caps (v4l2-ctl --list-formats-ext names the camera's), or put"
                                   " jpegdec or videoconvert behind them")
        converter = "audioconvert" if medium(name) == "audio" else "videoconvert"
        return "negotiation", f"{name} and the element behind it do not fit: put {converter}, an encoder or a parser between them"
    if re.search(r"No program activated|no valid|not a valid", debug):
        return "file-type", f"the stream is damaged or of another type than {name} takes: let decodebin choose the elements"
    if "reason error (-5)" in debug and kind == "GstFileSrc":
        return "file-type", f"what stands behind {name} does not take this file: let decodebin choose the elements"
    if "not-linked" in debug:
        return "not-linked", f"link the pads of {name}"
    if "reason error (-5)" in debug and re.search(r"HTTPSrc|HttpSrc|CurlHttp", kind):
        return "neighbour", f"{name} does not get its stream: check its address, and that the server runs"
    for cause, remedy, pattern in SYSTEM:
        if pattern.search(f"{name} {text} {debug}"):
            return cause, remedy.format(name)
    for cause, remedy, pattern in DEFAULTS:
        if pattern.match(text):
            return cause, remedy.format(name)
    return "element", f"{name} failed, not the session: see its documentation" if text else None


def of_text(text, path="", debug=""):
    """(cause, remedy) of a line or of a message with its debug text; None: nothing is known."""
    # Not what is inside of our elements. A text that says what to do is ours too: those of GStreamer do not.
    is_ours = path == LOGGED or text.startswith(("FAILED ", "Error: ")) or "Decart" in (last := path.rpartition("/")[2]) or last.startswith(tuple(OURS)) or path == ":" and bool(own_remedy(text))
    if (pad := DELAYED_PAD.search(debug)) and text.startswith("Delayed linking"):
        if pad["pad"] == "audio_src":
            return "no-audio", "audio_src comes only with audio on audio_sink: link audio to it, or leave the branch out"
        if pad["pad"] not in ("src", "some", "preview" if "of GstDecartSrc" in debug.partition(" to ")[0] else ""):
            return "no-pad", f"the element has no pad {pad['pad']}: its outputs are src, audio_src and, of decartsrc, preview"
    if text.startswith("Delayed linking failed") and (pad := DEMUX_PAD.search(debug)):
        return "no-stream", f"{pad['demux'].lower()} has no pad {pad['pad']}: the input has no such stream; leave the branch out, or let decodebin find the streams"
    for cause, remedy, pattern in REASONS:
        if pattern.search(text):
            return cause, is_ours and own_remedy(text) or remedy
    for cause, remedy, pattern in PATTERNS:
        if pattern.search(text):
            # The element knows more of the case than the row does.
            return cause, own_remedy(text) if is_ours and own_remedy(text) else remedy
    if missing := NO_ELEMENT.search(text):
        return of_missing_element(missing["name"] or missing["name2"] or "")
    if wrong := PROPERTY.search(text):
        return of_property(wrong["name"], wrong["element"], not wrong["lacks"])
    if program := re.search(r"No such file or directory: '(decart-\w+)'", text):
        return "command", f"install the package {program[1]}, or put the folder of the program on PATH"
    if not is_ours and (reason := re.match(r"(?:\w+\.)*\w*Error: \[Errno \d+\] (?P<text>.*)|E.*?(?:\w+\.)*\w*Error: \[Errno \d+\] (?P<text2>.*)", text)):
        return of_system("the program", reason["text"] or reason["text2"])
    code = CODE.search(debug) or CODE.search(text)
    if code and (found := of_code(text, code["code"] or code["code2"], code["stage"] or code["stage2"])):
        return found
    if (source := LINK.search(text)) and (caps := re.search(r"can't handle caps (video|audio|image)/", text)):
        gives = medium(source["source"] or "")
        if gives and caps[1] != "image" and gives != caps[1] and source["source"] in text.partition("can't handle")[0]:
            return "medium", f"{source['source']} gives {gives}, and the caps behind it are of {caps[1]}: write caps of {gives}"
    if "can't handle caps" in text and (linked := of_link(text, debug)) and linked[0] in ("encoder-behind", "codec", "decoder-behind", "raw", "medium", "order"):
        return linked
    for cause, remedy, pattern in UPSTREAM:
        if pattern.search(text) or debug and pattern.search(debug):
            # Our programs say more of the case.
            return cause, text.startswith("Error: ") and own_remedy(text) or remedy
    if linked := of_link(text, debug):
        return linked
    if text.startswith("FAILED ") and own_remedy(text):
        return re.sub(r"\W+", "-", text.split()[1].lower()), own_remedy(text)
    if path and path != LOGGED:
        if is_ours:
            if own_remedy(text):
                return "input", own_remedy(text)
            name = re.match(r"([a-z][a-z-]+) must be ", text)
            return ("property", f"correct {name[1]} as the text says") if name else None
        return of_neighbour(path, text, debug)
    return None


def plain(line):
    """The line as the program wrote it: without colours, and without what a journal or a container puts around it."""
    text = PREFIX.sub("", COLOUR.sub("", line.rstrip("\n")))
    if text.startswith("{"):
        try:
            fields = {name.lower(): value for name, value in json.loads(text).items() if isinstance(value, str)}
        except (ValueError, AttributeError):
            return text
        said = next((fields[name] for name in ("msg", "message", "error", "log", "text", "event") if name in fields), None)
        if said is not None:
            debug = next((fields[name] for name in ("debug", "details", "debug_info") if name in fields), "").replace("\n", " ")
            element = next((fields[name] for name in ("element", "source", "src") if name in fields), "")
            return f"ERROR: from element {element}: {said}\n{debug}" if element else said.rstrip("\n")
    return text


def messages(lines):
    """Yields (text, path, debug) of each message of an element, of each line of the elements' log and of any other; the path of
    a message whose element is not known is ":"."""
    pending, logged, result = None, None, ""
    for text in (part for line in lines for part in plain(line).split("\n")):
        if log := LOG.match(text):
            if log["category"].startswith("decart"):
                yield log["text"], LOGGED, ""
            elif log["object"] and log["text"].startswith("error: "):
                # The element's error, and in the next such line its debug text.
                text = log["text"].removeprefix("error: ").strip()
                if logged and logged[1] == log["object"]:
                    yield logged[0], logged[1], text
                    logged = None
                else:
                    if logged:
                        yield logged
                    logged = (text, log["object"], "")
            continue
        # A result of decart-check, and the lines that continue it.
        if result and re.match(r" {20,}\S", text):
            result += " " + text.strip()
            continue
        if result.startswith("FAILED"):
            yield result, "", ""
        result = check[0].strip() if (check := re.match(r"  (?:FAILED|ok|-|warning)  .*", text)) else ""
        if result:
            continue
        if message := MESSAGE.search(text):
            if pending:
                yield pending
            group = message.groupdict()
            pending = (next(group[each] for each in ("text", "text2", "text3", "text4") if group[each] is not None),
                       group["path"] or group["path2"] or group["path4"] or ":", "")
            if not message["text3"]:
                continue
            text = message["rest"].strip("',\" ")
        if not pending:
            yield text, "", ""
            continue
        if text.startswith(("Additional debug info", "Progress: ")):
            continue
        text = debug["text"] if (debug := DEBUG.match(text)) else text
        if (whole := WHOLE.match(text)):
            pending = (pending[0], whole["path"], "")
            text = whole["details"]
        elif place := PLACE.search(text):
            pending = (pending[0], place["path"] or pending[1], "")
            if place["more"]:
                continue
            text = ""
        # The details of the debug text, or a line of something else.
        yield pending[0], pending[1], text
        pending = None
        if not CODE.search(text):
            yield text, "", ""
    if result.startswith("FAILED"):
        yield result, "", ""
    for each in (logged, pending):
        if each:
            yield each


def explain(lines):
    """Returns (cause, remedy, line) for each cause, in the order of its first line."""
    found, general, lines = {}, set(), list(lines)
    for text, path, debug in messages(lines):
        if known := of_text(text, path, debug):
            found.setdefault(known[0], (*known, text))
            if text.startswith("Internal data "):
                general.add(known[0])
            else:
                general.discard(known[0])
    if "unlinked" in found:
        # The parser's warning about the same link, which does not name the pad.
        found.pop("link", None)
        found.pop("linked", None)
    # What an element says of itself counts more than what its neighbours say of the stream that ends.
    if found.keys() - general:
        for each in general:
            found.pop(each)
    if "shell" in found:
        return [found["shell"]]
    # What is known of the link.
    if found.keys() & {"medium", "order", "encoder-behind", "codec", "raw"}:
        found.pop("unlinked", None)
    if not found:
        for line in lines:
            text = plain(line).strip()
            if (reason := STRERROR.match(text)) and (known := of_system("that command", reason["reason"])):
                return [(*known, text)]
    if "audio-link" in found:
        found.pop("no-audio", None)
    if "memory" in found:
        found.pop("crash", None)
    # What is said of the file that GStreamer found explains why it found no plugin.
    if found.keys() & {"architecture", "version", "truncated", "library", "memory"}:
        found.pop("plugin", None)
    # What comes of a stream that its source did not get.
    if "missing-page" in found:
        found.pop("neighbour", None)
        found.pop("file-empty", None)
    # The service has nothing to send back.
    if found.keys() & {"no-input", "credits", "moderation", "expired", "no-prompt", "prompt-refused"}:
        found.pop("media-silent", None)
    # A server that answers is reached.
    if found.keys() & {"password", "missing-page"}:
        found.pop("neighbour", None)
    if "neighbour" in found:
        found.pop("file-empty", None)
        found.pop("no-input", None)
    # Many programs print that line; it counts if the pipeline did not start.
    if not any("set pipeline to" in line and line.startswith("Failed") for line in lines):
        if "crash" not in found:
            found.pop("desktop", None)
    if "desktop" in found:
        found.pop("crash", None)
    specific = [each for each in found.values() if each[0] not in CONSEQUENCES and not each[0].startswith("failed-")]
    return specific or list(found.values())


def main():
    if "--help" in sys.argv:
        return print(__doc__)
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    try:
        stream = open(sys.argv[1], errors="replace") if len(sys.argv) == 2 else sys.stdin
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error.strerror}")
    with stream:
        causes = explain(stream)
    for cause, remedy, text in causes:
        print(f"{cause}: {remedy}\n    {text}")
    if not causes:
        print("no known cause")
    return 0 if causes else 1


if __name__ == "__main__":
    sys.exit(main())
