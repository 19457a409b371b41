"""Compares what the charts render with what the kustomize components render, field by field."""
import copy
import pathlib

import yaml

import charts
import render
from policy import CONTAINER, LABEL, template
from unchanged import without_additions

# Labels of Helm, instead of which the examples have a label `app`.
HELM_LABELS = ("name", "instance", "version", "managed-by")
# Kinds that the examples do not label.
UNLABELLED = {"ConfigMap", "Ingress", "NetworkPolicy", "PodDisruptionBudget"}


def differences(expected, found, path=""):
    """Yields each field in which two documents differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for field in {**expected, **found}:
            if field not in found or field not in expected:
                yield f"{path}.{field} is {'missing' if field in expected else 'new'}"
            else:
                yield from differences(expected[field], found[field], f"{path}.{field}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found)):
            yield from differences(one, other, f"{path}.{number}")
    elif expected != found:
        yield f"{path} is {str(found)[:100]!r}, not {str(expected)[:100]!r}"


def key(doc):
    return doc["kind"], doc["metadata"]["name"]


def folded(value):
    """Joins the lines of texts: kustomize doubles line ends of folded ones."""
    if isinstance(value, dict):
        return {field: folded(item) for field, item in value.items()}
    if isinstance(value, list):
        return [folded(item) for item in value]
    return " ".join(value.split()) if isinstance(value, str) else value


def compared(expected, found):
    before, after = ({key(doc): folded(doc) if doc["kind"] == "PrometheusRule" else doc for doc in docs} for docs in (expected, found))
    for kind, name in sorted(before.keys() ^ after.keys()):
        yield f"{kind} {name} is {'missing' if (kind, name) in before else 'new'}"
    for one in before.keys() & after.keys():
        yield from (f"{one[0]} {one[1]}: {text}" for text in differences(before[one], after[one]))


def relabelled(value, name):
    """Replaces Helm's labels of an instance by the label of the examples."""
    if isinstance(value, list):
        return [relabelled(item, name) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {field: relabelled(item, name) for field, item in value.items()}
    if "app.kubernetes.io/instance" in fields:
        for label in HELM_LABELS:
            fields.pop(f"app.kubernetes.io/{label}", None)
        fields.pop("helm.sh/chart", None)
        fields["app"] = name
    return fields


def of_chart(docs, name):
    for doc in docs:
        doc = relabelled(doc, name)
        assert doc["metadata"].pop("namespace") == "jobs", doc
        if doc["kind"] in UNLABELLED and doc["metadata"]["labels"] == {"app": name}:
            del doc["metadata"]["labels"]
        yield doc


def of_example(docs, name):
    """The objects of an example as the chart names them, with the differences that are meant: a chart's pod has no container beside the
    sidecar, so no user of that container; and no token of a service account."""
    for doc in copy.deepcopy(docs):
        pod = (template(doc) or {}).get("spec")
        if pod:
            pod["containers"] = [container for container in pod["containers"] if container["name"] == CONTAINER]
            del pod["securityContext"]["runAsUser"], doc["metadata"]["annotations"]
            pod["automountServiceAccountToken"] = pod["enableServiceLinks"] = False
            volumes = {volume["name"]: volume for volume in pod["volumes"]}
            volumes["queue-sidecar-config"]["configMap"]["name"] = volumes["queue-sidecar-secret"]["secret"]["secretName"] = name
        elif key(doc) == ("ConfigMap", CONTAINER):
            doc["metadata"]["name"] = name
        elif doc["kind"] == "Ingress":
            doc["metadata"]["name"] = name
            doc["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"] = name
        yield doc


def example(title, base, components):
    """An example of deploy/ with other components and the image of the chart."""
    wanted = render.kustomization(components)
    wanted["resources"] = [render.from_case(render.DEPLOY / "examples" / base / "base")]
    return render.rendered(render.write(title, wanted))


def application(place):
    """Yields each difference between the chart of an application and the examples."""
    config = {"config": render.CONFIG}
    standalone = example("chart-standalone", "standalone", ["legacy-container", "readiness", "monitoring"])
    standalone += [doc for doc in example("chart-page", "page", ["sidecar"]) if doc["kind"] == "Ingress"]
    archive = example("chart-archive", "archive", ["legacy-container", "readiness", "pvc"])
    shown = {"config": config["config"] + '// "queues.example.com"\n', "ingress": {"enabled": True}, "monitoring": {"enabled": True}}
    for doc in standalone:
        if key(doc) == ("ConfigMap", CONTAINER):
            doc["data"]["queue-sidecar.cfg"] = shown["config"]
    for name, expected, values in (("jobs-sidecar", standalone, shown), ("mailer-archive", archive, {"shape": "archive", **config})):
        docs = charts.render(place, {"fullnameOverride": name, **values})
        if isinstance(docs, str):
            yield f"{name}: {docs}"
            continue
        expected = list(of_example(expected, name))
        if name == "mailer-archive":  # of a chart both shapes have the same config
            box = template(next(doc for doc in expected if doc["kind"] == "StatefulSet"))["spec"]["containers"][0]
            box["env"] += [{"name": f"QUEUE_SIDECAR_{key}", "value": "false"} for key in ("LOCK_LEAD", "AUDIT_EPHEMERAL")]
        yield from compared(expected, of_chart(docs, name))


def library(place):
    """Yields each difference between the example's own chart and its manifests with the components."""
    docs = charts.render(place)
    if isinstance(docs, str):
        yield docs
        return
    for claim in (False, True):
        own = [doc for doc in docs if template(doc) and ("volumeClaimTemplates" in doc["spec"]) == claim]
        yield from compared(with_components(own, claim), own)


def with_components(docs, claim):
    """Removes the sidecar from manifests, and adds it by the components."""
    wanted = render.kustomization(["sidecar", *(["pvc"] if claim else [])])
    wanted["resources"] = ["plain.yaml"]
    wanted["images"] = [{"name": CONTAINER, "newName": f"registry.example.org/{CONTAINER}"}]
    directory = render.write(f"chart-library-{claim}".lower(), wanted)
    plain = [without_additions(doc) for doc in docs]
    for doc in plain:
        doc["metadata"]["labels"] = dict([LABEL])
    (pathlib.Path(directory) / "plain.yaml").write_text(yaml.safe_dump_all(plain))
    for doc in render.rendered(directory):
        if not template(doc):
            continue
        del doc["metadata"]["labels"]
        volumes = {volume["name"]: volume for volume in template(doc)["spec"]["volumes"]}
        volumes["queue-sidecar-config"]["configMap"]["name"] = "importer-queue-sidecar" if claim else "shop-queue-sidecar"
        volumes["queue-sidecar-secret"]["secret"]["secretName"] = "shop-redis"
        yield doc
