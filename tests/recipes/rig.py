"""A redis-server, a sidecar and its log, for the tests of docs/recipes.md, and the code blocks of that page."""
import hashlib
import re
import socket
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/http"))
from schemathesis_run import PROGRAM, Rig, until as until_seconds  # noqa: E402,F401

BUILD = ROOT / "build/recipes"
PAGE = ROOT / "docs/recipes.md"


def until(what, check, seconds=90):
    until_seconds(what, check, seconds)


def block(name):
    """The text of a code block of docs/recipes.md whose first line ends with `name`."""
    found = re.findall(rf"^```\w+ {re.escape(name)}\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert len(found) == 1, f"{PAGE}: has {len(found)} blocks {name}"
    return found[0]


class Failures(Rig):
    """A sidecar that records what `fail` writes."""

    def __init__(self):
        super().__init__()
        self.dir.chmod(0o755)
        self.number, self.sidecar = 0, None

    def begin(self):
        self.start("redis-server", "--port", "0", "--unixsocket", str(self.dir / "redis.sock"), "--save", "")
        until("redis-server listens", (self.dir / "redis.sock").exists)
        self.client = socket.socket(socket.AF_UNIX)
        self.client.connect(str(self.dir / "redis.sock"))
        (self.dir / "log").mkdir()
        self.log, self.config = self.dir / "log/audit.db", self.dir / "queue-sidecar.cfg"
        self.config.write_text(f"""group = "shop";
redis = {{ socket = "{self.dir}/redis.sock"; }};
audit = {{ path = "{self.log}"; }};
http = {{ port = 0; }};
queues = ( {{ name = "email"; }}, {{ name = "video"; }} );
""")

    def run_sidecar(self):
        self.sidecar = self.start(PROGRAM, "run", "-c", str(self.config))
        return self

    def end_sidecar(self, kill=False):
        (self.sidecar.kill if kill else self.sidecar.terminate)()
        self.sidecar.wait(20)
        self.children.remove(self.sidecar)
        self.sidecar = None

    def fail(self, count=1, queue="email", error=b"550 no such mailbox", payload=None):
        """Writes `count` records of final failures, as the script that ends a job does. The auditor copies them."""
        for _ in range(count):
            self.number += 1
            job = payload or b'{"id": "job-%d", "to": "ann@example.org"}' % self.number
            self.redis("XADD", f"sidecar:{queue}:failures", "*", "event", hashlib.sha256(b"%d" % self.number).hexdigest(), "kind", "failed",
                       "dialect", "list", "queue", queue, "job", f"job-{self.number}", "reason", "reported", "error", error, "attempts", 3,
                       "type", "", "worker", "w-1", "at", int(time.time() * 1000), "size", len(job), "sha256",
                       hashlib.sha256(job).hexdigest(), "payload", job)

    def ref(self, job):
        return self.rows(f"SELECT ref FROM events WHERE kind = 'failed' AND job = '{job}'")[0][0]

    def failures(self):
        return len(self.refs())

    def end(self):
        self.client.close()
        return super().end()
