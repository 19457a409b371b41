"""Each example of deploy/ is applied as it is, and serves its queue. A manifest that is rendered elsewhere, such as a chart's, is one
more row of ROWS."""
import json

from cluster import PKI, cluster, kubectl, wait
from space import EXAMPLES, SpaceTest


class Row:
    """A manifest: how many pods with a sidecar it has, their containers in the order of their start, its group and a queue. `apply` are
    the arguments of `kubectl apply`."""

    def __init__(self, name, pods, containers, group, queue, scale=None, apply=None):
        self.name, self.pods, self.containers, self.group, self.queue = name, pods, containers, group, queue
        self.scale, self.apply = scale, apply or ["-k", EXAMPLES / name]


# python-deployment and kmqueue-statefulset have tests of their own, but are applied here too.
ROWS = [
    Row("python-deployment", 3, ["queue-sidecar", "worker"], "mailer", "email"),
    Row("own-deployment", 2, ["queue-sidecar", "pause"], "mailer", "email"),
    Row("page", 2, ["queue-sidecar", "pause"], "mailer", "email"),
    Row("page-sign-in", 2, ["queue-sidecar", "pause"], "mailer", "email"),
    Row("bullmq-deployment", 2, ["queue-sidecar", "worker"], "photos-app", "bull:photos:wait"),
    Row("sidekiq-deployment", 2, ["queue-sidecar", "worker"], "shop-app", "queue:default"),
    # Two of its workers want more than the two cores of a small machine, so one is scaled away.
    Row("bull-deployment", 1, ["redis-proxy", "migrate", "queue-sidecar", "worker"], "video-app", "bull:video:wait", scale="video-worker"),
]

# The part of the Prometheus operator that the tests need, whose schemas tests/deploy/check.sh knows.
KINDS = {"podmonitors": "PodMonitor", "prometheusrules": "PrometheusRule"}


def kinds_of_prometheus():
    for plural, kind in KINDS.items():
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        yield {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.monitoring.coreos.com"},
               "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}]}}


class Example(SpaceTest):
    """The tests of one row; below are a class for each."""

    row = None

    @classmethod
    def prepare(cls):
        kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(kinds_of_prometheus())}))
        kubectl("wait", "--for=condition=Established", *[f"crd/{plural}.monitoring.coreos.com" for plural in KINDS], "--timeout=60s")
        cls.space.start_redis()
        cls.space.secret(tokens="gateway look,payloads,act,proxy the-token-of-the-gateway\n")
        cls.space.secret("oauth2-proxy", client_secret="x", cookie_secret="x" * 32, authorization="Bearer the-token-of-the-gateway")

    def test_it_is_admitted_ready_and_serves(self):
        applied = self.space.kubectl("apply", *self.row.apply, code=None)
        self.assertEqual((applied.returncode, applied.stderr), (0, ""))
        if self.row.scale:
            self.space.kubectl("scale", f"deployment/{self.row.scale}", f"--replicas={self.row.pods}")
        pods = self.space.wait_ready(self.row.pods)
        for pod in pods:
            begun = [self.begun_at(pod, name) for name in self.row.containers]
            self.assertEqual(begun, sorted(begun), f"containers have not started in the order {self.row.containers}")
            self.assertEqual(set(pod.restarts().values()), {0})
        leader = self.space.leader()
        self.assertIn("all is well", leader.sidecar("status"))
        leader.sidecar("check", "--redis")
        self.promotes()
        # Its end: each Deployment goes, and the lock with its last sidecar, long before it would end by itself.
        self.space.kubectl("delete", "deployment", "--all")
        self.space.wait_gone()
        self.assertEqual(self.space.redis("EXISTS", f"sidecar:{self.row.group}:lock"), 0, "the lock was not given up")

    def begun_at(self, pod, name):
        state = pod.containers[name]["state"]
        return state.get("running", state.get("terminated"))["startedAt"]

    def promotes(self):
        """A due job reaches ready, or a worker that has taken it from there."""
        if "sidekiq" in self.row.name:  # the score is in seconds
            self.space.redis("ZADD", "schedule", self.space.redis.now() / 1000, json.dumps({"class": "Mail", "jid": "one", "queue": "default"}))
            wait("the job of Sidekiq is ready", lambda: self.space.redis("LLEN", self.row.queue), told=self.space.describe)
        elif ":" in self.row.queue:  # Bull and BullMQ: a job is a hash, its id is in a zset, the score 4096 times the time
            prefix = self.row.queue.rsplit(":", 1)[0]
            if "bullmq" in self.row.name:
                self.space.redis("HSET", f"{prefix}:meta", "version", "bullmq:6.7.0")
            self.space.redis("HSET", f"{prefix}:1", "name", "__default__", "data", "{}", "opts", "{}", "timestamp", self.space.redis.now(), "delay", 1)
            self.space.redis("ZADD", f"{prefix}:delayed", (self.space.redis.now() + 200) * 4096 + 1, "1")
            wait("the job of Bull is ready", lambda: self.space.redis("LPOS", self.row.queue, "1") is not None, told=self.space.describe)
        else:
            due = self.space.redis.now() + 200
            self.space.redis("ZADD", f"{self.row.queue}:delayed", due, json.dumps({"id": "one", "due": due}))
            wait("the job is ready, or done", lambda: self.space.redis("LLEN", self.row.queue) or self.space.redis("LLEN", "ran"), told=self.space.describe)


for _row in ROWS:
    _name = "Example" + "".join(word.title() for word in _row.name.split("-"))
    globals()[_name] = type(_name, (Example,), {"row": _row, "__module__": __name__})
del Example  # it has no row


class Token(SpaceTest):
    """examples/token-deployment: a Redis with TLS and a token as password, which the container redis-token renews."""

    @classmethod
    def prepare(cls):
        certificate = {"name": "tls", "secret": {"secretName": "redis-tls", "defaultMode": 0o444}}
        cls.space.kubectl("create", "secret", "generic", "redis-tls", f"--from-file=tls.crt={PKI}/redis.crt", f"--from-file=tls.key={PKI}/redis.key")
        # 6379 is TLS, as the example wants; the test's own client is plain.
        cls.space.start_redis("--port", "6380", "--tls-port", "6379", "--tls-cert-file", "/tls/tls.crt", "--tls-key-file", "/tls/tls.key",
                              "--tls-auth-clients", "no", "--user", "shop", "on", ">first-token", "~*", "&*", "+@all", volumes=[certificate])
        cls.space.wait_ready(1, "app=redis")
        cls.redis_pod = cls.space.pods("app=redis")[0]
        cluster().names.known["shop.redis.example.com"] = cls.space.service_address("redis")
        cls.space.apply(EXAMPLES / "token-deployment")
        cls.pods = cls.space.wait_ready(2)

    def cli(self, *words):
        return self.space.kubectl("exec", self.redis_pod.name, "--", "redis-cli", "-p", "6380", *words).strip()

    def test_a_the_containers_start_in_order(self):
        for pod in self.pods:
            order = [pod.started(name) for name in ("redis-token", "queue-sidecar", "worker")]
            self.assertEqual(order, sorted(order))
            self.assertIn("all is well", pod.sidecar("status"))

    def test_b_a_new_token_is_taken_without_a_restart(self):
        self.cli("ACL", "SETUSER", "shop", ">second-token")
        for pod in self.pods:
            write = "cd /run/secrets/redis-token && printf second-token >new && chmod 444 new && mv new token"
            self.space.kubectl("exec", pod.name, "-c", "redis-token", "--", "sh", "-c", write)
        self.cli("ACL", "SETUSER", "shop", "<first-token")
        self.cli("CLIENT", "KILL", "USER", "shop")
        for pod in self.pods:
            wait(f"{pod.name} has Redis again", lambda pod=pod: pod.health("/readyz") == "200" and pod.metrics().get("queue_sidecar_redis_up") == 1,
                 told=self.space.describe)
        self.assertEqual([pod.restarts() for pod in self.space.pods()], [{"redis-token": 0, "queue-sidecar": 0, "worker": 0}] * 2)

    def test_c_the_token_outlives_the_sidecar(self):
        """redis-token is before the sidecar, so it ends after it: the sidecar can still give up its lock."""
        self.space.kubectl("delete", "deployment", "shop")
        self.space.wait_gone()
        self.assertEqual(self.cli("EXISTS", "sidecar:shop:lock"), "0")
