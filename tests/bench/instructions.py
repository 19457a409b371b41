#!/usr/bin/env python3
"""Counts the instructions of redis-server for a job in scripts of two trees: instructions.py OLD NEW [WORD...]

OLD and NEW are working trees; OLD may be older than the dialects stream and bullmq. A row is measured if its name has one of the words.
Each script is sent the same requests in both trees, in turns, four times; the lowest count of each stands. callgrind (package valgrind) counts, so
other programs do not disturb. In the rows of `--parts TREE` a copy of stream_settle.lua returns early, behind one part after the other.
"""
import hashlib
import os
import re
import socket
import subprocess
import sys
import tempfile

LOCK, TOKEN, ROOM, AT = "sidecar:g:lock", "576d2e8f34ba2508abc09714d091e3a8-5000", 1 << 40, 1600000000000


class Redis:
    """A redis-server under callgrind, and a connection to it."""

    def __init__(self, scratch):
        self.scratch, path = scratch, scratch + "/redis.sock"
        self.server = subprocess.Popen(
            ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=" + scratch + "/counts.%p"]
            + ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--logfile", scratch + "/redis.log"])
        self.socket = socket.socket(socket.AF_UNIX)
        while self.socket.connect_ex(path):
            if self.server.poll() is not None:
                sys.exit("redis-server does not run under valgrind")
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.read()

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            sys.exit(rest.decode())
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def control(self, *options):
        subprocess.run(["callgrind_control", *options, str(self.server.pid)], check=True, capture_output=True)

    def count(self, requests, check):
        self.control("-i", "on")
        for request in requests:
            check(self.ask(*request))
        self.control("-d")
        self.control("-i", "off")
        totals = []
        for name in os.listdir(self.scratch):
            if name.startswith("counts."):
                with open(os.path.join(self.scratch, name), encoding="ascii") as file:
                    totals += [int(total) for total in re.findall(r"^(?:totals|summary): (\d+)", file.read(), re.M)]
                os.unlink(os.path.join(self.scratch, name))
        return max(total for total in totals if total < 10 ** 15)  # callgrind gives some threads a count that has overflowed


def script(tree, path):
    """The text as Redis gets it; None: the tree has no such script."""
    path = tree + "/sidecar/" + path
    return subprocess.check_output(["sh", tree + "/sidecar/queue/lua/embed.sh", "--join", path]) if os.path.exists(path) else None


def job(number):
    return '{"id":%d,"to":"ann@example.org","template":"welcome","text":"%s"}' % (number, "x" * 40)


def many(redis, command, key, words, step=500):
    for i in range(0, len(words), step):
        redis.ask(command, key, *words[i:i + step])


def form(kind, dialect):
    """The fields that all records of a request share, and the names of the others (records.lua)."""
    shared = ["kind", kind, "dialect", dialect, "queue", "q0", "worker", "w1", "reason", "stalled", "term", TOKEN, "group", "bench",
              "attempts", "1", "size", "105", "started", "1795882838120"]
    return [len(shared)] + shared + [4, "event", "job", "sha256", "created"]


def record(number):
    text = str(number).encode()
    return [hashlib.sha1(text).hexdigest(), text, hashlib.sha1(text + b"x").hexdigest(), "1795882837791"]


def stamp(number):
    return hashlib.md5(b"%d" % number).digest()


# Each row: what fills Redis, and the requests without EVALSHA and digest. `new`: the tree knows what came with stream and bullmq.


def promote(size, scripts):
    def fill(redis):
        many(redis, "ZADD", "q0:delayed", [word for i in range(size * scripts) for word in (AT + i, job(i))])

    def requests(new):
        return [[4, LOCK, "q0:delayed", "q0", "sidecar:q0:meta", TOKEN, "g", 10000000, size, "ms", 0, 16777216, 0, ROOM, size]
                + ["right"] * new for _ in range(scripts)]
    return "queue/lua/promote.lua", fill, requests


def settle(size, scripts, flags, kind, again=False, private=False, dlq=False):
    lists = ["q0:w%d" % i for i in range(size * scripts)] if private else ["q0:backup"]

    def fill(redis):
        for i, name in enumerate(lists if private else []):
            redis.ask("RPUSH", name, job(i))
        if not private:
            many(redis, "RPUSH", "q0:backup", [job(i) for i in reversed(range(size * scripts))])
        many(redis, "HSET", "sidecar:q0:stamps", [word for i in range(size * scripts) for word in (stamp(i), "s" * 28)])

    def one(new, first):
        froms = lists[first:first + size] if private else lists
        keys = [LOCK, "sidecar:q0:stamps", "q0:errors", "sidecar:q0:failures", "sidecar:q0:meta", LOCK, "q0:dead" if dlq else LOCK, LOCK,
                LOCK] + froms + ["q0"]
        words = [TOKEN, "ms", ROOM] + [""] * new + [0, 0 if private or size == 1 else size + 16, 0, "again " if again else ""]
        words += form(kind, "list")
        ends = flags[0] == "e"
        for i in range(size):
            place = (10 + i * private, 10 + len(froms), 1 if private else 64 + i, 64 if ends and not private else 0, flags)
            words += ["%d,%d,0,-%d,%d,%s" % place, job(first + i), stamp(first + i), "s" * 28, "" if ends else "n" * 28]
            words += [job(first + i).replace("welcome", "welcomf")] * again + record(first + i)
        return [len(keys)] + keys + words
    return "queue/lua/settle.lua", fill, lambda new: [one(new, first) for first in range(0, size * scripts, size)]


BULL = "bull:q0:"
BULL_JOB = ("redis.call('HSET', 'bull:q0:' .. i, 'name', 'mail', 'data', '{}', 'opts', '{}', 'timestamp', '1', 'delay', '5000', "
            "'priority', ARGV[2] == '1' and 1 + i % 10 or '0') ")


def bull_promote(size, scripts, priorities=0):
    def fill(redis):
        redis.ask("EVAL", "for i = 0, ARGV[1] - 1 do " + BULL_JOB + "redis.call('ZADD', 'bull:q0:delayed', string.format('%.0f', "
                  "(1600000000000 + i) * 4096), i) end", 0, size * scripts, priorities)
    keys = [LOCK] + [BULL + name for name in ("delayed", "wait", "paused", "meta-paused", "priority", "active")]
    keys += ["sidecar:q0:meta", "sidecar:q0:aside", BULL + "events", BULL + "marker"]
    request = [len(keys)] + keys + [TOKEN, "g", size, 0, BULL, 60000, 100000]
    return "dialects/bull/lua/bull_promote.lua", fill, lambda new: [request] * scripts


def bull_settle(size, scripts):
    def fill(redis):
        redis.ask("EVAL", "for i = 0, ARGV[1] - 1 do " + BULL_JOB + "redis.call('LPUSH', 'bull:q0:active', i) "
                  "redis.call('SADD', 'bull:q0:stalled', i) end", 0, size * scripts, 0)

    def one(new, first):
        keys = [LOCK] + [BULL + name for name in ("stalled", "active", "wait", "paused", "meta-paused", "failed")]
        keys += ["sidecar:q0:recorded", "sidecar:q0:failures", "sidecar:q0:meta"]
        words = [TOKEN, ROOM] + [""] * new + [0, size] + form("retried", "bull")
        for number in range(first, first + size):
            keys += [BULL + str(number), BULL + str(number) + ":lock"]
            words += [number, "", "r", "", ""] + record(number)
        return [len(keys)] + keys + words
    return "dialects/bull/lua/bull_settle.lua", fill, lambda new: [one(new, first) for first in range(0, size * scripts, size)]


def delayed_promote(size, scripts):
    envelope = '{"payload":{"text":"%s"},"type":"Mail","attempt":1,"logContext":{}}' % ("x" * 40)

    def fill(redis):
        many(redis, "ZADD", "de_delayed_events", [word for i in range(size * scripts) for word in (AT + i, "Mail###%d" % i)])
        many(redis, "HSET", "de_events", [word for i in range(size * scripts) for word in ("Mail###%d" % i, envelope)])
    request = [6, LOCK, "de_delayed_events", "de_events", "sidecar:q0:meta", "sidecar:q0:aside", "de_mail", TOKEN, "g", size, size, 1 << 30,
               16777216, 70, 60000, 2, 10, 10000, 70, 1440000, "Mail"]
    return "dialects/delayed_queue/lua/delayed_promote.lua", fill, lambda new: [request] * scripts


def stream_settle(size, scripts):
    ids = ["%d-1" % (AT + i) for i in range(size * scripts)]

    def fill(redis):
        redis.ask("XGROUP", "CREATE", "q0", "workers", 0, "MKSTREAM")
        for i, entry in enumerate(ids):
            redis.ask("XADD", "q0", entry, "data", job(i))
        redis.ask("XREADGROUP", "GROUP", "workers", "w1", "COUNT", len(ids), "STREAMS", "q0", ">")
        for i in range(0, len(ids), 500):
            redis.ask("XCLAIM", "q0", "workers", "w1", 0, *ids[i:i + 500], "IDLE", 3600000, "RETRYCOUNT", 1)

    def one(first):
        keys = [LOCK, "sidecar:q0:stamps", "q0:errors", "sidecar:q0:failures", "sidecar:q0:meta", "q0", LOCK, LOCK]
        words = [TOKEN, "ms", ROOM, "", "workers", 60000, "", "data"] + form("retried", "stream")
        for number in range(first, first + size):
            words += ["r", ids[number], "w1", 1, stamp(number), "", "n" * 28, "", 0, 0] + record(number)
        return [len(keys)] + keys + words
    return "dialects/stream/lua/stream_settle.lua", fill, lambda new: [one(first) for first in range(0, size * scripts, size)]


def all_rows():
    for size, scripts in ((1, 60), (64, 30), (400, 12)):
        yield "list: promote", size, promote(size, scripts)
    for size, scripts in ((1, 60), (8, 40)):
        yield "list: retries", size, settle(size, scripts, "r", "retried")
        yield "list: ends", size, settle(size, scripts, "ep", "failed", dlq=True)
        yield "kmqueue: retries", size, settle(size, scripts, "rf", "retried", again=True)
        yield "private_queues: retries", size, settle(size, scripts, "r", "retried", private=True)
        yield "bull: retries", size, bull_settle(size, scripts)
    yield "bull: promote", 1, bull_promote(1, 60)
    yield "bull: promote", 64, bull_promote(64, 80)
    yield "bull: promote with priorities", 32, bull_promote(32, 80, 1)
    yield "delayed_queue: promote", 1, delayed_promote(1, 60)
    yield "delayed_queue: promote", 50, delayed_promote(50, 80)
    for size, scripts in ((1, 60), (8, 40), (16, 40)):
        yield "stream: retries", size, stream_settle(size, scripts)


ROUNDS, WARM = 4, 5  # counts of each row, requests before a count


def expect_success(reply):
    first = reply[0][0] if isinstance(reply[0], list) else reply[0]
    if first not in (b"moved", b"more", b"settled", b"cut"):
        sys.exit("a script replied %r" % reply)


def measure(redis, text, new, fill, requests):
    redis.ask("FLUSHALL")
    fill(redis)
    redis.ask("SET", LOCK, TOKEN)
    digest = redis.ask("SCRIPT", "LOAD", text)
    all_requests = [["EVALSHA", digest] + request for request in requests(new)]
    for request in all_requests[:WARM]:
        expect_success(redis.ask(*request))
    return redis.count(all_requests[WARM:], expect_success) / (len(all_requests) - WARM)


def compare(redis, old, new, words):
    has_new = [os.path.exists(tree + "/sidecar/dialects/stream/lua/stream_settle.lua") for tree in (old, new)]
    for name, size, (path, fill, requests) in all_rows():
        texts = [script(tree, path) for tree in (old, new)]
        if (words and not any(word in name for word in words)) or not texts[1]:
            continue
        counts = [[], []]
        for side in (0, 1) * ROUNDS:
            if texts[side]:
                counts[side].append(measure(redis, texts[side], has_new[side], fill, requests) / size)
        ratio = "%5.2f" % (min(counts[1]) / min(counts[0])) if counts[0] else "    -"
        print("%-32s scripts of %3d: %8.0f a job, %s of the old" % (name, size, min(counts[1]), ratio), flush=True)


# Lines of stream_settle.lua at which a part begins.
PARTS = (("functions and clock", "local began = clock_us()"), ("fence and types", "local found, why = only_group"),
         ("the look for a second group", "local form, first_job"), ("values of the jobs as tables", "local stamps, reports"),
         ("stamps, size of the failure stream, XPENDING", "local settled = {}\n"), ("checks of each job, XADD of its copy", "record_jobs(KEYS"),
         ("XADD of the record", "local stamped, unstamped"), ("HSET, XACK, XDEL, the reply", None))


def parts(redis, tree, size):
    path, fill, requests = stream_settle(size, 60)
    text, before = script(tree, path).decode(), 0
    first_line = text.index("\n") + 1
    for name, end in (("the request", first_line),) + PARTS:
        at = end if isinstance(end, int) else text.index(end) if end else len(text)
        cut = text[:at] + ("do return {'cut'} end\n" if at < len(text) else "") + text[at:]
        count = measure(redis, cut, True, fill, requests)
        print("scripts of %2d: %-46s %8.0f a job" % (size, name, (count - before) / size), flush=True)
        before = count


def main(words):
    if len(words) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        redis = Redis(scratch)
        try:
            if words[0] == "--parts":
                for size in (1, 16):
                    parts(redis, words[1], size)
            else:
                compare(redis, words[0], words[1], words[2:])
        finally:
            redis.server.terminate()
            redis.server.wait()


main(sys.argv[1:])
