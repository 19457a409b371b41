#!/usr/bin/env python3
"""Proves that the layers of sidecar/ depend on each other in one direction only, for includes and for calls.

A layer is a folder of sidecar/ with all folders below it. KNOWS lists the layers that each layer may include and call. Includes come
from the sources, calls from the symbols of the object files, so build first. A unit is a .c file with its .h: units must not depend on
each other in a circle. Only one layer may include a library.
"""
import os
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path("sidecar")
OBJECTS = pathlib.Path(os.environ.get("QS_OBJECTS", "build/sidecar"))
MAX_FILES = 27  # .c and .h in one folder

LOW = "config base"
REDIS = "queue redis model " + LOW
ROLE = "inspect role dialects " + REDIS
KNOWS = {
    "base": "",
    "config": "base",
    "model": LOW,
    "audit": "model " + LOW,
    "redis": "model " + LOW,
    "queue": "redis model " + LOW,
    "dialects": REDIS,
    "role": "redis model " + LOW,
    "inspect": "dialects " + REDIS,
    "operate": "inspect role dialects audit " + REDIS,
    "page": "base",
    "http": "page operate role audit " + REDIS,
    "auditor": ROLE + " audit",
    "monitor": ROLE,
    "dispatcher": ROLE,
    "leader": ROLE,
    "app": "leader dispatcher monitor auditor http role dialects " + REDIS,
    "cli": "app operate inspect http dialects audit " + REDIS,
    "main": "cli",
}
SILENT = {"operate"}  # layers that print nothing: their callers do
STREAMS = {"stdout", "stderr", "puts", "printf", "putchar", "perror"}
# The folders of dialects/ that the registry lists are dialects. Dialects share the others.
DIALECTS = set(re.findall(r"^    X\((\w+)\)", (TOP / "dialects/registry.h").read_text(), re.M))
LIBRARIES = {  # header: the only layer (or file) that may include it
    "hiredis/": "redis/",
    "gnutls/": "redis/",
    "sqlite3.h": "audit/",
    "libconfig.h": "config/",
    "microhttpd.h": "http/",
    "nettle/": "base/",
}

offences = []


def layer(path):
    """The layer of a path below sidecar/: the first folder, or for main.c the file."""
    return path.split("/")[0].split(".")[0]


def unit(path):
    return re.sub(r"\.[cho]$", "", path)


def offence(where, text):
    offences.append(f"sidecar/{where}: {text}")


def judge(where, source, target, verb):
    """One dependency of `source` on `target`, both paths below sidecar/."""
    a, b = layer(source), layer(target)
    if a not in KNOWS:
        offence(where, f"no layer \"{a}\": put the file into a folder that tests/check/layers.py knows")
    elif a != b and b not in KNOWS[a].split():
        offence(where, f"{verb}, but {a}/ must not know {b}/: move the needed code down, or pass it in")
    if b == "dialects" and target.split("/")[1] in DIALECTS and source not in ("dialects/registry.c", "dialects/registry.o"):
        if source.rsplit("/", 1)[0] != target.rsplit("/", 1)[0]:
            offence(where, f"{verb}: only dialects/registry.c names a dialect; ask its dialect_ops_t")


def includes():
    """(unit, unit) for every include of a file of the project."""
    edges = set()
    for path in sorted(TOP.rglob("*.[ch]")):
        name = path.relative_to(TOP).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line):
                where = f"{name}:{number}"
                target = match[2]
                if match[1] == "<":
                    for library, home in LIBRARIES.items():
                        if target.startswith(library) and not name.startswith(home):
                            offence(where, f"includes <{target}>, which only {home} may: call a function of that layer")
                elif (TOP / target).is_file():
                    judge(where, name, target, f"includes {target}")
                    edges.add((unit(name), unit(target)))
                elif target.endswith("/scripts.h"):  # made from the .lua files of that folder
                    judge(where, name, target, f"includes {target}")
                elif target not in ("paths.h", "version.h"):
                    offence(where, f"includes \"{target}\": write the path below sidecar/")
    return edges


def calls():
    """(unit, unit) for every symbol of another object that an object uses."""
    paths = [path for path in sorted(OBJECTS.rglob("*.o")) if (TOP / path.relative_to(OBJECTS)).with_suffix(".c").is_file()]
    if not paths:
        sys.exit(f"{OBJECTS}: holds no objects: run make first")
    home, wanted = {}, []
    output = subprocess.run(["nm", "-A", *paths], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        path, rest = line.split(":", 1)
        kind, symbol = rest.split()[-2:]
        name = pathlib.Path(path).relative_to(OBJECTS).as_posix()
        if kind in "TDBRVW":
            home[symbol] = name
        elif kind == "U":
            wanted.append((name, symbol))
            if layer(name) in SILENT and symbol.lstrip("_").removesuffix("_chk") in STREAMS:
                offence(unit(name) + ".c:1", f"uses {symbol}, but {layer(name)}/ prints nothing: fill a buffer, or call the caller back")
    edges = {}
    for name, symbol in wanted:
        if symbol in home and home[symbol] != name:
            edges.setdefault((unit(name), unit(home[symbol])), symbol)
            judge(unit(name) + ".c:1", name, home[symbol], f"uses {symbol}() of {unit(home[symbol])}.c")
    return edges


def circles(edges, what):
    """Reports every group of units that depend on each other in a circle."""
    below = {}
    for a, b in edges:
        if a != b:
            below.setdefault(a, set()).add(b)
    order, low, stack, groups = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in sorted(below.get(node, ())):
            if other not in order:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            group = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(group) > 1:
                groups.append(sorted(group))

    for node in sorted(below):
        if node not in order:
            visit(node)
    for group in groups:
        offence(f"{group[0]}:1", f"in a circle of {what} with {', '.join(group[1:])}")


def folders():
    for folder in [TOP, *(path for path in TOP.rglob("*") if path.is_dir())]:
        count = len([path for path in folder.iterdir() if path.suffix in (".c", ".h")])
        if count > MAX_FILES:
            offence(f"{folder.relative_to(TOP)}:1", f"{count} sources in one folder, {MAX_FILES} are the most: make folders")


def main():
    sys.setrecursionlimit(10000)
    by_include, by_call = includes(), calls()
    circles(by_include, "includes")
    circles(by_call, "calls")
    folders()
    for line in sorted(set(offences)):
        print(line)
    if not offences:
        print(f"ok   layers: {len(by_include)} includes and {len(by_call)} calls between files go downwards")
    return 1 if offences else 0


sys.exit(main())
