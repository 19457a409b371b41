"""The shapes "standalone" and "archive": the examples, and what the charts render. (The shape "sidecar" is in the other files.)"""
import json
import unittest

import yaml

import charts
from cluster import wait
from redis_client import Producer
from space import EXAMPLES, SpaceTest

TOKEN = "the-token-of-ann-for-the-tests"
TOKENS = f"ann look,payloads,act {TOKEN}\n"


class Shape(SpaceTest):
    """What the shapes share."""

    def fail_a_job(self, name):
        """The worker of `email` reports a final failure. It becomes a row of each log."""
        job = json.dumps({"id": name})
        self.space.redis("HSET", "email:errors", job, "!no such mailbox")
        self.space.redis("LPUSH", "email:backup", job)
        for pod in self.space.pods():
            wait(f"{pod.name} has the failure {name}", lambda pod=pod: name in pod.sidecar("audit", "list"), told=self.space.describe)

    def drain(self, budget, selector):
        """A drain evicts one instance and is refused the other, until the first has come back. The lock is given up at once."""
        allowed = lambda: self.space.kubectl("get", "pdb", budget, "-o", "jsonpath={.status.disruptionsAllowed}", code=None).stdout == "1"
        wait("the budget allows an eviction", allowed, told=self.space.describe)
        leader = self.space.leader(selector)
        other = next(pod for pod in self.space.pods(selector) if pod.uid != leader.uid)
        done = self.space.evict(leader)
        self.assertEqual(done.returncode, 0, done.stderr)
        refused = self.space.evict(other)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("disruption budget", refused.stderr)
        self.space.leader(selector, but=leader.uid)  # the other, or the replacement if that is faster
        self.space.wait_ready(2, selector, but={leader.uid})

    def log_outlives(self, name, service):
        """The log of an archive is on a claim, and its page is there by the Service."""
        self.fail_a_job("kept")
        pod = self.space.pods(f"statefulset.kubernetes.io/pod-name={name}")[0]
        self.space.redis("DEL", "sidecar:email:failures")
        self.space.kubectl("delete", "pod", name)
        again = self.space.wait_ready(1, f"statefulset.kubernetes.io/pod-name={name}", but={pod.uid})[0]
        self.assertIn("kept", again.sidecar("audit", "list"))
        wait("the page has the failure", lambda: self.space.page(service, "/api/v1/failures", token=TOKEN)[1].count('"kept"'), told=self.space.describe)
        self.assertEqual(self.space.page(service, "/api/v1/failures")[0], 401)

    def never_leads(self, name):
        """Without another instance nobody leads, and the archive is ready."""
        self.space.wait_gone("app!=redis,!apps.kubernetes.io/pod-index")
        pod = self.space.pods(f"statefulset.kubernetes.io/pod-name={name}")[0]
        self.assertEqual(self.space.redis("EXISTS", "sidecar:mailer:lock"), 0)
        self.assertEqual(pod.health("/readyz"), "200")
        self.assertEqual(pod.metrics()["queue_sidecar_leader"], 0)
        self.assertFalse(pod.entries("leading"))


class Standalone(Shape):
    """examples/standalone, with the workers of examples/python-deployment, whose pods have no sidecar."""

    @classmethod
    def prepare(cls):
        cls.space.start_redis()
        cls.space.secret(tokens=TOKENS)
        cls.space.apply(EXAMPLES / "standalone")
        cls.space.apply(EXAMPLES / "python-deployment/base")
        cls.space.wait_ready(2)
        cls.space.wait_ready(3, "app=mailer")

    def test_a_the_workers_have_no_sidecar(self):
        self.assertEqual([set(pod.containers) for pod in self.space.pods("app=mailer")], [{"worker"}] * 3)
        self.assertIn("all is well", self.space.leader().sidecar("status"))

    def test_b_a_drain_loses_no_job(self):
        producer = Producer(self.space.redis)
        producer.made_more()
        self.drain("jobs-sidecar", "queue-sidecar=enabled")
        producer.made_more()
        self.assert_jobs(producer.stop())

    def test_c_the_service_leads_to_page_and_api(self):
        self.fail_a_job("seen")
        code, text = self.space.page("jobs-sidecar", "/api/v1/failures", token=TOKEN)
        self.assertEqual((code, text.count('"seen"')), (200, 1), text)

    def test_d_delayed_jobs_wake_workers_that_are_scaled_to_zero(self):
        """deploy/README.md, "Autoscaling": due jobs reach the list that an autoscaler looks at."""
        self.space.kubectl("scale", "deployment/mailer", "--replicas=0")
        self.space.wait_gone("app=mailer")
        due = self.space.redis.now() + 300
        self.space.redis("ZADD", "email:delayed", due, json.dumps({"id": "wakes", "due": due}))
        wait("the job is ready", lambda: self.space.redis("LLEN", "email") == 1, told=self.space.describe)


class Archive(Shape):
    """examples/archive beside examples/own-deployment."""

    @classmethod
    def prepare(cls):
        cls.space.make_volumes(1)
        cls.space.start_redis()
        cls.space.secret(tokens=TOKENS)
        for example in ("own-deployment", "archive"):
            cls.space.apply(EXAMPLES / example)
        cls.space.wait_ready(3)

    def test_a_its_log_outlives_its_pod(self):
        self.log_outlives("mailer-archive-0", "mailer-archive")

    def test_b_it_never_leads(self):
        self.space.kubectl("delete", "deployment", "mailer-sidecar")
        self.never_leads("mailer-archive-0")


@unittest.skipUnless(charts.HELM.exists(), "build/deploy/bin/helm was not built")
class Chart(Shape):
    """The chart queue-sidecar, rendered by Helm: standalone and archive in one namespace. The release has the name of the chart, so the
    variables that Kubernetes sets for its Service begin as those of the program do."""

    namespace = "jobs"  # charts.render
    config = (EXAMPLES / "own-deployment/queue-sidecar.cfg").read_text() + 'http = { token_file = "/run/secrets/queue-sidecar/tokens"; };\n'

    @classmethod
    def prepare(cls):
        cls.space.make_volumes(1)
        cls.space.start_redis()
        cls.space.secret(tokens=TOKENS)
        cls.chart = charts.complete(charts.APP)
        cls.values = {"config": cls.config, "existingSecret": "queue-sidecar", "image": {"repository": "registry.example.org/queue-sidecar"}}

    def install(self, release, **values):
        """What `helm upgrade --install` sends to the cluster. Admission may not complain."""
        found = charts.render(self.chart, {**self.values, **values}, release=release)
        self.assertIsInstance(found, list, found)
        done = self.space.kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": found}), code=None)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def of(self, release):
        return f"app.kubernetes.io/instance={release}"

    def test_a_standalone_serves(self):
        self.install("queue-sidecar")
        pods = self.space.wait_ready(2, self.of("queue-sidecar"))
        due = self.space.redis.now() + 300
        self.space.redis("ZADD", "email:delayed", due, json.dumps({"id": "one", "due": due}))
        wait("the job is ready", lambda: self.space.redis("LLEN", "email") == 1, told=self.space.describe)
        self.assertIn("all is well", self.space.leader().sidecar("status"))
        self.assertEqual([line for pod in pods for line in pod.log().splitlines() if '"level":"warn"' in line], [])
        self.assertEqual(self.space.page("queue-sidecar", "/api/v1/session", token=TOKEN)[0], 200)
        self.drain("queue-sidecar", self.of("queue-sidecar"))

    def test_b_a_changed_config_takes_effect_without_a_restart(self):
        before = self.space.wait_ready(2, self.of("queue-sidecar"))
        self.install("queue-sidecar", config=self.config.replace('"1m"', '"2m"'))
        self.space.poke()
        for pod in before:
            wait("the new timeout is in effect", lambda pod=pod: pod.metrics().get('queue_sidecar_protected_timeout_seconds{queue="email"}') == 120,
                 told=self.space.describe)
        self.assertEqual({pod.uid for pod in self.space.pods()}, {pod.uid for pod in before})

    def test_c_an_archive_keeps_its_log(self):
        self.install("archive", shape="archive")
        self.space.wait_ready(1, self.of("archive"))
        self.log_outlives("archive-queue-sidecar-0", "archive-queue-sidecar")
        self.space.kubectl("delete", "deployment", "queue-sidecar")
        self.never_leads("archive-queue-sidecar-0")


@unittest.skipUnless(charts.HELM.exists(), "build/deploy/bin/helm was not built")
class Library(Shape):
    """examples/chart: a chart of one's own, with the templates of queue-sidecar-lib in a Deployment, a StatefulSet and a CronJob."""

    namespace = "shop"

    @classmethod
    def prepare(cls):
        cls.space.make_volumes(2)
        cls.space.start_redis("--requirepass", "first", password="first")
        cls.space.secret("shop-redis", redis_password="first")
        cls.space.secret("queue-sidecar", redis_password="first")
        found = charts.render(charts.complete(charts.EXAMPLE), release="shop")
        assert isinstance(found, list), found
        # Its workers have no image here, so a stand-in waits in their place.
        text = yaml.safe_dump_all(found).replace("mailer:1.4.0", "importer:2.11.0").replace("namespace: jobs", "namespace: shop")
        cls.admitted = cls.space.kubectl("apply", "-f", "-", given=text, code=None)

    def test_its_pods_serve(self):
        self.assertEqual((self.admitted.returncode, self.admitted.stderr), (0, ""))
        pods = self.space.wait_ready(4)
        self.assertEqual({tuple(sorted(pod.containers)) for pod in pods}, {("queue-sidecar", "worker")})
        for pod in pods:
            self.assertLessEqual(pod.started("queue-sidecar"), pod.started("worker"))
            self.assertIn("all is well", pod.sidecar("status"))
        claimed = [pod for pod in pods if any("persistentVolumeClaim" in volume for volume in pod.about["spec"]["volumes"])]
        self.assertEqual(sorted(pod.name for pod in claimed), ["importer-0", "importer-1"])
