"""Checks manifests by the schemas of Kubernetes, the Prometheus operator and KEDA. tsc --strict checks them as object literals and finds
unknown and misspelt fields. The models' own validation finds values out of bounds and missing fields."""
import json
import re
import shutil
import subprocess

from render import PLACE

NODE = PLACE / "node"
PACKAGES = {"monitoring.coreos.com": "@kubernetes-models/prometheus-operator", "keda.sh": "@kubernetes-models/keda"}
CONFIG = {
    "compilerOptions": {
        "strict": True,
        "noEmit": True,
        "target": "es2020",
        "module": "commonjs",
        "moduleResolution": "node",
        # Do not check the declarations of packages, which would take half of the time.
        "skipLibCheck": True,
        "types": [],
    },
    "include": ["*.ts"],
}
# Prints one line for each invalid object: file, tab, error.
VALIDATE = """
const fs = require("fs");
for (const { file, module, data } of JSON.parse(fs.readFileSync(process.argv[2], "utf8"))) {
  try { new (require(module)[data.kind])(data).validate(); } catch (error) { console.log(file + "\\t" + error.message.replace(/\\s+/g, " ")); }
}
"""


def module(doc):
    group, _, version = doc["apiVersion"].rpartition("/")
    package = PACKAGES.get(group, "kubernetes-models")
    return "/".join(part for part in (package, group, version, doc["kind"]) if part)


def literals(docs):
    lines = []
    for number, doc in enumerate(docs):
        lines.append(f'import {{ I{doc["kind"]} as I{number} }} from "{module(doc)}";')
    for number, doc in enumerate(docs):
        lines.append(f'// {doc["kind"]} {doc["metadata"]["name"]}')
        lines.append(f"export const o{number}: I{number} = {json.dumps(doc, indent=1)};")
    return "\n".join(lines) + "\n"


def object_at(path, line):
    """The kind and name of the object at a line of a .ts file."""
    lines = path.read_text().splitlines()[:line]
    return next((text[3:] for text in reversed(lines) if text.startswith("// ")), "?")


def offences(files):
    """`files`: name -> documents. Yields (name, offence)."""
    place = NODE / "rendered"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    (place / "tsconfig.json").write_text(json.dumps(CONFIG))
    names = {}
    everything = []
    for name, docs in files.items():
        stem = re.sub(r"[^a-z0-9]+", "-", name.lower())
        names[stem] = name
        (place / f"{stem}.ts").write_text(literals(docs))
        everything += [{"file": name, "module": module(doc), "data": doc} for doc in docs]
    done = subprocess.run(
        ["node", "node_modules/typescript/bin/tsc", "-p", "rendered"], cwd=NODE, capture_output=True, text=True, timeout=300, check=False
    )
    found = 0
    for text in done.stdout.splitlines():
        match = re.match(r"rendered/([a-z0-9-]+)\.ts\((\d+),\d+\): error TS\d+: (.*)", text)
        if match:
            found += 1
            stem, line, what = match.groups()
            yield names[stem], f"{object_at(place / (stem + '.ts'), int(line))}: {what}"
    if done.returncode != 0 and not found:
        yield "tsc", done.stdout[:500] + done.stderr[:500]
    (place / "objects.json").write_text(json.dumps(everything))
    (place / "validate.js").write_text(VALIDATE)
    done = subprocess.run(
        ["node", "rendered/validate.js", "rendered/objects.json"], cwd=NODE, capture_output=True, text=True, timeout=300, check=False
    )
    for text in done.stdout.splitlines():
        name, _, what = text.partition("\t")
        yield name, what
    if done.returncode != 0:
        yield "validate.js", done.stderr[:500]
