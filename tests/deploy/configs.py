"""Checks the configs in rendered ConfigMaps: the program accepts each in the environment of its container, and volume and memory are
large enough for it."""
import os
import pathlib
import re
import subprocess
import tempfile

from policy import chosen, environment, sidecar, template

PROGRAM = pathlib.Path(os.environ.get("QS_PROGRAM", "build/queue-sidecar"))
UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def quantity(text):
    number, unit = re.fullmatch(r"(\d+)([KMG]i|)B?", str(text).strip('"')).groups()
    return int(number) * UNITS[unit]


def check(config, variables):
    """Runs `check` on a config. Returns exit code, values (stdout) and errors (stderr)."""
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
        file.write(config)
        file.flush()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("QUEUE_SIDECAR_")}
        done = subprocess.run(
            [PROGRAM, "check", "-c", file.name], env={**clean, **variables}, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout, done.stderr.strip()


def room(doc):
    """The size of the volume that the audit log is on."""
    for volume in template(doc)["spec"]["volumes"]:
        if volume["name"] == "queue-sidecar-audit":
            return quantity(volume["emptyDir"]["sizeLimit"])
    for claim in doc["spec"]["volumeClaimTemplates"]:
        if claim["metadata"]["name"] == "queue-sidecar-audit":
            return quantity(claim["spec"]["resources"]["requests"]["storage"])
    return 0


def need(values):
    """Bytes of memory that the program may need with these values; measured, see deploy/README.md, "Sizes"."""
    served = values[values.index("queues = (") :]
    return 24 * 2**20 + 5 * max(quantity(size) for size in re.findall(r"max_payload *= ([^;]*);", served))


def of_workload(doc, maps):
    volumes = {volume["name"]: volume for volume in template(doc)["spec"]["volumes"]}
    name = volumes["queue-sidecar-config"]["configMap"]["name"]
    variables = environment(doc)
    # As the program finds it: the working directory is the ConfigMap.
    file = variables.pop("QUEUE_SIDECAR_CONFIG") or "queue-sidecar.cfg"
    config = (maps.get(name) or {}).get(file)
    if config is None or sidecar(doc)["workingDir"] != "/etc/queue-sidecar":
        yield f"there is no ConfigMap {name} with the key {file}, or it is not the working directory"
        return
    code, values, said = check(config, variables)
    if code != 0 or said:
        yield f"its config is refused or has a warning: {said}"
        return
    for name, value in variables.items():
        if not re.search(rf'= "?{re.escape(value)}"?; +# environment', values):
            yield f"{name} has no effect"
    # Room for two logs, one in use and one that is rewritten or was set aside, and for a -wal file.
    retain = quantity(re.search(r"retain_bytes *= ([^;]*);", values).group(1))
    if retain == 0 or 2 * retain + 100 * 2**20 > room(doc):
        yield f"audit.retain_bytes ({retain}) is too much for its volume ({room(doc)})"
    memory = quantity(sidecar(doc)["resources"]["limits"]["memory"])
    if need(values) > memory:
        yield f"jobs of max_payload may take {need(values)} bytes, more than its memory ({memory})"


def groups(case):
    """The group in the config of each workload."""
    maps = {doc["metadata"]["name"]: doc.get("data") for doc in case.docs if doc["kind"] == "ConfigMap"}
    texts = {doc["metadata"]["name"]: maps["queue-sidecar"][environment(doc)["QUEUE_SIDECAR_CONFIG"]] for doc in case.docs if chosen(doc)}
    return {name: re.search('group = "(.*?)"', text)[1] for name, text in texts.items()}


def offences(case):
    maps = {doc["metadata"]["name"]: doc.get("data") for doc in case.docs if doc["kind"] == "ConfigMap"}
    for doc in case.docs:
        if chosen(doc):
            for text in of_workload(doc, maps):
                yield f"{case.name}: {doc['kind']} {doc['metadata']['name']}: {text}"
