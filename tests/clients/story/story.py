# Common code of the Python workers: the kinds of jobs, and the lines that a test counts. tests/clients/README.md explains both.
import os
import signal
import threading
import time


def say(word, key, detail="-"):
    line = f"{word} {key} {int(time.time() * 1000)} {' '.join(str(detail).split()) or '-'}\n"
    os.write(1, line.encode("utf-8", "replace"))  # one write a line: several workers share a file


def first(key):
    try:
        os.close(os.open("seen-" + key, os.O_CREAT | os.O_EXCL, 0o600))
        return True
    except FileExistsError:
        return False


def key_of(text):
    return "-".join(text.split(" ")[:2])


def handle(text):
    kind, key = text.split(" ")[0], key_of(text)
    if kind == "poison":
        raise ValueError("poison, caf\u00e9")
    if kind == "flaky" and first(key):
        raise ValueError("not yet")
    if kind == "die" and first(key):
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hang" and first(key):
        say("hangs", key, os.getpid())
        while True:
            time.sleep(600)
    if kind == "slow":
        time.sleep(0.02)
    while kind == "wait" and not os.path.exists("go"):
        time.sleep(0.01)


def stopping():
    """Returns an event that SIGTERM sets. A second SIGTERM ends the process, and so does the first one while a job hangs."""
    stop = threading.Event()

    def on_term(_signal, frame):
        while frame and frame.f_code is not handle.__code__:
            frame = frame.f_back
        hangs = frame is not None and frame.f_locals.get("kind") == "hang"
        if stop.is_set() or hangs:
            os._exit(0)
        stop.set()

    signal.signal(signal.SIGTERM, on_term)
    return stop
