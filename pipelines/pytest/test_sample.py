"""A sample of tests with the fixture `standin`: counts the frames of each look, reads the colour of the pipeline's output,
and lets the service restart.
docs/FAULTS.md has the commands that install the fixture and run such a file.
"""

import contextlib
import subprocess

import pytest
from decart_standin import StandInError

VIDEO = "videotestsrc is-live=true ! video/x-raw,width=320,height=176,framerate=20/1"
MODEL = "model=any width=320 height=176 framerate=20"


@contextlib.contextmanager
def pipeline(standin, prompt):
    process = subprocess.Popen(["gst-launch-1.0", "-q", *VIDEO.split(), "!", "decarttransform", f"base-url={standin.url}", "api-key=x",
                                f"prompt={prompt}", *MODEL.split(), "!", "fakesink"])
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def test_looks_are_counted(standin):
    with pipeline(standin, "lego"):
        record = standin.wait(state="generating", look="lego", frames=20, timeout=30)
        assert record["frames_untransformed"] == 0 and record["user_agent"].startswith("gst-decart/")
        standin.request("POST", "/control/prompt", "noir", session=record["id"])
        record = standin.wait(session=record["id"], look="noir", frames=20, timeout=30)
    assert record["frames_by_look"]["mosaic"] >= 20 and record["frames_by_look"]["grey"] >= 20


def test_the_output_is_grey(standin):
    run = standin.run(f"{VIDEO} ! decarttransform prompt=noir fallback=none {MODEL}", frames=20)
    assert max(run.colour) - min(run.colour) < 16 and min(run.colour) > 16
    with pytest.raises(StandInError, match="'number'"):
        standin.wait(frames=10**6, timeout=0)


def test_the_pipeline_survives_a_restart(standin):
    with pipeline(standin, "anime") as process:
        first = standin.wait(state="generating", frames=10, timeout=30)
        standin.faults("refuse:for=1")
        standin.request("POST", "/control/close", session=first["id"], code=1012)
        standin.wait(session=first["id"], state="closed", timeout=30)
        again = standin.wait(state="generating", frames=10, timeout=30)
        assert again["number"] > first["number"] and process.poll() is None
    closes = [entry["message"]["code"] for entry in standin.journal(session=first["id"]) if entry["type"] == "close"]
    assert closes[0] == 1012
