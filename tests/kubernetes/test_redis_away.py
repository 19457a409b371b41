"""Redis and the name server go away: no restart, and with the component `readiness` no pod is ready meanwhile."""
import time

from cluster import cluster, wait
from space import SpaceTest, rendered


class Readiness(SpaceTest):
    """examples/python-deployment with the component readiness."""

    @classmethod
    def prepare(cls):
        cls.space.start_redis()
        cls.space.apply(rendered("readiness", "python-deployment", components=["kustomize/sidecar", "kustomize/readiness"]))
        cls.space.wait_ready(3)

    def unready(self):
        pods = self.space.pods()
        return len(pods) == 3 and not any(pod.ready for pod in pods)

    def same(self):
        """No container was started again, and /healthz has answered all the time."""
        self.assertEqual([pod.restarts() for pod in self.space.pods()], [{"queue-sidecar": 0, "worker": 0}] * 3)

    def test_a_pods_are_ready_only_while_redis_is_there(self):
        self.space.kubectl("scale", "statefulset/redis", "--replicas=0")
        wait("no pod is ready", self.unready, told=self.space.describe)
        for pod in self.space.pods():
            self.assertEqual((pod.health("/healthz"), pod.health("/readyz")), ("200", "503"))
            self.assertNotEqual(pod.sidecar("healthcheck", "--ready", code=None).returncode, 0)
            pod.sidecar("healthcheck")
        self.space.kubectl("scale", "statefulset/redis", "--replicas=1")
        self.space.wait_ready(3)
        self.same()

    def test_b_a_name_server_that_hangs_restarts_nothing(self):
        """Redis restarts while names cannot be resolved, for longer than the liveness probe is patient (30 s)."""
        names = cluster().names
        names.away = True
        try:
            self.space.kubectl("delete", "pod", "redis-0")
            wait("no pod is ready", self.unready, told=self.space.describe)
            asked = names.unanswered
            begun = time.monotonic()

            def answered():
                for pod in self.space.pods():
                    self.assertEqual(pod.health("/healthz"), "200", "the liveness probe would kill it")
                return time.monotonic() - begun > 35 and names.unanswered > asked

            wait("/healthz answers for longer than the liveness probe is patient", answered)
        finally:
            names.away = False
        self.space.wait_ready(3)
        self.same()
