#!/usr/bin/python3
"""Checks the page of the stand-in in headless Chromium: video, prompt, fault, recovery, watching, layout, other origins, and
the end of the stand-in.

    check_web.py [--screenshots FOLDER]

Prints "ok NAME", "not ok NAME: why" or "skip NAME: why". Uses loopback only. Needs the package chromium. Frame rates, the
delay of a frame and the time until a prompt shows are figures for scripts/verify (DECART_VERIFY=1).
"""

import argparse
import base64
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import chromium
from checks import STANDIN, VERIFYING, Results, end_process, gstreamer, measured, output_of
from standin import StandIn

FPS, DELAY, PROMPT_TIME = 15, 300, 2.0  # frames/s, ms, s
LIMIT = 90  # s, for every wait
report = Results("web")

# Frames of both videos, and the delay of the transformed frame, over some seconds: from the drawing of a frame on the
# client's canvas to the display of the transformed frame, whose number is read from a canvas of the video "after".
MEASURE = """(async seconds => {
    const before = document.getElementById('before'), after = document.getElementById('after');
    const count = {before: 0, after: 0}, delays = [];
    // The client's own frames, by number; another client's frames have none.
    const entered = new Map(client?.source.sentAt);
    let isOn = true;
    const watch = (video, name, body) => {
        const next = now => { if (!isOn) return; count[name]++; body(video); video.requestVideoFrameCallback(next); };
        video.requestVideoFrameCallback(next);
    };
    watch(before, 'before', video => {
        for (const [number, time] of client?.source.sentAt ?? []) if (!entered.has(number)) entered.set(number, time);
    });
    watch(after, 'after', video => {
        const number = Marker.read(video), since = entered.get(number);
        if (since) { delays.push(performance.now() - since); entered.set(number, 0); }
    });
    await new Promise(done => setTimeout(done, seconds * 1000));
    isOn = false;
    return {before: count.before / seconds, after: count.after / seconds, delays};
})(%d)"""
# Keys of the elements that Tab reaches.
FOCUSABLE = """[...document.querySelectorAll('button, input, select, [tabindex]')].filter(each => !each.disabled && each.tabIndex >= 0).length"""


def is_near(colour, other, distance=12):
    return all(abs(one - two) <= distance for one, two in zip(colour, other))


def click(browser, expression):
    browser.call(f"({expression}).click()")


def fault_button(name):
    return f"[...document.querySelectorAll('#fault-buttons button')].find(each => each.textContent === {json.dumps(name)})"


def becomes(browser, name, condition, otherwise):
    """Reports whether the condition becomes true; if not, the value of the expression `otherwise`. Returns the true value."""
    try:
        value = browser.until(condition, LIMIT)
    except TimeoutError:
        report(name, browser.call(otherwise) or "it is not so")
        return None
    report(name)
    return value


def logs(browser, name, text):
    """Reports whether an event has the text."""
    events = "document.getElementById('log').textContent"
    becomes(browser, name, f"{events}.includes({json.dumps(text)})", f"{json.dumps(f'no {text} in ')} + {events}")


def chip(name):
    return f"document.getElementById('{name}').dataset.state"


def try_it(browser, standin, shot):
    """The page as a client."""
    browser.view(1280, 900)
    browser.open(standin.page)
    browser.until("document.body?.dataset.state === 'connected'")
    shows = ("['start', 'command', 'try-canvas', 'before'].map(id => document.getElementById(id).checkVisibility())"
             ".join() === 'true,true,true,false'")
    becomes(browser, "without a session the page says how to begin, and has no black videos", shows, shows)
    shot("idle")
    click(browser, "document.getElementById('try-canvas')")
    browser.until(f"{chip('state')} === 'live' && screens.after.times.length > 0", LIMIT)
    size = "[screens.after.video.videoWidth, screens.after.video.videoHeight].join(' x ')"
    becomes(browser, "both videos show frames, at 640 x 360", f"{size} === '640 x 360' && screens.before.times.length > 0", size)
    becomes(browser, "the first click shows an effect",
            "((one, other) => one && other && one.some((part, index) => Math.abs(part - other[index]) > 12))"
            "(screens.before.colour, screens.after.colour)", "[screens.before.colour, screens.after.colour].join(' and ')")
    if not VERIFYING:
        return
    browser.call("new Promise(done => setTimeout(done, 1500))")
    figures = browser.call(MEASURE % 4)
    delays = figures["delays"]
    for video in ("before", "after"):
        measured(f"web: frame rate of the video \"{video}\"", figures[video], "frames/s", at_least=FPS)
    report("frames have numbers in both videos", "" if delays else "none")
    if delays:
        measured("web: delay of a transformed frame, median", statistics.median(delays), "ms", at_most=DELAY)


def prompts(browser, shot):
    """A typed prompt changes the colour to the look's: grey has no colour, the others differ from it and each other."""
    plain = browser.until("screens.before.colour", LIMIT)
    for prompt in ("noir", "cyberpunk"):
        browser.call("document.getElementById('prompt').select()")
        browser.command("Input.insertText", text=prompt)
        begun = time.monotonic()
        for kind in ("keyDown", "keyUp"):
            browser.command("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
        # Noir is grey; cyberpunk's cast is violet: less green than red and blue.
        test = "Math.max(...c) - Math.min(...c) < 14" if prompt == "noir" else "c[1] + 8 < c[0] && c[1] + 8 < c[2]"
        try:
            colour = browser.until(f"(c => c && {test} && c)(screens.after.colour)", LIMIT)
            measured(f"web: time until the prompt {prompt} shows", time.monotonic() - begun, "s", at_most=PROMPT_TIME)
            report(f"the prompt {prompt} changes the mean colour", f"{plain}, {colour}" if is_near(colour, plain) else "")
        except TimeoutError:
            report(f"the prompt {prompt} changes the mean colour", browser.call("screens.after.colour"))
        if prompt == "cyberpunk":
            shot("prompt")


STOPPED = """(() => {
    const session = (number, change) => ({number, user_agent: 'decart-js-sdk/0.1.20 lang/js', state: 'generating', age_ms: 5000,
                                          frames_in: 0, frames_untransformed: 0, ...change});
    const first = session(1, {state: 'closed', frames_in: 90});
    return [[{}], [{frames_in: 1}], [{frames_untransformed: 1}], [{age_ms: 900}], [{state: 'closed'}],
            [{user_agent: 'decart-js-sdk/0.1.19'}], [{user_agent: null}], [{}, []]].map(([change, all]) =>
        hasStoppedTrack(session(2, change), all ?? [first]));
})()"""


SELECTED = "(document.querySelector('#session-list [aria-pressed=true]')?.closest('tr').textContent ?? '')"


def is_refused(browser, effective):
    """The page shows the refusal, and which prompt is still in effect."""
    state = "document.getElementById('prompt-state').textContent"
    words = ["Refused: refuse-me (the prompt was refused by moderation)", f"In effect: {effective}"]
    becomes(browser, f"beside a refused prompt the page shows {effective}, which is in effect",
            f"{json.dumps(words)}.every(word => {state}.includes(word)) && {SELECTED}.includes('{effective} (refused: refuse-me)')",
            f"{state} + ' and ' + {SELECTED}")


def events(browser, shot):
    """What the stand-in reports, and what is copied."""
    logs(browser, "the journal is among the events", "generation_started")
    browser.call("(input => { input.value = 'refuse-me'; input.form.requestSubmit(); })(document.getElementById('prompt'))")
    logs(browser, "a refused prompt is an event", "prompt refused: ")
    is_refused(browser, "cyberpunk")
    shot("refused")
    browser.call("(input => { input.value = 'error_transient'; input.form.requestSubmit(); })(document.getElementById('spec'))")
    logs(browser, "a SPEC can be injected", "service: ")
    for name, text in (("as-curl", f"curl --data 'error_transient' {browser.call('location.origin')}/control/inject"),
                       ("as-pytest", 'standin.inject("error_transient")'), ("copy", "decarttransform base-url=ws://127.0.0.1:")):
        click(browser, f"document.getElementById('{name}')")
        logs(browser, f"the button {name} copies", text)
    found = browser.call(STOPPED)
    report("a camera track that the SDK has stopped is named", "" if found == [True] + 7 * [False] else str(found))
    fault_list(browser)


def choose(browser, name):
    browser.call(f"(list => {{ list.value = {json.dumps(name)}; list.dispatchEvent(new Event('change')); }})(document.getElementById('kind'))")


def fault_list(browser):
    """The page lists the faults of --help; one that no running session can have is for new connections."""
    names = re.findall(r"^  (\w+) ", re.search(r"^FAULTS$(.*?)^[A-Z]", output_of(STANDIN, "--help"), re.M | re.S)[1], re.M)
    listed = browser.call("[...document.getElementById('kind').options].map(each => each.value).filter(Boolean)")
    report("the page lists all faults", "" if listed == names and len(names) > 80 else sorted(set(names) ^ set(listed)))
    choose(browser, "http_401")
    texts = browser.call("['spec', 'summary', 'inject'].map(id => (each => each.value || each.textContent)(document.getElementById(id)))")
    report("a fault of the list has its SPEC and its text", "" if texts[0] == "http_401" and "HTTP 401" in texts[1] else texts)
    click(browser, "document.getElementById('inject')")
    active = "document.getElementById('active').textContent"
    becomes(browser, "a fault of the handshake is set for new connections", f"{active}.includes('http_401')", active)
    click(browser, "document.getElementById('as-curl')")
    logs(browser, "its command is that of new connections",
         f"curl --data 'http_401' {browser.call('location.origin')}/control/faults")
    click(browser, fault_button("No more faults"))
    choose(browser, "error_transient")
    begun = browser.call("document.getElementById('log').textContent.split('error_transient — into').length")
    click(browser, "document.getElementById('inject')")
    browser.until(f"document.getElementById('log').textContent.split('error_transient — into').length > {begun}", LIMIT)
    report("a fault of a session is put into it")


def faults(browser, shot):
    """The page calls a fault recovered by the frame rate, which a busy machine does not keep: for scripts/verify."""
    for name in ("Freeze 3 s", "Restart service") if VERIFYING else ("Freeze 3 s",):
        # The page itself notes the states: a busy machine may miss one between two questions.
        browser.call("""(chip => {
            window.faultStates = [];
            new MutationObserver(() => faultStates.push(chip.dataset.state)).observe(chip, {attributes: true, attributeFilter: ['data-state']});
        })(document.getElementById('fault'))""")
        click(browser, fault_button(name))
        try:
            browser.until("faultStates.includes('fault')", LIMIT)
            shot(f"fault-{name.split()[0].lower()}")
            if not VERIFYING:
                report(f"the button \"{name}\" shows the fault")
                click(browser, "document.getElementById('copy-run')")
                logs(browser, "the table of the fault run is copied", f"| {name} | ")
                continue
            browser.until(f"faultStates.lastIndexOf('recovered') > faultStates.indexOf('fault') && {chip('fault')} === 'recovered'", LIMIT)
            report(f"the button \"{name}\" shows the fault and the recovery")
        except TimeoutError:
            report(f"the button \"{name}\" shows the fault" + (" and the recovery" if VERIFYING else ""),
                   browser.call("document.getElementById('fault').textContent + ' ' + document.getElementById('state').textContent"))


def watching(browser, standin, shot):
    """Another client's session: a pipeline."""
    click(browser, "document.getElementById('stop')")
    pipeline = subprocess.Popen(
        ["gst-launch-1.0", "-q", "videotestsrc", "is-live=true", "pattern=ball", "!", "video/x-raw,width=640,height=360,framerate=25/1",
         "!", "decarttransform", f"base-url={standin.url}", "api-key=x", "prompt=lego", "transport=webrtc",
         "model=small", "width=640", "height=360", "framerate=25", "!", "fakesink", "sync=false"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        browser.until("watches.length === 2 && screens.before.times.length > 0 && screens.after.times.length > 0", LIMIT)
        report("both sides of a pipeline's session are shown")
        if VERIFYING:
            browser.call("new Promise(done => setTimeout(done, 2000))")
            figures = browser.call(MEASURE % 3)
            for video in ("before", "after"):
                measured(f"web: frame rate of the video \"{video}\" of a pipeline's session", figures[video], "frames/s", at_least=FPS)
        words = ["generating", "webrtc", "VP8", "640 × 360", "mosaic"]
        becomes(browser, "the list has state, transport, codec and look",
                f"{json.dumps(words)}.every(word => {SELECTED}.includes(word))", SELECTED)
        shot("watching")
        # The screen may still have the colour of the session before, which had this look.
        violet = "(c => c && c[1] + 8 < c[0] && c[1] + 8 < c[2])(screens.after.colour)"
        before = browser.until(f"screens.after.colour && !{violet} && screens.after.colour", LIMIT)
        browser.call("(input => { input.value = 'cyberpunk'; input.form.requestSubmit(); })(document.getElementById('prompt'))")
        browser.until(violet, LIMIT)
        report("the prompt box changes the look of a pipeline's session", "" if not is_near(browser.call("screens.after.colour"), before) else before)
        logs(browser, "a prompt of the page is an event of the pipeline's session", "prompt of this page: cyberpunk")
        browser.call("(input => { input.value = 'refuse-me'; input.form.requestSubmit(); })(document.getElementById('prompt'))")
        is_refused(browser, "cyberpunk")
        clear(browser)
        other_machine(browser, standin, shot)
    except TimeoutError as error:
        report("a pipeline's session is watched", error)
    finally:
        end_process(pipeline)


def clear(browser):
    """Ended sessions go, and events of other sessions are hidden until the user wants them."""
    others = ("[...document.querySelectorAll('#log [data-session]')].filter(each => each.dataset.session && each.dataset.session !== selected)"
              ".map(each => each.checkVisibility())")
    hidden = browser.call(others)
    click(browser, "document.getElementById('all-events')")
    shown = browser.call(others)
    report("events are those of the selected session, or of all", "" if shown and all(shown) and not any(hidden) else f"{hidden}, {shown}")
    states = "[...document.querySelectorAll('#session-list tr')].map(each => each.dataset.state)"
    ended = browser.call(states)
    click(browser, "document.getElementById('clear')")
    becomes(browser, "ended sessions are cleared", f"{states}.join() === 'generating'", f"{states}.join()")
    report("there were ended sessions", "" if "closed" in ended else ended)


def other_machine(browser, standin, shot):
    """The page by the name of --web-host: with its token only, and without the service, which listens at loopback."""
    browser.open(standin.foreign.partition("?")[0])
    text = "(location.host.startsWith('studio.example') && document.body?.textContent)"
    refusal = browser.until(text, LIMIT)
    report("without its token the page is refused", "" if "with its token" in refusal else refusal)
    browser.open(standin.foreign)
    browser.until(f"{text} && document.body.dataset.state === 'connected' && watches.length === 2"
                  " && screens.before.times.length > 0 && screens.after.times.length > 0", LIMIT)
    report("another machine's browser watches a session")
    disabled = browser.call("['try-canvas', 'try-camera'].every(id => document.getElementById(id).disabled)"
                            " && document.getElementById('unreachable').textContent")
    report("it says why it is no client itself", "" if disabled and "--host" in disabled else disabled)
    click(browser, "document.getElementById('as-curl')")
    logs(browser, "it copies without a clipboard", "to copy from here: curl")
    shot("other-machine")


def layout(browser, shot):
    for width, height in ((320, 800), (768, 900), (1280, 900), (1920, 1080)):
        for dark in (False, True):
            browser.view(width, height, dark)
            if not dark:
                wide = "document.documentElement.scrollWidth"
                outside = ("[...document.querySelectorAll('main *')].filter(each => each.getBoundingClientRect().right > "
                           "innerWidth + 1).map(each => each.id || each.tagName)")
                becomes(browser, f"the page fits {width} px",
                        f"innerWidth === {width} && {wide} <= {width} && !{outside}.length",
                        f"{wide} + ' px: ' + {outside}.slice(0, 5)")
            if width in (320, 1280):
                shot(f"{width}-{'dark' if dark else 'light'}")
    browser.view(375, 667)
    browser.call("document.querySelector('#fault-buttons button').scrollIntoView({block: 'end'})")
    both = "[...document.querySelectorAll('video, #fault-buttons button:first-child')]"
    shows = f"""{both}.every(each => {{
        const {{left, top, right, bottom}} = each.getBoundingClientRect();
        const seen = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
        return top >= 0 && bottom < innerHeight + 1 && each.parentElement.contains(seen); }})"""
    becomes(browser, "at 375 px the videos and a fault's button are on one screen", f"innerWidth === 375 && {shows}",
            f"JSON.stringify({both}.map(each => each.getBoundingClientRect()))")
    shot("375")
    for dark in (False, True):
        browser.view(1280, 900, dark)
        ratio = browser.call("""(colours => {
            const [edge, panel] = colours.map(text => text.match(/[0-9.]+/g).slice(0, 3).map(part => part / 255)
                .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
                .map(([red, green, blue]) => 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05);
            return Math.max(edge / panel, panel / edge);
        })([getComputedStyle(document.querySelector('#looks button')).borderTopColor,
            getComputedStyle(document.querySelector('#prompts')).backgroundColor])""")
        report(f"a button's edge has a contrast of 3:1{', dark' if dark else ''}", "" if ratio >= 3 else f"{ratio:.2f}:1")
    browser.view(1280, 900)
    browser.call("document.activeElement?.blur()")
    count, reached = browser.call(FOCUSABLE), set()
    for _ in range(count + 3):
        for kind in ("rawKeyDown", "keyUp"):
            browser.command("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        reached.add(browser.call("document.activeElement.id || document.activeElement.textContent"))
    report("Tab reaches every button and field", "" if len(reached - {""}) >= count else f"{len(reached)} of {count}")


def other_origins(browser, standin):
    """A page of another origin gets nothing, and changes nothing."""
    text = urllib.request.urlopen(standin.page, timeout=LIMIT).read().decode()
    token = text.split('name="token" content="')[1].split('"')[0]
    urllib.request.urlopen(urllib.request.Request(standin.page + "control/faults", method="DELETE"), timeout=LIMIT)
    for name, headers in (("another origin", {"Origin": "http://evil.example", "X-Standin-Token": token}),
                          ("DNS rebinding", {"Host": "evil.example", "X-Standin-Token": token}),
                          ("no token", {"Origin": standin.page.rstrip("/")})):
        request = urllib.request.Request(standin.page + "control/faults", data=b"refuse", headers=headers)
        try:
            status = urllib.request.urlopen(request, timeout=LIMIT).status
        except urllib.error.HTTPError as error:
            status = error.code
        report(f"{name} is refused", "" if status == 403 else status)
    port = standin.page.rstrip("/").rsplit(":", 1)[1]
    # The same machine under another name is another origin.
    browser.open(f"http://localhost:{port}/")
    browser.until("document.body?.dataset.state === 'connected'")
    result = browser.call(f"""Promise.all([
        fetch('http://127.0.0.1:{port}/control/faults', {{method: 'POST', body: 'refuse', mode: 'no-cors'}}).then(() => 'sent', () => 'refused'),
        new Promise(done => {{ const socket = new WebSocket('ws://127.0.0.1:{port}/page/watch?session=x&side=after', ['standin', 'token.{token}']);
            socket.onopen = () => done('opened'); socket.onerror = () => done('refused'); }})])""")
    faults = urllib.request.urlopen(standin.page + "control/faults", timeout=LIMIT).read().strip()
    report("a page of another origin changes nothing", "" if result == ["refused", "refused"] and not faults else f"{result}, {faults}")


def ends(browser, standin, shot):
    """The page says that the stand-in has ended, and that another one runs; a reload makes it the other one's."""
    browser.open(standin.page)
    browser.until("document.body?.dataset.state === 'connected'")
    standin.process.kill()
    standin.process.wait()
    begun = time.monotonic()
    says = "(!document.getElementById('lost').hidden && document.getElementById('lost-text').textContent)"
    why = browser.until(says, LIMIT)
    measured("web: time until the page shows the end of the stand-in", time.monotonic() - begun, "s", at_most=2)
    report("the page says that the stand-in has ended", "" if "ended" in why else why)
    report("nothing can be clicked then", "" if browser.call("document.getElementById('try-canvas').disabled") else "Try it")
    shot("lost")
    port = standin.page.rstrip("/").rsplit(":", 1)[1]
    again = subprocess.Popen([STANDIN, "--port", "0", "--control", port, "--quiet", "--web"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        browser.until(f"{says}.includes?.('Reload')", LIMIT)
        report("the page says that another stand-in runs")
        click(browser, "document.getElementById('reload')")
        browser.until("document.body?.dataset.state === 'connected' && document.getElementById('lost').hidden", LIMIT)
        report("a reload connects to it")
    except TimeoutError as error:
        report("the page says that another stand-in runs", error)
    finally:
        end_process(again)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--screenshots")
    options = parser.parse_args()
    if not chromium.PROGRAM:
        return report.skip("the page in a browser: chromium is not installed")
    standin, browser = StandIn("--web", "--host", "127.0.0.1", "--web-host", "studio.example"), None
    standin.page, standin.foreign = (standin.process.stdout.readline().split()[-1] for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(gstreamer(folder))
        try:
            browser = chromium.Chromium("--host-resolver-rules=MAP studio.example 127.0.0.1")

            def shot(name):
                if options.screenshots:
                    data = browser.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
                    with open(os.path.join(options.screenshots, f"{name}.png"), "wb") as file:
                        file.write(base64.b64decode(data))

            try_it(browser, standin, shot)
            prompts(browser, shot)
            events(browser, shot)
            faults(browser, shot)
            layout(browser, shot)
            watching(browser, standin, shot)
            # A session may end between the list that names it and the request to watch it.
            # The page without a token, its icon, and a prompt are refused on purpose.
            refused = ("/page/watch.* response code: 403|status of 403.* http://studio.example:[0-9]+/(favicon.ico)?$"
                       "|status of 422.*/control/prompt")
            errors = [error for error in browser.console_errors() if not re.search(refused, error)]
            report("the console has no error", "; ".join(errors[:3]))
            hosts = browser.requested_hosts()
            report("the page asks no other host",
                   "" if all(host.startswith(("127.0.0.1:", "studio.example:")) for host in hosts) else hosts)
            other_origins(browser, standin)
            ends(browser, standin, shot)
        except Exception as error:
            report("the page in a browser", f"{type(error).__name__}: {error}")
        finally:
            if browser:
                browser.close()
            standin.close()
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
