"""Starts the rendered sidecar of an example as a kubelet would: with its args, env and probes, and its ConfigMap as a directory that is
swapped as a whole. Only paths, the port and Redis differ from the rendering."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from configs import PROGRAM
from policy import chosen, environment, sidecar, template
from render import readme

TIMEOUT_S = 30  # seconds; timeout of each step, which usually takes less than one second


class Failed(Exception):
    pass


def until(what, ask):
    end = time.monotonic() + TIMEOUT_S
    while True:
        found = ask()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"did not happen in {TIMEOUT_S} s: {what}")
        time.sleep(0.05)


class Volume:
    """A ConfigMap as kubelets mount it: the files are links into ..data, and ..data is a link that is replaced
    (k8s.io/kubernetes/pkg/volume/util/atomic_writer.go)."""

    def __init__(self, path, data):
        self.path, self.number = path, 0
        path.mkdir()
        self.swap(data)
        for name in data:
            (path / name).symlink_to(f"..data/{name}")

    def swap(self, data):
        self.number += 1
        fresh = self.path / f"..{self.number}"
        fresh.mkdir()
        for name, text in data.items():
            (fresh / name).write_text(text)
        link = self.path / "..data_tmp"
        link.symlink_to(fresh.name)
        link.rename(self.path / "..data")


class Pod:
    def __init__(self, case, work):
        doc = next(doc for doc in case.docs if doc["kind"] == "Deployment" and chosen(doc))
        self.spec = sidecar(doc)
        maps = {doc["metadata"]["name"]: doc["data"] for doc in case.docs if doc["kind"] == "ConfigMap"}
        volumes = {volume["name"]: volume for volume in template(doc)["spec"]["volumes"]}
        self.data = maps[volumes["queue-sidecar-config"]["configMap"]["name"]]
        self.volume = Volume(work / "config", self.data)
        self.socket = work / "redis"
        self.work = work
        self.redis = self.process = None
        # While this socket is bound no other process gets the port. The program can listen on it, because it sets SO_REUSEADDR too.
        self.held = socket.socket()
        self.held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.held.bind(("127.0.0.1", 0))
        self.port = self.held.getsockname()[1]
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("QUEUE_SIDECAR_")}
        self.env.update(environment(doc))
        self.env["QUEUE_SIDECAR_CONFIG"] = self.env["QUEUE_SIDECAR_CONFIG"] or str(self.volume.path / "queue-sidecar.cfg")
        self.env["QUEUE_SIDECAR_AUDIT_PATH"] = str(work / "audit.db")
        self.env["QUEUE_SIDECAR_REDIS_SOCKET"] = str(self.socket)
        self.env["QUEUE_SIDECAR_HTTP_PORT"] = str(self.port)

    def start(self):
        with (self.work / "log").open("w") as log:
            self.process = subprocess.Popen([PROGRAM.resolve(), *self.spec["args"]], cwd=self.volume.path, env=self.env, stderr=log)

    def start_redis(self):
        self.redis = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", self.work], stdout=subprocess.DEVNULL
        )

    def cli(self, *words):
        done = subprocess.run(["redis-cli", "-s", self.socket, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        return done.stdout.strip()

    def get(self, path, **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=named)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return answer.status, answer.read().decode(errors="replace")  # the page is gzipped
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read().decode()
        except (urllib.error.URLError, ConnectionError):
            return 0, ""

    def probe(self, name):
        return self.get(self.spec[name]["httpGet"]["path"])[0] == 200

    def metric(self, name):
        lines = self.get("/metrics")[1].splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith(f"queue_sidecar_{name} ")), None)

    def status(self):
        done = subprocess.run([PROGRAM, "status", "-o", "json"], env=self.env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        return json.loads(done.stdout)

    def end(self):
        self.held.close()
        for process in (self.process, self.redis):
            if process and process.poll() is None:
                process.kill()
                process.wait()


def live(pod):
    """Runs through the life of a pod. Raises Failed at the first wrong step."""
    pod.start()
    until("startupProbe succeeds without Redis", lambda: pod.probe("startupProbe"))
    if pod.get("/readyz")[0] != 503:
        raise Failed("it is ready without Redis")
    pod.start_redis()
    until("ready with Redis", lambda: pod.get("/readyz")[0] == 200 and pod.metric("leader") == 1)

    # A worker took a job and died. With the example's timeout of a minute the job stays in backup.
    pod.cli("LPUSH", "email:backup", '{"id":"1"}')
    until("a scan has found the job", lambda: pod.cli("HLEN", "sidecar:email:stamps") == "1")
    before = pod.metric("config_loaded_timestamp_seconds")
    changed = {name: text.replace('protected_timeout = "1m"', 'protected_timeout = "1s"') for name, text in pod.data.items()}
    if changed == pod.data:
        raise Failed("the example no longer has protected_timeout = 1m")
    pod.volume.swap(changed)
    until("/metrics counts the reload", lambda: pod.metric("reloads_total") == 1)
    until("/metrics has the time of the reload", lambda: pod.metric("config_loaded_timestamp_seconds") > before)
    if 'queue_sidecar_protected_timeout_seconds{queue="email"} 1\n' not in pod.get("/metrics")[1]:
        raise Failed("/metrics does not have the new timeout")
    until("the job is retried after the new timeout", lambda: pod.cli("HLEN", "sidecar:email:stamps") != "0" and is_retried(pod))
    until("status shows the new timeout", lambda: 'protected_timeout \\"1m\\" -> \\"1s\\"' in json.dumps(pod.status()["instance_here"]))

    pod.volume.swap({name: text + "nonsense = 1;\n" for name, text in changed.items()})
    until("/metrics says that a config is refused", lambda: pod.metric("config_refused") == 1)
    if not (pod.probe("livenessProbe") and pod.get("/readyz")[0] == 200 and pod.metric("leader") == 1):
        raise Failed("a refused config has changed probes or leadership")
    pod.volume.swap(changed)
    until("the corrected config is accepted", lambda: pod.metric("config_refused") == 0)

    pod.process.send_signal(signal.SIGTERM)
    if pod.process.wait(timeout=TIMEOUT_S) != 0:
        raise Failed(f"exit code {pod.process.returncode}, so no Job would complete")
    remove_leftovers(pod)


def named(pod):
    """An annotation of the pod names the file: it is read from the working directory, and a change of it takes effect."""
    pod.start()
    until("startupProbe succeeds", lambda: pod.probe("startupProbe"))

    def timeout():
        return re.findall(r"queue_sidecar_protected_timeout_seconds.* (\d+)", pod.get("/metrics")[1])

    if timeout() != ["180"]:
        raise Failed(f"the file of the annotation is not read: protected_timeout is {timeout()}")
    file = pod.env["QUEUE_SIDECAR_CONFIG"]
    pod.volume.swap({**pod.data, file: pod.data[file].replace("name =", 'protected_timeout = "7s"; name =')})
    until("the changed file takes effect", lambda: timeout() == ["7"])


def publish(pod):
    """The page of an example behind a proxy: host name, the person whom the proxy names, and a Secret that is swapped."""
    secret = Volume(pod.work / "secret", {"tokens": "gateway look,payloads,act,proxy the-first-token-of-it\n"})
    pod.env["QUEUE_SIDECAR_HTTP_TOKEN_FILE"] = str(secret.path / "tokens")
    pod.start()
    until("startupProbe succeeds without Redis", lambda: pod.probe("startupProbe"))

    def session(token, host="queues.example.com"):
        headers = {"Host": host, "Authorization": f"Bearer {token}", "X_Forwarded_User": "carla@example.com"}
        return pod.get("/api/v1/session", **headers)

    code, text = session("the-first-token-of-it")
    if code != 200 or json.loads(text)["name"] != "carla@example.com":
        raise Failed(f"the person whom the proxy names is not known: {code} {text}")
    if session("the-first-token-of-it", "other.example.com")[0] != 421:
        raise Failed("it answers under a name that is not in http.hosts")
    if pod.get("/", Host="queues.example.com")[0] != 200:
        raise Failed("there is no page")
    secret.swap({"tokens": "gateway look,payloads,act,proxy the-second-token-of-it\n"})
    if session("the-first-token-of-it")[0] != 401 or session("the-second-token-of-it")[0] != 200:
        raise Failed("a swapped Secret does not change the tokens at once")


def remove_leftovers(pod):
    """The block "leftovers" of deploy/README.md removes every key and sentinel of the sidecar from Redis, and nothing else."""
    ours = pod.cli("--scan", "--pattern", "sidecar:*").splitlines()
    markers = [entry for entry in pod.cli("LRANGE", "email:backup", "0", "-1").splitlines() if entry.startswith("sidecar-sentinel:")]
    if "sidecar:mailer:queues" not in ours or len(ours) < 2 or len(markers) != 1:
        raise Failed(f"expected keys and one sentinel before the removal: {ours}, {markers}")
    pod.cli("RPUSH", "email:backup", "theirs")
    cli = pod.work / "bin/redis-cli"
    cli.parent.mkdir()
    cli.write_text(f'#!/bin/sh\nexec {shutil.which("redis-cli")} -s {pod.socket} "$@"\n')
    cli.chmod(0o755)
    block = readme("leftovers", "sh")
    subprocess.run(["sh", "-ec", block], env={**os.environ, "PATH": f"{cli.parent}:{os.environ['PATH']}"}, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S, check=True)
    left = set(pod.cli("KEYS", "*").splitlines())
    if left - {"email", "email:delayed", "email:backup"} or pod.cli("LRANGE", "email:backup", "0", "-1") != "theirs" or not is_retried(pod):
        raise Failed(f"the block \"leftovers\" of deploy/README.md leaves {left}, or removes too much")


def is_retried(pod):
    """The job is in ready, or, because the example has a backoff, in delayed."""
    return int(pod.cli("LLEN", "email")) + int(pod.cli("ZCARD", "email:delayed")) == 1


def offences(case, course=live):
    with tempfile.TemporaryDirectory() as work:
        pod = Pod(case, pathlib.Path(work))
        try:
            course(pod)
        except (Failed, subprocess.SubprocessError, OSError) as why:
            log = (pod.work / "log").read_text().splitlines() if (pod.work / "log").exists() else []
            yield f"{case.name}: {why}; its log ends with {log[-3:]}"
        finally:
            pod.end()
