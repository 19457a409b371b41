#!/bin/sh
# Installs missing Debian packages by apt. Without missing packages it does not run apt.
#
#   sh deploy/deps.sh          for the build and the demo: compiler, libraries, redis-server
#   sh deploy/deps.sh suite    also for the test suite
#   sh deploy/deps.sh valkey   also for the suite, and valkey-server (in Debian 13)
#   sh deploy/deps.sh check    also for make check: linters
#   sh deploy/deps.sh test     also for the suite and make check, a Debian 13 root, and downloads of client libraries
#   sh deploy/deps.sh page     also for the build: a browser and what drives it
#   sh deploy/deps.sh recipes  also for the suite, and PostgreSQL and Go
#   sh deploy/deps.sh image    only tools that build and run containers
#   sh deploy/deps.sh release  only tools that gather, sign and test the files of a release
#   sh deploy/deps.sh deb      only what makes the Debian roots that packages are built and tested in
#   sh deploy/deps.sh helm     also for the build: what renders and checks charts
#   sh deploy/deps.sh arm64    also for the suite, and what compiles for arm64 and runs it
#   sh deploy/deps.sh kubernetes    as `image`, and what a node of Kubernetes runs beside Kubernetes itself
#
# Looks for programs and headers, not for packages, so that a program from another source counts.
set -eu
# shellcheck source=deploy/again.sh
. "$(dirname "$0")/again.sh"

missing=
need() { # package, then a command that succeeds if the package is not needed
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}
header() { [ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ]; }
runtime() { # a sanitizer runtime of clang
    for file in /usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.asan*.a /usr/lib/clang/*/lib/*/libclang_rt.asan*.a; do
        [ ! -e "$file" ] || return 0
    done
    return 1
}

build() {
    need gcc command -v gcc
    need libc6-dev header stdlib.h
    need make command -v make
    need pkg-config command -v pkg-config
    need libhiredis-dev header hiredis/hiredis.h
    need libconfig-dev header libconfig.h
    need libsqlite3-dev header sqlite3.h
    need nettle-dev header nettle/sha2.h
    need libmicrohttpd-dev header microhttpd.h
    need libgnutls28-dev header gnutls/gnutls.h
    need scdoc command -v scdoc
    need redis-server command -v redis-server
    need redis-tools command -v redis-cli
}
suite() {
    build
    need libcriterion-dev header criterion/criterion.h
    need python3 command -v python3
    need sqlite3 command -v sqlite3
    # Tests of completion run in the shells themselves.
    need zsh command -v zsh
    need bash-completion test -e /usr/share/bash-completion/bash_completion
}
previous() { # the build of the release that tests/upgrade/previous names
    need libjsmn-dev header jsmn.h
}
linters() {
    need clang-format command -v clang-format
    need clang-tidy command -v clang-tidy
    need cppcheck command -v cppcheck
    need shellcheck command -v shellcheck
    need lua5.1 command -v luac5.1
    need yamllint command -v yamllint
    need python3-yaml python3 -c 'import yaml'
    # Two renderers of manual pages.
    need mandoc command -v mandoc
    need groff command -v groff
    need python3 command -v python3
}
page() {
    need chromium command -v chromium
    need nodejs command -v node
    need npm command -v npm
    need sqlite3 command -v sqlite3
}
recipes() {
    need postgresql sh -c 'ls /usr/lib/postgresql/*/bin/initdb'
    need postgresql-client command -v psql
    need golang-go command -v go
    need python3-venv python3 -c 'import ensurepip, venv'
}
image() {
    need binutils command -v readelf
    need buildah command -v buildah
    need catatonit command -v catatonit
    need iproute2 command -v ip
    need mmdebstrap command -v mmdebstrap
    need podman command -v podman
    need python3 command -v python3
    need redis-server command -v redis-server
    need redis-tools command -v redis-cli
    need runc command -v runc
    need skopeo command -v skopeo
    emulator
}
emulator() {
    [ "$(uname -m)" = aarch64 ] || need qemu-user-static test -e /usr/lib/binfmt.d/qemu-aarch64.conf
}
arm64() {
    suite
    need gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
    need mmdebstrap command -v mmdebstrap
    emulator
}
static_busybox() { command -v busybox && ! ldd "$(command -v busybox)"; }
release() {
    need busybox-static static_busybox
    need git command -v git
    need minisign command -v minisign
    need python3 command -v python3
    need python3-venv python3 -c 'import ensurepip, venv'
}
helm() {
    need golang-go command -v go
    need npm command -v npm
    need nodejs command -v node
    need python3-yaml python3 -c 'import yaml'
}
kubernetes() {
    image
    need gcc command -v gcc
    need libc6-dev header stdlib.h
    need containerd command -v containerd
    need containernetworking-plugins test -x /usr/lib/cni/bridge
    need conntrack command -v conntrack
    need curl command -v curl
    need etcd-server command -v etcd
    need golang-go command -v go
    need iptables command -v iptables
    need openssl command -v openssl
    need python3-yaml python3 -c 'import yaml'
    need util-linux command -v unshare
}
case ${1:-} in
'') build ;;
image) image ;;
release) release ;;
deb)
    need mmdebstrap command -v mmdebstrap
    emulator
    ;;
helm)
    build
    helm
    ;;
arm64) arm64 ;;
kubernetes) kubernetes ;;
page)
    build
    page
    ;;
recipes)
    suite
    recipes
    ;;
suite)
    suite
    previous
    ;;
check)
    build
    linters
    ;;
valkey)
    suite
    need valkey-server command -v valkey-server
    ;;
test)
    suite
    previous
    need clang command -v clang
    need libclang-rt-dev runtime
    need mmdebstrap command -v mmdebstrap
    linters
    # Tests with workers in other languages are skipped if the language is missing. If it is there, its library manager must be there
    # too. CI needs every language of the dialects, and the tools that render manifests.
    need python3-venv python3 -c 'import ensurepip, venv'
    if [ "${QS_CLIENTS_REQUIRED:-}" = 1 ]; then
        page
        recipes
        need default-jdk-headless command -v javac
        need maven command -v mvn
        helm
        image
        release
        arm64
    fi
    ! command -v javac >/dev/null || need maven command -v mvn
    ;;
*)
    echo "usage: sh deploy/deps.sh [suite|valkey|check|test|page|recipes|image|release|deb|helm|arm64|kubernetes]" >&2
    exit 2
    ;;
esac
missing=${missing# }

if [ -z "$missing" ]; then
    echo "deps: nothing is missing"
    exit 0
fi
install="apt-get install -y --no-install-recommends $missing"
if ! command -v apt-get >/dev/null; then
    echo "deps: missing Debian packages: $missing. This machine has no apt-get: install them by hand" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    sudo=
elif sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    echo "deps: missing: $missing. Run: sudo apt-get update && sudo $install" >&2
    exit 1
fi

# A policy-rc.d that lets no service start: the tests need the programs redis-server, postgres, containerd and etcd, not services on
# their ports. (No environment variable does that for deb-systemd-invoke and invoke-rc.d.) An existing policy-rc.d stays.
policy=/usr/sbin/policy-rc.d
log=$(mktemp)
made_policy=
finish() {
    rm -f "$log"
    [ -z "$made_policy" ] || $sudo rm -f "$policy"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM
case " $missing " in
*" redis-server "* | *" postgresql "* | *" containerd "* | *" etcd-server "*)
    if [ ! -e "$policy" ]; then
        made_policy=yes
        printf '#!/bin/sh\n# By deploy/deps.sh, while it installs.\nexit 101\n' | $sudo tee "$policy" >/dev/null
        $sudo chmod 755 "$policy"
    fi
    ;;
esac

known() { # whether apt's lists have every missing package
    for package in $missing; do
        apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]' || return 1
    done
}
# Waits for another apt, such as the automatic updates of a new machine.
apt() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"; }
# shellcheck disable=SC2086 # words
try() { apt install -y --no-install-recommends $missing; }
renew() {
    apt update || true
    try
}
echo "deps: $install"
if known && try </dev/null >"$log" 2>&1; then
    :
else
    echo "deps: apt-get update" # the lists are missing, or so old that the mirror has removed the files
    again "$log" renew || {
        tail -n 40 "$log" >&2
        echo "deps: apt-get failed (above)" >&2
        exit 1
    }
fi
for service in redis-server postgresql containerd etcd; do # do not start the service at the next boot
    case " $missing " in
    *" $service "* | *" $service-server "*) $sudo update-rc.d "$service" disable >/dev/null 2>&1 || true ;;
    esac
done
echo "deps: installed $missing"
