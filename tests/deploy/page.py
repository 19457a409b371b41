"""Rules for manifests that publish the page: Service, Ingress, NetworkPolicy, token file and host names fit each other; and for the shapes
whose pods are sidecars only: Service, NetworkPolicy and PodDisruptionBudget choose them."""
import re

from policy import CONTAINER, chosen, containers, template

SECRETS = "/run/secrets/queue-sidecar/"
SHAPES = ("example standalone", "example archive")


def of_kind(docs, kind):
    return [doc for doc in docs if doc["kind"] == kind]


def pods(docs, selector):
    """The workloads whose pods have these labels."""
    found = []
    for doc in docs:
        labels = ((template(doc) or {}).get("metadata") or {}).get("labels") or {}
        if selector and selector.items() <= labels.items():
            found.append(doc)
    return found


def service(docs, name):
    """Returns the workload behind a Service, or a text that says why there is none."""
    found = next((doc for doc in of_kind(docs, "Service") if doc["metadata"]["name"] == name), None)
    if found is None:
        return f"there is no Service {name}"
    behind = pods(docs, found["spec"]["selector"])
    if len(behind) != 1:
        return f"the Service {name} chooses the pods of {len(behind)} workloads; those of one group must be alone"
    named = [port.get("name") for container in containers(template(behind[0])["spec"]) for port in container.get("ports") or []]
    for port in found["spec"]["ports"]:
        if port["targetPort"] not in named:
            return f"the Service {name} leads to the port {port['targetPort']}, which no container names"
    return behind[0]


def services(docs, workload):
    """Services of the sidecar: the page stays while Redis is away."""
    for doc in of_kind(docs, "Service"):
        if workload not in pods(docs, doc["spec"]["selector"]):
            continue
        if not doc["spec"].get("publishNotReadyAddresses"):
            yield "its Service leaves out pods that are not ready, so the page is away when Redis is"


def policies(docs, workload):
    found = [doc for doc in of_kind(docs, "NetworkPolicy") if workload in pods(docs, doc["spec"]["podSelector"].get("matchLabels"))]
    if len(found) != 1:
        yield f"{len(found)} NetworkPolicies choose its pods"
        return
    spec = found[0]["spec"]
    if spec["policyTypes"] != ["Ingress"]:
        yield f"its NetworkPolicy is for {spec['policyTypes']}: it closes the way to Redis"
    for rule in spec["ingress"]:
        if not rule.get("from"):
            yield "its NetworkPolicy lets everybody in"
        if [port["port"] for port in rule.get("ports") or []] != [CONTAINER]:
            yield "its NetworkPolicy opens other ports"
        for peer in rule.get("from") or []:
            selector = (peer.get("podSelector") or peer.get("namespaceSelector") or {}).get("matchLabels")
            if "podSelector" in peer and not pods(docs, selector):
                yield f"its NetworkPolicy lets in pods that are not there: {selector}"
            if not selector:
                yield "its NetworkPolicy lets in every pod"


def config(docs, hosts, proxied):
    text = next(doc for doc in of_kind(docs, "ConfigMap") if doc["metadata"]["name"] == CONTAINER)["data"]["queue-sidecar.cfg"]
    named = re.search(r"^ *hosts *= *\[(.*?)\]", text, re.M)
    if named is None or set(re.findall(r'"(.*?)"', named.group(1))) != hosts:
        yield f"http.hosts is not {sorted(hosts)}, so the sidecar answers 421"
    tokens = re.search(r'^ *token_file *= *"(.*?)"', text, re.M)
    if tokens is None or not tokens.group(1).startswith(SECRETS):
        yield f"http.token_file is not below {SECRETS}, where the Secret is"
    if proxied != ("user_header" in text):
        yield "http.user_header is for a proxy that signs people in, and only for it"


def offences(case):
    for ingress in of_kind(case.docs, "Ingress"):
        hosts = {rule["host"] for rule in ingress["spec"]["rules"]}
        name = f"{case.name}: Ingress {ingress['metadata']['name']}"
        if {host for tls in ingress["spec"].get("tls") or [] for host in tls["hosts"]} != hosts:
            yield f"{name}: a host has no TLS, so tokens pass in the clear"
        for rule in ingress["spec"]["rules"]:
            first = service(case.docs, rule["http"]["paths"][0]["backend"]["service"]["name"])
            if isinstance(first, str):
                yield f"{name}: {first}"
                continue
            workload = first if chosen(first) else next(doc for doc in case.docs if chosen(doc))
            for rules in (services(case.docs, workload), policies(case.docs, workload), config(case.docs, hosts, workload is not first)):
                yield from (f"{name}: {text}" for text in rules)
    if case.name in SHAPES:
        yield from (f"{case.name}: {text}" for text in shape(case.docs))


def shape(docs):
    """A standalone pair may lose one pod to a drain; an archive is one pod with a claim, and never leads."""
    workload = next(doc for doc in docs if chosen(doc))
    behind = [service(docs, doc["metadata"]["name"]) for doc in of_kind(docs, "Service")]
    if behind != [workload]:
        yield f"no Service of its own leads to it: {[text for text in behind if isinstance(text, str)]}"
    yield from services(docs, workload)
    yield from policies(docs, workload)
    archive = workload["kind"] == "StatefulSet"
    if workload["spec"]["replicas"] != (1 if archive else 2):
        yield f"it has {workload['spec']['replicas']} replicas"
    budgets = [doc["spec"] for doc in of_kind(docs, "PodDisruptionBudget")]
    limits = [budget.get("maxUnavailable") for budget in budgets if workload in pods(docs, budget["selector"]["matchLabels"])]
    if limits != ([] if archive else [1]):
        yield f"a drain would wait for ever, or end all of them: maxUnavailable is {limits}"
    text = next(doc for doc in of_kind(docs, "ConfigMap"))["data"]["queue-sidecar.cfg"]
    if archive != ("lead = false" in text) or archive != bool(workload["spec"].get("volumeClaimTemplates")):
        yield "an archive never leads and has a claim, and nothing else does"
