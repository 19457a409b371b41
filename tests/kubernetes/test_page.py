"""examples/page: people reach the page and the API through the Service. The journey of a support person, by curl."""
import json

from cluster import cluster, run, say, wait
from space import EXAMPLES, SpaceTest

HOST = "queues.example.com"  # of the Ingress, and of http.hosts
ANN, BEN = "the-first-token-of-ann", "the-second-token-of-ann"


class Page(SpaceTest):
    """Two sidecars behind a Service, whose address kube-proxy serves. There is no Ingress controller, and the network of the tests
    enforces no NetworkPolicy: that the host, the ports and the labels of these fit is what is tested of them."""

    @classmethod
    def prepare(cls):
        cls.space.start_redis()
        cls.space.secret(tokens=f"ann look,payloads,act {ANN}\n")
        cls.space.apply(EXAMPLES / "page")
        cls.pods = cls.space.wait_ready(2)
        cls.address = cls.space.service_address("mailer-page")

    def get(self, path, token=ANN, host=HOST, body=None, method=None):
        """Status and JSON of an answer, through the Service."""
        words = ["curl", "-sS", "--compressed", "--max-time", "20", "--resolve", f"{host}:80:{self.address}", "-w", "\n%{http_code}", f"http://{host}{path}"]
        words += ["-H", f"Authorization: Bearer {token}"] if token else []
        words += ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body else []
        words += ["-X", method] if method else []
        text, code = run(*words).rsplit("\n", 1)
        return int(code), json.loads(text) if text.startswith("{") else text

    def api(self, path, **options):
        return self.get(f"/api/v1/{path}", **options)

    def test_a_the_objects_lead_to_the_sidecars(self):
        where = f"/namespaces/{self.space.name}"
        service = cluster().get(f"/api/v1{where}/services/mailer-page")
        slices = cluster().get(f"/apis/discovery.k8s.io/v1{where}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dmailer-page")["items"]
        addresses = {address for piece in slices for endpoint in piece["endpoints"] for address in endpoint["addresses"]}
        self.assertEqual(addresses, {pod.address for pod in self.pods})
        self.assertEqual({port["port"] for piece in slices for port in piece["ports"]}, {8642})
        rule = cluster().get(f"/apis/networking.k8s.io/v1{where}/ingresses/mailer-page")["spec"]["rules"][0]
        backend = rule["http"]["paths"][0]["backend"]["service"]
        self.assertEqual((rule["host"], backend["name"], backend["port"]["name"]), (HOST, "mailer-page", service["spec"]["ports"][0]["name"]))
        policy = cluster().get(f"/apis/networking.k8s.io/v1{where}/networkpolicies/mailer-page")["spec"]
        chosen = ",".join(f"{name}={value}" for name, value in policy["podSelector"]["matchLabels"].items())
        self.assertEqual({pod.name for pod in self.space.pods(chosen)}, {pod.name for pod in self.pods})
        self.assertEqual({port["port"] for entry in policy["ingress"] for port in entry["ports"]}, {"queue-sidecar"})

    def test_a_the_host_and_the_token_decide_who_is_answered(self):
        self.assertEqual(self.get("/", token=None)[0], 200)
        self.assertEqual(self.api("failures", token=None)[0], 401)
        self.assertEqual(self.api("failures", host="other.example.com")[0], 421)
        code, session = self.api("session")
        self.assertEqual((code, session["name"], sorted(session["rights"])), (200, "ann", ["act", "look", "payloads"]))

    def test_a_for_oneself_a_port_forward_is_enough(self):
        """deploy/README.md, "The page"."""
        forward = self.space.forward("deploy/mailer-sidecar", 8642)
        self.addCleanup(forward)
        wait("the page is there", lambda: "<html" in run("curl", "-s", "--compressed", "http://localhost:8642/", code=None).stdout.lower())
        # Without a token: queues and findings, nothing of a job.
        status = json.loads(run("curl", "-sS", "http://localhost:8642/api/v1/status"))
        self.assertIn("queues", status)

    def test_b_a_support_person_puts_a_customers_jobs_back(self):
        jobs = [json.dumps({"id": f"job{number}", "customer": 1042 if number % 2 else 7, "to": "ann@example.org"}) for number in range(40)]
        for job in jobs:
            self.space.redis("HSET", "email:errors", job, "!no such mailbox")
            self.space.redis("LPUSH", "email:backup", job)

        for pod in self.pods:
            wait("the failures of the customer are in every log", lambda pod=pod: self.count(pod) == 20, told=self.space.describe)
        code, answer = self.api("failures?text=customer%22%3A+1042&limit=100")
        self.assertEqual((code, len(answer["items"])), (200, 20))
        one = answer["items"][0]
        code, shown = self.api(f"failures/{one['ref']}")
        self.assertEqual((code, shown["error"]), (200, "!no such mailbox"))
        self.assertNotIn("ann@example.org", json.dumps(shown), "a hidden value is shown")
        # A dry run by filter, and its plan.
        order = {"action": "requeue", "filter": {"text": '"customer": 1042'}, "because": "address corrected"}
        code, plan = self.api("answers", body={**order, "dry_run": True})
        self.assertEqual((code, plan["jobs"]), (200, 20), plan)
        code, begun = self.api("answers", body={**order, "plan": plan["plan"], "rate": "5/s"})
        self.assertEqual(code, 202, begun)
        # Any replica tells how far it is: each request may go to another one.
        seen = set()

        def done():
            for pod in self.pods:
                answer = json.loads(run("curl", "-sS", "-H", f"Host: {HOST}", "-H", f"Authorization: Bearer {ANN}",
                                        f"http://{pod.address}:8642/api/v1/answers/{begun['id']}"))
                seen.add((pod.name, answer.get("state")))
            return {("done", pod.name) for pod in self.pods} <= {(state, name) for name, state in seen}

        wait("every instance says that it is done", done, told=lambda: str(seen))
        self.assertEqual({name for name, state in seen if state == "running"}, {pod.name for pod in self.pods}, "an instance did not tell how far it was")
        self.assertEqual(self.space.redis("LLEN", "email"), 20)
        # The log says who it was, at every instance.
        for pod in self.pods:
            wait("the answer is in the log", lambda pod=pod: "ann" in pod.sidecar("audit", "show", one["ref"]), told=self.space.describe)
        code, again = self.api("answers", body={"action": "requeue", "refs": [one["ref"]]})
        self.assertEqual(code, 409, again)

    def count(self, pod):
        return len(json.loads(pod.sidecar("audit", "list", "--grep", '"customer": 1042', "-n", "100", "-o", "json")))

    def test_c_changed_tokens_need_no_restart(self):
        """deploy/README.md, "The page"."""
        self.space.secret(tokens=f"ann look,payloads,act {BEN}\n")
        self.space.poke()
        for pod in self.pods:
            ask = lambda token, pod=pod: run("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Host: {HOST}", "-H",
                                             f"Authorization: Bearer {token}", f"http://{pod.address}:8642/api/v1/failures")
            wait(f"{pod.name} takes the new token", lambda ask=ask: ask(BEN) == "200", told=self.space.describe)
            self.assertEqual(ask(ANN), "401", "the old token is still good")
        self.assertEqual({pod.uid for pod in self.space.pods()}, {pod.uid for pod in self.pods})
        self.assertEqual([pod.restarts()["queue-sidecar"] for pod in self.space.pods()], [0, 0])
        self.assertIn("token", self.pods[0].sidecar("check", "--redis"))

    def test_d_pods_without_redis_still_answer(self):
        """publishNotReadyAddresses: while Redis is away the page says since when."""
        self.space.kubectl("scale", "statefulset/redis", "--replicas=0")
        wait("Redis is away", lambda: all(pod.health("/readyz") == "503" for pod in self.pods))
        code, answer = self.api("status", token=BEN)
        say(f"status without Redis: {code} {str(answer)[:200]}")
        self.assertEqual(self.get("/", token=None)[0], 200)
