#!/usr/bin/env python3
"""Renders the manifests of deploy/ and checks them. Each check prints one line "ok", or its offences."""
import sys
import textwrap

import yaml

import configs
import life
import monitoring
import page
import policy
import render
import schema
import selftest
import unchanged

failed = False


def verdict(name, offences, done):
    global failed
    offences = list(offences)
    for text in offences:
        print(f"deploy: {name}: {text}")
    if offences:
        failed = True
    else:
        print(f"ok   deploy: {name}: {done}")


def each(cases, rule):
    return (text for case in cases for text in rule.offences(case))


def refused():
    """kustomize must refuse these kustomizations, with an error that says why."""
    for kind in ("DaemonSet", "Job"):
        labelled = f"kind: {kind}\nmetadata: {{name: labelled, labels: {{queue-sidecar: enabled}}}}\n"
        api = "batch/v1" if kind == "Job" else "apps/v1"
        for first in ("sidecar", "legacy-container"):
            directory = render.write(f"{first}-{kind}".lower(), {**render.kustomization([first]), "resources": ["labelled.yaml"]})
            (directory / "labelled.yaml").write_text(f"apiVersion: {api}\n{labelled}")
            code, _, said = render.build(directory)
            if code == 0 or "for Deployments, StatefulSets and CronJobs only" not in said:
                yield f"{first} does not refuse a {kind} with the label: {said}"
    directory = render.write("legacy-cronjob", render.kustomization(["legacy-container"], "mixed"))
    code, _, said = render.build(directory)
    if code == 0 or "a Job never completes beside a plain sidecar" not in said:
        yield f"legacy-container does not refuse a CronJob, whose Jobs would never complete: {said}"
    directory = render.write("readiness-first", render.kustomization(["readiness", "sidecar"]))
    code, _, said = render.build(directory)
    if code == 0 or "initContainers.[name=queue-sidecar]" not in said:
        yield f"readiness before sidecar is not refused, so its probe is lost: {said}"


def documents(cases):
    """The blocks of deploy/README.md are those of an example, and have the effect that the page describes."""
    example = (render.DEPLOY / "examples/python-deployment/kustomization.yaml").read_text()
    for title in ("five lines", "image"):
        if render.readme(title) not in example:
            yield f"deploy/README.md:1: the block \"{title}\" is not in examples/python-deployment"
    if len(render.readme("five lines").splitlines()) != 5:
        yield "deploy/README.md:1: the block \"five lines\" does not have five lines"
    own = next(case for case in cases if case.name == "own config")
    volumes = policy.template(selftest.workload(own.docs, name="bare"))["spec"]["volumes"]
    if {"name": "queue-sidecar-config", "configMap": {"name": "bare-queue-sidecar"}} not in volumes:
        yield "deploy/README.md:1: the block \"own config\" does not change the config of the pod"
    two = next(case for case in cases if case.name == "two configs")
    note = render.readme("config annotation")
    if textwrap.indent(note, "  ") not in (render.BASE / "two/deployments.yaml").read_text() or configs.groups(two) != {"mailer": "mailer", "shop": "shop"}:
        yield f"deploy/README.md:1: with the blocks \"config annotation\" and \"two configs\" the groups are {configs.groups(two)}"
    more = {**yaml.safe_load(render.readme("memory")), **yaml.safe_load(render.readme("release"))}
    docs = render.rendered(render.write("changed", render.kustomization(["sidecar", "monitoring"], **more)))
    if policy.sidecar(selftest.workload(docs, name="bare"))["resources"]["limits"] != {"memory": "128Mi"}:
        yield "deploy/README.md:1: the block \"memory\" does not change the memory"
    if selftest.workload(docs, "PodMonitor", "queue-sidecar")["metadata"]["labels"].get("release") != "kube-prometheus-stack":
        yield "deploy/README.md:1: the block \"release\" does not label the PodMonitor"
    yield from more_blocks()
    alerts = len(monitoring.alerts())
    if f"with {alerts} alerts" not in (render.DEPLOY / "README.md").read_text():
        yield f"deploy/README.md:1: wrong number of alerts; there are {alerts}"


def more_blocks():
    """Checks the blocks 'label', 'any user', 'certificate' and 'resolver' of deploy/README.md."""
    label = render.write("label", yaml.safe_load(render.readme("label")))
    others = render.kustomization(["sidecar"])
    others["components"].insert(0, f"../{label.name}")
    docs = render.rendered(render.write("others", others))
    if not policy.sidecar(selftest.workload(docs, name="other")):
        yield "deploy/README.md:1: with the block \"label\" a workload gets no sidecar"
    docs = render.rendered(render.write("any-user", render.kustomization(["sidecar"], **yaml.safe_load(render.readme("any user")))))
    context = policy.sidecar(selftest.workload(docs, name="bare"))["securityContext"]
    if "runAsUser" in context or not context["runAsNonRoot"]:
        yield f"deploy/README.md:1: with the block \"any user\" the container's user is {context}"
    docs = render.rendered(render.write("certificate", render.kustomization(["sidecar"], **yaml.safe_load(render.readme("certificate")))))
    secret = selftest.volume(docs, "queue-sidecar-secret", "bare")
    if "secret" in secret or [source["secret"]["name"] for source in secret["projected"]["sources"]] != ["queue-sidecar", "redis-client"]:
        yield f"deploy/README.md:1: with the block \"certificate\" the volume is {secret}"
    docs = render.rendered(render.write("resolver", render.kustomization(["sidecar"], **yaml.safe_load(render.readme("resolver")))))
    options = policy.template(selftest.workload(docs, name="bare"))["spec"].get("dnsConfig")
    if options != {"options": [{"name": "timeout", "value": "1"}, {"name": "attempts", "value": "2"}]}:
        yield f"deploy/README.md:1: with the block \"resolver\" the pod has {options}"
    yield from second_container()


def second_container():
    """The block of docs/recipes.md adds a container as restricted as the sidecar, which reads the log that the sidecar writes."""
    page = render.DEPLOY.parent / "docs/recipes.md"
    docs = render.rendered(render.write("second", render.kustomization(["sidecar"], **yaml.safe_load(render.readme("second container", page=page)))))
    pod = selftest.workload(docs, name="bare")
    sidecar, tail = policy.sidecar(pod), next(one for one in policy.template(pod)["spec"]["containers"] if one["name"] == "queue-sidecar-tail")
    if tail["securityContext"] != sidecar["securityContext"]:
        yield f"docs/recipes.md:1: the second container has the rights {tail['securityContext']}"
    log = next(mount for mount in sidecar["volumeMounts"] if mount["name"] == "queue-sidecar-audit")
    if tail["volumeMounts"] != [{**log, "readOnly": True}]:
        yield f"docs/recipes.md:1: the second container mounts {tail['volumeMounts']}"


def autoscalers():
    """The objects in deploy/README.md, "Autoscaling", one with each trigger."""
    scaled = yaml.safe_load(render.readme("scaledobject"))
    by_metrics = {**scaled, "spec": {**scaled["spec"], "triggers": [yaml.safe_load(render.readme("prometheus trigger"))]}}
    return [scaled, by_metrics, yaml.safe_load(render.readme("hpa"))]


def schemas(cases, spoilt):
    """The rendered manifests pass the schemas, and each invalid manifest fails."""
    files = {**{case.name: case.docs for case in cases}, "autoscaling": autoscalers()}
    misspelt = autoscalers()[0]
    misspelt["spec"]["coolDownPeriod"] = misspelt["spec"].pop("cooldownPeriod")
    invalid = {**dict(selftest.invalid(spoilt)), "a misspelt field of KEDA": [misspelt]}
    seen = set()
    for name, text in schema.offences({**files, **invalid}):
        seen.add(name)
        if name not in invalid:
            yield f"{name}: {text}"
    for name in invalid.keys() - seen:
        yield f"the schemas accept the manifest \"{name}\""


def main(tools):
    cases = render.all_cases()
    spoilt = next(case for case in cases if case.name == "sidecar-monitoring")
    objects = sum(len(case.docs) for case in cases)
    verdict("policy", each(cases, policy), f"{len(cases)} renderings, {objects} objects")
    verdict("unchanged", each(cases, unchanged), "the components only add to the operator's manifests")
    verdict("configs", each(cases, configs), "the program accepts each one in its container's environment; volume and memory are large enough")
    verdict("page", each(cases, page), "Service, Ingress, NetworkPolicy, token file and host names fit each other")
    verdict("refused", refused(), "other kinds with the label, CronJobs beside legacy-container, readiness before sidecar")
    published = next(case for case in cases if case.name == "example page-sign-in")
    standalone = next(case for case in cases if case.name == "example standalone")
    wrong = len(selftest.SPOILT) + len(selftest.SPOILT_PAGE) + len(selftest.SPOILT_SHAPE)
    verdict("selftest", selftest.offences(spoilt, published, standalone), f"{wrong} wrong manifests are found")
    if "schemas" in tools:
        verdict("schemas", schemas(cases, spoilt), f"{objects} objects pass, {len(selftest.INVALID)} invalid ones do not")
    verdict("documents", documents(cases), "the blocks of deploy/README.md have the effect that the page describes")
    example = next(case for case in cases if case.name == "example python-deployment")
    verdict("life", life.offences(example), "an example, started as by a kubelet: probes, a changed timeout, a refused config, the end")
    two = next(case for case in cases if case.name == "two configs")
    verdict("life with an annotation", life.offences(two, life.named), "it names the config, which can be changed while it runs")
    verdict("life of the page", life.offences(published, life.publish), "an example: host names, a person behind the proxy, a swapped Secret")
    verdict("alerts", monitoring.texts(), f"{len(monitoring.alerts())} alerts, each with a test and an entry in the runbook")
    verdict("dashboard", monitoring.dashboard(), "every metric in it exists")
    if "promtool" in tools:
        verdict("promtool", [*monitoring.rules(), *monitoring.queries()], "rules, their tests, and the queries of the dashboard")
        verdict("autoscaling", monitoring.scaling(autoscalers()[1]["spec"]["triggers"][0]), "the query counts each job once, whoever leads")
        verdict("tests of alerts", monitoring.unseen(), "a test fails for each alert that no longer fires")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
