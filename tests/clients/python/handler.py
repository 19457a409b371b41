# The handler of the tests: a job is "KIND NUMBER ANYTHING". It writes files in the current directory. Used by
# tests/monitor/daemon_workers.c; the kinds `die` and `slow`, which only Python has, by tests/app/daemon_loop.c.
import os
import signal
import time


def append(name, line):
    file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line.encode() + b"\n")
    os.close(file)


def first(name):
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL, 0o600))
        return True
    except FileExistsError:
        return False


def handle(job):
    kind, number = job.decode("latin-1").split(" ")[:2]
    append("runs", job.hex())
    if kind == "flaky" and first("seen-" + number):
        raise ValueError("not yet")
    if kind == "poison":
        raise ValueError("poison, caf\u00e9")
    if kind == "hopeless":
        raise ValueError("!no such address")
    if kind == "hang" and first("seen-" + number):
        append("hangs", str(os.getpid()))
        time.sleep(600)
    if kind == "die" and first("seen-" + number):
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "slow":
        time.sleep(0.02)
    while kind == "wait" and not os.path.exists("go"):
        time.sleep(0.01)
    append("done", job.hex())
