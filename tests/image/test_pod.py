"""A pod of worker, sidecar and Redis, from deploy/kustomize/legacy-container. podman acts as the kubelet. This test itself does the
parts that podman lacks: probes, and swaps of a mounted ConfigMap."""
import json
import os
import pathlib
import shutil
import tempfile
import time
import unittest

from engine import IMAGE, TOP, UID, Container, podman, run, wait

PLACE = TOP / "build/image/pod"
KUSTOMIZE = os.environ.get("QS_KUSTOMIZE", "")
POD = "mailer-pod-0"


def render():
    """Renders the manifest as a user of the component does, with the worker of docs/worker-contract.md."""
    shutil.rmtree(PLACE, ignore_errors=True)
    shutil.copytree(TOP / "tests/image/pod", PLACE)
    with tempfile.TemporaryDirectory() as extracted:
        run("python3", TOP / "tests/clients/extract.py", TOP / "docs/worker-contract.md", extracted)
        shutil.copy(pathlib.Path(extracted, "python/worker.py"), PLACE)
    shutil.copy(TOP / "tests/clients/python/handler.py", PLACE)
    kustomization = PLACE / "kustomization.yaml"
    name, tag = IMAGE.rsplit(":", 1)
    kustomization.write_text(kustomization.read_text().replace(f"newName: {name}\n", f"newName: {name}\n    newTag: {tag}\n"))
    manifest = PLACE / "pod.yaml"
    manifest.write_text(run(KUSTOMIZE, "build", PLACE))
    return manifest


class ConfigMap:
    """A mounted ConfigMap, with links like the kubelet's (pkg/volume/util/atomic_writer.go, Write): each file is a link into ..data,
    and ..data is a link to a directory with the time in its name."""

    def __init__(self, directory):
        self.directory = directory
        self.current = None
        for file in list(directory.iterdir()):
            text = file.read_text()
            file.unlink()
            file.symlink_to(f"..data/{file.name}")
            self.swap(file.name, text)

    def swap(self, name, text):
        new = self.directory / f"..{time.strftime('%Y_%m_%d_%H_%M_%S')}.{time.monotonic_ns()}"
        new.mkdir(mode=0o755)
        (new / name).write_text(text)
        link = self.directory / "..data_tmp"
        link.symlink_to(new.name)
        link.rename(self.directory / "..data")
        if self.current:
            shutil.rmtree(self.current)
        self.current = new


@unittest.skipUnless(KUSTOMIZE, "there is no kustomize to render the pod (tests/deploy/tools.sh)")
class Pod(unittest.TestCase):
    def setUp(self):
        self.manifest = render()
        self.addCleanup(podman, "volume", "rm", "--all", "--force", code=None)
        self.addCleanup(podman, "pod", "rm", "--force", "--time", "0", POD, code=None)
        podman("kube", "play", "--start=false", self.manifest)
        self.sidecar = Container(f"{POD}-queue-sidecar")
        self.worker = Container(f"{POD}-worker")
        self.config = ConfigMap(self.volume("queue-sidecar"))
        podman("pod", "start", POD)

    def volume(self, name):
        return pathlib.Path(podman("volume", "inspect", "--format", "{{.Mountpoint}}", name).strip())

    def redis(self, *command):
        return run("nsenter", "-t", self.redis_pid, "-n", "redis-cli", "-e", *command).rstrip("\n")

    def done(self, job):
        """Whether the worker has handled the job to its end."""
        return self.has("done", job.encode().hex())

    def has(self, name, line):
        path = self.volume("work") / name
        return path.exists() and line in path.read_text().splitlines()

    def metric(self, name):
        return self.sidecar.metric("queue_sidecar_" + name)

    def configure(self, protected_timeout):
        text = (TOP / "tests/image/pod/queue-sidecar.cfg").read_text()
        self.config.swap("queue-sidecar.cfg", text.replace('"10m"', protected_timeout))

    def test_lives(self):
        self.begins()
        self.works()
        self.loses_its_worker()
        self.is_configured_anew()
        self.loses_its_sidecar()
        self.ends()

    def begins(self):
        self.redis_pid = Container(f"{POD}-redis").pid()
        self.sidecar.wait_ready()
        # The kubelet sends probes to the pod's address.
        about = json.loads(podman("inspect", podman("pod", "inspect", "--format", "{{.InfraContainerID}}", POD).strip()))[0]
        (network,) = about["NetworkSettings"]["Networks"].values()
        self.assertEqual(self.sidecar.get("/healthz", address=network["IPAddress"], outside=True)[0], 200)
        status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{self.sidecar.pid()}/status").read_text().splitlines())
        self.assertEqual(status["Uid"].split()[0], str(UID))
        self.assertEqual((status["CapBnd"].strip(), status["NoNewPrivs"].strip()), ("0" * 16, "1"))

    def works(self):
        self.redis("LPUSH", "email", "good 1 now")
        self.redis("ZADD", "email:delayed", int(time.time() * 1000) + 300, "good 2 later")
        self.redis("LPUSH", "email", "hopeless 3 x")
        wait("the job is done", lambda: self.done("good 1 now"))
        wait("the delayed job is done", lambda: self.done("good 2 later"))
        wait("the failure is in the audit log", lambda: self.sidecar.failures() == ["hopeless 3 x"])

    def loses_its_worker(self):
        """The job of the worker stays in backup, because the timeout is long."""
        self.redis("LPUSH", "email", "hang 4 x")
        wait("the worker is on it", lambda: self.has("hangs", "1"))
        before = self.worker.pid()
        self.worker.crash()
        wait("another worker is there", lambda: self.worker.pid() not in (0, before))
        self.redis("LPUSH", "email", "good 5 beside")
        wait("the other worker works", lambda: self.done("good 5 beside"))
        self.assertIn("hang 4 x", self.redis("LRANGE", "email:backup", "0", "-1").splitlines())

    def is_configured_anew(self):
        """A bad file changes nothing and is reported. A changed timeout takes effect on the job in progress."""
        before = self.metric("config_loaded_timestamp_seconds")
        self.configure('"soon"')
        wait("the bad file is refused", lambda: self.metric("config_refused") == 1)
        self.assertEqual(self.metric("config_loaded_timestamp_seconds"), before)
        self.configure('"1s"')
        wait("the new config is in effect", lambda: self.metric("config_loaded_timestamp_seconds") > before)
        self.assertEqual(self.metric("config_refused"), 0)
        wait("the stalled job is done by the other worker", lambda: self.done("hang 4 x"))
        self.assertEqual(self.sidecar.failures(), ["hopeless 3 x"])

    def loses_its_sidecar(self):
        """The audit log outlives the container."""
        before = self.sidecar.pid()
        self.sidecar.crash()
        wait("the sidecar is started again", lambda: self.sidecar.pid() not in (0, before))
        self.sidecar.wait_ready()
        self.redis("LPUSH", "email", "hopeless 6 x")
        wait("both failures are in the audit log", lambda: self.sidecar.failures() == ["hopeless 3 x", "hopeless 6 x"])
        self.redis("LPUSH", "email", "die 7 x")
        wait("a job that kills its worker once is done", lambda: self.done("die 7 x"))

    def ends(self):
        """SIGTERM ends worker and sidecar with exit code 0, within the grace period of a kubelet. Then nothing of the pod is left."""
        for container in (self.worker, self.sidecar):
            podman("stop", "--time", "30", container.name)
            self.assertEqual((container.state("Status"), container.state("ExitCode")), ("exited", "0"))
        podman("pod", "stop", "--time", "1", POD)
        self.assertTrue(self.sidecar.logged("stopped"))
        podman("kube", "down", self.manifest)
        self.assertEqual(podman("pod", "ps", "--quiet"), "")
        self.assertNotIn("queue-sidecar-audit", podman("volume", "ls", "--quiet").split())
