"""Tests the checks: makes one error after another in rendered manifests, and expects a rule to report each."""
import copy

import configs
import page
import policy
import unchanged
from policy import CONTAINER, template


def workload(docs, kind="Deployment", name="full"):
    return next(doc for doc in docs if (doc["kind"], doc["metadata"]["name"]) == (kind, name))


def added(docs):
    return policy.sidecar(workload(docs))


def theirs(docs):
    return template(workload(docs))["spec"]["containers"][0]


def first_in_line(docs):
    found = template(workload(docs))["spec"]["initContainers"]
    found.insert(0, found.pop())


def volume(docs, name, owner="full"):
    return next(volume for volume in template(workload(docs, name=owner))["spec"]["volumes"] if volume["name"] == name)


def config(docs, text):
    next(doc for doc in docs if doc["metadata"]["name"] == "queue-sidecar" and doc["kind"] == "ConfigMap")["data"]["queue-sidecar.cfg"] = text


SPOILT = [
    # rule, part of the expected offence, the error
    (policy, "does not come last", first_in_line),
    (policy, "no native sidecar", lambda docs: added(docs).pop("restartPolicy")),
    (policy, "no sidecar, or two", lambda docs: template(workload(docs))["spec"]["containers"].append(added(docs))),
    (policy, "no tag of its own", lambda docs: added(docs).update(image="registry.example.org:5000/queue-sidecar")),
    (policy, "no tag of its own", lambda docs: added(docs).update(image="queue-sidecar:latest")),
    (policy, "livenessProbe asks /readyz", lambda docs: added(docs)["livenessProbe"]["httpGet"].update(path="/readyz")),
    (policy, "startupProbe asks None", lambda docs: added(docs).pop("startupProbe")),
    (policy, "readinessProbe asks /readyz, not None", lambda docs: added(docs).update(readinessProbe={"httpGet": {"path": "/readyz"}})),
    (policy, "does not name", lambda docs: added(docs)["startupProbe"]["httpGet"].update(port="http")),
    (policy, "is not 0.0.0.0", lambda docs: added(docs)["env"].pop(0)),
    (policy, "is not the port", lambda docs: added(docs)["ports"][0].update(containerPort=8643)),
    (policy, "preStop", lambda docs: added(docs).update(lifecycle={})),
    (policy, "resources are", lambda docs: added(docs)["resources"]["limits"].update(cpu="1")),
    (policy, "by subPath", lambda docs: added(docs)["volumeMounts"][0].update(subPath="queue-sidecar.cfg")),
    (policy, "does not have", lambda docs: added(docs)["volumeMounts"][0].update(name="config")),
    (policy, "for writing", lambda docs: added(docs)["volumeMounts"][0].pop("readOnly")),
    (policy, "mounts are", lambda docs: added(docs)["volumeMounts"].pop()),
    (policy, "no sizeLimit", lambda docs: volume(docs, "queue-sidecar-audit").update(emptyDir={})),
    (policy, "cannot read", lambda docs: volume(docs, "queue-sidecar-secret")["secret"].update(defaultMode=0o440)),
    (policy, "type that is not allowed", lambda docs: volume(docs, "queue-sidecar-audit").update(hostPath={"path": "/"})),
    (policy, "claims are", lambda docs: workload(docs, "StatefulSet")["spec"]["volumeClaimTemplates"][0]["metadata"].update(name="queue-sidecar-audit")),
    (policy, "root can be written", lambda docs: added(docs)["securityContext"].pop("readOnlyRootFilesystem")),
    (policy, "as 65532:65532", lambda docs: added(docs)["securityContext"].update(runAsUser=0)),
    (policy, "may run as root", lambda docs: added(docs)["securityContext"].update(runAsUser=0)),
    (policy, "allowPrivilegeEscalation", lambda docs: added(docs)["securityContext"].pop("allowPrivilegeEscalation")),
    (policy, "capabilities are", lambda docs: added(docs)["securityContext"].update(capabilities={"drop": ["ALL"], "add": ["SYS_PTRACE"]})),
    (policy, "no seccomp profile", lambda docs: added(docs)["securityContext"].pop("seccompProfile")),
    (policy, "hostPort", lambda docs: added(docs)["ports"][0].update(hostPort=8642)),
    (policy, "hostPID", lambda docs: template(workload(docs))["spec"].update(hostPID=True)),
    (policy, "lack the label", lambda docs: template(workload(docs))["metadata"]["labels"].pop("queue-sidecar")),
    (unchanged, "Deployment full is not", lambda docs: workload(docs)["spec"]["selector"]["matchLabels"].update(app="x")),
    (unchanged, "Deployment full is not", lambda docs: template(workload(docs))["metadata"]["labels"].update(app="x")),
    (unchanged, "Deployment full is not", lambda docs: theirs(docs)["env"][0].update(value="off")),
    (unchanged, "Deployment full is not", lambda docs: template(workload(docs))["spec"]["containers"].reverse()),
    (unchanged, "Deployment full is not", lambda docs: template(workload(docs))["spec"].update(securityContext={"fsGroup": 65532})),
    (unchanged, "StatefulSet full is not", lambda docs: workload(docs, "StatefulSet")["spec"]["volumeClaimTemplates"].pop()),
    (unchanged, "Deployment other is not", lambda docs: template(workload(docs, name="other"))["metadata"]["labels"].clear()),
    (unchanged, "CronJob other is gone", lambda docs: docs.remove(workload(docs, "CronJob", "other"))),
    (unchanged, "Secret x is new", lambda docs: docs.append({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}})),
    (configs, "no ConfigMap queue-sidecar", lambda docs: [docs.remove(doc) for doc in docs if doc["kind"] == "ConfigMap"]),
    (configs, "with the key mailer.cfg", lambda docs: template(workload(docs))["metadata"]["annotations"].update({"queue-sidecar/config": "mailer.cfg"})),
    (configs, "not the working directory", lambda docs: added(docs).update(workingDir="/")),
    (configs, "is refused", lambda docs: config(docs, 'queues = ( { name = "email"; retry_time = 3; } );')),
    (configs, "too much for its volume", lambda docs: config(docs, 'audit = { retain_bytes = "2GiB"; }; queues = ( { name = "email"; } );')),
    (configs, "too much for its volume", lambda docs: config(docs, 'audit = { retain_bytes = 0; }; queues = ( { name = "email"; } );')),
    (configs, "more than its memory", lambda docs: config(docs, 'queues = ( { name = "email"; max_payload = "9MiB"; } );')),
    (configs, "has no effect", lambda docs: added(docs)["env"][1].update(name="QUEUE_SIDECAR_TEST_X")),
]



def only(docs, kind):
    return next(doc for doc in docs if doc["kind"] == kind)["spec"]


def page_service(docs):
    return workload(docs, "Service", "mailer-page")["spec"]


def peers(docs):
    return only(docs, "NetworkPolicy")["ingress"][0]["from"]


# Errors in the example page-sign-in.
SPOILT_PAGE = [
    ("has no TLS", lambda docs: only(docs, "Ingress").pop("tls")),
    ("there is no Service", lambda docs: docs.remove(workload(docs, "Service", "oauth2-proxy"))),
    ("of 0 workloads", lambda docs: workload(docs, "Service", "oauth2-proxy")["spec"].update(selector={"app": "x"})),
    ("which no container names", lambda docs: workload(docs, "Service", "oauth2-proxy")["spec"]["ports"][0].update(targetPort="web")),
    ("leaves out pods", lambda docs: page_service(docs).pop("publishNotReadyAddresses")),
    ("0 NetworkPolicies", lambda docs: only(docs, "NetworkPolicy").update(podSelector={"matchLabels": {"app": "x"}})),
    ("the way to Redis", lambda docs: only(docs, "NetworkPolicy").update(policyTypes=["Ingress", "Egress"])),
    ("lets everybody in", lambda docs: only(docs, "NetworkPolicy")["ingress"][0].pop("from")),
    ("opens other ports", lambda docs: only(docs, "NetworkPolicy")["ingress"][1].pop("ports")),
    ("are not there", lambda docs: peers(docs)[0]["podSelector"].update(matchLabels={"app": "x"})),
    ("lets in every pod", lambda docs: peers(docs)[0].update(podSelector={})),
    ("answers 421", lambda docs: only(docs, "Ingress")["rules"][0].update(host="other.example.com")),
    ("where the Secret is", lambda docs: config(docs, 'http = {\n hosts = ["queues.example.com"];\n token_file = "/tokens"; }')),
    ("and only for it", lambda docs: config(docs, 'http = {\n hosts = ["queues.example.com"]; }')),
]

# Errors in the example standalone.
SPOILT_SHAPE = [
    ("no Service of its own", lambda docs: only(docs, "Service").update(selector={"app": "x"})),
    ("0 NetworkPolicies", lambda docs: only(docs, "NetworkPolicy").update(podSelector={"matchLabels": {"app": "x"}})),
    ("maxUnavailable is []", lambda docs: only(docs, "PodDisruptionBudget").update(selector={"matchLabels": {"app": "x"}})),
    ("maxUnavailable is [0]", lambda docs: only(docs, "PodDisruptionBudget").update(maxUnavailable=0)),
    ("has 1 replicas", lambda docs: workload(docs, name="jobs-sidecar")["spec"].update(replicas=1)),
    ("nothing else does", lambda docs: config(docs, 'lock = { lead = false; }; queues = ( { name = "email"; } );')),
]

# Errors that the schemas must find: misspelt, misplaced and missing fields, and wrong types.
INVALID = {
    "misspelt field of a mount": lambda docs: added(docs)["volumeMounts"][0].update(mountpath="/x"),
    "unknown field of a probe": lambda docs: added(docs)["startupProbe"].update(path="/healthz"),
    "misplaced field of a pod": lambda docs: template(workload(docs))["spec"].update(image="x"),
    "unknown field of a claim": lambda docs: workload(docs, "StatefulSet")["spec"]["volumeClaimTemplates"][0]["spec"].update(size="1Gi"),
    "unknown field of a CronJob": lambda docs: workload(docs, "CronJob")["spec"].update(timezone="Etc/UTC"),
    "text for a number": lambda docs: added(docs)["ports"][0].update(containerPort="8642"),
    "a container without a name": lambda docs: added(docs).pop("name"),
    "unknown field of a PodMonitor": lambda docs: workload(docs, "PodMonitor", CONTAINER)["spec"]["podMetricsEndpoints"][0].update(prot="x"),
    "unknown field of an alert": lambda docs: workload(docs, "PrometheusRule", CONTAINER)["spec"]["groups"][0]["rules"][0].update(form="5m"),
    "a PodMonitor without a selector": lambda docs: workload(docs, "PodMonitor", CONTAINER)["spec"].pop("selector"),
}


def invalid(case):
    """Names and changed documents, each of which the schemas must refuse."""
    for name, spoil in INVALID.items():
        docs = copy.deepcopy(case.docs)
        spoil(docs)
        yield f"invalid: {name}", [doc for doc, before in zip(docs, case.docs) if doc != before]


def offences(case, published, standalone):
    for rule, wanted, spoil in SPOILT:
        said = list(rule.offences(case.changed(spoil)))
        if not any(wanted in text for text in said):
            yield f"{rule.__name__}.py does not find an error: expected \"{wanted}\", found {said[:3]}"
    for wanted, spoil in SPOILT_PAGE:
        said = list(page.offences(published.changed(spoil)))
        if not any(wanted in text for text in said):
            yield f"page.py does not find an error: expected \"{wanted}\", found {said[:3]}"
    for wanted, spoil in SPOILT_SHAPE:
        said = list(page.offences(standalone.changed(spoil)))
        if not any(wanted in text for text in said):
            yield f"page.py does not find an error: expected \"{wanted}\", found {said[:3]}"
