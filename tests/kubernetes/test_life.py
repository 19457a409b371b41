"""Workers with a sidecar in each pod: from apply to removal, with jobs counted."""
import json
import pathlib
import threading
import time

from cluster import cluster, kill_process, say, wait
from redis_client import Producer
from space import EXAMPLES, Space, SpaceTest, rendered, when

LOCK_TTL_S = 5


class Life(SpaceTest):
    """examples/python-deployment: three workers."""

    example = "python-deployment"
    replicas = 3

    def test_a_admission_has_no_complaint(self):
        done = self.space.kubectl("apply", "-k", EXAMPLES / self.example, "--dry-run=server", code=None)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.space.kubectl("diff", "-k", EXAMPLES / self.example), "", "the cluster has something else than was applied")

    def test_a_sidecars_start_before_workers(self):
        for pod in self.space.pods():
            self.assertLessEqual(pod.started("queue-sidecar"), pod.started("worker"))
            self.assertEqual(pod.restarts(), {"queue-sidecar": 0, "worker": 0})

    def test_a_workers_wait_for_a_sidecar_that_does_not_start(self):
        """The order is Kubernetes's promise for a native sidecar, and not luck: a pod whose sidecar never starts has no worker."""
        other = Space("held")
        self.addCleanup(other.end)
        other.kubectl("create", "configmap", "queue-sidecar", "--from-literal=queue-sidecar.cfg=group = 1;")
        other.kubectl("apply", "-f", "-", given=json.dumps(self.deployment("held")))

        def refused():
            return next((pod for pod in other.pods("app=mailer") if pod.containers.get("queue-sidecar", {}).get("lastState")), None)

        pod = wait("the sidecar has failed", refused, told=other.describe)
        self.assertNotIn("running", pod.containers["worker"]["state"])
        # `kubectl describe pod` shows the last log lines (terminationMessagePolicy).
        self.assertIn("queue-sidecar.cfg", pod.containers["queue-sidecar"]["lastState"]["terminated"]["message"])

    def test_a_workers_wait_for_a_sidecar_that_does_not_answer_yet(self):
        """The startup probe: a sidecar that runs, and does not serve /healthz at its port, holds the worker back."""
        other = Space("silent")
        self.addCleanup(other.end)
        config = cluster().get(f"/api/v1/namespaces/{self.space.name}/configmaps/queue-sidecar")["data"]["queue-sidecar.cfg"]
        other.kubectl("create", "configmap", "queue-sidecar", f"--from-literal=queue-sidecar.cfg={config}")
        silent = self.deployment("silent")
        port = next(each for each in silent["spec"]["template"]["spec"]["initContainers"][0]["env"] if each["name"] == "QUEUE_SIDECAR_HTTP_PORT")
        port["value"] = "8643"
        other.kubectl("apply", "-f", "-", given=json.dumps(silent))
        events = lambda: other.kubectl("get", "events", "--field-selector", "reason=Unhealthy", "-o", "jsonpath={.items[*].message}")
        wait("the startup probe has failed", lambda: "Startup probe failed" in events(), told=other.describe)
        pod = other.pods("app=mailer")[0]
        self.assertIn("running", pod.containers["queue-sidecar"]["state"])
        self.assertNotIn("running", pod.containers["worker"]["state"])

    def deployment(self, namespace):
        found = cluster().get(f"/apis/apps/v1/namespaces/{self.space.name}/deployments/mailer")
        found["metadata"] = {"name": "mailer", "namespace": namespace, "labels": found["metadata"]["labels"]}
        found["spec"]["replicas"] = 1
        found.pop("status")
        return found

    def test_a_the_commands_of_five_minutes(self):
        logs = self.space.kubectl("logs", "-l", "queue-sidecar=enabled", "-c", "queue-sidecar", "--prefix", "--tail=-1")
        self.assertEqual(logs.count('"msg":"leading"'), 1, logs)
        for words in (["status"], ["audit", "list"], ["check", "--redis"]):
            self.space.kubectl("exec", "deploy/mailer", "-c", "queue-sidecar", "--", "queue-sidecar", *words)
        self.assertIn("all is well", self.space.kubectl("exec", "deploy/mailer", "-c", "queue-sidecar", "--", "queue-sidecar", "status"))

    def test_a_the_container_is_what_its_manifest_says(self):
        pod = self.space.pods()[0]
        status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pod.process()}/status").read_text().splitlines())
        self.assertEqual(status["Uid"].split(), ["65532"] * 4)
        self.assertEqual((status["CapEff"].strip(), status["CapBnd"].strip(), status["NoNewPrivs"].strip()), ("0" * 16, "0" * 16, "1"))
        self.assertEqual(status["Seccomp"].strip(), "2")
        # A mount keeps the token of the service account away.
        self.assertEqual(self.accounts_files(pod, "queue-sidecar"), [])
        self.assertIn("token", self.accounts_files(pod, "worker"))

    def accounts_files(self, pod, container):
        """The files at the place of the service account's token, as the container sees them."""
        process = pathlib.Path(f"/proc/{pod.process(container)}")
        mounts = [line.split()[4] for line in (process / "mountinfo").read_text().splitlines()]
        place = next(mount for mount in mounts if mount.endswith("/secrets/kubernetes.io/serviceaccount"))
        return sorted(path.name for path in pathlib.Path(f"{process}/root{place}").iterdir())

    def follow(self, pod, container):
        """The last lines of a container, with times, from now until it ends."""
        lines = []

        def read():
            lines.extend(pod.log(container, "--follow", "--timestamps").splitlines())

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return lambda: (thread.join(), lines)[1]

    def test_b_a_deleted_leader_ends_after_its_worker_and_frees_the_lock(self):
        producer = Producer(self.space.redis, rate=2.5, ms=1000)  # every worker is busy when SIGTERM comes
        producer.made_more(5)
        leader = self.space.leader()
        watch = LockWatch(self.space.redis)
        sidecar, worker = self.follow(leader, "queue-sidecar"), self.process_end(leader, "worker")
        self.space.kubectl("delete", "pod", leader.name)
        ended = worker()
        stopped = [line for line in sidecar() if '"msg":"stopping"' in line]
        self.assertTrue(stopped, sidecar())
        stopping = when(stopped[0].split(" ")[0])
        self.assertGreaterEqual(stopping, ended - 0.05, "the sidecar got SIGTERM before its worker had ended")
        taken = watch.stop()
        say(f"the lock was taken {1000 * (taken - stopping):.0f} ms after the leader got SIGTERM")
        self.assertLess(taken - stopping, LOCK_TTL_S / 2, "the next leader has waited for the end of a lock that was not given up")
        producer.made_more(5)
        self.assert_jobs(producer.stop())
        self.space.wait_ready(3)

    def process_end(self, pod, container):
        """A function that returns the time at which the process of a container was gone."""
        pid, found = pod.process(container), []

        def look():
            while open_process(pid):
                time.sleep(0.01)
            found.append(time.time())

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        return lambda: (thread.join(), found[0])[1]

    def test_c_a_rollout_loses_no_job(self):
        producer = Producer(self.space.redis)
        producer.made_more()
        before = {pod.uid for pod in self.space.pods()}
        self.space.kubectl("rollout", "restart", "deployment/mailer")
        self.space.kubectl("rollout", "status", "deployment/mailer", "--timeout=120s")
        self.space.wait_ready(3, but=before)
        producer.made_more()
        self.assert_jobs(producer.stop())

    def test_c_another_tag_is_a_rollout(self):
        """deploy/README.md, "Upgrades". That two versions get on in one group is what tests/upgrade shows."""
        name = "registry.example.org/queue-sidecar"
        tag = self.space.pods()[0].about["spec"]["initContainers"][0]["image"].split(":")[1]
        cluster().ctr("images", "tag", "--force", f"{name}:{tag}", f"{name}:another")
        before = {pod.uid for pod in self.space.pods()}
        leader = self.space.leader()
        leader.sidecar("audit", "backup", "/var/lib/queue-sidecar/before.db")
        producer = Producer(self.space.redis)
        self.space.kubectl("set", "image", "deployment/mailer", f"queue-sidecar={name}:another")
        self.space.kubectl("rollout", "status", "deployment/mailer", "--timeout=120s")
        pods = self.space.wait_ready(3, but=before)
        self.assertEqual({pod.about["spec"]["initContainers"][0]["image"] for pod in pods}, {f"{name}:another"})
        producer.made_more()
        self.assert_jobs(producer.stop())

    def test_d_killed_pods_and_processes_lose_no_job(self):
        """Jobs of killed workers come back after protected_timeout; so they begin twice, and end once."""
        self.space.configure(('protected_timeout *= "1m"', 'protected_timeout = "4s"'), ('retry_backoff *= "exponential"', 'retry_backoff = "none"'))
        for pod in self.space.pods():
            wait("the shorter timeout is in effect", lambda pod=pod: pod.metrics().get('queue_sidecar_protected_timeout_seconds{queue="email"}') == 4)
        producer = Producer(self.space.redis)
        producer.made_more()
        leader = self.space.leader()
        self.space.kubectl("delete", "pod", leader.name, "--force", "--grace-period=0")
        self.space.wait_ready(3, but={leader.uid})
        leader = self.space.leader(but=leader.uid)
        kill_process(leader.process())
        again = wait("the sidecar runs again", lambda: (pod := leader.again()) and pod.ready and pod.restarts()["queue-sidecar"] == 1 and pod)
        self.assertEqual(again.restarts()["worker"], 0, "the end of a sidecar must not end its worker")
        producer.made_more()
        self.assert_jobs(producer.stop(), restarts=True)


def open_process(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class LockWatch(threading.Thread):
    """Looks at the lock each few milliseconds until it has another owner."""

    def __init__(self, redis, key="sidecar:mailer:lock"):
        super().__init__(daemon=True)
        self.redis, self.key = type(redis)(redis.address, redis.password), key
        self.owner = self.redis("GET", key)
        self.taken = None
        self.start()

    def run(self):
        while self.redis("GET", self.key) in (self.owner, None):
            time.sleep(0.002)
        self.taken = time.time()

    def stop(self):
        """The time at which another instance had the lock."""
        self.join(60)
        assert self.taken, "the lock has kept its owner for a minute"
        return self.taken


class Nightly(SpaceTest):
    """The CronJob of examples/python-deployment."""

    example = "python-deployment"
    replicas = 3

    def complete(self, job):
        """The Job is complete: workers and their sidecars have ended, each with exit code 0."""
        self.space.kubectl("wait", "--for=condition=complete", f"job/{job}", "--timeout=120s")
        pods = self.space.pods(f"batch.kubernetes.io/job-name={job}")
        self.assertEqual(len(pods), 4)
        for pod in pods:
            codes = {name: state["state"]["terminated"]["exitCode"] for name, state in pod.containers.items()}
            self.assertEqual(codes, {"worker": 0, "queue-sidecar": 0}, pod.log())

    def test_a_job_made_from_it_completes(self):
        producer = Producer(self.space.redis, ms=200)
        self.space.kubectl("create", "job", "--from=cronjob/mailer-night", "once")
        producer.made_more(100)
        self.assert_jobs(producer.stop())
        self.complete("once")

    def test_its_jobs_complete_by_its_schedule(self):
        """Only the schedule differs from the example's, so that nobody waits for the night."""
        self.space.kubectl("patch", "cronjob", "mailer-night", "--type=merge", "-p", '{"spec": {"schedule": "* * * * *"}}')

        def made():
            jobs = cluster().get(f"/apis/batch/v1/namespaces/{self.space.name}/jobs")["items"]
            return next((job["metadata"]["name"] for job in jobs if job["metadata"]["name"].startswith("mailer-night-")), None)

        job = wait("the schedule makes a Job", made, told=self.space.describe)
        self.space.kubectl("patch", "cronjob", "mailer-night", "--type=merge", "-p", '{"spec": {"suspend": true}}')
        self.complete(job)


class Removal(SpaceTest):
    """deploy/README.md, "Removal"."""

    example = "python-deployment"
    replicas = 3

    def test_without_the_label_the_pods_are_what_they_were(self):
        without = rendered("removal", self.example, without_label=True)
        diff = self.space.kubectl("diff", "-k", without, code=None)
        self.assertEqual(diff.returncode, 1, diff.stderr)
        self.assertRegex(diff.stdout, r"(?m)^-.*name: queue-sidecar-audit$")
        self.space.apply(without)
        wait("pods without a sidecar", self.bare, told=self.space.describe)
        self.space.wait_gone()
        # `apply` deletes no ConfigMap.
        self.assertIsNotNone(cluster().get(f"/api/v1/namespaces/{self.space.name}/configmaps/queue-sidecar"))
        self.assertEqual(self.space.redis("GET", "sidecar:mailer:lock"), None, "the last sidecar has kept the lock")

    def bare(self):
        pods = self.space.pods("app=mailer")
        return len(pods) == 3 and all(pod.ready and set(pod.containers) == {"worker"} for pod in pods)

