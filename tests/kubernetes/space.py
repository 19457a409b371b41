"""A namespace of a test, with a Redis of its own, and what a test asks of the pods in it."""
import datetime
import json
import os
import re
import shutil
import subprocess
import time
import unittest

import yaml

from cluster import BIN, NODE, PKI, TOP, cgroup_of, cluster, kubectl, process_of, run, say, wait
from redis_client import Redis

RESTRICTED = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
BARE = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
EXAMPLES = TOP / "deploy/examples"


def when(text):
    """Seconds since 1970 of a time of Kubernetes, which has up to nine digits after the point."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.datetime.fromisoformat(whole + "+00:00").timestamp() + float("0." + (fraction or "0"))


class Pod:
    """A pod as the API showed it."""

    def __init__(self, space, about):
        self.space, self.about = space, about
        self.name, self.uid = about["metadata"]["name"], about["metadata"]["uid"]
        self.status = about["status"]
        states = self.status.get("initContainerStatuses", []) + self.status.get("containerStatuses", [])
        self.containers = {state["name"]: state for state in states}

    @property
    def ready(self):
        return "deletionTimestamp" not in self.about["metadata"] and any(
            condition["type"] == "Ready" and condition["status"] == "True" for condition in self.status.get("conditions", []))

    @property
    def address(self):
        return self.status["podIP"]

    def again(self):
        """The pod as it is now; None = it is gone."""
        found = cluster().get(f"/api/v1/namespaces/{self.space.name}/pods/{self.name}")
        return Pod(self.space, found) if found and found["metadata"]["uid"] == self.uid else None

    def container_id(self, container="queue-sidecar"):
        return self.containers[container]["containerID"].removeprefix("containerd://")

    def started(self, container):
        return when(self.containers[container]["state"]["running"]["startedAt"])

    def restarts(self):
        return {name: state["restartCount"] for name, state in self.containers.items()}

    def process(self, container="queue-sidecar"):
        return process_of(self.container_id(container))

    def cgroup(self, container="queue-sidecar"):
        return cgroup_of(self.container_id(container))

    def sidecar(self, *arguments, code=0):
        """Runs another process of the program in the sidecar."""
        return self.space.kubectl("exec", self.name, "-c", "queue-sidecar", "--", "queue-sidecar", *arguments, code=code)

    def log(self, container="queue-sidecar", *options):
        done = self.space.kubectl("logs", self.name, "-c", container, "--tail=-1", *options, code=None)
        return done.stdout if done.returncode == 0 else ""

    def entries(self, message):
        """The log entries of the sidecar with this message."""
        return [entry for entry in map(json.loads, filter(lambda line: line.startswith("{"), self.log().splitlines())) if entry["msg"] == message]

    def metrics(self):
        """The metrics by name and labels; none while it does not answer."""
        if "podIP" not in self.status:
            return {}
        text = run("curl", "-sS", "--max-time", "10", f"http://{self.address}:8642/metrics", code=None).stdout
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")}

    def health(self, path):
        """The HTTP status of /healthz or /readyz, as a kubelet asks for it; 000 = no answer."""
        return run("curl", "-s", "--max-time", "5", "-o", "/dev/null", "-w", "%{http_code}", f"http://{self.address}:8642{path}", code=None).stdout


class Space:
    """A namespace under Pod Security "restricted"."""

    def __init__(self, name):
        self.name = name
        self.redis = None
        wait(f"no older namespace {name} is left", lambda: cluster().get(f"/api/v1/namespaces/{name}") is None)
        wanted = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
        self.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": wanted}})

    def kubectl(self, *arguments, **options):
        verb, *rest = arguments
        return kubectl(verb, "-n", self.name, *rest, **options)

    def make(self, *objects):
        self.kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def make_volumes(self, number):
        """The default storage class, which has no provisioner, and directories of the node as its volumes."""
        there = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1"]}]}]}
        objects = [{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "kubernetes.io/no-provisioner",
                    "volumeBindingMode": "WaitForFirstConsumer",
                    "metadata": {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}]
        for _ in range(number):
            name = f"volume-{len(list((NODE / 'volumes').iterdir()))}"
            path = NODE / "volumes" / name
            path.mkdir()
            objects.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                            "spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                                     "persistentVolumeReclaimPolicy": "Retain", "local": {"path": str(path)}, "nodeAffinity": {"required": there}}})
        kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def evict(self, pod):
        """Asks for an eviction, as a drain does. Returns the completed process."""
        order = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name, "namespace": self.name}}
        return kubectl("create", "--raw", f"/api/v1/namespaces/{self.name}/pods/{pod.name}/eviction", "-f", "-", given=json.dumps(order), code=None)

    def page(self, service, path, token=None, host=None):
        """Status and text of an answer of page and API, through the Service."""
        address = self.service_address(service)
        words = ["-H", f"Authorization: Bearer {token}"] if token else []
        text, code = run("curl", "-sS", "--compressed", "--max-time", "20", *words, "-H", f"Host: {host or address}", "-w", "\n%{http_code}",
                         f"http://{address}{path}").rsplit("\n", 1)
        return int(code), text

    def apply(self, directory, code=0):
        return self.kubectl("apply", "-k", directory, code=code)

    def secret(self, name="queue-sidecar", **files):
        """Makes or replaces a Secret, as deploy/README.md says; `__` in the name of a file is a dot, `_` a dash."""
        literals = [f"--from-literal={file.replace('__', '.').replace('_', '-')}={text}" for file, text in files.items()]
        manifest = self.kubectl("create", "secret", "generic", name, *literals, "--dry-run=client", "-o", "yaml")
        self.kubectl("apply", "-f", "-", given=manifest)

    def forward(self, target, port):
        """Runs `kubectl port-forward`. Returns a function that ends it."""
        process = subprocess.Popen([BIN / "kubectl", "--kubeconfig", PKI / "admin.yaml", "-n", self.name, "port-forward", target, str(port)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return lambda: (process.kill(), process.wait())

    def service_address(self, name):
        return cluster().get(f"/api/v1/namespaces/{self.name}/services/{name}")["spec"]["clusterIP"]

    def start_redis(self, *options, password=None, name="redis", volumes=()):
        """A Redis whose name is `redis`, as in the examples. It keeps its data in an emptyDir."""
        mounts = [{"name": "data", "mountPath": "/data"}] + [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
        command = ["redis-server", "--save", "", "--appendonly", "yes", "--dir", "/data", "--bind", "0.0.0.0", "--protected-mode", "no", *options]
        container = {"name": "redis", "image": "registry.example.org/mailer:1.4.2", "command": command, "securityContext": BARE,
                     "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}, "volumeMounts": mounts}
        pod = {"terminationGracePeriodSeconds": 5, "securityContext": RESTRICTED, "containers": [container],
               "volumes": [{"name": "data", "emptyDir": {}}, *volumes]}
        self.make(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
             "spec": {"selector": {"app": "redis"}, "ports": [{"name": "redis", "port": 6379}]}},
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "redis"},
             "spec": {"serviceName": name, "selector": {"matchLabels": {"app": "redis"}},
                      "template": {"metadata": {"labels": {"app": "redis"}}, "spec": pod}}})
        address = self.service_address(name)
        cluster().names.known[f"{name}.{self.name}.svc.cluster.local"] = address
        self.redis = Redis(address, password)
        if "--tls-port" not in options:
            wait("redis answers", self.redis.answers, told=self.describe)

    def pods(self, selector="queue-sidecar=enabled", ending=False):
        """Pods with these labels; those that are being deleted only with `ending`."""
        found = cluster().get(f"/api/v1/namespaces/{self.name}/pods?labelSelector={selector.replace('=', '%3D')}")
        assert found, "the API does not answer"
        return [Pod(self, about) for about in found["items"] if ending or "deletionTimestamp" not in about["metadata"]]

    def wait_gone(self, selector="queue-sidecar=enabled"):
        wait(f"no pod with {selector} is left", lambda: not self.pods(selector, ending=True), told=self.describe)

    def wait_ready(self, number, selector="queue-sidecar=enabled", but=()):
        """Waits until exactly `number` pods are there, all ready, and none of them is one of the uids in `but`."""

        def ready():
            pods = self.pods(selector)
            return pods if len(pods) == number and all(pod.ready and pod.uid not in but for pod in pods) else None

        return wait(f"{number} pods with {selector} are ready", ready, told=self.describe)

    def leader(self, selector="queue-sidecar=enabled", but=None):
        """The pod that leads; not the one with the uid `but`."""

        def leading():
            leaders = [pod for pod in self.pods(selector) if pod.uid != but and pod.metrics().get("queue_sidecar_leader") == 1]
            return leaders[0] if len(leaders) == 1 else None

        return wait("one instance leads", leading, told=self.describe)

    def poke(self, selector="queue-sidecar=enabled"):
        """Makes the kubelet look at ConfigMaps and Secrets at once, as deploy/README.md says."""
        self.kubectl("annotate", "pods", "-l", selector, f"queue-sidecar/poked={time.time()}", "--overwrite")

    def configure(self, *changes):
        """Changes texts of the config in the ConfigMap, and pokes the pods."""
        path = f"/api/v1/namespaces/{self.name}/configmaps/queue-sidecar"
        text = cluster().get(path)["data"]["queue-sidecar.cfg"]
        for old, new in changes:
            changed = re.sub(old, new, text)
            assert changed != text, f"the config has no {old}"
            text = changed
        self.kubectl("patch", "configmap", "queue-sidecar", "--type=merge", "-p", json.dumps({"data": {"queue-sidecar.cfg": text}}))
        self.poke()

    def describe(self):
        """What a person would look at after a failure."""
        text = self.kubectl("get", "pods", "-o", "wide", code=None).stdout
        text += "\n".join(self.kubectl("get", "events", "--sort-by=.lastTimestamp", code=None).stdout.splitlines()[-15:])
        for pod in self.pods():
            text += f"\n{pod.name}: " + "\n".join(line[:300] for line in pod.log().splitlines()[-5:])
        return text

    def end(self):
        """Deletes the namespace and does not wait for the grace of its pods. The namespace goes first: it then takes no new pods."""
        kubectl("delete", "namespace", self.name, "--wait=false")
        self.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false", code=None)


class SpaceTest(unittest.TestCase):
    """Tests in a namespace of their own, which `prepare` fills once for the class. A test that fails shows the pods."""

    namespace = None  # default: the name of the class
    example = None  # a directory below deploy/examples, applied as it is
    replicas = 0
    space = None

    @classmethod
    def setUpClass(cls):
        cluster()
        cls.space = Space(cls.namespace or cls.__name__.lower())
        cls.addClassCleanup(cls.space.end)
        cls.prepare()

    @classmethod
    def prepare(cls):
        cls.space.start_redis()
        if cls.example:
            cls.space.apply(EXAMPLES / cls.example)
            cls.pods = cls.space.wait_ready(cls.replicas)

    def setUp(self):
        self.begun = time.monotonic()

    def tearDown(self):
        say(f"{self.id()}: {time.monotonic() - self.begun:.1f} s")

    def assert_jobs(self, fate, restarts=False):
        """Each job ended once and none began early. Unless `restarts`, none began twice."""
        self.assertGreater(fate.made, 0)
        self.assertEqual((fate.lost, fate.early, fate.twice), ([], [], []), str(fate))
        if not restarts:
            self.assertEqual(fate.restarted, [], str(fate))


def rendered(name, example, without_label=False, **changes):
    """The directory of a kustomization as a user would write it: an example with other members. `components` are below deploy/."""
    source = EXAMPLES / example
    directory = NODE / "kustomizations" / name
    directory.mkdir(parents=True)
    (directory / "queue-sidecar.cfg").write_text((source / "queue-sidecar.cfg").read_text())
    kustomization = yaml.safe_load((source / "kustomization.yaml").read_text())
    kustomization.update(changes)
    if without_label:  # only in the operator's own manifests it can be removed: patches come after components
        shutil.copytree(source / "base", directory / "base")
        for file in (directory / "base").iterdir():
            file.write_text(re.sub(r"^ *queue-sidecar: enabled\n", "", file.read_text(), flags=re.M))
    else:
        kustomization["resources"] = [os.path.relpath(source / path, directory) for path in kustomization["resources"]]
    base = TOP / "deploy" if "components" in changes else source
    kustomization["components"] = [os.path.relpath(base / path, directory) for path in kustomization["components"]]
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return directory
