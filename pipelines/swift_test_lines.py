"""Turn Swift Testing's event stream into lines "ok NAME", "not ok NAME: why", "skip NAME: why".

The console's output has no stable form, and the xUnit file misses what did not end: a test that crashed the process,
and those that were still to run. The event stream names every test before the first one starts.

usage: swift_test_lines.py EVENTS EXIT-STATUS
"""

import json
import sys


def one_line(text):
    return " ".join(text.split())[:400]


def describe(status):
    if status in (124, 137):
        return "the time limit was over"
    return f"the test process ended with status {status}"


def read(path):
    """(name by id, outcome by id): an outcome is a list of issues, a skip's reason, or None for a test without end."""
    names, started, ended, issues, skipped = {}, set(), set(), {}, {}
    try:
        stream = open(path, encoding="utf-8", errors="replace")
    except OSError:
        return names, started, ended, issues, skipped
    with stream:
        for line in stream:
            try:
                record = json.loads(line)
            except ValueError:
                continue  # A crash may cut the last line.
            payload = record.get("payload", {})
            if record.get("kind") == "test":
                if payload.get("kind") == "function":
                    # "Target.Suite/function()/File.swift:12:6", with the place left out.
                    names[payload["id"]] = payload["id"].rsplit("/", 1)[0]
                continue
            test, kind = payload.get("testID"), payload.get("kind")
            text = "; ".join(message.get("text", "") for message in payload.get("messages", []))
            if kind == "testStarted":
                started.add(test)
            elif kind == "testEnded":
                ended.add(test)
            elif kind == "testSkipped":
                reason = "; ".join(comment for comment in payload.get("_comments", []) if comment)
                skipped[test] = reason or text
            elif kind == "issueRecorded" and not payload.get("issue", {}).get("isKnown"):
                issues.setdefault(test, []).append(text)
    return names, started, ended, issues, skipped


def main():
    path, status = sys.argv[1], int(sys.argv[2])
    names, started, ended, issues, skipped = read(path)
    failed = False
    for test, name in sorted(names.items(), key=lambda item: item[1]):
        if test in issues:
            failed = True
            print(f"not ok {name}: {one_line('; '.join(issues[test]))}")
        elif test in skipped:
            print(f"skip {name}: {one_line(skipped[test])}")
        elif test in ended:
            print(f"ok {name}")
        else:
            failed = True
            what = "did not end" if test in started else "did not start"
            print(f"not ok {name}: {what}: {describe(status)}")
    # Issues of a suite, or of no test at all.
    for test in issues.keys() - names.keys():
        failed = True
        print(f"not ok {test or 'outside of any test'}: {one_line('; '.join(issues[test]))}")
    if status != 0 and not failed:
        print(f"not ok the run as a whole: {describe(status)}")


if __name__ == "__main__":
    main()
