#!/bin/sh
# Runs `make install` and `make uninstall`. The Makefile passes the directories.
#
#   install.sh install PROGRAM MAN1 MAN5     install.sh uninstall
#
# Does not run the program, which may be for another machine. Never overwrites a config, and removes only a config that is unchanged
# since it was installed.
set -eu
cd "$(dirname "$0")/.."
: "${BINDIR:?}" "${MANDIR:?}" "${DOCDIR:?}" "${BASHCOMPDIR:?}" "${ZSHCOMPDIR:?}" "${UNITDIR:?}" "${SYSUSERSDIR:?}" "${CONFDIR:?}"
root=${DESTDIR:-}
config=$CONFDIR/queue-sidecar.cfg
first=conf/minimal.cfg

put() { # mode, file, place
    install -D -m "$1" "$2" "$root$3"
    echo "$3"
}

made() { # place, then a command that prints the file
    place=$1
    shift
    "$@" >"$work/made"
    put 644 "$work/made" "$place"
}

# Quotes a word of a command line for systemd.
word() {
    case $1 in
    *' '*) echo "\"$1\"" ;;
    *) echo "$1" ;;
    esac
}

# Prints a unit. There are two: queue-sidecar.service, and queue-sidecar@.service for further configs by name.
unit() { # unit name, config, state directory below /var/lib, end of the description, environment line
    sed -e "s|@NAME@|$1|" -e "s|@DOCDIR@|$DOCDIR|" -e "s|@OF@|$4|" -e "s|@PROGRAM@|$(word "$BINDIR/queue-sidecar")|" -e "s|@CONFIG@|$(word "$2")|" \
        -e "s|@STATE@|$3|" -e "s|@ENVIRONMENT@|$5|" deploy/systemd/queue-sidecar.service.in
}

# The files that people read. They lie below DOCDIR as in the source tree, so that links between them work.
pages() {
    echo README.md CHANGELOG.md SECURITY.md LICENSE deploy/README.md | tr ' ' '\n'
    find docs sql deploy/*/ -type f ! -path 'docs/man/*' ! -path 'deploy/*/templates/*' \( -name '*.md' -o -name '*.png' -o -name '*.svg' -o -name '*.txt' -o -name '*.json' \
        -o -name '*.sql' -o -name '*.yaml' -o -name '*.cfg' -o -name '*.py' -o -name password.conf -o -name Dockerfile \) | sort
}

# Prints a page. Links to pages for developers, which are not installed, become plain text.
page() {
    case $1 in
    *.md) sed 's#\[\([^]]*\)\]([./]*\(CONTRIBUTING\.md\|tests/\|sidecar/\)[^)]*)#\1#g' "$1" ;;
    *) cat "$1" ;;
    esac
}

# Every file except the config, one a line.
everything() {
    echo "$BINDIR/queue-sidecar"
    echo "$MANDIR/man1/queue-sidecar.1"
    echo "$MANDIR/man5/queue-sidecar.cfg.5"
    echo "$BASHCOMPDIR/queue-sidecar"
    echo "$ZSHCOMPDIR/_queue-sidecar"
    echo "$UNITDIR/queue-sidecar.service"
    echo "$UNITDIR/queue-sidecar@.service"
    echo "$SYSUSERSDIR/queue-sidecar.conf"
    for file in $(pages); do echo "$DOCDIR/$file"; done
    for file in conf/*.cfg; do echo "$DOCDIR/examples/${file#conf/}"; done
}

put_all() { # program, manual pages of sections 1 and 5
    put 755 "$1" "$BINDIR/queue-sidecar"
    put 644 "$2" "$MANDIR/man1/queue-sidecar.1"
    put 644 "$3" "$MANDIR/man5/queue-sidecar.cfg.5"
    put 644 sidecar/cli/complete.bash "$BASHCOMPDIR/queue-sidecar"
    put 644 sidecar/cli/complete.zsh "$ZSHCOMPDIR/_queue-sidecar"
    made "$UNITDIR/queue-sidecar.service" unit queue-sidecar.service "$config" queue-sidecar "" ""
    made "$UNITDIR/queue-sidecar@.service" unit queue-sidecar@.service "$CONFDIR/%i.cfg" queue-sidecar/%i ", %i" \
        "Environment=QUEUE_SIDECAR_AUDIT_PATH=%S/queue-sidecar/%i/audit.db"
    put 644 deploy/systemd/sysusers.conf "$SYSUSERSDIR/queue-sidecar.conf"
    for file in $(pages); do made "$DOCDIR/$file" page "$file"; done
    for file in conf/*.cfg; do put 644 "$file" "$DOCDIR/examples/${file#conf/}"; done
}

put_config() {
    if [ -e "$root$config" ] || [ -L "$root$config" ]; then
        echo "$config (kept)"
    else
        put 644 "$first" "$config"
    fi
}

# Also removes directories of queue-sidecar only. Shared directories such as /usr/local/bin stay, even if they are empty.
remove() {
    everything | while IFS= read -r file; do rm -f "$root$file"; done
    if cmp -s "$root$config" "$first"; then
        rm -f "$root$config"
    elif [ -e "$root$config" ]; then
        echo "$config stays, because it was changed"
    fi
    directories="$(pages | sed -n 's|/[^/]*$||p' | sort -u) examples"
    for directory in $directories; do
        (cd "$root$DOCDIR" && rmdir -p "$directory") 2>/dev/null || true
    done
    rmdir "$root$DOCDIR" "$root$CONFDIR" 2>/dev/null || true
}

case ${1:-} in
install)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    put_all "$2" "$3" "$4"
    put_config
    [ -n "$root" ] || echo "Next: $DOCDIR/deploy/systemd/README.md, or man queue-sidecar"
    ;;
uninstall) remove ;;
*)
    echo "usage: sh deploy/install.sh install PROGRAM MAN1 MAN5 | uninstall" >&2
    exit 2
    ;;
esac
