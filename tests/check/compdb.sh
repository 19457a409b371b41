#!/bin/sh
# Checks that `make compdb` tells how each source of the program and of its suite is compiled, and makes the generated headers.
set -eu
cd "$(dirname "$0")/../.."
${MAKE:-make} -s compdb
python3 - <<'END'
import json, pathlib, sys

known = {entry["file"] for entry in json.load(open("build/compile_commands.json"))}
sources = {str(path) for top in ("sidecar", "tests") for path in pathlib.Path(top).rglob("*.c")}
apart = {path for path in sources if path.startswith(("tests/bench/", "tests/fuzz/", "tests/kubernetes/")) or "/shim_" in path}
missing = sorted(sources - apart - known)
for path in missing:
    print(f"{path}:1: is not in build/compile_commands.json: see the target compdb in the Makefile")
if not list(pathlib.Path("build/gen").rglob("scripts.h")):
    sys.exit("Makefile:1: make compdb has not made the generated headers")
if missing:
    sys.exit(1)
print(f"ok   compdb: {len(known)} sources")
END
