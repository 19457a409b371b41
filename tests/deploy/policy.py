"""Rules for every pod with a sidecar. Each rule yields its offences as texts."""
import re

CONTAINER = "queue-sidecar"
VOLUMES = "queue-sidecar-"
LABEL = ("queue-sidecar", "enabled")
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
# Volumes that Pod Security "restricted" allows: k8s.io/pod-security-admission, policy/check_restrictedVolumes.go.
ALLOWED = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret", "image"}
# Small requests, so that every node has room, and only one limit: others would affect the other containers of the pod.
RESOURCES = {
    "requests": {"cpu": "5m", "memory": "16Mi", "ephemeral-storage": "64Mi"},
    "limits": {"memory": "64Mi"},
}
KINDS = {"Deployment", "StatefulSet", "CronJob"}


def template(doc):
    """The pod template of a workload, or None."""
    spec = doc.get("spec") or {}
    if doc["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    return spec.get("template") if isinstance(spec.get("template"), dict) else None


def chosen(doc):
    return doc["kind"] in KINDS and (doc["metadata"].get("labels") or {}).get(LABEL[0]) == LABEL[1]


def containers(pod):
    return [*(pod.get("initContainers") or []), *(pod.get("containers") or [])]


def sidecar(doc):
    """The container that was added, or None."""
    found = [container for container in containers(template(doc)["spec"]) if container["name"] == CONTAINER]
    return found[0] if len(found) == 1 else None


def environment(doc):
    """The variables of the sidecar, as a kubelet sets them: those from an annotation that the pod lacks are empty
    (pkg/fieldpath/fieldpath.go, ExtractFieldPathAsString)."""
    annotations = (template(doc).get("metadata") or {}).get("annotations") or {}
    found = {}
    for variable in sidecar(doc)["env"]:
        field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        named = re.fullmatch(r"metadata\.annotations\['(.+)'\]", field)
        found[variable["name"]] = annotations.get(named[1], "") if named else variable["value"]
    return found


def place(doc, case):
    pod = template(doc)["spec"]
    native, plain = pod.get("initContainers") or [], pod["containers"]
    where, other = (plain, native) if case.legacy else (native, plain)
    if [c["name"] for c in where].count(CONTAINER) != 1 or CONTAINER in [c["name"] for c in other]:
        yield f"the sidecar is not exactly once in {'containers' if case.legacy else 'initContainers'}"
        return
    if where[-1]["name"] != CONTAINER:
        yield "the sidecar does not come last: proxies among init containers would end before it"
    if where[-1].get("restartPolicy") != (None if case.legacy else "Always"):
        yield "wrong restartPolicy: it is no native sidecar, or no plain container"


def image(doc, _case):
    name = sidecar(doc)["image"]
    tag = name.rpartition("/")[2].partition(":")[2]
    if "@sha256:" not in name and tag in ("", "latest"):
        yield f"the image {name} has no tag of its own"


def probes(doc, case):
    added = sidecar(doc)
    ports = {port["name"]: port["containerPort"] for port in added["ports"]}
    wanted = {"startupProbe": "/healthz", "livenessProbe": "/healthz"}
    if "readiness" in case.components and doc["kind"] != "CronJob":
        wanted["readinessProbe"] = "/readyz"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        get = added.get(probe, {}).get("httpGet", {})
        if get.get("path") != wanted.get(probe):
            yield f"{probe} asks {get.get('path')}, not {wanted.get(probe)}"
        elif get and get["port"] not in ports:
            yield f"{probe} asks port {get['port']}, which the container does not name"
    values = environment(doc)
    if values.get("QUEUE_SIDECAR_HTTP_LISTEN") != "0.0.0.0":
        yield "the kubelet cannot reach it: QUEUE_SIDECAR_HTTP_LISTEN is not 0.0.0.0"
    if values.get("QUEUE_SIDECAR_HTTP_PORT") != str(ports.get("queue-sidecar")):
        yield "QUEUE_SIDECAR_HTTP_PORT is not the port that the probes ask"
    if "lifecycle" in added:
        yield "it has a preStop, which runs while workers still work"


def resources(doc, _case):
    if sidecar(doc)["resources"] != RESOURCES:
        yield f"resources are {sidecar(doc)['resources']}"


def mounts(doc, case):
    added, pod = sidecar(doc), template(doc)["spec"]
    volumes = {volume["name"]: volume for volume in pod.get("volumes") or []}
    claims = {claim["metadata"]["name"] for claim in doc["spec"].get("volumeClaimTemplates") or []}
    paths = {mount["mountPath"]: mount for mount in added["volumeMounts"]}
    for path, mount in paths.items():
        if "subPath" in mount or "subPathExpr" in mount:
            yield f"{path} is mounted by subPath and will never change"
        if mount["name"] not in volumes and mount["name"] not in claims:
            yield f"{path} is mounted from {mount['name']}, which the pod does not have"
        if path != "/var/lib/queue-sidecar" and not mount.get("readOnly"):
            yield f"{path} is mounted for writing"
    wanted = {"/etc/queue-sidecar", "/run/secrets/queue-sidecar", "/var/lib/queue-sidecar", TOKEN}
    if case.name == "example token-deployment":
        wanted.add("/run/secrets/redis-token")
    if set(paths) != wanted:
        yield f"mounts are {sorted(paths)}"
    for name, volume in volumes.items():
        if not name.startswith(VOLUMES):
            continue
        if name not in [mount["name"] for mount in added["volumeMounts"]]:
            yield f"volume {name} is not mounted"
        if "emptyDir" in volume and not volume["emptyDir"].get("sizeLimit"):
            yield f"volume {name} has no sizeLimit"
        # The files belong to root, and the sidecar is not in their group.
        mode = volume.get("secret", {}).get("defaultMode", 0o644)
        if not mode & 0o004:
            yield f"user 65532 cannot read volume {name} with mode {mode:04o}"


def claims(doc, case):
    names = [claim["metadata"]["name"] for claim in doc["spec"].get("volumeClaimTemplates") or []]
    wanted = doc["kind"] == "StatefulSet" and "pvc" in case.components
    if names.count("queue-sidecar-audit") != int(wanted):
        yield f"claims are {names}"
    volumes = [volume["name"] for volume in template(doc)["spec"]["volumes"]]
    if volumes.count("queue-sidecar-audit") != int(not wanted):
        yield f"volumes are {volumes}"


def hardened(doc, _case):
    """Restrictions beyond Pod Security "restricted", for the sidecar only."""
    context = sidecar(doc).get("securityContext") or {}
    if not context.get("readOnlyRootFilesystem"):
        yield "its root can be written"
    if (context.get("runAsUser"), context.get("runAsGroup"), context.get("runAsNonRoot")) != (65532, 65532, True):
        yield "it does not run as 65532:65532"
    if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "it has no seccomp profile of its own"


def label(doc, _case):
    labels = (template(doc).get("metadata") or {}).get("labels") or {}
    if labels.get(LABEL[0]) != LABEL[1]:
        yield "its pods lack the label that the PodMonitor looks for"


def restricted(pod, only=None):
    """Pod Security Standards, profile restricted (kubernetes.io/docs/concepts/security/pod-security-standards), for all containers, or
    for the one named."""
    shared = pod.get("securityContext") or {}
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield f"{field} is set"
    for volume in pod.get("volumes") or []:
        if only and not volume["name"].startswith(VOLUMES):
            continue
        if set(volume) - {"name"} - ALLOWED:
            yield f"volume {volume['name']} is of a type that is not allowed"
    for container in containers(pod):
        if only and container["name"] != only:
            continue
        own = container.get("securityContext") or {}
        for problem in restricted_container(own, shared, container):
            yield f"container {container['name']}: {problem}"


def restricted_container(own, shared, container):
    capabilities = own.get("capabilities") or {}
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation is not false"
    if own.get("privileged") or own.get("procMount", "Default") != "Default":
        yield "privileged, or an unmasked /proc"
    if capabilities.get("drop") != ["ALL"] or set(capabilities.get("add") or []) - {"NET_BIND_SERVICE"}:
        yield f"capabilities are {capabilities}"
    if not own.get("runAsNonRoot", shared.get("runAsNonRoot")) or own.get("runAsUser", shared.get("runAsUser")) == 0:
        yield "it may run as root"
    if own.get("seccompProfile", shared.get("seccompProfile") or {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "no seccomp profile"
    if any(port.get("hostPort") for port in container.get("ports") or []):
        yield "a hostPort"


RULES = (place, image, probes, resources, mounts, claims, hardened, label)


def offences(case):
    for doc in case.docs:
        if not chosen(doc):
            continue
        name = f"{case.name}: {doc['kind']} {doc['metadata']['name']}"
        if sidecar(doc) is None:
            yield f"{name}: no sidecar, or two"
            continue
        for rule in RULES:
            for text in rule(doc, case):
                yield f"{name}: {text}"
        # Users copy the examples, so all their containers must pass "restricted"; elsewhere only the sidecar must.
        only = None if case.name.startswith("example") else CONTAINER
        for text in restricted(template(doc)["spec"], only):
            yield f"{name}: {text}"
