#!/bin/sh
# Makes a Debian 13 root in build/debian13/root, once (debian_root.sh), and prints the paths of two launchers, one a line:
# build/debian13/redis-server-8.0 and build/debian13/valkey-server-8.1. They run the root's servers through the root's own dynamic
# loader, without chroot: sockets, directories, preloads and signals work as with any server.
#
# Exit codes: 0 the root exists, 77 not possible on this machine (one line says why), 1 failed.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
dest=${QS_DEBIAN13_DIR:-$top/build/debian13}
sh "$top/tests/support/debian_root.sh" trixie "$dest" redis-server,valkey-server

launcher() { # program, path of the launcher
    cat >"$2.$$" <<END
#!/bin/sh
# Made by debian13.sh: $1 of Debian 13, run by that system's own dynamic loader.
root=\$(cd "\$(dirname "\$0")" && pwd)/root
for loader in "\$root"/usr/lib/*/ld-linux*.so.*; do break; done
exec "\$loader" --library-path "\${loader%/*}" --argv0 "$1" "\$root/usr/bin/$1" "\$@"
END
    chmod 755 "$2.$$"
    mv "$2.$$" "$2"
}

for server in redis-server-8.0 valkey-server-8.1; do
    [ -x "$dest/$server" ] || launcher "${server%-*}" "$dest/$server"
    "$dest/$server" --version >"$dest/log.version" 2>&1 || {
        echo "debian13.sh: $server does not run (see $dest/log.version)" >&2
        exit 1
    }
    echo "$dest/$server"
done
