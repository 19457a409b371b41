#!/usr/bin/env python3
"""Writes the programs of docs/worker-contract.md, or of another page with whole workers, into files. A code block whose first line is ```LANGUAGE FILE goes unchanged to
DIRECTORY/LANGUAGE/FILE. A producer is a few lines; they replace the comment CONTRACT in the frame tests/clients/LANGUAGE/FILE.

    python3 tests/clients/extract.py docs/worker-contract.md DIRECTORY [PREFIX of the folders]
"""
import pathlib
import re
import sys

readme, directory = map(pathlib.Path, sys.argv[1:3])
prefix = sys.argv[3] if len(sys.argv) > 3 else ""
FOLDERS = {"js": "node", "sh": "shell"}  # a highlighter's name of a language: the folder
frames = pathlib.Path(__file__).resolve().parent
blocks = re.findall(r"^```(\w+) +(\S+)\n(.*?)^```$", readme.read_text("utf-8"), re.M | re.S)
if not blocks:
    sys.exit(f"{readme}: has no code block with a file name")
unused = set() if prefix else set(frames.glob("*/[pP]roducer.*"))
for language, name, text in blocks:
    language = prefix + FOLDERS.get(language, language)
    frame = frames / language / name
    if frame.exists():
        unused.discard(frame)
        whole = frame.read_text("utf-8")
        places = re.findall(r"^([ \t]*)(\S+ CONTRACT)$", whole, re.M)
        if len(places) != 1:
            sys.exit(f"{frame}: must have one comment CONTRACT")
        indent, place = places[0]
        text = whole.replace(indent + place, "\n".join(indent + line for line in text.splitlines()))
    target = directory / language / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
if unused:
    sys.exit(f"{readme}: has no code block for " + ", ".join(map(str, sorted(unused))))
