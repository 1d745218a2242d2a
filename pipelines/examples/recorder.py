"""Records the frames of a tee in files that begin and end while the pipeline plays, without a lost frame between them."""
from gi.repository import Gst

# async=false: the pipeline must not wait for the first frame of a sink that joins it.
BRANCH = ("queue max-size-buffers=0 max-size-bytes=0 max-size-time=3000000000 ! videoconvert ! vp8enc deadline=1 cpu-used=8"
          " target-bitrate=0 keyframe-max-dist=60 ! webmmux offset-to-zero=true ! filesink name=file async=false")


class Recorder:
    def __init__(self, tee):
        self.tee, self.frames, self.current, self.changes = tee, 0, None, []  # current: the branch that gets the frames
        tee.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, self.on_frame)

    def start(self, path):
        open(path, "wb").close()  # raises OSError, whereas a sink that cannot write would stop the pipeline
        branch = Gst.parse_bin_from_description(BRANCH, True)
        branch.path, branch.sink, branch.props.message_forward = path, branch.get_static_pad("sink"), True
        branch.get_by_name("file").set_property("location", path)
        self.tee.get_parent().add(branch)
        branch.sync_state_with_parent()
        self.changes.append(branch)
        return branch  # posts GstBinForwarded with EOS when its file is complete

    def stop(self):
        self.changes.append(None)

    def on_frame(self, _pad, _info):  # on the streaming thread, before any branch gets the frame
        self.frames += 1
        if self.changes:  # one for each frame: a file has at least one
            old, self.current = self.current, self.changes.pop(0)
            if self.current:
                self.current.first, self.current.pad = self.frames, self.tee.request_pad_simple("src_%u")
                self.current.pad.link(self.current.sink)
            if old:  # Its queue passes EOS on behind the last frame, while the stream goes on.
                old.pad.unlink(old.sink)
                self.tee.release_request_pad(old.pad)
                old.sink.send_event(Gst.Event.new_eos())
        if self.current:
            self.current.last = self.frames
        return Gst.PadProbeReturn.OK
