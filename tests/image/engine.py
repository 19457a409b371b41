"""Common code of the image tests: podman with the storage of deploy/image/engine.sh, a redis-server, and waiting for a condition."""
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

# Like a cluster under Pod Security "restricted", with less memory than the kustomize component gives, and only one writable place,
# the volume.
HARDENED = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--memory=32m",
            "--pids-limit=32"]


def run(*command, code=0, **options):
    """Returns the output of a command. Fails the test unless the exit code is `code`; with None returns the completed process."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S * 2, check=False, **options)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{' '.join(words)}: exit code {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
    return done.stdout if code is not None else done


def podman(*arguments, **options):
    return run("podman", *arguments, **options)


def wait(what, condition, log=None):
    """Returns the first true value of `condition`. After PATIENCE_S fails the test, with the output of `log`."""
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
        """Runs another process of the program in the container."""
        return podman("exec", self.name, "queue-sidecar", *arguments, code=code)

    def failures(self):
        """Jobs of the final failures in the audit log, oldest first."""
        return [event["payload"] for event in reversed(json.loads(self.sidecar("audit", "list", "-o", "json")))]

    def wait_ready(self):
        wait(f"{self.name} is ready", lambda: self.sidecar("healthcheck", "--ready", code=None).returncode == 0, self.log)

    def get(self, path, address="127.0.0.1", outside=False):
        """Status and body of a page, requested from inside the container's network, or from outside, like the kubelet."""
        script = (
            "import http.client, sys; c = http.client.HTTPConnection(sys.argv[1], 8642, timeout=30);"
            "c.request('GET', sys.argv[2]); r = c.getresponse(); print(r.status); print(r.read().decode(), end='')"
        )
        enter = [] if outside else ["nsenter", "-t", self.pid(), "-n"]
        status, body = run(*enter, sys.executable, "-c", script, address, path).split("\n", 1)
        return int(status), body

    def metric(self, sample):
        """Value of a sample of /metrics, by its name and labels; None = there is no such sample."""
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(sample + " "):
                return float(line.rsplit(" ", 1)[1])
        return None

    def crash(self):
        """Kills the process directly: after a kill by podman, podman would not restart the container."""
        os.kill(self.pid(), signal.SIGKILL)

    def stop(self):
        """Sends SIGTERM. Returns the exit code and the seconds until the end."""
        pid = self.pid()
        start = time.monotonic()
        podman("kill", "--signal", "TERM", self.name)
        wait(f"{self.name} ends", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        took = time.monotonic() - start
        wait("podman knows", lambda: self.state("Status") == "exited")
        return int(self.state("ExitCode")), took


class Redis:
    """A redis-server in the test's network. It listens on a unix socket and, unless `port` is 0, on a port."""

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
    """A name server in the test's network that resolves every name to 127.0.0.1."""

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
        """RFC 1035, 4.1: header, the question, and an A record if the question asks for one."""
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
    """Setup of a test: a directory, and containers that are removed at the end."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="qs-image-"))
        self.directory.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.directory)
        self.containers = []
        self.addCleanup(self.remove_containers)

    def remove_containers(self):
        for container in self.containers:
            podman("rm", "--force", "--volumes", "--time", "0", container.name, code=None)

    def container(self, name, *options, command=(), image=IMAGE):
        """Starts a container of an image."""
        container = Container(name)
        self.containers.append(container)
        podman("run", "--detach", "--name", name, *options, image, *command)
        return container
