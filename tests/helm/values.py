"""What each value of the chart changes, and what it refuses."""
import yaml

import charts
from policy import sidecar, template
from selftest import workload

CONFIG = {"config": charts.CONFIG}
SHOWN = {"config": charts.CONFIG + '// "queues.example.com"\n'}
DIGEST = "sha256:" + "a" * 64


def pods(docs):
    return next(doc for doc in docs if doc["kind"] in ("Deployment", "StatefulSet"))


def pod(docs):
    return template(pods(docs))["spec"]


def meta(docs):
    return template(pods(docs))["metadata"]


def box(docs):
    return sidecar(pods(docs))


def volume(docs, name):
    return next(volume for volume in pod(docs)["volumes"] if volume["name"] == f"queue-sidecar-{name}")


def kinds(docs):
    return sorted(doc["kind"] for doc in docs)


def only(docs, kind):
    return next(doc for doc in docs if doc["kind"] == kind)


def ingress(docs):
    return only(docs, "Ingress")


def claim(docs):
    return pods(docs)["spec"]["volumeClaimTemplates"][0]["spec"]


PAGE = {"ingress": {"enabled": True}, **SHOWN}
ARCHIVE = {"shape": "archive"}
TOLERATION = [{"key": "jobs", "operator": "Exists"}]
SPREAD = [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]

# Value, values that set it, and the effect.
EFFECTS = [
    ("shape", ARCHIVE, lambda d: (pods(d)["kind"], pods(d)["spec"]["replicas"]) == ("StatefulSet", 1) and "PodDisruptionBudget" not in kinds(d)),
    ("shape", ARCHIVE, lambda d: {"name": "QUEUE_SIDECAR_LOCK_LEAD", "value": "false"} in box(d)["env"]),
    ("shape", ARCHIVE, lambda d: {"name": "QUEUE_SIDECAR_AUDIT_EPHEMERAL", "value": "false"} in box(d)["env"]),
    ("replicas", {"replicas": 3}, lambda d: pods(d)["spec"]["replicas"] == 3),
    ("config", {"config": "# mine: {{ not a template }}\n"}, lambda d: only(d, "ConfigMap")["data"] == {"queue-sidecar.cfg": "# mine: {{ not a template }}\n"}),
    ("existingConfigMap", {"config": "", "existingConfigMap": "mine"}, lambda d: volume(d, "config")["configMap"]["name"] == "mine" and "ConfigMap" not in kinds(d)),
    ("existingSecret", {"existingSecret": "mine"}, lambda d: volume(d, "secret")["secret"]["secretName"] == "mine"),
    ("restartOnConfigChange", {"restartOnConfigChange": True}, lambda d: len(meta(d)["annotations"]["queue-sidecar/config-digest"]) == 64),
    ("image.repository", {"image": {"repository": "r.example.org:5000/q"}}, lambda d: box(d)["image"].startswith("r.example.org:5000/q:0")),
    ("image.tag", {"image": {"tag": "1.0"}}, lambda d: box(d)["image"] == "queue-sidecar:1.0"),
    ("image.digest", {"image": {"digest": DIGEST, "tag": "1.0"}}, lambda d: box(d)["image"] == f"queue-sidecar@{DIGEST}"),
    ("image.pullPolicy", {"image": {"pullPolicy": "Always"}}, lambda d: box(d)["imagePullPolicy"] == "Always"),
    ("imagePullSecrets", {"imagePullSecrets": [{"name": "mine"}]}, lambda d: pod(d)["imagePullSecrets"] == [{"name": "mine"}]),
    ("resources", {"resources": {"limits": {"memory": "1Gi"}}}, lambda d: box(d)["resources"] == {"limits": {"memory": "1Gi"}}),
    ("env", {"env": [{"name": "A", "value": "b"}]}, lambda d: len(box(d)["env"]) > 2 and box(d)["env"][-1] == {"name": "A", "value": "b"}),
    ("volumes", {"volumes": [{"name": "token", "emptyDir": {}}]}, lambda d: len(pod(d)["volumes"]) == 5 and pod(d)["volumes"][-1]["name"] == "token"),
    ("volumeMounts", {"volumeMounts": [{"name": "token", "mountPath": "/t"}]}, lambda d: len(box(d)["volumeMounts"]) == 5 and box(d)["volumeMounts"][-1]["mountPath"] == "/t"),
    ("readiness", {"readiness": False}, lambda d: "readinessProbe" not in box(d) and "livenessProbe" in box(d)),
    ("anyUser", {"anyUser": True}, lambda d: "runAsUser" not in box(d)["securityContext"] and box(d)["securityContext"]["runAsNonRoot"]),
    ("anyUser", {"anyUser": True, **ARCHIVE}, lambda d: "fsGroup" not in pod(d)["securityContext"]),
    ("auditSize", {"auditSize": "9Gi"}, lambda d: volume(d, "audit")["emptyDir"]["sizeLimit"] == "9Gi"),
    ("auditSize", {"auditSize": "9Gi", **ARCHIVE}, lambda d: claim(d)["resources"]["requests"]["storage"] == "9Gi"),
    ("storageClass", {"storageClass": "local", **ARCHIVE}, lambda d: claim(d)["storageClassName"] == "local"),
    ("networkPolicy.enabled", {"networkPolicy": {"enabled": False}}, lambda d: "NetworkPolicy" not in kinds(d)),
    (
        "networkPolicy.from",
        {"networkPolicy": {"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}},
        lambda d: [rule["from"] for rule in only(d, "NetworkPolicy")["spec"]["ingress"]] == [[{"ipBlock": {"cidr": "192.0.2.0/24"}}]],
    ),
    ("networkPolicy.from", {"networkPolicy": {"from": []}}, lambda d: not only(d, "NetworkPolicy")["spec"].get("ingress")),
    ("podDisruptionBudget.enabled", {"podDisruptionBudget": {"enabled": False}}, lambda d: "PodDisruptionBudget" not in kinds(d)),
    ("podDisruptionBudget.maxUnavailable", {"podDisruptionBudget": {"maxUnavailable": "50%"}}, lambda d: only(d, "PodDisruptionBudget")["spec"]["maxUnavailable"] == "50%"),
    ("service.port", {"service": {"port": 8642}}, lambda d: only(d, "Service")["spec"]["ports"][0]["port"] == 8642),
    ("service.annotations", {"service": {"annotations": {"a": "b"}}}, lambda d: only(d, "Service")["metadata"]["annotations"] == {"a": "b"}),
    ("ingress.enabled", PAGE, lambda d: ingress(d)["spec"]["rules"][0]["host"] == "queues.example.com"),
    (
        "ingress.host",
        {"ingress": {"enabled": True, "host": "q.example.org"}, "config": '// "q.example.org"\n'},
        lambda d: (ingress(d)["spec"]["rules"][0]["host"], ingress(d)["spec"]["tls"][0]["hosts"]) == ("q.example.org", ["q.example.org"]),
    ),
    ("ingress.tlsSecret", {**PAGE, "ingress": {"enabled": True, "tlsSecret": "s"}}, lambda d: ingress(d)["spec"]["tls"][0]["secretName"] == "s"),
    ("ingress.className", {**PAGE, "ingress": {"enabled": True, "className": "c"}}, lambda d: ingress(d)["spec"]["ingressClassName"] == "c"),
    ("ingress.annotations", {**PAGE, "ingress": {"enabled": True, "annotations": {"a": "b"}}}, lambda d: ingress(d)["metadata"]["annotations"] == {"a": "b"}),
    ("monitoring.enabled", {"monitoring": {"enabled": True}}, lambda d: {"PodMonitor", "PrometheusRule"} < set(kinds(d))),
    (
        "monitoring.labels",
        {"monitoring": {"enabled": True, "labels": {"release": "p"}}},
        lambda d: [only(d, kind)["metadata"]["labels"].get("release") for kind in ("PodMonitor", "PrometheusRule")] == ["p", "p"],
    ),
    (
        "monitoring.runbookBase",
        {"monitoring": {"enabled": True, "runbookBase": "https://git.example.org/q/"}},
        lambda d: {rule["annotations"]["runbook_url"].partition("deploy/")[0] for group in only(d, "PrometheusRule")["spec"]["groups"] for rule in group["rules"]}
        == {"https://git.example.org/q/"},
    ),
    ("nameOverride", {"nameOverride": "q"}, lambda d: pods(d)["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == "q"),
    ("fullnameOverride", {"fullnameOverride": "q"}, lambda d: {doc["metadata"]["name"] for doc in d} == {"q"} and volume(d, "config")["configMap"]["name"] == "q"),
    ("podLabels", {"podLabels": {"a": "b"}}, lambda d: meta(d)["labels"]["a"] == "b" and "a" not in pods(d)["spec"]["selector"]["matchLabels"]),
    ("podAnnotations", {"podAnnotations": {"a": "b"}}, lambda d: meta(d)["annotations"] == {"a": "b"}),
    ("serviceAccountName", {"serviceAccountName": "mine"}, lambda d: pod(d)["serviceAccountName"] == "mine"),
    ("priorityClassName", {"priorityClassName": "high"}, lambda d: pod(d)["priorityClassName"] == "high"),
    ("nodeSelector", {"nodeSelector": {"a": "b"}}, lambda d: pod(d)["nodeSelector"] == {"a": "b"}),
    ("tolerations", {"tolerations": TOLERATION}, lambda d: pod(d)["tolerations"] == TOLERATION),
    ("affinity", {"affinity": {"podAffinity": {}}}, lambda d: pod(d)["affinity"] == {"podAffinity": {}}),
    ("topologySpreadConstraints", {"topologySpreadConstraints": SPREAD}, lambda d: pod(d)["topologySpreadConstraints"] == SPREAD),
    ("dnsConfig", {"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}}, lambda d: pod(d)["dnsConfig"]["options"][0]["name"] == "ndots"),
]

# Values that the chart refuses, and a part of what it says.
REFUSED = [
    ({}, "set config, the text of queue-sidecar.cfg"),
    ({**CONFIG, "existingConfigMap": "mine"}, "not both"),
    ({"ingress": {"enabled": True}, **CONFIG}, "is not in http.hosts of config"),
    ({"replica": 3, **CONFIG}, "replica"),
    ({"image": {"tagg": "1"}, **CONFIG}, "tagg"),
    ({"image": {"repository": "r.example.org/q:1.0"}, **CONFIG}, "repository"),
    ({"monitoring": {"runbookBase": "git.example.org"}, **CONFIG}, "runbookBase"),
    ({"image": {"digest": "sha256:1"}, **CONFIG}, "image"),
    ({"image": {"pullPolicy": "always"}, **CONFIG}, "pullPolicy"),
    ({"replicas": "two", **CONFIG}, "replicas"),
    ({"shape": "sidecar", **CONFIG}, "shape"),
    ({"config": {"group": "app"}}, "config"),
    ({"auditSize": "4G", **CONFIG}, "auditSize"),
    ({"env": [{"value": "x"}], **CONFIG}, "env"),
    ({"networkPolicy": {"from": [{}]}, **CONFIG}, "networkPolicy"),
    ({"podDisruptionBudget": {"maxUnavailable": 0}, **CONFIG}, "maxUnavailable"),
    ({"ingress": {"enabled": True, "tlsSecret": ""}, **SHOWN}, "tlsSecret"),
    ({"queue-sidecar-lib": {"imagee": {}}, **CONFIG}, "imagee"),
]


def leaves(values, path=""):
    """The names of values that have no others below them."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}{name}.")
        else:
            yield path + name


def seen(docs, has_effect):
    try:
        return not isinstance(docs, str) and has_effect(docs)
    except (LookupError, StopIteration):
        return False


def effects(place):
    """Yields each value without its effect, and each value of values.yaml that the table above lacks."""
    known = {name for name, _, _ in EFFECTS}
    for name in sorted(known ^ set(leaves(yaml.safe_load((charts.APP / "values.yaml").read_text())))):
        yield f"the value {name} is not both in values.yaml and in EFFECTS"
    for name, values, has_effect in EFFECTS:
        docs = charts.render(place, {**CONFIG, **values})
        if not seen(docs, has_effect):
            yield f"the value {name} has no effect: {values}; {docs if isinstance(docs, str) else ''}"


def refused(place):
    for values, wanted in REFUSED:
        docs = charts.render(place, values)
        if not isinstance(docs, str) or wanted not in docs:
            yield f"{values} are not refused with \"{wanted}\": {docs if isinstance(docs, str) else ''}"


# Values of the library, and the effect on the mailer of the example.
LIBRARY = [
    ({"plain": True, "readiness": True}, lambda d: "restartPolicy" not in box(d) and box(d)["readinessProbe"]["httpGet"]["path"] == "/readyz"),
    ({"anyUser": True}, lambda d: "runAsUser" not in box(d)["securityContext"]),
    ({"existingConfigMap": "mine", "config": ""}, lambda d: volume(d, "config")["configMap"]["name"] == "mine"),
    ({"image": {"tag": "1.0"}}, lambda d: box(d)["image"] == "registry.example.org/queue-sidecar:1.0"),
    ({"auditSize": "9Gi"}, lambda d: volume(d, "audit")["emptyDir"]["sizeLimit"] == "9Gi"),
    ({"name": ""}, lambda d: volume(d, "config")["configMap"]["name"] == "shop-queue-sidecar"),
]


def library(place):
    for values, has_effect in LIBRARY:
        docs = charts.render(place, {"queue-sidecar-lib": values}, "shop")
        if not seen(docs, lambda found, has_effect=has_effect: has_effect([workload(found, name="mailer")])):
            yield f"{values} have no effect: {docs if isinstance(docs, str) else ''}"
    said = charts.render(place, {"queue-sidecar-lib": {"readyness": True}})
    if not isinstance(said, str) or "readyness" not in said:
        yield f"an unknown value of the library is not refused: {said}"
