#!/bin/sh
# Prints debian/changelog for one release of Debian, from the Makefile: changelog.sh 12. CHANGELOG.md has the changes.
#
# A version with -dev gets ~dev, which is older than the release. The libraries differ between releases of Debian, so each has a package of its
# own, and +deb12 is older than +deb13: an upgrade of Debian brings the other package.
set -eu
version=$(sed -n 's/^VERSION := //p' Makefile | tr - '~')
released=$(sed -n 's/^RELEASED := //p' Makefile)
cat <<END
queue-sidecar ($version-1+deb$1) unstable; urgency=medium

  * Version $version: see CHANGELOG.md.

 --$(sed -n 's/^Maintainer://p' deploy/debian/control)  $(LC_ALL=C date -u -R -d "${SOURCE_DATE_EPOCH:+@}${SOURCE_DATE_EPOCH:-$released}")
END
