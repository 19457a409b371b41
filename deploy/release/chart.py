"""Packs a chart as `helm package` does, but with the same bytes each time.

    chart.py CHART DIRECTORY     writes DIRECTORY/NAME-VERSION.tgz, and prints its path

The files are those that git has. A dependency with a `file://` repository is put into charts/ of the package.
"""
import os
import pathlib
import posixpath
import re
import subprocess
import sys

import archive


def field(text, name):
    return re.search(rf"^{name}: *[\"']?([^\"'\s]+)", text, re.M)[1]


def entries(chart, prefix):
    """The files of a chart: {path: (mode, bytes)}."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", "."], cwd=chart, capture_output=True, text=True, check=True).stdout
    for path in filter(None, listed.split("\0")):
        if path != ".helmignore":
            yield f"{prefix}/{path}", (0o644, (chart / path).read_bytes())
    for place in re.findall(r"repository: *[\"']?file://([^\"'\s]+)", (chart / "Chart.yaml").read_text()):
        other = chart / place
        yield from entries(other, f"{prefix}/charts/{field((other / 'Chart.yaml').read_text(), 'name')}")


def main():
    chart, directory = pathlib.Path(sys.argv[1]), sys.argv[2]
    about = (chart / "Chart.yaml").read_text()
    name = field(about, "name")
    path = posixpath.join(directory, f"{name}-{field(about, 'version')}.tgz")
    archive.write(path, dict(entries(chart, name)), int(os.environ["SOURCE_DATE_EPOCH"]))
    print(path)


if __name__ == "__main__":
    main()
