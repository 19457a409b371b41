"""Prints each relative link of the Markdown pages below a directory that leads to no file below it: links.py DIRECTORY"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1]).resolve()
dead = []
for page in sorted(root.rglob("*.md")):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        place = (page.parent / target.split("#")[0]).resolve()
        if not re.match(r"[a-z]+:|#", target) and not (place.exists() and place.is_relative_to(root)):
            dead.append(f"{page.relative_to(root)}: the link {target} leads nowhere")
print("\n".join(dead), end="\n" if dead else "")
sys.exit(bool(dead))
