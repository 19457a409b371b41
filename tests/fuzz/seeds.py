#!/usr/bin/env python3
"""Writes the texts of the tests of the API as first inputs of tests/fuzz/http.c: seeds.py DIRECTORY"""
import ast
import hashlib
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
found = re.findall(r'(?:"(?:[^"\\]|\\.)*"\s*)+', (TOP / "tests/http/unit_api.c").read_text())
directory = Path(sys.argv[1])
directory.mkdir(parents=True, exist_ok=True)
for literal in found:
    text = b"".join(ast.literal_eval("b" + part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', literal))
    for kind in b"qpoct":
        seed = bytes([kind]) + text
        (directory / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
