"""Parts of the node are killed, and the node is drained, while jobs flow. What runs stays, and no job is lost."""
import os
import signal

from cluster import cluster, kill_process, kubectl, wait
from redis_client import Producer
from space import SpaceTest


class Node(SpaceTest):
    """examples/python-deployment, with a PodDisruptionBudget of the test's own."""

    example = "python-deployment"
    replicas = 3

    @classmethod
    def prepare(cls):
        super().prepare()
        cls.space.make({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "mailer"},
                        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "mailer"}}}})
        cls.space.configure(('protected_timeout *= "1m"', 'protected_timeout = "4s"'), ('retry_backoff *= "exponential"', 'retry_backoff = "none"'))

    def restart(self, daemon, ready):
        producer = Producer(self.space.redis)
        producer.made_more()
        cluster().kill(daemon)
        producer.made_more(40)
        cluster().start(daemon)
        wait(f"{daemon} is back", ready, told=lambda: cluster().log(daemon))
        pods = self.space.wait_ready(3)
        self.assertEqual({pod.uid for pod in pods}, {pod.uid for pod in self.pods})
        self.assertEqual([pod.restarts() for pod in pods], [{"queue-sidecar": 0, "worker": 0}] * 3)
        producer.made_more()
        self.assert_jobs(producer.stop())

    def test_a_the_end_of_the_kubelet_ends_no_container(self):
        before = self.heartbeat()
        self.restart("kubelet", lambda: self.heartbeat() > before and cluster().node_ready())

    def heartbeat(self):
        lease = cluster().get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node1")
        return lease["spec"]["renewTime"]

    def test_b_the_end_of_containerd_ends_no_container(self):
        self.restart("containerd", lambda: cluster().ctr("version", code=None).returncode == 0 and cluster().node_ready())

    def test_c_a_drain_keeps_to_the_budget_and_loses_no_job(self):
        """One pod at a time may go. Its replacement cannot start on a node that is drained, so the drain waits for the budget."""
        producer = Producer(self.space.redis)
        producer.made_more()
        self.addCleanup(kubectl, "uncordon", "node1")
        drain = kubectl("drain", "node1", "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=app=mailer", "--timeout=15s", code=None)
        self.assertNotEqual(drain.returncode, 0)
        self.assertIn("disruption budget", drain.stderr)
        self.assertGreaterEqual(sum(pod.ready for pod in self.space.pods()), 2)
        self.space.leader()
        producer.made_more()
        kubectl("uncordon", "node1")
        type(self).pods = self.space.wait_ready(3)
        producer.made_more()
        self.assert_jobs(producer.stop())

    def test_d_a_crash_of_the_node_loses_no_job(self):
        """kubelet, containerd and all processes of the pods are killed at once, and the node comes back."""
        producer = Producer(self.space.redis)
        producer.made_more()
        processes = [pod.process(name) for pod in self.space.wait_ready(3) for name in ("worker", "queue-sidecar")]
        self.assertNotIn(None, processes)
        for daemon in ("kubelet", "containerd"):
            os.kill(cluster().processes[daemon].pid, signal.SIGKILL)
        for pid in processes:
            kill_process(pid)
        for daemon in ("kubelet", "containerd"):
            cluster().processes[daemon].wait()
        producer.made_more()
        cluster().start("containerd")
        wait("containerd is back", lambda: cluster().ctr("version", code=None).returncode == 0)
        cluster().start("kubelet")

        def again():
            cluster().keep("kubelet")
            pods = self.space.pods()
            return len(pods) == 3 and all(pod.ready and min(pod.restarts().values()) == 1 for pod in pods)

        wait("every container was started again", again, told=self.space.describe)
        for pod in self.space.pods():
            self.assertLessEqual(pod.started("queue-sidecar"), pod.started("worker"), "also after a crash the sidecar is first")
        producer.made_more()
        self.assert_jobs(producer.stop(), restarts=True)
