#!/usr/bin/env python3
"""Manual pages: `--write` (make docs) fills the blocks of docs/man/*.scd that come from the program, `--check` compares them.

A block begins with `; generated: NAME` and ends with `; end`. Its text comes from `help commands`, `help keys` and `help metrics`.
"""
import os
import pathlib
import re
import subprocess
import sys
import textwrap

PROGRAM = os.environ.get("QS_PROGRAM", "build/queue-sidecar")
DEFAULT_CONFIG = "/etc/queue-sidecar/queue-sidecar.cfg"  # @CONFIG@ in the pages: the Makefile sets the path
BLOCK = re.compile(r"^; generated: (\w+)(?: (\S+))?\n(.*?)^; end$", re.M | re.S)
COLUMNS = 160


def rows(table):
    output = subprocess.run([PROGRAM, "help", table], capture_output=True, text=True, timeout=60, check=True).stdout
    return [line.split("\t") for line in output.replace(DEFAULT_CONFIG, "@CONFIG@").splitlines()]


COMMANDS = rows("commands")


def escaped(text):
    """Plain text: scdoc must not take an asterisk or underscore for a font."""
    return re.sub(r"([\\*_])", r"\\\1", text)


def bold(text):
    return f"*{escaped(text)}*"


def typed(text):
    """Text in which `WORD` is bold."""
    return "".join(bold(part) if number % 2 else escaped(part) for number, part in enumerate(text.split("`")))


def paragraph(text, indent=""):
    lines = textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False)
    # Escape a first character that scdoc would take for a heading, a list, a table or a comment.
    return "\n".join(indent + ("\\" if line[0] in "#-.[]|:;" else "") + line for line in lines)


def described(tag, text):
    """A tag, and its text indented below."""
    return f"{tag}\n" + "\n\n".join(paragraph(part, "\t") for part in text)


def spelled(tag):
    """-c, --config FILE"""
    return re.sub(r"(--?[a-z][a-z-]*|-[a-zA-Z])|([A-Z]+)", lambda word: bold(word[1]) if word[1] else f"_{word[2]}_", tag.strip())


def usage(line):
    """A usage line: words in capitals, which users replace, in italics; other words bold."""
    words = re.sub(r"\b([A-Z]+)\b|([a-z0-9-]+)", lambda word: f"_{word[1]}_" if word[1] else bold(word[2]), line.replace("|", "\\|"))
    return f"*queue-sidecar* {words}++"


def names():
    return list(dict.fromkeys(name for name, *_ in COMMANDS if name))


def of(name, kind):
    return [(tag, text) for own, own_kind, tag, text in COMMANDS if own == name and own_kind == kind]


def paragraphs(name):
    return "\n".join(tag for tag, _ in of(name, "text")).split("\n\n")


def synopsis(_):
    with_parts = {name.split()[0] for name in names() if " " in name}
    return "\n".join(usage(line) for name in names() if name not in with_parts for line, _ in of(name, "usage")).removesuffix("++")


def commands(_):
    found = []
    for name in names():
        found += [f"## {name}", "\n".join(usage(line) for line, _ in of(name, "usage")).removesuffix("++")]
        found += [paragraph(typed(of(name, "summary")[0][1]) + ".")]
        for own, kind, tag, text in COMMANDS:
            if own == name and kind == "heading":
                found.append(paragraph(typed(text)))
            if own == name and kind == "option":
                found.append(described(spelled(tag), [typed(text)]))
        found += [paragraph(typed(text)) for text in paragraphs(name) if text]
        found.append(paragraph("Exit status: " + "; ".join(f"{code} {typed(text)}" for code, text in of(name, "exit")) + "."))
    return "\n\n".join(found)


def exits(_):
    return "\n\n".join(described(bold(code), [typed(text)]) for code, text in of("", "exit"))


def metrics(_):
    found = []
    for name, kind, labels, text in rows("metrics"):
        labels = "{" + labels + "}" if labels else ""
        found.append(described(f"{bold(name)}{escaped(labels)} ({kind})", [typed(text)]))
    return "\n\n".join(found)


def examples(_):
    found = []
    for name in names():
        if of(name, "example"):
            found.append(f"## {name}")
        for command, comment in of(name, "example"):
            if comment:
                found.append(paragraph(typed(comment) + ":"))
            found.append(f"```\n{command}\n```")
    return "\n\n".join(found)


def keys(section):
    found = []
    for own, name, kind, default, allowed, reload, text, dialects in rows("keys"):
        if (own or "top") != section:
            continue
        facts = [f"Default: {bold(default) if default else 'empty'}; allowed: {typed(allowed)}."]
        facts.append("Needs a restart." if reload == "restart" else "Reloadable.")
        if dialects:
            facts.append(f"Dialects: {escaped(', '.join(re.split('[, ]+', dialects)))}.")
        if not own.startswith("queue"):
            variable = "_".join(filter(None, ["QUEUE_SIDECAR", own, name])).upper()
            facts.append(f"Environment: {bold(variable)}.")
        found.append(described(f"{bold(name)} ({kind})", [typed(text), " ".join(facts)]))
    return "\n\n".join(found)


def filled(page):
    def block(match):
        text = globals()[match[1]](match[2])
        return f"; generated: {match[1]}{' ' + match[2] if match[2] else ''}\n\n{text}\n\n; end"

    return BLOCK.sub(block, page)


def main():
    wrong = 0
    pages = sorted(pathlib.Path("docs/man").glob("*.scd"))
    config = pathlib.Path("docs/man/queue-sidecar.cfg.5.scd").read_text()
    for section in dict.fromkeys(row[0] or "top" for row in rows("keys")):
        if f"\n; generated: keys {section}\n" not in config:
            print(f"docs/man/queue-sidecar.cfg.5.scd:1: has no block `; generated: keys {section}`: add its heading, a sentence and the block")
            wrong += 1
    for path in pages:
        text = path.read_text()
        fresh = filled(text)
        if sys.argv[1:] == ["--write"]:
            path.write_text(fresh)
        elif fresh != text:
            line = next(number for number, (a, b) in enumerate(zip(text.splitlines() + [""], fresh.splitlines() + [""]), 1) if a != b)
            print(f"{path}:{line}: differs from the output of the program: run make docs")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    os.chdir(pathlib.Path(__file__).resolve().parents[2])
    sys.exit(main())
