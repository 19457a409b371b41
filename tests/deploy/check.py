#!/usr/bin/env python3
"""Renders the manifests of deploy/ and checks them. Each check prints one line "ok", or its offences."""
import sys

import yaml

import configs
import life
import monitoring
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


def schemas(cases, spoilt):
    """The rendered manifests pass the schemas, and each invalid manifest fails."""
    files = {case.name: case.docs for case in cases}
    invalid = dict(selftest.invalid(spoilt))
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
    verdict("refused", refused(), "other kinds with the label, CronJobs beside legacy-container, readiness before sidecar")
    verdict("selftest", selftest.offences(spoilt), f"{len(selftest.SPOILT)} wrong manifests are found")
    if "schemas" in tools:
        verdict("schemas", schemas(cases, spoilt), f"{objects} objects pass, {len(selftest.INVALID)} invalid ones do not")
    verdict("documents", documents(cases), "the blocks of deploy/README.md have the effect that the page describes")
    example = next(case for case in cases if case.name == "example python-deployment")
    verdict("life", life.offences(example), "an example, started as by a kubelet: probes, a changed timeout, a refused config, the end")
    verdict("alerts", monitoring.texts(), f"{len(monitoring.alerts())} alerts, each with a test and an entry in the runbook")
    verdict("dashboard", monitoring.dashboard(), "every metric in it exists")
    if "promtool" in tools:
        verdict("promtool", [*monitoring.rules(), *monitoring.queries()], "rules, their tests, and the queries of the dashboard")
        verdict("tests of alerts", monitoring.unseen(), "a test fails for each alert that no longer fires")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
