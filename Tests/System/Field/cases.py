"""Rows of check_field.py that are data: a pipeline, what the source does, and what must come out."""

import dataclasses

from numbered_frames import APPSRC, H264, HEIGHT, MS, RATE, RAW, WIDTH, i420, rgb

BOTH, DIRECT = ("webrtc", "livekit"), ("webrtc",)
OWN = "no report: found by this project"
RAW_OUT = "capsfilter caps=video/x-raw ! fakesink"
INCOMPLETE = "A buffer of the input has"
REMEDY = "Put videoconvert behind the element"
PARSED = f"{APPSRC} ! {H264} ! h264parse"
SPEECH = "appsrc name=audio is-live=true format=time caps=audio/x-raw,format=S16LE,layout=interleaved,channels=1,rate=48000"
HOUR, DAY = 3600000 * MS, 86400000 * MS
BACK = dict(stamp=lambda n: 20000 * MS + n * 40 * MS - (5000 * MS if n >= 75 else 0), after=75)
FAR = {25: 10 * HOUR, 0: -9720000 * MS}


@dataclasses.dataclass
class Case:
    name: str
    reports: str  # public reports: repository#number
    situation: str
    source: str = APPSRC  # {file}: see there
    options: str = ""  # {codec}: VP8, or H.264 in a room
    sink: str = "fakesink"  # one with the name `late` must render four fifths of the frames
    file: tuple = ()  # a chain that encodes, and how many frames it gets
    # Of the appsrc `in`, by the number of the frame: its PTS, its data and its caps.
    stamp: object = None
    make: object = None
    caps: object = None
    rate: int = RATE
    change: object = None  # called with each buffer at the element `at` and its index; False: it is dropped
    audio: str = ""  # a source; its audio must be heard
    piece: object = None  # of the appsrc `audio`: whether a piece of 20 ms is pushed, and its PTS
    # What comes out: different numbers, those after `after` and after those that were pushed before; messages.
    count: int = 40
    after: int = None
    warning: str = None
    error: str = None
    is_readable: bool = False  # whether nine tenths of the frames show their number
    transports: tuple = BOTH
    gate: tuple = ()


def appsrc(width, height, form="I420", rate=f"{RATE}/1", fields=""):
    return (f'appsrc name=in is-live=true format=time caps="video/x-raw,format={form},width={width},height={height},'
            f'framerate={rate}{fields}"')


def broken(name, reports, situation, cut, options="{codec}", size=(WIDTH, HEIGHT), **more):
    """Every 25th frame is too short for its caps."""
    return Case(name, reports, situation, appsrc(*size), options, count=60, warning=INCOMPLETE,
                make=lambda n: cut(i420(n, *size)) if n % 25 == 20 else i420(n, *size), **more)


def every(changes):
    """A size or another value, which changes every 15 frames."""
    return lambda n: changes[n // 15 % len(changes)]


def resized(shapes, rate=f"{RATE}/1"):
    shape = every(shapes)
    return dict(source="appsrc name=in is-live=true format=time", make=lambda n: i420(n, *shape(n)), count=90,
                caps=lambda n: "video/x-raw,format=I420,width={},height={},framerate={}".format(*shape(n), rate))


def with_bytes(change):
    return lambda n: change(i420(n))


def set_duration(value):
    def change(buffer, _index):
        buffer.duration = value

    return change


SIZES = every([(640, 352), (640, 352), (320, 176)])

CASES = [
    # --- Time stamps ---
    Case("time goes back", "gtxaspec/raptor#43, AlexxIT/go2rtc#1943, mpromonet/webrtc-streamer#595",
         "A live source starts its clock again: the time stamps go back by 5 s for good.", options="codec=vp8", **BACK,
         gate=("webrtc",)),
    Case("time goes back to 0", "RidgeRun/gst-interpipe#138, mpromonet/webrtc-streamer#223",
         "A producer restarts: the time stamps begin at 0 again.", options="{codec}", after=75,
         stamp=lambda n: (n if n < 75 else n - 75) * 40 * MS),
    Case("time goes back, VP9", "gtxaspec/raptor#43", "The same jump in front of VP9.", options="codec=vp9", **BACK,
         transports=DIRECT),
    Case("time goes back, H.264", "gtxaspec/raptor#43", "The same jump in front of H.264.", options="codec=h264", **BACK),
    Case("outliers", "bluenviron/mediamtx#6255", "A recorder stamps a frame a second hours away, ahead and behind in turn.",
         options="codec=vp8", stamp=lambda n: 10 * HOUR + n * 40 * MS + (FAR.get(n % 50, 0) if n > 40 else 0), after=110,
         gate=("livekit",)),
    Case("jitter", "scottlamb/retina#64", "Every 10th time stamp is 61 ms too early, so it lies before its predecessor.",
         options="codec=vp8", stamp=lambda n: 1000 * MS + n * 40 * MS - (61 * MS if n % 10 == 9 else 0), count=100,
         is_readable=True, gate=("webrtc",)),
    Case("equal time stamps", "pion/webrtc#1735", "All frames have the same time stamp.", stamp=lambda n: 0, after=75,
         gate=("webrtc",)),
    Case("no time stamps, live", "centricular/gstwebrtc-demos#121, nilstate/icey#128", "A live source stamps no frame.",
         stamp=lambda n: None, after=75, gate=("webrtc",)),
    Case("segment in bytes", "dturing/node-gstreamer-superficial#21, wmanley/pulsevideo#21",
         "An appsrc with its default format, bytes, and do-timestamp=true.", f'appsrc name=in do-timestamp=true caps="{RAW}"',
         stamp=lambda n: None, after=75),
    Case("in bursts", "aiortc/aiortc#149", "Four frames share a time stamp, then it jumps by four intervals.",
         stamp=lambda n: n // 4 * 160 * MS, after=75),
    Case("jump of 2^32 ticks", "aiortc/aiortc#1041, bluenviron/mediamtx#922",
         "A 32 bit RTP time of 90 kHz wraps in front of us: the time stamps go on 13.25 h later.", options="{codec}",
         stamp=lambda n: n * 40 * MS + (47721858844000 if n >= 75 else 0), after=75),
    Case("back by the length of a stall", "mpromonet/webrtc-streamer#187, mpromonet/webrtc-streamer#211",
         "After each second the source claims a time 700 ms before its last one.", options="codec=vp8",
         stamp=lambda n: 10000 * MS + n * 40 * MS - n // 25 * 700 * MS, after=75),
    Case("49.7 days", "mpromonet/webrtc-streamer#211", "The time stamps pass 2^32 ms.",
         stamp=lambda n: 4294967296 * MS - 3000 * MS + n * 40 * MS, after=75),
    Case("stamps slower than the clock", "awslabs/amazon-kinesis-video-streams-webrtc-sdk-c#283,"
         " awslabs/amazon-kinesis-video-streams-webrtc-sdk-c#1525", "The stamps say 30 fps, 25 frames a second come.",
         appsrc(WIDTH, HEIGHT, rate="30/1"), stamp=lambda n: n * 33 * MS, count=80, after=75),
    Case("stamps faster than the clock", "awslabs/amazon-kinesis-video-streams-webrtc-sdk-c#1525, jacobbo/WebEye#17",
         "The stamps say 20 fps, 25 frames a second come.", appsrc(WIDTH, HEIGHT, rate="20/1"),
         stamp=lambda n: n * 50 * MS, after=75),
    Case("variable rate", "giongto35/cloud-game#211", "A game gives a frame each 40, 200 or 400 ms, stamped so.",
         stamp=lambda n: n * 40 * MS + n // 10 * 400 * MS, after=50, rate=15),
    Case("duration 0", "livekit/server-sdk-go#744, awslabs/amazon-kinesis-video-streams-webrtc-sdk-c#1375",
         "All buffers have the duration 0.", f"{APPSRC} ! identity name=at", change=set_duration(0), is_readable=True),
    Case("duration of a day", "awslabs/amazon-kinesis-video-streams-webrtc-sdk-c#1375",
         "All buffers have the duration of a day.", f"{APPSRC} ! identity name=at", change=set_duration(DAY), is_readable=True),
    Case("frames ahead of time", "aiortc/aiortc#764",
         "A generator that is not live pushes as fast as it may: the frames leave in order, none is missing.",
         f'appsrc name=in format=time block=true max-buffers=5 caps="{RAW}"', rate=1000, count=75, is_readable=True),
    Case("elementary stream", "WebKit/WebKit#2898, nilstate/icey#128",
         "A file of H.264 without a container: its frames have no time stamps.", "filesrc location={file} ! h264parse",
         sink=RAW_OUT, file=(f"{H264},stream-format=byte-stream".replace("100000", "25"), 150), count=75, gate=("webrtc",)),
    # --- Buffers ---
    broken("short buffer", "raspberrypi/libcamera#141, opencv/opencv#19630",
           "Every 25th frame has 1000 bytes: fewer than its caps say, at the model's size.", lambda data: data[:1000],
           gate=("webrtc",)),
    broken("empty buffer", "basler/gst-plugin-pylon#34", "Every 25th frame has no memory.", lambda data: b"",
           gate=("livekit",)),
    broken("short buffer, VP9", "opencv/opencv#19630", "The same in front of VP9.", lambda data: data[:1000], "codec=vp9",
           transports=DIRECT),
    broken("short buffer, H.264", "opencv/opencv#19630", "The same in front of H.264.", lambda data: data[:1000],
           "codec=h264"),
    broken("short buffer, another size", "basler/gst-plugin-pylon#34", "The frame is scaled before it is encoded.",
           lambda data: data[:1000], "", (640, 360)),
    Case("buffer larger than its caps", "v4l2loopback/v4l2loopback#448", "A page more than the caps say ends each frame.",
         make=with_bytes(lambda data: data + bytes(2048)), is_readable=True, gate=("webrtc",)),
    Case("buffer larger than its caps, scaled", "v4l2loopback/v4l2loopback#448, raspberrypi/rpicam-apps#857",
         "The same at another size.", appsrc(648, 364), make=lambda n: i420(n, 648, 364) + bytes(4096), is_readable=True),
    Case("caps without framerate", "jackersson/gstreamer-python#11", "The caps of an appsrc have no framerate.",
         f'appsrc name=in is-live=true format=time caps="video/x-raw,format=I420,width={WIDTH},height={HEIGHT}"',
         gate=("livekit",)),
    Case("odd framerate", "awslabs/amazon-kinesis-video-streams-webrtc-sdk-c#474", "A camera calls 30 fps 10000000/333333.",
         appsrc(WIDTH, HEIGHT, rate="10000000/333333"), stamp=lambda n: n * 100 * MS // 3, rate=30),
    Case("wrong framerate", "dusty-nv/jetson-inference#1871", "The caps say 1000 fps, 25 frames a second come.",
         appsrc(WIDTH, HEIGHT, rate="1000/1")),
    Case("height of no block", "i-rinat/freshplayerplugin#370", "960x540 as JPEG.",
         f"{appsrc(960, 540)} ! jpegenc quality=95 ! jpegdec", make=lambda n: i420(n, 960, 540), is_readable=True),
    Case("odd size of a tablet", "koush/scrypted#1797", "1007x601, whose chroma planes are rounded up.", appsrc(1007, 601),
         make=lambda n: i420(n, 1007, 601), is_readable=True),
    Case("MJPEG", "agarciadom/ipwebcam-gst#124, mpromonet/v4l2rtspserver#170", "JPEG frames with framerate=0/1.",
         f"{appsrc(WIDTH, HEIGHT, rate='0/1')} ! jpegenc ! jpegdec", is_readable=True),
    Case("variable rate downstream", OWN, "Downstream wants framerate=0/1.", sink="video/x-raw,framerate=0/1 ! fakesink",
         gate=("webrtc",)),
    Case("colorimetry downstream", OWN, "Downstream wants bt709: one error that names the remedy.",
         sink="video/x-raw,colorimetry=bt709 ! fakesink", error=REMEDY, transports=DIRECT),
    Case("pixel aspect ratio downstream", OWN, "Downstream wants 16/15: one error that names the remedy.",
         sink="video/x-raw,pixel-aspect-ratio=16/15 ! fakesink", error=REMEDY, transports=DIRECT, gate=("webrtc",)),
    Case("alternate fields", "teltek/gst-plugin-ndi#114", "Each buffer is a field: one error says so.",
         appsrc(WIDTH, HEIGHT, fields=",interlace-mode=alternate").replace("video/x-raw,", "video/x-raw(format:Interlaced),"),
         error="interlace|alternate|Interlaced", transports=DIRECT, gate=("webrtc",)),
    # --- Changes of the caps ---
    Case("changing sizes", "wacky6/hikaru#33, centricular/webrtcsink#54, emersion/xdg-desktop-portal-wlr#46",
         "The size changes every 15 frames.", options="fit=stretch", is_readable=True,
         **resized([(320, 176), (640, 360), (176, 320), (321, 177), (1280, 720)])),
    Case("landscape and portrait", "bluenviron/mediamtx#871, bluenviron/mediamtx#5899",
         "A phone is turned: the session and its orientation stay.", options="fit=stretch", is_readable=True,
         **resized([(640, 352), (352, 640)])),
    Case("a format in the same size", "centricular/webrtcsink#54, sipsorcery-org/SIPSorceryMedia.FFmpeg#4",
         "Grey frames and I420 alternate every 15 frames.", "appsrc name=in is-live=true format=time",
         caps=lambda n: RAW if n // 15 % 2 else RAW.replace("I420", "GRAY8"),
         make=lambda n: i420(n) if n // 15 % 2 else i420(n)[:WIDTH * HEIGHT], count=90, is_readable=True),
    Case("framerate changes", "giongto35/cloud-game#211, aiortc/aiortc#840", "The caps name another rate every 15 frames.",
         "appsrc name=in is-live=true format=time",
         caps=lambda n: RAW.replace(f"{RATE}/1", every(["25/1", "30000/1001", "0/1", "5/1"])(n)), count=90, is_readable=True),
    # --- Encoded input ---
    Case("slices", "pion/webrtc#2424, livekit/livekit-cli#81, Glimesh/janus-ftl-plugin#101",
         "Each frame has four slices, with an access unit delimiter; a keyframe has four IDR units.",
         f"{APPSRC} ! {H264} ! h264parse ! identity name=at".replace(
             "tune=zerolatency", "tune=zerolatency sliced-threads=true threads=4 aud=true"), sink=RAW_OUT, is_readable=True,
         gate=("livekit",)),
    Case("NAL units", "centricular/gstwebrtc-demos#197, pion/webrtc#1652",
         "h264parse of GStreamer 1.22 joins NAL units to frames, but not those of a keyframe: a warning says so.",
         f"{PARSED} ! video/x-h264,stream-format=byte-stream,alignment=nal ! h264parse", sink=RAW_OUT, count=0,
         warning="The input has sent no keyframe"),
    Case("RTP of a camera", "centricular/gstwebrtc-demos#151, awslabs/amazon-kinesis-video-streams-webrtc-sdk-c#521",
         "rtph264depay without h264parse.", f"{PARSED} ! rtph264pay ! rtph264depay", sink=RAW_OUT, is_readable=True),
    Case("first keyframe", "pion/webrtc#1625", "A stream whose only keyframe is the first frame is shown from it on.",
         "filesrc location={file} ! h264parse", sink=RAW_OUT,
         file=(f"{H264},stream-format=byte-stream", 200), count=100),
    Case("encoded size changes", "bakoushin/medooze-streamer-demo#1, bluenviron/mediamtx#5899",
         "The frames of an encoder get another size of the same aspect: one error names both sizes and the remedy.",
         f"appsrc name=in is-live=true format=time ! {H264} ! h264parse", "width=640 height=352", RAW_OUT,
         make=lambda n: i420(n, *SIZES(n)), caps=lambda n: "video/x-raw,format=I420,width={},height={},framerate=25/1".format(
             *SIZES(n)), error="encoded video cannot be scaled"),
    Case("equal stamps, encoded", "pion/webrtc#1735", "All frames of H.264 have the same time stamp.",
         f"{PARSED} ! identity name=at", sink=RAW_OUT, change=lambda buffer, _: setattr(buffer, "pts", 1000 * MS), after=75),
    Case("VP8 of a game", "giongto35/cloud-game#211", "VP8 comes encoded, at a variable rate.",
         f"{APPSRC} ! vp8enc deadline=1 keyframe-max-dist=100000", sink=RAW_OUT,
         stamp=lambda n: n * 40 * MS + n // 10 * 400 * MS, transports=DIRECT),
    # --- Audio ---
    Case("audio in gaps", "livekit/egress#905, xiph/opus#357", "A second in three has no audio, with a jump of its PTS.",
         audio=SPEECH, piece=lambda k: k * 20 * MS if k % 150 < 100 else None),
    Case("audio stops", "Xpra-org/xpra#1617", "A gate in front sends no buffers while it is quiet, 3 s.",
         audio=SPEECH, piece=lambda k: k * 20 * MS if k < 50 or k > 200 else None, after=75),
    Case("audio first", "bluenviron/mediamtx#2790", "The first two seconds have audio and no video.",
         f"{APPSRC} ! identity name=at", change=lambda buffer, n: n >= 50, audio=SPEECH, piece=lambda k: k * 20 * MS),
    Case("audio hours ahead", "DDVTECH/mistserver#263", "The PTS of the audio are 25 h ahead of those of the video.",
         audio=SPEECH, piece=lambda k: k * 20 * MS + 25 * HOUR, after=75),
    Case("audio goes back", "Eyevinn/whip-mpegts#38, OvenMediaLabs/OvenMediaEngine#1492",
         "The PTS of the audio go back by 2 s for good.", audio=SPEECH,
         piece=lambda k: 10000 * MS + k * 20 * MS - (2000 * MS if k > 100 else 0), after=75),
    Case("telephone audio", "livekit/ingress#361", "Audio of 8 kHz, mono, as mu-law.",
         audio="audiotestsrc is-live=true volume=0.4 samplesperbuffer=160 ! audio/x-raw,rate=8000,channels=1 ! mulawenc"
         " ! mulawdec"),
    Case("Opus of a camera", "AlexxIT/go2rtc#1590", "Opus in packets of 60 ms comes encoded.",
         audio="audiotestsrc is-live=true volume=0.4 ! audio/x-raw,rate=48000,channels=2 ! opusenc frame-size=60"),
    Case("audio marked as gap", "RidgeRun/gst-interpipe#109", "A mixer in front marks silent buffers as GAP.",
         audio="audiotestsrc is-live=true wave=ticks tick-interval=500000000 volume=0.8 ! audiomixer"),
    # --- Downstream ---
    Case("a sink that drops late frames", "fzwoch/obs-gstreamer#85", "A sink drops what is 20 ms late.",
         sink="fakesink name=late sync=true max-lateness=20000000 qos=true", options="timestamps=capture", count=75,
         is_readable=True),
    Case("a compositor", "teltek/gst-plugin-ndi#8", "A compositor behind the element mixes it with another live source.",
         sink=f"compositor name=mix ! {RAW} ! fakesink  videotestsrc is-live=true ! {RAW} ! mix.", count=75, is_readable=True),
    Case("tee without a queue", "WebRTSP/ReStreamer#19", "A tee gives the frames to the element and to a sink.",
         f"{APPSRC} ! tee name=tee ! fakesink async=false tee.", count=75, is_readable=True),
]

TIGHT = 853, 480  # 3 * 853 is no multiple of 4, which GStreamer's rows begin at.
TIGHT_SOURCE = appsrc(*TIGHT, "RGB", "15/1")


def tight(number):
    return rgb(number, *TIGHT)
