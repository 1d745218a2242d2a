#!/usr/bin/python3
"""Compares the description of the stand-in's control port, pipelines/pytest/control-port.json, with the program.

The sources must have each operation and no other, and the answers of a running stand-in, with a session and without, must
have the described status, type and fields. Prints "ok NAME" or "not ok NAME: why". Uses loopback only.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from checks import REPO, Results, clean_environment, read
from standin import StandIn

DESCRIPTION = json.loads(read(os.path.join(REPO, "pipelines", "pytest", "control-port.json")))
TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict, "null": type(None)}
# What each operation is asked, and its status: with a session that has ended.
REQUESTS = [
    ("GET", "/health", None, 200), ("GET", "/control/sessions", None, 200), ("GET", "/control/journal", None, 200),
    ("GET", "/control/journal?after=-1", None, 400), ("GET", "/control/wait?timeout=0&frames=1", None, 200),
    ("GET", "/control/wait?timeout=0&frames=1000000", None, 408), ("GET", "/control/wait?session=none", None, 404),
    ("GET", "/control/wait?frames=many", None, 400), ("POST", "/control/faults", "http_503:count=1", 200),
    ("POST", "/control/faults", "nonsense", 400), ("GET", "/control/faults", None, 200), ("DELETE", "/control/faults", None, 200),
    ("POST", "/control/inject", "media_silent", 200), ("POST", "/control/inject", "nonsense", 400),
    ("POST", "/control/prompt", "noir", 200), ("POST", "/control/prompt?session=none", "noir", 404),
    ("POST", "/control/prompt", "refuse-me", 422),
    ("POST", "/control/close?code=1012", "", 200), ("POST", "/control/close?code=7", "", 400), ("POST", "/control/drop", "", 200),
    ("DELETE", "/control/sessions", None, 200),
]


def operations():
    return {(method.upper(), path) for path, methods in DESCRIPTION["paths"].items() for method in methods}


def served():
    """Method and path of each case of the sources; the page and the help are no part of the control port."""
    source = read(os.path.join(REPO, "Tools", "StandInServer", "Server", "ControlRequest.swift"))
    cases = re.findall(r'case \("([A-Z]+)", "(/[a-z/]+)"\)(?!,)', source)
    return {case for case in cases if not case[1].startswith("/page")} | {("GET", "/control/wait")}


def problems(value, schema, place="answer"):
    """Where a value of JSON is not as the schema says; the part of JSON Schema that the description uses."""
    if "$ref" in schema:
        schema = DESCRIPTION["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        found = [list(problems(value, each, place)) for each in schema["anyOf"]]
        yield from [] if any(not each for each in found) else found[0]
        return
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if kinds and not any(isinstance(value, TYPES[kind]) and (kind == "boolean") == isinstance(value, bool) for kind in kinds):
        yield f"{place} is {value!r}, not {' or '.join(kinds)}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{place} is {value!r}"
    elif isinstance(value, list):
        for entry in value:
            yield from problems(entry, schema.get("items", {}), f"{place}[]")
    elif isinstance(value, dict) and "properties" in schema:
        yield from (f"{place} has no {name}" for name in schema["required"] if name not in value)
        yield from (f"{place}.{name} is not described" for name in value if name not in schema["properties"])
        for name, entry in value.items():
            yield from problems(entry, schema["properties"].get(name, {}), f"{place}.{name}")


def ask(address, method, target, body):
    request = urllib.request.Request(address + target, data=None if body is None else body.encode(), method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def check(report, address, method, target, body, wanted):
    status, kind, text = ask(address, method, target, body)
    described = DESCRIPTION["paths"][target.partition("?")[0]][method.lower()]["responses"].get(str(wanted))
    why = f"status {status}" if status != wanted else "" if described else "its status is not described"
    if not why:
        [(expected, content)] = described["content"].items()
        if kind.partition(";")[0] != expected:
            why = f"it is {kind}, not {expected}"
        elif expected == "application/json":
            why = "; ".join(problems(json.loads(text), content["schema"]))
    report(f"{method} {target}: {wanted}", why)


def main():
    report = Results("control port")
    differences = operations() ^ served()
    report("the description has the operations of the sources", sorted(differences) or "")
    report("each operation is asked", sorted(operations() - {(method, target.partition("?")[0]) for method, target, _, _ in REQUESTS}) or "")
    with tempfile.TemporaryDirectory() as folder, StandIn("--show-prompts") as standin:
        subprocess.run(["gst-launch-1.0", "-q", "videotestsrc", "is-live=true", "num-buffers=300", "!", "decarttransform", "model=any",
                        "width=320", "height=176", "framerate=20", f"base-url={standin.url}", "api-key=x", "prompt=noir", "!", "fakesink"],
                       env=clean_environment(folder), stdin=subprocess.DEVNULL, timeout=120, check=False)
        for method, target, body, wanted in REQUESTS:
            check(report, standin.control, method, target, body, wanted)
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
