"""Common code of the tests of a release: the two clones that run.sh has made, and commands."""
import hashlib
import os
import pathlib
import subprocess
import sys

ONE, OTHER = (pathlib.Path(path) for path in os.environ["QS_RELEASES"].split(":"))
PARTS = os.environ["PARTS"].split()
FILES = ONE / "build/release"
VALIDATOR = os.environ["QS_VALIDATOR"]
TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "deploy/release"))


def run(*command, code=0, **options):
    """Returns the output, standard error included. Fails the test unless the exit code is `code`."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, check=False, **options)
    if done.returncode != code:
        raise AssertionError(f"{' '.join(words)}: exit code {done.returncode}, not {code}\n{done.stdout}")
    return done.stdout


def make(tree, *words, code=0):
    """Runs `make release` in a tree."""
    bare = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return run("make", "-s", "release", *words, code=code, cwd=tree, env=bare)


def clone(place):
    """A clone of the last commit."""
    run("git", "clone", "-q", "--shared", "--no-tags", TOP, place)
    return pathlib.Path(place)


def sums(directory):
    """{name: SHA-256} of the files in a directory."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in pathlib.Path(directory).iterdir()}


VERSION = run("sed", "-n", "s/^VERSION := //p", TOP / "Makefile").strip()
