"""Changes of ConfigMap and Secret, which no pod restarts for."""
from cluster import wait
from space import SpaceTest

TIMEOUT = 'queue_sidecar_protected_timeout_seconds{queue="email"}'
REFUSED = "queue_sidecar_config_refused"


class Config(SpaceTest):
    """examples/python-deployment."""

    example = "python-deployment"
    replicas = 3

    def in_effect(self, metric, value):
        for pod in self.pods:
            wait(f"{metric} of {pod.name} is {value}", lambda pod=pod: pod.metrics().get(metric) == value, told=self.space.describe)

    def same_pods(self):
        pods = self.space.pods()
        self.assertEqual({pod.uid for pod in pods}, {pod.uid for pod in self.pods})
        self.assertEqual([pod.restarts() for pod in pods], [{"queue-sidecar": 0, "worker": 0}] * 3)

    def test_a_timeout_takes_effect_without_a_restart(self):
        self.space.configure(('protected_timeout *= "1m"', 'protected_timeout = "2m"'))
        self.in_effect(TIMEOUT, 120)
        self.same_pods()
        logs = self.space.kubectl("logs", "-l", "queue-sidecar=enabled", "-c", "queue-sidecar", "--prefix", "--tail=-1")
        self.assertEqual(sum('protected_timeout \\"1m\\" -> \\"2m\\"' in line for line in logs.splitlines()), 3, logs)
        self.assertIn("in effect since", self.pods[0].sidecar("status"))

    def test_b_a_wrong_file_changes_nothing(self):
        self.space.configure(("retry_times", "retry_tims"))
        self.in_effect(REFUSED, 1)
        self.in_effect(TIMEOUT, 120)
        self.same_pods()
        for pod in self.pods:
            self.assertEqual((pod.health("/healthz"), pod.health("/readyz")), ("200", "200"))
            self.assertIn("retry_tims", pod.log())

    def test_c_a_new_pod_with_a_wrong_file_does_not_start_nor_do_its_workers(self):
        old = self.pods[0]
        self.space.kubectl("delete", "pod", old.name)

        def refused():
            known = {pod.uid for pod in self.pods}
            fresh = [pod for pod in self.space.pods() if pod.uid not in known]
            return next((pod for pod in fresh if pod.containers.get("queue-sidecar", {}).get("lastState")), None)

        pod = wait("the new sidecar has failed", refused, told=self.space.describe)
        self.assertNotIn("running", pod.containers["worker"]["state"])
        self.assertIn("retry_tims", pod.containers["queue-sidecar"]["lastState"]["terminated"]["message"])
        self.space.configure(("retry_tims", "retry_times"))
        type(self).pods = self.space.wait_ready(3)
        self.in_effect(REFUSED, 0)

    def test_d_a_key_that_needs_a_restart_is_refused_by_name(self):
        self.space.configure(('group = "mailer"', 'group = "posters"'))
        self.in_effect(REFUSED, 1)
        self.assertTrue(all("group" in pod.log() for pod in self.pods))
        self.space.kubectl("rollout", "restart", "deployment/mailer")
        self.space.wait_ready(3, but={pod.uid for pod in self.pods})
        wait("an instance leads the new group", lambda: self.space.redis("GET", "sidecar:posters:lock"))
