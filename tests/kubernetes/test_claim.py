"""examples/kmqueue-statefulset: a password in the Secret, and the audit log on a claim that outlives the pods."""
import json

import yaml

from cluster import kubectl, wait
from redis_client import RedisError
from space import EXAMPLES, SpaceTest


class Claim(SpaceTest):
    """A StatefulSet that has run without the component `pvc` gets it by the steps of deploy/README.md."""

    @classmethod
    def prepare(cls):
        cls.space.make_volumes(4)  # of two pods: data and audit log
        cls.space.start_redis("--requirepass", "first", password="first")
        cls.space.secret(redis_password="first")
        cls.space.secret("redis", password="first")
        # The example without the component, as a user had it before.
        without = [document for document in yaml.safe_load_all(kubectl("kustomize", EXAMPLES / "kmqueue-statefulset")) if document]
        for document in without:
            if document["kind"] == "StatefulSet":
                spec = document["spec"]
                spec["volumeClaimTemplates"] = [claim for claim in spec["volumeClaimTemplates"] if claim["metadata"]["name"] == "data"]
                spec["template"]["spec"]["volumes"].append({"name": "queue-sidecar-audit", "emptyDir": {}})
        cls.space.make(*without)
        cls.pods = cls.space.wait_ready(2)
        cls.hurry()

    @classmethod
    def hurry(cls):
        """Shortens the time after which a task of a dead worker ends: with the example's it is a minute or two."""
        cls.space.configure(('protected_timeout *= "10m"', 'protected_timeout = "10s"'))

    def fail_a_task(self, name):
        """A task of a worker that died long ago, without a retry left, becomes a failure in the log of each pod."""
        check = self.space.pods()[0].sidecar("check").splitlines()
        backup = next(line.split('"')[1] for line in check if line.strip().startswith("backup "))
        state = {"excTimestamp": 1700000000000, "genTimestamp": 1700000000000, "retry": 3, "state": "retry"}
        task = {"data": "", "id": name, "queue": "import_queue", "taskStatus": state, "type": "t", "unique": False}
        self.space.redis("LPUSH", backup, json.dumps(task))
        for pod in self.space.pods():
            wait(f"{pod.name} has the failure {name}", lambda pod=pod: name in self.failures(pod), told=self.space.describe)

    def failures(self, pod):
        return pod.sidecar("audit", "list", "-o", "json")

    def test_a_a_plain_apply_is_refused(self):
        """So the procedure is needed."""
        done = self.space.kubectl("apply", "-k", EXAMPLES / "kmqueue-statefulset", code=None)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Forbidden", done.stderr)

    def test_b_the_steps_of_the_page_give_the_pods_a_claim(self):
        self.fail_a_task("before")
        self.space.kubectl("delete", "statefulset", "importer", "--cascade=orphan")
        before = {pod.uid for pod in self.space.pods()}
        self.assertEqual(len(before), 2, "the pods have to stay")
        self.space.apply(EXAMPLES / "kmqueue-statefulset")
        for name in ("importer-0", "importer-1"):
            self.space.kubectl("delete", "pod", name)
            wait(f"{name} is ready", lambda name=name: self.space.kubectl(
                "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s", code=None).returncode == 0, told=self.space.describe)
        pods = self.space.wait_ready(2, but=before)
        self.hurry()
        for pod in pods:
            volume = next(volume for volume in pod.about["spec"]["volumes"] if volume["name"] == "queue-sidecar-audit")
            self.assertEqual(volume["persistentVolumeClaim"]["claimName"], f"queue-sidecar-audit-{pod.name}")
            # A new log begins with what the stream still holds.
            wait(f"{pod.name} has the old failure", lambda pod=pod: "before" in self.failures(pod), told=self.space.describe)
        self.assertTrue(pods[0].sidecar("status").startswith("1 final failure in the last hour\n"), "status has another finding")

    def test_c_the_log_outlives_the_pods(self):
        """The failure is no longer in the stream when the new pods start, so they can only have it from the volume."""
        self.fail_a_task("kept")
        before = {pod.uid for pod in self.space.pods()}
        self.space.kubectl("scale", "statefulset/importer", "--replicas=0")
        self.space.wait_gone()
        self.space.redis("DEL", "sidecar:import:failures")
        self.space.kubectl("scale", "statefulset/importer", "--replicas=2")
        for pod in self.space.wait_ready(2, but=before):
            self.assertIn("kept", self.failures(pod))

    def test_d_a_log_is_exported_and_imported(self):
        """deploy/README.md, "What survives a restart"."""
        pods = self.space.pods()
        export = pods[0].sidecar("audit", "export", "--since", "1d")
        self.assertIn("kept", export)
        self.space.kubectl("exec", "-i", pods[1].name, "-c", "queue-sidecar", "--", "queue-sidecar", "audit", "import", "-", given=export)

    def test_e_the_password_changes_without_a_restart(self):
        """deploy/README.md, "The Secret"."""
        redis, pods = self.space.redis, self.space.wait_ready(2)
        redis("ACL", "SETUSER", "default", ">second")
        self.space.secret(redis_password="second")
        self.space.poke()
        for pod in pods:
            path = f"/proc/{pod.process()}/root/run/secrets/queue-sidecar/redis-password"
            wait(f"{pod.name} has the new file", lambda path=path: open(path, encoding="ascii").read() == "second")
        redis("ACL", "SETUSER", "default", "<first")
        redis.close()
        redis.password = "second"
        redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self.fail_a_task("after")
        self.assertEqual([pod.restarts() for pod in self.space.pods()], [{"queue-sidecar": 0, "worker": 0}] * 2)
        redis.close()
        redis.password = "first"
        self.assertRaises(RedisError, redis, "PING")
        redis.close()
        redis.password = "second"
