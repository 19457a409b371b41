"""Memory limits, and many replicas."""
import json
import time

from cluster import NODE, cluster, say, wait
from space import EXAMPLES, SpaceTest, when

MIB = 1 << 20


class Memory(SpaceTest):
    """examples/own-deployment: its container may have 64Mi, its jobs 8 MiB."""

    @classmethod
    def prepare(cls):
        cls.space.start_redis()
        cls.space.apply(EXAMPLES / "own-deployment")
        cls.space.wait_ready(2)

    def fail_large_jobs(self, tag, number=4, size=8 * MIB - 200):
        """Workers report final failures of jobs as large as the config allows."""
        for count in range(number):
            job = json.dumps({"id": f"{tag}{count}", "text": ""})
            job = job.replace('""', '"' + "x" * (size - len(job)) + '"')
            self.space.redis("HSET", "email:errors", job, "!too hard")
            self.space.redis("LPUSH", "email:backup", job)

    def wait_failures(self, number):
        """Each log has exactly these. (A command in the container that lists large payloads would need memory of its own.)"""
        for pod in self.space.pods():
            wait(f"{pod.name} has {number} failures", lambda pod=pod: pod.metrics().get("queue_sidecar_audit_kept_rows") == number, told=self.space.describe)

    def peak(self, pod):
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            if (pod.cgroup() / name).exists():
                return int((pod.cgroup() / name).read_text()) / MIB
        return None

    def test_a_the_largest_jobs_fit_into_the_limit(self):
        self.fail_large_jobs("fits")
        self.wait_failures(4)
        for pod in self.space.pods():
            self.assertEqual(pod.restarts()["queue-sidecar"], 0)
            say(f"memory of {pod.name}: at most {self.peak(pod):.0f} MiB")

    def test_b_a_container_that_is_too_small_is_killed_and_loses_nothing(self):
        """The first new pod is killed while it copies the failures of the stream, so the rollout stops and the old pods go on."""
        self.limit("20Mi")

        def killed():
            return next((pod for pod in self.space.pods()
                         if pod.containers.get("queue-sidecar", {}).get("lastState", {}).get("terminated", {}).get("reason") == "OOMKilled"), None)

        wait("a container is killed for its memory", killed, told=self.space.describe)
        self.fail_large_jobs("later")
        self.limit("64Mi")
        self.space.kubectl("rollout", "status", "deployment/mailer-sidecar", "--timeout=120s")
        pods = self.space.wait_ready(2)
        self.wait_failures(8)
        for pod in pods:
            self.assertEqual(pod.restarts()["queue-sidecar"], 0)

    def limit(self, memory):
        """deploy/README.md, "Changing the container"."""
        path = "/spec/template/spec/initContainers/0/resources/limits/memory"
        self.space.kubectl("patch", "deployment", "mailer-sidecar", "--type=json", "-p", json.dumps([{"op": "replace", "path": path, "value": memory}]))


class Full(SpaceTest):
    """examples/own-deployment, with an audit log and an emptyDir of a 32nd of their sizes, which still are as 1 to 8."""

    @classmethod
    def prepare(cls):
        cls.space.start_redis()
        cls.space.apply(EXAMPLES / "own-deployment")
        cls.space.configure(("512MiB", "16MiB"))
        volumes = {"volumes": [{"name": "queue-sidecar-audit", "emptyDir": {"sizeLimit": "128Mi"}}]}
        cls.space.kubectl("patch", "deployment", "mailer-sidecar", "-p", json.dumps({"spec": {"template": {"spec": volumes}}}))
        cls.space.kubectl("rollout", "status", "deployment/mailer-sidecar", "--timeout=120s")
        cls.pods = cls.space.wait_ready(2)

    def on_disk(self, pod):
        """Bytes of the volume on disk: the log, its -wal, and what was set aside."""
        return sum(file.stat().st_blocks * 512 for file in (NODE / f"kubelet/pods/{pod.uid}/volumes/kubernetes.io~empty-dir/queue-sidecar-audit").iterdir())

    def seen_by_kubelet(self, pod):
        """When the kubelet has last measured the volume; 0 = not yet. It evicts by these figures."""
        pods = cluster().get("/api/v1/nodes/node1/proxy/stats/summary")["pods"]
        volumes = next(found.get("volume", []) for found in pods if found["podRef"]["uid"] == pod.uid)
        return next((when(volume["time"]) for volume in volumes if volume["name"] == "queue-sidecar-audit"), 0)

    def test_a_log_that_reaches_its_limit_evicts_no_pod(self):
        jobs, largest = 40000, 0
        for first in range(0, jobs, 200):
            names = [json.dumps({"id": f"full{n}", "text": "x" * 500}) for n in range(first, first + 200)]
            self.space.redis("HSET", "email:errors", *(word for name in names for word in (name, "!" + "e" * 1000)))
            self.space.redis("LPUSH", "email:backup", *names)
            largest = max(largest, *map(self.on_disk, self.pods))
        for pod in self.pods:
            wait(f"{pod.name} has copied all failures", lambda pod=pod: pod.metrics().get("queue_sidecar_audit_rows_total", 0) >= jobs, told=self.space.describe)
            wait(f"{pod.name} has removed old rows", lambda pod=pod: pod.metrics().get("queue_sidecar_audit_dropped_rows_total", 0) > 0, told=self.space.describe)
        largest, done = max(largest, *map(self.on_disk, self.pods)), time.time()
        say(f"the log took at most {largest / MIB:.1f} MiB with retain_bytes = 16MiB")
        for pod in self.pods:
            wait(f"the kubelet has measured {pod.name}", lambda pod=pod: self.seen_by_kubelet(pod) > done, told=self.space.describe)
        self.assertLess(largest, 128 * MIB)
        self.assertEqual({pod.uid for pod in self.space.wait_ready(2)}, {pod.uid for pod in self.pods})
        for pod in self.space.pods():
            self.assertEqual(pod.restarts()["queue-sidecar"], 0)


class Scale(SpaceTest):
    """examples/python-deployment with 20 replicas, on one node."""

    example = "python-deployment"
    replicas = 3

    def test_twenty_replicas_have_one_leader_and_little_to_say(self):
        # Each worker asks Redis once a second, and the table of deploy/README.md is of sidecars: scale without the workers' requests.
        small = [{"op": "replace", "path": "/spec/template/spec/containers/0/resources", "value": {}},
                 {"op": "replace", "path": "/spec/template/spec/containers/0/command", "value": ["sleep", "infinity"]},
                 {"op": "add", "path": "/spec/template/spec/terminationGracePeriodSeconds", "value": 1}]
        self.space.kubectl("patch", "deployment", "mailer", "--type=json", "-p", json.dumps(small))
        self.space.kubectl("scale", "deployment/mailer", "--replicas=20")
        begun = time.monotonic()
        self.space.kubectl("rollout", "status", "deployment/mailer", "--timeout=240s")
        pods = self.space.wait_ready(20)
        say(f"20 replicas are ready after {time.monotonic() - begun:.0f} s")
        leading = [pod.name for pod in pods if pod.metrics().get("queue_sidecar_leader") == 1]
        self.assertEqual(leading, [self.space.leader().name])
        self.assertEqual(sum(pod.metrics().get("queue_sidecar_standby", 0) for pod in pods), 19)
        rate = self.commands(30)
        say(f"20 replicas: {rate:.1f} commands/s at Redis")
        # 30.5 were measured: 1.5 of each instance, as in the table of deploy/README.md. One more command a second of each would be 50.
        self.assertLess(rate, 45)

    def commands(self, seconds):
        """Commands of clients a second. A measurement takes its time."""
        count = lambda: int(next(line.split(":")[1] for line in self.space.redis("INFO", "stats").splitlines() if line.startswith("total_commands_processed:")))
        first, begun = count(), time.monotonic()
        wait("the time of the measurement is over", lambda: time.monotonic() - begun >= seconds)
        return (count() - first) / (time.monotonic() - begun)


