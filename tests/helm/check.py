#!/usr/bin/env python3
"""Renders the charts of deploy/helm and checks them. Each check prints one line "ok", or its offences."""
import itertools
import shutil
import sys

import charts
import compare
import configs
import life
import page
import policy
import render
import schema
import values

failed = False
RULES = {"policy": policy, "configs": configs, "page": page}


def verdict(name, offences, done):
    global failed
    offences = list(offences)
    for text in offences:
        print(f"charts: {name}: {text}")
    if offences:
        failed = True
    else:
        print(f"ok   charts: {name}: {done}")


def lint(places):
    """`helm lint` has no word of a fault. Without values nothing is rendered, so it also gets some."""
    for place in places:
        for more in ((), ("--set", 'config=queues = ( { name = "email"; } );')):
            code, out, err = charts.helm("lint", "--strict", place, *(more if place.name == charts.APP.name else ()))
            if code or "[ERROR]" in out or "[WARNING]" in out:
                yield f"{place.name}: {out}{err}"


PAGE_CONFIG = charts.CONFIG + 'http = {\n    hosts = [ "queues.example.com" ];\n    token_file = "/run/secrets/queue-sidecar/tokens";\n};\n'


def matrix(place):
    """Every combination of the values that decide which objects there are, as cases for the rules of the components."""
    choices = {
        "shape": ("standalone", "archive"),
        "readiness": (True, False),
        "ingress": ({"enabled": False}, {"enabled": True}),
        "monitoring": ({"enabled": False}, {"enabled": True}),
        "restartOnConfigChange": (False, True),
    }
    for chosen in itertools.product(*choices.values()):
        given = dict(zip(choices, chosen))
        components = {name for name, taken in (("readiness", given["readiness"]), ("pvc", given["shape"] == "archive")) if taken}
        case = render.Case(" ".join(map(str, chosen)), place, place, components, legacy=True)
        # The name of the ConfigMap by which the rule for the page finds the config.
        case.docs = charts.render(place, {**given, "config": PAGE_CONFIG, "fullnameOverride": policy.CONTAINER})
        if isinstance(case.docs, str):
            raise SystemExit(f"charts: {case.name}: {case.docs}")
        yield case


def own(place):
    """The example of a chart that uses the library, as a case. The label chooses workloads for the rules."""
    case = render.Case("example chart", place, place, {"pvc"})
    case.docs = charts.render(place, {}, "shop")
    if isinstance(case.docs, str):
        raise SystemExit(f"charts: {case.name}: {case.docs}")
    for doc in case.docs:
        if doc["kind"] in policy.KINDS:
            doc["metadata"]["labels"] = dict([policy.LABEL])
    return case


def schemas(cases):
    return (f"{name}: {text}" for name, text in schema.offences({f"chart {case.name}": case.docs for case in cases}))


def everything():
    """The values of values.EFFECTS that go together, so that the schemas see each field."""
    given = {}
    for name, more, _ in values.EFFECTS:
        if name not in ("shape", "config", "existingConfigMap", "nameOverride", "fullnameOverride", "ingress.host") and "shape" not in more:
            for key, value in more.items():
                given[key] = {**given.get(key, {}), **value} if isinstance(value, dict) else value
    return {**given, **values.SHOWN, "podDisruptionBudget": {"maxUnavailable": "50%"}, "networkPolicy": {"from": [{"podSelector": {}}]}}


def packages():
    """The documented commands pack a chart from the tree, and the package renders as the directory does."""
    tree = charts.WORK / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(render.DEPLOY, tree / "deploy", symlinks=True)
    for chart, given in ((charts.APP, values.SHOWN), (charts.EXAMPLE, {})):
        for command in (("dependency", "update", tree / chart), ("package", tree / chart, "--destination", tree)):
            code, out, err = charts.helm(*command)
            if code:
                yield f"helm {command[0]}: {out}{err}"
                return
        packed = next(tree.glob(f"{charts.yaml.safe_load((chart / 'Chart.yaml').read_text())['name']}-[0-9]*.tgz"))
        if charts.render(packed, given) != charts.render(charts.WORK / chart.name, given):
            yield f"{packed.name} renders other manifests than {chart}"


def lives(place):
    """The pod of the chart, started as by a kubelet."""
    case = render.Case("chart", place, place)
    config = (render.DEPLOY / "examples/own-deployment/queue-sidecar.cfg").read_text()
    case.docs = charts.render(place, {"config": config})
    return [case.docs] if isinstance(case.docs, str) else life.offences(case)


def notes(place):
    """NOTES.txt: three commands, each about an object that there is, and who may connect."""
    for shape, pods in (("standalone", "deployment"), ("archive", "statefulset")):
        said = charts.notes(place, {"shape": shape, **values.CONFIG})
        wanted = (
            f"kubectl -n jobs rollout status {pods}/queue-sidecar\n",
            f"kubectl -n jobs exec {pods}/queue-sidecar -- queue-sidecar check --redis ",
            "kubectl -n jobs port-forward service/queue-sidecar 8642:80 ",
            "networkPolicy.from",
        )
        for text in wanted:
            if text not in said:
                yield f"NOTES.txt of {shape} lacks \"{text.strip()}\": {said}"
        if said.count("kubectl") != 3:
            yield f"NOTES.txt of {shape} does not have three commands"


# A change in a chart, and a part of the offence that a comparison must report.
SPOILT = [
    (charts.APP, "templates/pods.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "securityContext.runAsNonRoot"),
    (charts.APP, "templates/pods.yaml", '"queue-sidecar.volumes" $sidecar', '"queue-sidecar.volumes" .', "set config"),
    (charts.APP, "templates/pods.yaml", "      automountServiceAccountToken: false\n", "", "automountServiceAccountToken is missing"),
    (charts.APP, "templates/pods.yaml", "fsGroup: 65532", "fsGroup: 65533", "securityContext.fsGroup is"),
    (charts.APP, "templates/pods.yaml", "whenUnsatisfiable: ScheduleAnyway", "whenUnsatisfiable: DoNotSchedule", "whenUnsatisfiable is"),
    (charts.APP, "templates/service.yaml", "publishNotReadyAddresses: true", "publishNotReadyAddresses: false", "publishNotReadyAddresses is"),
    (charts.APP, "templates/service.yaml", "targetPort: queue-sidecar", "targetPort: http", "targetPort is"),
    (charts.APP, "templates/networkpolicy.yaml", "policyTypes: [Ingress]", "policyTypes: [Ingress, Egress]", "policyTypes is"),
    (charts.APP, "templates/networkpolicy.yaml", "port: queue-sidecar", "port: http", "ports.0.port is"),
    (charts.APP, "templates/ingress.yaml", "pathType: Prefix", "pathType: Exact", "pathType is"),
    (charts.APP, "templates/ingress.yaml", "secretName:", "secretNames:", "secretName is missing"),
    (charts.APP, "templates/poddisruptionbudget.yaml", "maxUnavailable:", "minAvailable:", "spec.maxUnavailable is missing"),
    (charts.APP, "templates/monitoring.yaml", '"podmonitor" "prometheusrule"', '"prometheusrule"', "PodMonitor queue-sidecar is missing"),
    (charts.APP, "templates/monitoring.yaml", 'grafana_dashboard: "1"', 'grafana_dashboard: "0"', "grafana_dashboard is"),
    (charts.APP, "templates/_names.tpl", "LOCK_LEAD", "LOCK_LEADS", "env.3.name is"),
    (charts.APP, "values.yaml", "readiness: true", "readiness: false", "readinessProbe is missing"),
    (charts.APP, "files/podmonitor.yaml", "interval: 15s", "interval: 30s", "interval is"),
    (charts.LIB, "files/pod.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "readOnlyRootFilesystem is"),
    (charts.LIB, "files/pod.yaml", "failureThreshold: 60", "failureThreshold: 6", "startupProbe.failureThreshold is"),
    (charts.LIB, "files/claim.yaml", "storage: 4Gi", "storage: 1Gi", "storage is"),
    (charts.LIB, "templates/_queue-sidecar.tpl", '"restartPolicy"', '"livenessProbe"', "restartPolicy is new"),
    (charts.EXAMPLE, "values.yaml", "claim: true", "claim: false", "StatefulSet importer: .spec.template.spec.volumes is"),
    (charts.EXAMPLE, "templates/mailer.yaml", '"queue-sidecar.labels" . | nindent 12', '"queue-sidecar.labels" . | replace "enabled" "on" | nindent 12', "CronJob mailer-night: .spec"),
]


def spoilt():
    """A wrong chart must differ from what the components render."""
    for chart, file, old, new, wanted in SPOILT:
        owner = charts.EXAMPLE if chart == charts.EXAMPLE else charts.APP
        place = charts.complete(owner, "spoilt")
        path = place / file if chart == owner else place / "charts" / chart.name / file
        text = path.read_text()
        if old not in text:
            yield f"{chart.name}/{file} has no text {old}"
            continue
        path.write_text(text.replace(old, new))
        said = list((compare.library if owner == charts.EXAMPLE else compare.application)(place))
        if not any(wanted in text for text in said):
            yield f"{chart.name}/{file} with {new!r} is not reported with \"{wanted}\": {said[:3]}"


def main():
    charts.WORK.mkdir(parents=True, exist_ok=True)
    app, lib, example = (charts.complete(chart) for chart in (charts.APP, charts.LIB, charts.EXAMPLE))
    verdict("lint", lint((app, lib, example)), "helm lint --strict")
    cases = [*matrix(app), own(example)]
    for name, rule in RULES.items():
        verdict(name, (text for case in cases for text in rule.offences(case)), f"{len(cases)} renderings")
    verdict("equal", compare.application(app), "standalone, archive, page and monitoring are those of the kustomize components")
    verdict("library", [*compare.library(example), *values.library(example)], "it adds to a Deployment, a StatefulSet and a CronJob what the component adds")
    verdict("values", values.effects(app), f"{len(values.EFFECTS)} values have their effect")
    verdict("refused", values.refused(app), f"{len(values.REFUSED)} wrong values, each with its name")
    full = render.Case("everything", app, app)
    full.docs = charts.render(app, everything())
    if (render.PLACE / "schemas.skipped").exists():
        print("charts: schemas are skipped: they are missing")
    else:
        verdict("schemas", [full.docs] if isinstance(full.docs, str) else schemas([cases[6], cases[-2], cases[-1], full]), "renderings pass those of Kubernetes and the Prometheus operator")
    verdict("packages", packages(), "helm dependency update and helm package make the same manifests")
    verdict("life", lives(app), "probes, a changed timeout, a refused config, the end")
    if charts.helm("version", "--template", "{{.Version}}")[1].startswith("v3"):
        print("charts: notes are skipped: Helm 3 prints them with a cluster only")
    else:
        verdict("notes", notes(app), "three commands, for each shape")
    verdict("selftest", spoilt(), f"{len(SPOILT)} wrong charts are found")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
