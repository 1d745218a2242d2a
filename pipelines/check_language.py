#!/usr/bin/python3
"""Check the language of the comments in Sources and Tests against bounds.

    check_language.py                print one line for each rule: "ok NAME" or "not ok NAME: why"
    check_language.py --list [PATH]  also print each block that breaks a rule, below PATH only

A block is a run of comment lines. The bounds are what well-kept Swift and Rust code bases of this field have.
"""

import os
import re
import sys

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A sentence that begins so has mostly no verb of its own: "Of black frames, for nothing else was sent."
OPENERS = set(
    """of by with without from in into on onto at to for as behind beside besides between among until since after before
    under over through during against than beyond below above what whatever which who whoever whom whose whether where
    wherever whence how why that""".split())
# Terms that have "picture" in their name: H.264, RFC 4585, the VP8 and VP9 payload formats, DRM of images.
PICTURE_TERMS = re.compile(
    r"picture (parameter set|loss|ids?\b|order|number|timing|in picture)|picture-in-picture|PictureID|(coded|reference|B-|P-|I-)\s?pictures?",
    re.I)
# In the left column: words with a standard term. The right column is the term.
WORDS = {
    r"far (side|end)s?": "remote peer", r"sounds?(?! (like|card))": "audio", r"key frames?": "keyframe", r"anew": "again",
    r"whose turn": "next", r"veterans?": "previous media",
}


def blocks(path):
    """(line number, text) of each comment block."""
    text, start, result = [], 0, []
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    inside_string = False
    for number, line in enumerate([*lines, ""], 1):
        match = None if inside_string else re.match(r"\s*//+ ?(.*)", line)
        if not match and line.count('"""') % 2:
            inside_string = not inside_string
        if match and not re.match(r"\s*(MARK:|swift-|swift-format|swiftlint)", match[1]):
            text.append(match[1])
            start = start or number
            continue
        if text:
            result.append((start, " ".join(text)))
        text, start = [], 0
    return result


def opens_badly(text):
    word = re.match(r"[-\s*`\"(]*(?:- (?:Returns|Parameter \w+|Throws|Note): )?([A-Za-z']+)", text)
    return bool(word) and word[1].lower() in OPENERS


RULES = [
    # name, bound in percent of the blocks, test
    ("few blocks begin with a preposition or a relative", 8.0, opens_badly),
    ("things are not called who, somebody or nobody", 0.3,
     lambda text: re.search(r"\b(who|whoever|whom|somebody|someone|nobody|anybody|everybody)\b", text, re.I)),
    ("nothing is told, asked, said or heard", 0.4,
     lambda text: re.search(r"\b(is|are|was|were|be|been|being) (told|asked|said|heard)\b", text, re.I)),
    ("a frame is not called a picture", 0.0,
     lambda text: re.search(r"\bpictures?\b", PICTURE_TERMS.sub("", text), re.I)),
    ("standard terms", 0.0,
     lambda text: re.search(rf"\b({'|'.join(WORDS)})\b", text, re.I)),
]


def swift_files(below):
    for folder in ("Sources", "Tests"):
        for where, folders, files in os.walk(f"{REPO}/{folder}"):
            folders.sort()
            for file in sorted(files):
                path = f"{where}/{file}"
                if file.endswith(".swift") and not file.endswith(".pb.swift") and path.startswith(below):
                    yield path


def main():
    lists = "--list" in sys.argv
    rest = [argument for argument in sys.argv[1:] if argument != "--list"]
    below = os.path.abspath(rest[0]) if rest else REPO
    found = [(path, line, text) for path in swift_files(below) for line, text in blocks(path)]
    failed = False
    for name, bound, breaks in RULES:
        broken = [item for item in found if breaks(item[2])]
        share = 100 * len(broken) / max(1, len(found))
        if lists:
            for path, line, text in broken:
                print(f"{os.path.relpath(path, REPO)}:{line}: {text[:150]}")
        outcome = f"{len(broken)} of {len(found)} comment blocks, {share:.1f} %"
        if share > bound:
            failed = True
            print(f"not ok language: {name}: {outcome}, at most {bound:g} %")
        else:
            print(f"ok language: {name} ({outcome})")
    sys.exit(failed)


if __name__ == "__main__":
    main()
