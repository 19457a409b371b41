"""What the scripts of a release know of Debian packages: stanzas, identifiers, licences."""
import re
import urllib.parse

# The licence of what a package brings into the image or is linked with: of its libraries or data, without its build scripts. Source: its
# /usr/share/doc/NAME/copyright. The first pattern that matches the name counts.
LICENCES = [
    (r"ca-certificates", "MPL-2.0"),
    (r"libc6", "LGPL-2.1-or-later"),
    (r"libconfig\d+", "LGPL-2.1-or-later"),
    (r"libffi\d+", "MIT"),
    (r"libgcc-s1", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    (r"libgmp10", "LGPL-3.0-or-later OR GPL-2.0-or-later"),
    (r"libgnutls30\w*", "LGPL-2.1-or-later"),
    (r"libhiredis[\d.]+", "BSD-3-Clause"),
    (r"libidn2-0", "LGPL-3.0-or-later OR GPL-2.0-or-later"),
    (r"libmicrohttpd12\w*", "LGPL-2.1-or-later"),
    (r"(libnettle|libhogweed)\d\w*", "LGPL-3.0-or-later OR GPL-2.0-or-later"),
    (r"libp11-kit0", "BSD-3-Clause"),
    (r"libsqlite3-0", "blessing"),
    (r"libtasn1-6", "LGPL-2.1-or-later"),
    (r"libunistring\d", "LGPL-3.0-or-later OR GPL-2.0-or-later"),
    (r"libzstd1", "BSD-3-Clause OR GPL-2.0-only"),
    (r"systemd", "LGPL-2.1-or-later"),
    (r"tzdata", "LicenseRef-public-domain"),
    (r"zlib1g", "Zlib"),
]

# The version of a package of which any does.
ANY = "any"


def licence(name):
    for pattern, expression in LICENCES:
        if re.fullmatch(pattern, name):
            return expression
    raise SystemExit(f"deploy/release/debian.py: no licence is known for the package {name}: add it to LICENCES")


def stanza(text):
    """Returns the fields of one stanza of a control file."""
    fields = {}
    for line in text.rstrip("\n").split("\n"):
        if line[:1].isspace():
            fields[name] += "\n" + line.strip()
        else:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    return fields


def purl(fields, distribution=None):
    """The URL of a package, such as pkg:deb/debian/libc6@2.41-12?arch=amd64&distro=debian-13; in any version: without one."""
    version = "" if fields["Version"] == ANY else "@" + urllib.parse.quote(fields["Version"], safe=".-~")
    return f"pkg:deb/debian/{fields['Package']}{version}?arch={fields['Architecture']}" + (f"&distro={distribution}" if distribution else "")


def installed(path):
    """Yields the fields of each package that a build had installed: from its .buildinfo, or from the status file of dpkg."""
    text = path.read_text()
    if path.suffix != ".buildinfo":
        yield from (fields for fields in map(stanza, text.strip().split("\n\n")) if fields["Status"].endswith(" installed"))
        return
    about = stanza(re.sub(r"(?s)^-----BEGIN.*?\n\n", "", text))
    for name, arch, version in re.findall(r"([\w.+-]+)(?::(\w+))? \(= ([^)]+)\)", about["Installed-Build-Depends"]):
        yield {"Package": name, "Version": version, "Architecture": arch or about["Build-Architecture"]}


def source(fields):
    """Name and version of the source package."""
    match = re.fullmatch(r"(\S+)(?: \((\S+)\))?", fields.get("Source", fields["Package"]))
    return match[1], match[2] or re.sub(r"\+b\d+$", "", fields["Version"])
