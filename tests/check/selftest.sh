#!/bin/sh
# Tests the checks: plants one offence after another in a copy of the tree. The check must report each offence.
# shellcheck disable=SC2016 # here $ and ` often mean themselves
set -eu
cd "$(dirname "$0")/../.."
top=$PWD
export QS_PROGRAM="${QS_PROGRAM:-$top/build/queue-sidecar}"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
missed=0
planted=0

fresh() {
    rm -rf "$copy/tree"
    mkdir "$copy/tree"
    for entry in Makefile README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md LICENSE docs .clang-format .clang-tidy .ci sidecar sql conf deploy tests; do
        [ ! -e "$top/$entry" ] || cp -R "$top/$entry" "$copy/tree/"
    done
    cd "$copy/tree"
}

# check, pattern that its output must match, shell command that plants the offence in the copy, QS_OBJECTS=DIRECTORY if it plants objects, arguments of the check
plant() {
    check=$1
    wanted=$2
    sh -c "$3"
    shift 3
    planted=$((planted + 1))
    script="sh tests/check/$check.sh"
    objects=$top/build/sidecar
    case ${1:-} in QS_OBJECTS=*) objects=${1#*=} && shift ;; esac
    [ ! -e "tests/check/$check.py" ] || script="python3 tests/check/$check.py"
    case $check in docs | mutants) script="$script --check" ;; esac
    if said=$(QS_OBJECTS=$objects $script "$@" 2>&1) || ! echo "$said" | grep -qE "$wanted"; then
        echo "tests/check/$check.*:1: did not report a planted offence: expected \"$wanted\", but the output was:"
        echo "$said" | head -n 5
        missed=$((missed + 1))
    fi
}

fresh
plant layers 'base/planted.c:1: .*base/ must not know redis/' 'echo "#include \"redis/conn.h\"" >sidecar/base/planted.c'
plant layers 'dispatcher/ must not know leader/' 'echo "#include \"leader/leader.h\"" >>sidecar/dispatcher/dispatcher.c'
plant layers 'includes <hiredis/hiredis.h>' 'echo "#include <hiredis/hiredis.h>" >>sidecar/role/role.c'
plant layers 'includes <sqlite3.h>' 'echo "#include <sqlite3.h>" >>sidecar/queue/keys.c'
plant layers 'includes <libconfig.h>' 'echo "#include <libconfig.h>" >>sidecar/app/app.c'
plant layers 'only dialects/registry.c names a dialect' 'echo "#include \"dialects/bull/job.h\"" >>sidecar/dialects/kmqueue/task.c'
plant layers 'in a circle of includes' 'echo "#include \"base/log.h\"" >>sidecar/base/clock.h; echo "#include \"base/clock.h\"" >>sidecar/base/log.h'
plant layers 'no layer "novel"' 'echo "#include \"role/role.h\"" >sidecar/novel.c'
plant layers 'sources in one folder' 'for i in $(seq 30); do : >"sidecar/model/planted$i.c"; done'
# A call without an include: an object that declares what it calls by itself.
plant layers 'uses conn_open\(\) of redis/conn.c, but base/ must not know redis/' 'mkdir -p objects/base objects/redis
    echo "int conn_open(void); int planted(void); int planted(void) { return conn_open(); }" >sidecar/base/calls.c
    echo "int conn_open(void); int conn_open(void) { return 0; }" >provider.c
    "${CC:-gcc}" -c -o objects/base/calls.o sidecar/base/calls.c && "${CC:-gcc}" -c -o objects/redis/conn.o provider.c' QS_OBJECTS=objects

plant layers 'uses stderr, but operate/ prints nothing' 'mkdir -p objects/operate
    echo "#include <stdio.h>" >sidecar/operate/prints.c; echo "void planted2(void); void planted2(void) { fputs(\"x\", stderr); }" >>sidecar/operate/prints.c
    "${CC:-gcc}" -c -o objects/operate/prints.o sidecar/operate/prints.c' QS_OBJECTS=objects

plant mutants 'mutants.list:[0-9]*: sidecar/absent.c has 0 times' 'printf "sidecar/absent.c unit_*/*\\n    a ==> b\\n" >>tests/check/mutants.list'
plant keys 'lacks lock.ttl' 'sed -i "/^ *ttl = /d" conf/queue-sidecar.cfg'
plant keys 'the sample shows the defaults' 'sed -i "s/batch = 5000/batch = 4999/" conf/queue-sidecar.cfg'
plant keys 'is refused' 'echo "nonsense = 1;" >>conf/minimal.cfg'
plant docs 'configuration.md:[0-9]*: the block keys is not' 'sed -i "/^- .*\`timeout\`/d" docs/configuration.md'
plant docs 'queue-sidecar/README.md:[0-9]*: the block yaml is not' 'echo "novel: 1" >>deploy/helm/queue-sidecar/values.yaml'
plant docs 'Chart.yaml:[0-9]*: names 0.0.1, but' 'printf "\213" >deploy/helm/fetched.tgz && sed -i "s/^version: .*/version: 0.0.1/" deploy/helm/queue-sidecar-lib/Chart.yaml'
plant docs 'Chart.yaml:[0-9]*: names 0.0.2, but' 'sed -i "s/^ *version: 0.*/    version: 0.0.2/" deploy/examples/chart/Chart.yaml'
plant docs 'metrics.md:[0-9]*: the block metrics is not' 'sed -i "/queue_sidecar_promoted_total/d" docs/metrics.md'
plant docs 'operations.md:[0-9]*: the block log is not' 'echo "static void f(void) { log_warn(NULL, NULL, \"planted one\"); }" >>sidecar/app/app.c'
plant docs 'its newest release is not' 'sed -i "s/^VERSION := .*/VERSION := 9.9/" Makefile'
plant docs 'SECURITY.md:1: says RELEASE-KEY' 'sed -i "s/^VERSION := .*/VERSION := 9.9/" Makefile; echo RELEASE-KEY >>SECURITY.md'
plant docs 'a release must say where to report' ':' # the version above is a release
plant docs 'a release must say the address of its maintainers' ':'
plant docs 'leads nowhere' 'echo "[x](novel.md)" >>docs/audit.md'
plant docs 'names a heading that the page does not have' 'echo "[x](audit.md#novel)" >>docs/status.md'
plant docs 'has 170 columns' '{ head -c 170 /dev/zero | tr "\0" x; echo; } >>sql/README.md'
plant docs 'README.md has [0-9]* lines' 'yes "" | head -n 200 >>README.md'
plant docs 'explains no message .planted one' ':'
plant docs 'no source logs .nonsense.' 'printf "| log message | |\n|---|---|\n| \140nonsense\140 | x |\n" >>docs/audit.md'
plant docs 'config has the key .tls' 'echo "TLS to Redis is not in this version." >>SECURITY.md'
plant docs 'QueueSidecarLate has no runbook_url' 'sed -i "s/#queuesidecarlate\$/#novel/" deploy/kustomize/monitoring/prometheusrule.yaml'
plant docs 'QueueSidecarDown has no first_command' 'sed -i "/first_command: .*describe/d" deploy/kustomize/monitoring/prometheusrule.yaml'
plant docs 'there is no file absent.c' 'printf "\140absent.c\140\n" >>docs/internals.md'

plant scripts 'uses KEYS\[9\]' 'echo "redis.call(\"GET\", KEYS[9])" | tr "\"" "'"'"'" >>sidecar/queue/lua/renew.lua'
plant scripts 'no-writes' 'sed -i "1s/.*/#!lua flags=allow-oom/" sidecar/queue/lua/next_due.lua'
plant scripts 'no `-- Safe` line' 'sed -i "/^-- Safe/d" sidecar/queue/lua/break_stale_lock.lua'
plant scripts 'claim.lua:[0-9]*: .*near' 'echo "if then" >>sidecar/queue/lua/claim.lua'
plant scripts 'lacks \+hset' 'sed -i "s/ +hset / /; s/ +hset\$//" docs/acl.md'
plant scripts 'lacks \+sentinel' 'sed -i "s/ +sentinel|myid / /" docs/acl.md'
plant scripts 'XTRIM after missing_right' 'sed -i "s/{.XTRIM., [^}]*},//" sidecar/queue/lua/trim.lua'
plant scripts 'without missing_right' 'sed -i "/missing_right/d" sidecar/queue/lua/push_marker.lua'
plant scripts 'global name born' 'sed -i "s/birth and KEYS/born and KEYS/" sidecar/queue/lua/stamp.lua'
plant scripts 'passes 9 KEYS to release.lua' 'find sidecar -name "*.c" -exec sed -i "s/script_release, 1/script_release, 9/" {} +'

plant size 'a file of 6[0-9][0-9] lines' 'yes "int x;" | head -n 600 >sidecar/base/planted.c'
plant size 'a function of 6[0-9] lines' '{ echo "int f(void) {"; yes "    ;" | head -n 60; echo "}"; } >sidecar/base/planted.h'
plant errors 'error.c:[0-9]*: .*text of an error' 'printf "bool f(const redis_error_t *e) {\n    return strstr(e->text,\n                  \"x\");\n}\n" >>sidecar/redis/error.c'
plant errors 'conn.c:[0-9]*: .*text of an error' 'echo "bool g(const char *reason) { return strncmp(reason, \"OOM\", 3) == 0; }" >>sidecar/redis/conn.c'
plant shell 'SC2086' 'printf "#!/bin/sh\nls \$1\n" >deploy/planted.sh'
! clang-format --version | grep -q ' version 14\.' || plant format 'planted.c:1:.*not formatted' 'echo "int  x ;" >sidecar/base/planted.c'
plant cppcheck 'zerodiv' 'printf "int f(int x) {\n    int y = 0;\n    return x / y;\n}\n" >sidecar/base/planted.c' sidecar/base/planted.c
plant hygiene 'a path of one machine' 'echo "/ho""me/ann/x" >>sql/README.md'
plant hygiene 'package registry' 'echo "https://py""pi.org/simple" >>deploy/planted.sh'
plant hygiene 'note to oneself' 'echo "// TO""DO later" >>sidecar/app/app.c'
plant hygiene 'novel.txt:1: does not belong' 'touch novel.txt'
plant hygiene 'leaves targets out' 'printf "new-1_x: ## planted\n" >>Makefile'
plant hygiene 'sets it for daemon_loop' 'sed -i "s/daemon_loop|//" tests/check/stages.sh'
plant hygiene 'suite "stray"' 'echo "Test(stray, x) {" >tests/base/unit_planted.c'

if command -v git >/dev/null; then
    commit='export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        [ -d .git ] || { git init -q && git add tests && git commit -qm "check: add the rule"; }; git commit -q --allow-empty'
    plant subjects 'has 8[0-9] characters' "$commit -m 'check: $(printf 'x%.0s' $(seq 80))' -m body"
    plant subjects 'names no room' "$commit -m 'repair all' -m body"
    plant subjects '"kitchen" is no folder' "$commit -m 'kitchen: repair all' -m body"
    plant subjects 'does not begin with a verb' "$commit -m 'check: the rule holds' -m body"
    plant subjects 'has no body' "$commit -m 'fix: repair all'"
    plant subjects 'joins two changes' "$commit -m 'fix: repair the sink; check: sweep' -m body"
    fresh
fi
plant compdb 'tests/.*is not in build/compile_commands' 'sed -i "s/-nB \(.*\) .(TEST_OBJ)/-nB \1/" Makefile'
fresh

plant again 'a command that fails 1 times: code 7, 1 tries' 'sed -i "s/:-}\" = 1/:-}\" = 2/" deploy/again.sh'
plant compose "is not the Python worker" 'echo "# of my own" >>deploy/compose/worker/worker.py'
plant compose 'more than the mem_limit' 'sed -i "s/8MiB/9MiB/" deploy/compose/config/queue-sidecar.cfg'
plant compose 'is refused' 'echo "nonsense = 1;" >>deploy/compose/config/queue-sidecar.cfg'
if command -v systemd-analyze >/dev/null; then
    plant systemd 'Unknown key' 'sed -i s/^SystemCallFilter=@/SystemCallFilterr=@/ deploy/systemd/queue-sidecar.service.in'
    fresh # without the offence above
    plant systemd 'more exposed' 'sed -i "/^CapabilityBoundingSet\|^SystemCallFilter\|^NoNewPrivileges/d" deploy/systemd/queue-sidecar.service.in'
fi
plant man 'queue-sidecar.1.scd:[0-9]*: differs' 'sed -i "s/^.queue-sidecar. .run. /&--novel /" docs/man/queue-sidecar.1.scd'

fresh # clang-tidy compiles first
plant tidy 'planted.c:2:.*bugprone' 'printf "double planted(int x);\ndouble planted(int x) { return x / 2; }\n" >sidecar/base/planted.c' sidecar/base/planted.c

# `make check` names missing linters before it begins.
mkdir "$copy/bin"
ln -s "$(command -v dirname)" "$copy/bin/dirname"
said=$(PATH=$copy/bin /bin/sh deploy/deps.sh check 2>&1) || true
if ! echo "$said" | grep -q 'missing Debian packages: .*clang-format clang-tidy cppcheck shellcheck'; then
    echo "deploy/deps.sh:1: did not name the missing linters: $said"
    missed=1
fi

[ "$missed" = 0 ] || exit 1
echo "ok   selftest: all $planted planted offences were reported"
