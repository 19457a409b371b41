"""The special cases of deploy/README.md: its blocks are applied as they are there."""
import json
import pathlib
import re
import textwrap

import yaml

from cluster import TOP, kubectl, wait
from space import SpaceTest, rendered


def block(title):
    """A block of deploy/README.md: ```yaml TITLE, for the Deployment of the example in place of the page's."""
    found = re.search(rf"^( *)```yaml {title}\n(.*?)^\1```$", (TOP / "deploy/README.md").read_text(), re.M | re.S)
    return yaml.safe_load(re.sub(r"\b(bare|other)\b", "mailer", textwrap.dedent(found.group(2))))


class Special(SpaceTest):
    """One after the other is applied over examples/python-deployment."""

    example = "python-deployment"
    replicas = 3

    def roll(self, name, **changes):
        """Applies a rendering, and returns its pods."""
        return self.roll_directory(rendered(name, self.example, **changes))

    def roll_directory(self, directory):
        self.space.apply(directory)
        self.space.kubectl("rollout", "status", "deployment/mailer", "--timeout=120s")
        pods = wait("only pods of the rollout are left", lambda: (pods := self.space.wait_ready(3)) and len({
            pod.about["metadata"]["labels"]["pod-template-hash"] for pod in pods}) == 1 and pods)
        self.assertIn("all is well", pods[0].sidecar("status"))
        return pods

    def test_any_user(self):
        """OpenShift chooses the user: here the pod's."""
        user = {"op": "replace", "path": "/spec/template/spec/securityContext/runAsUser", "value": 1000660000}
        patches = block("any user")["patches"] + [{"target": {"kind": "Deployment", "name": "mailer"}, "patch": json.dumps([user])}]
        # runAsGroup stays that of the manifest.
        pod = self.roll("any-user", patches=patches)[0]
        status = open(f"/proc/{pod.process()}/status", encoding="ascii").read()
        self.assertIn("Uid:\t1000660000", status)

    def test_own_config(self):
        """Two applications in one namespace: the second one has a ConfigMap of its own."""
        config = {"name": "mailer-queue-sidecar", "files": ["queue-sidecar.cfg"], "options": {"disableNameSuffixHash": True}}
        patches = block("own config")["patches"]
        pods = self.roll("own-config", patches=patches, configMapGenerator=[config])
        volumes = {volume["name"]: volume for volume in pods[0].about["spec"]["volumes"]}
        self.assertEqual(volumes["queue-sidecar-config"]["configMap"]["name"], "mailer-queue-sidecar")

    def test_two_configs(self):
        """Two applications in one namespace: an annotation of the pods names their file of the ConfigMap."""
        config = {"name": "queue-sidecar", "files": ["mailer.cfg=queue-sidecar.cfg"], "options": {"disableNameSuffixHash": True}}
        named = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "mailer"}, "spec": block("config annotation")}
        pods = self.roll("two-configs", patches=[{"target": {"kind": "Deployment", "name": "mailer"}, "patch": json.dumps(named)}], configMapGenerator=[config])
        self.assertEqual({entry["config"] for pod in pods for entry in pod.entries("queue-sidecar starts")}, {"mailer.cfg"})

    def test_certificate(self):
        """The Secret: a certificate in a Secret of its own is in the same directory as the password."""
        self.space.secret(redis_password="x")
        self.space.secret("redis-client", tls__crt="y")
        self.addCleanup(self.space.kubectl, "delete", "secret", "queue-sidecar")
        pod = self.roll("certificate", patches=block("certificate")["patches"])[0]
        place = pathlib.Path(f"/proc/{pod.process()}/root/run/secrets/queue-sidecar")
        self.assertEqual([(place / name).read_text() for name in ("redis-password", "tls.crt")], ["x", "y"])

    def test_another_port(self):
        """It is changed in the env and in the port; the probes use its name."""
        container = "/spec/template/spec/initContainers/0"
        patch = [{"op": "replace", "path": f"{container}/env/1/value", "value": "9642"},
                 {"op": "replace", "path": f"{container}/ports/0/containerPort", "value": 9642}]
        pod = self.roll("another-port", patches=[{"target": {"kind": "Deployment", "name": "mailer"}, "patch": json.dumps(patch)}])[0]
        self.assertEqual([entry["port"] for entry in pod.entries("serving health and metrics")], [9642])

    def test_label(self):
        """Manifests of others get the label from a component that is listed before ours."""
        directory = rendered("label", self.example, without_label=True)
        (directory / "label").mkdir()
        (directory / "label/kustomization.yaml").write_text(yaml.safe_dump(block("label")))
        kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
        kustomization["components"].insert(0, "label")
        (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        self.assertEqual([set(pod.containers) for pod in self.roll_directory(directory)], [{"queue-sidecar", "worker"}] * 3)

    def test_resolver(self):
        pod = self.roll("resolver", patches=block("resolver")["patches"])[0]
        options = open(f"/proc/{pod.process()}/root/etc/resolv.conf", encoding="ascii").read()
        self.assertRegex(options, r"options .*timeout:1")
        self.assertRegex(options, r"options .*attempts:2")

    def test_memory(self):
        pod = self.roll("memory", patches=block("memory")["patches"])[0]
        limit = next(path for path in (pod.cgroup() / "memory.limit_in_bytes", pod.cgroup() / "memory.max") if path.exists())
        self.assertEqual(int(limit.read_text()), 128 << 20)


class HostNetwork(SpaceTest):
    """Port 8642 is the node's: one pod runs, and the others stay pending. (Pod Security "restricted" refuses hostNetwork.)"""

    @classmethod
    def prepare(cls):
        kubectl("label", "namespace", cls.space.name, "pod-security.kubernetes.io/enforce=privileged", "--overwrite")
        cls.space.start_redis()

    def test_a_second_pod_on_the_node_stays_pending(self):
        host = {"op": "add", "path": "/spec/template/spec/hostNetwork", "value": True}
        self.space.kubectl("apply", "-k", rendered("host-network", "own-deployment", patches=[
            {"target": {"kind": "Deployment", "name": "mailer-sidecar"}, "patch": json.dumps([host])}]))

        def apart():
            pods = self.space.pods()
            reasons = [condition.get("reason") for pod in pods for condition in pod.status.get("conditions", []) if condition["type"] == "PodScheduled"]
            return len(pods) == 2 and "Unschedulable" in reasons and any("queue-sidecar" in pod.containers for pod in pods)

        wait("one pod is pending", apart, told=self.space.describe)


class Legacy(SpaceTest):
    """The component legacy-container, with readiness: a plain container, which may end before the worker."""

    @classmethod
    def prepare(cls):
        cls.space.start_redis()
        directory = rendered("legacy", "own-deployment", components=["kustomize/legacy-container", "kustomize/readiness"])
        cls.space.apply(directory)
        cls.pods = cls.space.wait_ready(2)

    def test_it_serves(self):
        self.assertEqual([pod.about["spec"].get("initContainers") for pod in self.pods], [None, None])
        self.assertIn("all is well", self.space.leader().sidecar("status"))
        self.space.kubectl("delete", "deployment", "mailer-sidecar")
        self.space.wait_gone()
        self.assertEqual(self.space.redis("EXISTS", "sidecar:mailer:lock"), 0, "the lock was not given up")
