#!/usr/bin/env python3
"""Breaks the program on purpose, one line at a time, and runs the tests that must notice. tests/check/mutants.list has the mutants.

mutants.py [WORD]   tries the mutants whose file or text has WORD, or all of them, in a copy of the built tree
mutants.py --check  only looks for the text of each mutant: its file must have it exactly once
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
LIST = TOP / "tests/check/mutants.list"
LIMIT_S = 180  # a run of tests that takes longer has noticed the mutant
ENTRIES = ["Makefile", "sidecar", "sql", "tests", "conf", "docs", "deploy", "build/gen", "build/sidecar", "build/tests", "build/queue-sidecar"]

Mutant = namedtuple("Mutant", "entry file tests old new")  # entry: its place in the list


def read_list():
    """Returns the mutants, and the faults of the list."""
    mutants, faults, file, tests = [], [], None, None
    for number, line in enumerate(LIST.read_text().splitlines(), 1):
        entry = f"{LIST.relative_to(TOP)}:{number}"
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            file, _, tests = line.partition(" ")
            continue
        old, separator, new = (part.strip() for part in line.partition("==>"))
        found = (TOP / file).read_text().count(old) if (TOP / file).is_file() else 0
        if not separator or not old or not tests:
            faults.append(f"{entry}: not `FILE TESTS` or an indented `TEXT ==> TEXT`: {line.strip()}")
        elif found != 1:
            faults.append(f"{entry}: {file} has {found} times `{old}`: give a text that it has once")
        mutants.append(Mutant(entry, file, tests.strip(), old, new))
    return mutants, faults


def copy_tree(to):
    for entry in ENTRIES:
        (to / entry).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", TOP / entry, to / entry], check=True)  # with its times: make rebuilds nothing


def build(tree):
    """Returns the errors, '' = none."""
    make = os.environ.get("MAKE", "make")
    done = subprocess.run([make, "-s", "-j2", "SANITIZER=", "build/tests/suite"], cwd=tree, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def run_tests(tree, tests, *options, limit_s=LIMIT_S):
    """Returns how many tests ran, and those that failed."""
    command = ["build/tests/suite", f"-j{min(8, 4 * (os.cpu_count() or 1))}", "--filter", tests, *options]
    suite = subprocess.Popen(command, cwd=tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, errors="replace", start_new_session=True)
    try:
        output = suite.communicate(timeout=limit_s)[0]
    except subprocess.TimeoutExpired:
        return 1, [tests]
    finally:
        if suite.returncode is None:
            os.killpg(suite.pid, signal.SIGKILL)
    tested = re.search(r"Tested: (\d+)", output)
    failed = re.findall(r"^\[(?:FAIL|CRASH)\] ([a-z0-9_]+)::(\w+)", output, re.M)
    failed = ["/".join(name) for name in failed]
    return int(tested[1]) if tested else 1, failed or [tests] * (suite.returncode != 0)


def run_twice(tree, tests, limit_s=LIMIT_S):
    """Returns how many tests ran, and those that failed twice: on a busy machine a test may fail by chance."""
    for options in ["--fail-fast"], []:
        tested, failed = run_tests(tree, tests, *options, limit_s=limit_s)
        again = failed and run_tests(tree, "@(" + "|".join(failed) + ")")[1]
        if again or not failed:
            break
    return tested, again


def attempt(tree, mutant):
    """Returns 'caught', 'SURVIVED' or 'ERROR', and why."""
    path = tree / mutant.file
    text = path.read_text()
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        errors = build(tree)
        if errors:
            return "ERROR", "does not build: " + next((line for line in errors.splitlines() if "error" in line), errors[-200:])
        tested, failed = run_twice(tree, mutant.tests)
    finally:
        path.write_text(text)
    if tested == 0:
        return "ERROR", f"no test has a name like {mutant.tests}"
    return ("caught", "by " + failed[0]) if failed else ("SURVIVED", f"{tested} tests pass")


def main():
    word = "".join(sys.argv[1:])
    mutants, faults = read_list()
    if faults:
        sys.exit("\n".join(faults))
    if word == "--check":
        print("ok   mutants")
        return
    mutants = [mutant for mutant in mutants if word in f"{mutant.file} {mutant.old} ==> {mutant.new}"]
    if not mutants:
        sys.exit(f"no mutant has {word}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started, bad = time.monotonic(), {"SURVIVED": [], "ERROR": []}
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        copy_tree(tree)
        errors = build(tree)
        every = "@(" + "|".join(sorted({mutant.tests for mutant in mutants})) + ")"
        failed = [] if errors else run_twice(tree, every, limit_s=None)[1]
        if errors or failed:
            sys.exit(f"FAILED without any mutant: {errors or failed[0]}")
        for mutant in mutants:
            begun = time.monotonic()
            verdict, why = attempt(tree, mutant)
            change = f"{mutant.file}: {mutant.old} ==> {mutant.new}"
            print(f"{verdict} {why}, {time.monotonic() - begun:.0f} s: {change}", flush=True)
            if verdict in bad:
                bad[verdict].append(f"{mutant.entry}: {verdict}, {why}: {change}")
    survivors, errors = len(bad["SURVIVED"]), len(bad["ERROR"])
    print("\n".join(["", *bad["ERROR"], *bad["SURVIVED"]]))
    print(f"mutants: {len(mutants)} tried, {len(mutants) - survivors - errors} caught, {survivors} survived, {errors} errors, "
          f"{time.monotonic() - started:.0f} s")
    sys.exit(1 if survivors or errors else 0)


if __name__ == "__main__":
    main()
