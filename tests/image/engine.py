"""What the tests of the image share: podman with the storage that deploy/image/engine.sh has set up, a redis-server of their own,
and waiting for a condition."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

IMAGE = os.environ["QS_IMAGE"]
TOP = pathlib.Path(__file__).resolve().parent.parent.parent
UID = 65532
PATIENCE_S = 60 * int(os.environ.get("QS_TEST_SLOW", "1"))

# As a cluster under Pod Security "restricted" runs it, with less memory than the kustomize component gives it, and nowhere to
# write but its volume.
HARDENED = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--memory=32m",
            "--pids-limit=32"]


def run(*command, code=0, **options):
    """Output of a command; fails the test unless it ends with `code`, where None is any."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S * 2, check=False, **options)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{' '.join(words)}: exit code {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
    return done.stdout if code is not None else done


def podman(*arguments, **options):
    return run("podman", *arguments, **options)


def wait(what, condition, log=None):
    """The first true value of `condition`; fails the test, with what `log` says, when none has come in time."""
    until = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        if time.monotonic() > until:
            raise AssertionError(f"waited {PATIENCE_S} s: {what}\n{log() if log else ''}")
        time.sleep(0.05)
    return value


class Container:
    """One container by its name."""

    def __init__(self, name):
        self.name = name

    def state(self, field):
        return podman("inspect", "--type=container", "--format", "{{.State.%s}}" % field, self.name).strip()

    def pid(self):
        return int(self.state("Pid"))

    def log(self):
        done = podman("logs", self.name, code=None)
        return done.stdout + done.stderr

    def logged(self, message):
        return any(json.loads(line)["msg"] == message for line in self.log().splitlines())

    def sidecar(self, *arguments, code=0):
        """Runs the program inside, beside the one that runs there."""
        return podman("exec", self.name, "queue-sidecar", *arguments, code=code)

    def failures(self):
        """Jobs of the final failures in the audit log, oldest first."""
        return [event["payload"] for event in reversed(json.loads(self.sidecar("audit", "list", "-o", "json")))]

    def wait_ready(self):
        wait(f"{self.name} is ready", lambda: self.sidecar("healthcheck", "--ready", code=None).returncode == 0, self.log)

    def get(self, path, address="127.0.0.1", outside=False):
        """Status and body of a page, asked within the container's network or, as the kubelet asks, outside of it."""
        script = (
            "import http.client, sys; c = http.client.HTTPConnection(sys.argv[1], 8642, timeout=30);"
            "c.request('GET', sys.argv[2]); r = c.getresponse(); print(r.status); print(r.read().decode(), end='')"
        )
        enter = [] if outside else ["nsenter", "-t", self.pid(), "-n"]
        status, body = run(*enter, sys.executable, "-c", script, address, path).split("\n", 1)
        return int(status), body

    def metric(self, sample):
        """Value of one sample, by its name and labels as they stand in /metrics; None where there is none."""
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(sample + " "):
                return float(line.rsplit(" ", 1)[1])
        return None

    def crash(self):
        """Its process is killed, and not by podman, which would take that for an order not to restart it."""
        os.kill(self.pid(), signal.SIGKILL)

    def stop(self):
        """As an engine stops it: SIGTERM, and SIGKILL after ten seconds. Returns exit code and seconds until the end."""
        pid = self.pid()
        start = time.monotonic()
        podman("kill", "--signal", "TERM", self.name)
        wait(f"{self.name} ends", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        took = time.monotonic() - start
        wait("podman knows", lambda: self.state("Status") == "exited")
        return int(self.state("ExitCode")), took


class Redis:
    """A redis-server of the test's network, which listens on a unix socket, and on a port if it is given one."""

    def __init__(self, directory, port=0):
        self.directory = directory
        self.port = port
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--unixsocket", self.directory / "redis.sock", "--unixsocketperm", "777",
             "--save", "", "--appendonly", "yes", "--dir", self.directory],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait("redis-server answers", lambda: self("PING", code=None).stdout == "PONG\n")

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def __call__(self, *command, code=0):
        result = run("redis-cli", "-e", "-s", self.directory / "redis.sock", *command, code=code)
        return result.rstrip("\n") if code is not None else result


class NameServer(threading.Thread):
    """Every name is 127.0.0.1, for those in the test's network."""

    def __init__(self):
        super().__init__(daemon=True)
        self.asked = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        self.start()

    def run(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                query, peer = self.socket.recvfrom(512)
                self.socket.sendto(self.answer(query), peer)

    def answer(self, query):
        """RFC 1035, 4.1: header, the question again, and an A record if that was asked for."""
        end = query.index(b"\0", 12) + 5
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        self.asked.append(".".join(labels))
        wants_a = query[end - 4 : end - 2] == b"\0\1"
        record = b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 60, 4) + bytes([127, 0, 0, 1])
        return query[:2] + struct.pack(">5H", 0x8180, 1, int(wants_a), 0, 0) + query[12:end] + (record if wants_a else b"")

    def close(self):
        self.socket.close()


class EngineTest(unittest.TestCase):
    """A directory, and containers that are gone in the end."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="qs-image-"))
        self.directory.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.directory)
        self.containers = []
        self.addCleanup(self.remove_containers)

    def remove_containers(self):
        for container in self.containers:
            podman("rm", "--force", "--volumes", "--time", "0", container.name, code=None)

    def container(self, name, *options, command=()):
        """A container of the image that runs."""
        container = Container(name)
        self.containers.append(container)
        podman("run", "--detach", "--name", name, *options, IMAGE, *command)
        return container
