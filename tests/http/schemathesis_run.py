#!/usr/bin/env python3
"""Starts a redis-server and a sidecar, fills its log, and runs schemathesis: schemathesis_run.py [SEED]. schemathesis.sh calls it."""
import hashlib
import os
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = Path(os.environ.get("QS_DAEMON") or HERE.parents[1] / "build/queue-sidecar").resolve()
SECONDS = int(os.environ.get("QS_SCHEMATHESIS_SECONDS") or 20)  # of each of the two runs
TOKEN = "all-token-0123456789"
DIALECTS = {"mail": "list", "videos": "bull", "km": "kmqueue", "private": "private_queues", "later": "delayed_queue"}
SETTINGS = {"mail": 'hide = ["/card"];', "videos": "", "km": 'queues = ["km:safe"];', "private": 'main = "m"; private = "m:*";', "later": 'types = ["T"];'}
REASONS = ["retries_exhausted", "reported", "alive_timeout", "unreadable", "invalid_target", "dead_letter", "worker_failed", "cancelled"]
# Bytes that are no text, and texts that break what quotes them badly.
PAYLOADS = [b'{"customer": "4711", "card": "5105-1051"}', b"\xff\xfe\x00 no text", b"", b'{"a": "\xc3\x28"}', b"<script>alert(1)</script>",
            '{"b": "\u202e\u0000 \U0001f600"}'.encode(), b"[" * 500 + b"]" * 500, b"x" * 100000]
ERRORS = [b"no route to host", b"", b"\x80\x81", 'timeout\nat line 2 "\\'.encode(), b"\x1b[31m\x00"]


class Rig:
    def __init__(self):
        self.dir, self.children = Path(tempfile.mkdtemp(prefix="qs-schemathesis-")), []
        self.log = self.dir / "audit.db"

    def start(self, *argv):
        with open(self.dir / "output", "ab") as output:
            self.children.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.dir))
        return self.children[-1]

    def redis(self, *words):
        """Returns the reply as it comes: those here are short."""
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.client.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        reply = self.client.recv(65536)
        assert reply[:1] != b"-", reply
        return reply

    def run(self, *argv):
        done = subprocess.run([PROGRAM, *argv, "-c", self.config], capture_output=True, text=True)
        assert done.returncode == 0, (argv, done.stderr)

    def get(self, path):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def begin(self):
        self.start("redis-server", "--port", "0", "--unixsocket", str(self.dir / "redis.sock"), "--save", "")
        until("redis-server listens", (self.dir / "redis.sock").exists)
        self.client = socket.socket(socket.AF_UNIX)
        self.client.connect(str(self.dir / "redis.sock"))
        self.port, self.config = random.SystemRandom().randrange(20000, 30000), self.dir / "queue-sidecar.cfg"
        (self.dir / "tokens").write_text(f"all look,payloads,act {TOKEN}\n")
        queues = [f'{{ name = "{queue}"; dialect = "{dialect}"; {SETTINGS[queue]} }}' for queue, dialect in DIALECTS.items()]
        self.config.write_text(f"""group = "shop";
redis = {{ socket = "{self.dir}/redis.sock"; }};
audit = {{ path = "{self.log}"; }};
http = {{ listen = "127.0.0.1"; port = {self.port}; token_file = "{self.dir}/tokens"; }};
queues = ( {", ".join(queues)} );
""")
        self.start(PROGRAM, "run", "-c", str(self.config))
        until("the sidecar is ready", lambda: self.get("/readyz") == 200)
        self.fill()

    def fill(self):
        number, now = 0, int(time.time() * 1000)
        for queue, dialect in DIALECTS.items():
            for payload in PAYLOADS:
                number += 1
                event = hashlib.sha256(b"%d" % number).hexdigest()
                self.redis("XADD", f"sidecar:{queue}:failures", "*", "event", event, "kind", "failed", "dialect", dialect, "queue", queue,
                           "job", b"job-%d\xff" % number, "reason", REASONS[number % len(REASONS)], "error", ERRORS[number % len(ERRORS)],
                           "attempts", number % 3, "type", "t", "worker", b"w-\xf0", "at", now - number * 600000, "size", len(payload),
                           "sha256", hashlib.sha256(payload).hexdigest(), "payload", payload)
        for i, payload in enumerate(PAYLOADS):
            self.redis("RPUSH", "mail", payload + b"%d" % i)
            self.redis("ZADD", "mail:delayed", now / 1000 + 3600 + i, payload + b" later %d" % i)
        until("the log has the failures", lambda: len(self.refs()) == number)
        refs = self.refs()
        self.run("audit", "requeue", refs[0], "--because", "tried again")
        self.run("audit", "discard", refs[1], refs[2])
        self.run("audit", "erase", refs[3], refs[4], "--because", "asked by letter")
        until("the log has the answers", lambda: self.count("kind <> 'failed'") >= 5)

    def refs(self):
        return [row[0] for row in self.rows("SELECT ref FROM events WHERE kind = 'failed' ORDER BY seq")]

    def count(self, where):
        return self.rows(f"SELECT count(*) FROM events WHERE {where}")[0][0]

    def rows(self, sql):
        try:
            with sqlite3.connect(f"file:{self.log}?mode=ro", uri=True) as log:
                return log.execute(sql).fetchall()
        except sqlite3.OperationalError:
            return []

    def end(self):
        for child in reversed(self.children):
            child.terminate()
        codes = [child.wait(20) for child in reversed(self.children)]
        if os.environ.get("QS_KEEP"):
            print(f"kept: {self.dir}")
        else:
            shutil.rmtree(self.dir)
        return codes[0]


def until(what, check, seconds=30):
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            raise SystemExit(f"this did not happen in time: {what}")
        time.sleep(0.05)


def compare(rig, seed, token):
    """Returns whether the API fits its description, for one who has the token, or none."""
    # Not every text that the description allows is a time or a cursor, and lengths are of bytes: so positive_data_acceptance is left
    # out. A wrong token makes the next ones wait, so ignored_auth is: daemon_api tests that.
    argv = [HERE.parents[1] / "build/schemathesis/venv/bin/schemathesis", "run",
            f"http://127.0.0.1:{rig.port}/api/v1/openapi.json", "--seed", str(seed), "--max-time", str(SECONDS), "--no-shrink",
            "--checks", "all", "--exclude-checks", "positive_data_acceptance,ignored_auth", "--generation-database", "none",
            "--no-color", "--warnings", "off", "--continue-on-failure", "--max-failures", "5"]
    if token:
        argv += ["--header", f"Authorization: Bearer {token}"]
    print(f"schemathesis, seed {seed}, {'with a' if token else 'without a'} token", flush=True)
    env = dict(os.environ, SCHEMATHESIS_HOOKS="schemathesis_hooks", PYTHONPATH=str(HERE), QS_REFS=" ".join(rig.refs()))
    return subprocess.run(argv, env=env, cwd=rig.dir).returncode == 0


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    rig = Rig()
    try:
        rig.begin()
        good = [compare(rig, seed, token) for token in (TOKEN, None)]
        alive = rig.get("/healthz") == 200
    finally:
        code = rig.end()
    print(f"schemathesis: seed {seed}, {'all is well' if all(good) and alive and code == 0 else 'FAILED'}, exit code of the sidecar {code}")
    sys.exit(not (all(good) and alive and code == 0))


if __name__ == "__main__":
    main()
