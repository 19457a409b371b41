"""The components only add to the operator's manifests. Selectors, lists and their order, and other objects stay equal to the byte."""
import copy

import yaml

from policy import CONTAINER, LABEL, VOLUMES, chosen, template

# Objects that components add.
ADDED = {("ConfigMap", name) for name in ("queue-sidecar", "bare-queue-sidecar", "mailer-archive", "queue-sidecar-dashboard")}
ADDED |= {("PodMonitor", "queue-sidecar"), ("PrometheusRule", "queue-sidecar")}


def key(doc):
    return doc["apiVersion"], doc["kind"], doc["metadata"].get("namespace"), doc["metadata"]["name"]


def drop(mapping, field, is_added):
    """Removes added items from a list, and the list if no other item is left: then it was not there before."""
    left = [item for item in mapping.get(field) or [] if not is_added(item)]
    if left:
        mapping[field] = left
    else:
        mapping.pop(field, None)


def drop_entry(owner, field, entry, value):
    mapping = owner.get(field) or {}
    if mapping.get(entry) == value:
        del mapping[entry]
    if not mapping:
        owner.pop(field, None)


def without_additions(doc):
    doc = copy.deepcopy(doc)
    pod = template(doc)
    if pod.get("metadata"):
        drop_entry(pod["metadata"], "labels", *LABEL)
        if not pod["metadata"]:
            del pod["metadata"]
    for field in ("initContainers", "containers"):
        drop(pod["spec"], field, lambda container: container["name"] == CONTAINER)
    drop(pod["spec"], "volumes", lambda volume: volume["name"].startswith(VOLUMES))
    drop(doc["spec"], "volumeClaimTemplates", lambda claim: claim["metadata"]["name"] == "queue-sidecar-audit")
    drop_entry(doc["metadata"], "annotations", "queue-sidecar", "legacy-container")
    return doc


def without_empty_fields(doc):
    """Removes empty fields of a pod: an empty field means the same as a missing one."""
    doc = copy.deepcopy(doc)
    pod = template(doc)
    if not pod:
        return doc
    for owner in (pod.get("metadata") or {}, pod["spec"], pod):
        for field in [field for field, value in owner.items() if value is None]:
            del owner[field]
    return doc


def text(doc):
    return yaml.safe_dump(doc, sort_keys=False)


def offences(case):
    base = {key(doc): doc for doc in case.base}
    docs = {key(doc): doc for doc in case.docs}
    for name in base.keys() - docs.keys():
        yield f"{case.name}: {name[1]} {name[3]} is gone"
    for name in docs.keys() - base.keys():
        kind, plain = name[1], name[3].removeprefix("team-").removesuffix("-blue")
        if (kind, plain) not in ADDED:
            yield f"{case.name}: {kind} {name[3]} is new"
    for name, before in base.items():
        after = docs.get(name)
        if after is None:
            continue
        if chosen(before):
            before, after = (without_empty_fields(without_additions(doc)) for doc in (before, after))
        if text(after) != text(before):
            yield f"{case.name}: {name[1]} {name[3]} is not the operator's manifest plus the additions"
