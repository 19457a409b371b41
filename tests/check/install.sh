#!/bin/sh
# Runs `make install` into a temporary directory. Every file must be where people and shells look for it, the program must run, an
# existing config must stay, and `make uninstall` must leave only files that people have changed.
set -eu
cd "$(dirname "$0")/../.."
make=${MAKE:-make}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "deploy/install.sh:1: $1"
    exit 1
}
places() { # target, variables: runs make, and writes its output to $work/said
    $make -s "$@" DESTDIR="$work/root" >"$work/said" 2>&1 || {
        cat "$work/said"
        fail "make $* failed"
    }
}
config=$work/root/etc/queue-sidecar/queue-sidecar.cfg

for prefix in /usr /usr/local; do
    places install PREFIX=$prefix
    top=$work/root$prefix
    zsh=site-functions
    [ $prefix != /usr ] || zsh=vendor-completions
    for file in bin/queue-sidecar share/man/man1/queue-sidecar.1 share/man/man5/queue-sidecar.cfg.5 \
        share/bash-completion/completions/queue-sidecar share/zsh/$zsh/_queue-sidecar lib/systemd/system/queue-sidecar.service \
        lib/systemd/system/queue-sidecar@.service lib/sysusers.d/queue-sidecar.conf share/doc/queue-sidecar/sql/README.md \
        share/doc/queue-sidecar/examples/queue-sidecar.cfg share/doc/queue-sidecar/deploy/systemd/README.md share/doc/queue-sidecar/LICENSE; do
        [ -s "$top/$file" ] || fail "$prefix/$file is not installed"
    done
    [ "$("$top/bin/queue-sidecar" version)" = "$(build/queue-sidecar version)" ] || fail "the installed program is not build/queue-sidecar"
    # The program prints the same pages and scripts where they are not installed.
    while read -r file command; do
        # shellcheck disable=SC2086 # words
        "$top/bin/queue-sidecar" $command | cmp -s - "$top/share/$file" || fail "$prefix/share/$file is not what queue-sidecar $command prints"
    done <<END
man/man1/queue-sidecar.1 help man 1
man/man5/queue-sidecar.cfg.5 help man 5
bash-completion/completions/queue-sidecar completion bash
zsh/$zsh/_queue-sidecar completion zsh
END
    "$top/bin/queue-sidecar" check -c "$config" >/dev/null || fail "the installed config is refused"
    ! grep -rn '@[A-Z]*@' "$top/lib" || fail "a placeholder in a unit was not replaced"
    grep -q "^ExecStart=$prefix/bin/queue-sidecar run -c /etc/queue-sidecar/queue-sidecar.cfg$" "$top/lib/systemd/system/queue-sidecar.service" ||
        fail "the unit starts something else"
    python3 tests/check/links.py "$top/share/doc/queue-sidecar" || fail "a link of an installed page leads nowhere"
    # make prints every file that it installs, and nothing else.
    find "$work/root" ! -type d | sed "s|^$work/root||" | sort >"$work/there"
    sed 's/ (kept)$//' "$work/said" | sort | cmp -s - "$work/there" || fail "make does not print exactly the files that it installs"
    if [ $prefix = /usr ]; then
        places uninstall PREFIX=$prefix
        left=$(find "$work/root" ! -type d -o -name '*queue-sidecar*')
        [ -z "$left" ] || fail "left by uninstall: $left"
    fi
done

# install and uninstall keep a changed config; install also keeps a config that is a dangling link.
echo 'group = "mine"; queues = ( { name = "q"; } );' >"$config"
places install
grep -q mine "$config" || fail "install overwrote an existing config"
places uninstall
grep -q mine "$config" || fail "uninstall removed a changed config"
[ "$(find "$work/root" ! -type d)" = "$config" ] || fail "left by uninstall: $(find "$work/root" ! -type d)"
rm "$config"
ln -s /nowhere/at/all.cfg "$config"
places install
[ -L "$config" ] || fail "install replaced a config that is a link"
places uninstall

# Each directory can be set by itself.
rm -rf "$work/root"
places install PREFIX=/opt/qs BINDIR=/opt/b MANDIR=/opt/m DOCDIR=/opt/d BASHCOMPDIR=/opt/bc ZSHCOMPDIR=/opt/zc UNITDIR=/opt/u SYSUSERSDIR=/opt/s
for file in b/queue-sidecar m/man1/queue-sidecar.1 d/README.md bc/queue-sidecar zc/_queue-sidecar u/queue-sidecar.service s/queue-sidecar.conf; do
    [ -s "$work/root/opt/$file" ] || fail "/opt/$file is not installed"
done
[ ! -e "$work/root/opt/qs" ] || fail "a file went below PREFIX although its directory was set"

# The default place of the config is built in. Build the one object that has it, without a word: a warning must be seen.
said=$($make --no-print-directory B="$work/build" SYSCONFDIR=/opt/etc "$work/build/sidecar/cli/args.o")
[ -z "$said" ] || fail "make prints its commands without V=1: $said"
grep -q '"/opt/etc"' "$work/build/gen/paths.h" || fail "SYSCONFDIR does not reach the program"
grep -qa '/opt/etc/queue-sidecar/queue-sidecar.cfg' "$work/build/sidecar/cli/args.o" || fail "the program looks elsewhere than in SYSCONFDIR"
echo "ok   install: $(wc -l <"$work/there") files installed and removed"
