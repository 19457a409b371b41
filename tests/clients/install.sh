#!/bin/sh
# Makes build/clients: the workers of docs/worker-contract.md, unchanged, with the handlers of the tests and a client library of each
# language; and the workers of the other dialects (tests/clients/README.md). The ordinary tool of each language fetches libraries once,
# with the settings of this machine; a second run needs no network. If a library cannot be fetched, the script prints one line and
# the test is skipped. If a program does not compile, the script fails.
#
# build/clients/LANGUAGE/run PROGRAM [FILE...] runs `worker`, `producer` or (python) `heartbeat` in the current directory;
# build/clients/DIALECT/run PROGRAM [ARGUMENT...] runs `work`, `produce` or another program of the dialect.
#
# shellcheck disable=SC2016 # other shells expand the texts in single quotes
set -u
cd "$(dirname "$0")/../.." || exit 1
here=$PWD/tests/clients
clients=${QS_CLIENTS_DIR:-$PWD/build/clients}
limit=300 # seconds for one try of a fetch
# shellcheck source=deploy/again.sh
. deploy/again.sh

mkdir -p "$clients"
exec 9>"$clients/lock"
flock 9

# Runs a fetch in $clients/$1, unless the same versions have been fetched.
fetch() { # language, versions, command
    language=$1
    versions=$2
    shift 2
    [ "$(cat "$clients/$language/fetched" 2>/dev/null)" != "$versions" ] || return 0
    rm -f "$clients/$language/fetched"
    (cd "$clients/$language" && again log timeout "$limit" "$@") || {
        reason=$(grep -iE -m 1 'error|cannot|unable|disabled' "$clients/$language/log" || tail -n 1 "$clients/$language/log")
        skip "$language" "$(echo "$reason" | cut -c1-200)"
        return 1
    }
    echo "$versions" >"$clients/$language/fetched"
}
skip() { # language, reason
    echo "clients: $1 is skipped: $2"
    echo "$2" >"$clients/$1/skipped"
}
tools() { # language, programs
    language=$1
    shift
    for tool; do
        command -v "$tool" >/dev/null && continue
        skip "$language" "this machine has no $tool"
        return 1
    done
}
build() { # language, command
    language=$1
    shift
    (cd "$clients/$language" && "$@") >"$clients/$language/log" 2>&1 </dev/null && return 0
    cat "$clients/$language/log"
    echo "clients: the programs for $language do not compile (above)"
    echo "$language" >>"$clients/failed"
    return 1
}
# The last step of a language: writes the script `run`. In the shell text, $here is the directory of that script.
launcher() { # language, shell text
    printf '#!/bin/sh\nhere=$(cd "$(dirname "$0")" && pwd)\nprogram=$1\nshift\n%s\n' "$2" >"$clients/$1/run"
    chmod 755 "$clients/$1/run"
}

client_python() {
    tools python python3 || return
    fetch python 'redis==8.1.0 huey==3.5.4' sh -c 'rm -rf venv && python3 -m venv venv && venv/bin/pip install -q $0' \
        'redis==8.1.0 huey==3.5.4' || return
    # As docs/worker-contract.md says, a worker with heartbeats has another import.
    sed 's/^from handler import handle/from heartbeat import handle/' "$clients/python/worker.py" >"$clients/python/heartbeat_worker.py"
    launcher python '[ "$program" != heartbeat ] || program=heartbeat_worker
exec "$here/venv/bin/python" -B "$here/$program.py" "$@"'
}

client_node() {
    tools node node npm || return
    echo '{"private": true}' >"$clients/node/package.json"
    fetch node ioredis@6.0.0 npm install --no-save --no-audit --no-fund --loglevel=error ioredis@6.0.0 || return
    launcher node 'exec node "$here/$program.js" "$@"'
}

client_go() {
    tools go go || return
    mkdir -p "$clients/go/worker" "$clients/go/producer"
    (cd "$clients/go" && mv worker.go handler.go worker && mv producer.go producer)
    fetch go go-redis@9.7.0 sh -c 'rm -rf go.mod go.sum vendor && go mod init example.org/worker &&
        go get github.com/redis/go-redis/v9@v9.7.0 && go mod vendor' || return
    build go sh -c '[ -z "$(gofmt -l worker producer)" ] && go vet ./... && go build -mod=vendor -o bin/ ./worker ./producer' ||
        return
    launcher go 'exec "$here/bin/$program" "$@"'
}

client_java() {
    tools java java javac mvn || return
    fetch java "$(cat "$here/java/pom.xml")" sh -c 'rm -rf lib && exec mvn -q -B -U dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory=lib' || return
    build java javac -d classes Handler.java || return
    launcher java 'name=$(echo "$program" | sed "s/^w/W/; s/^p/P/")
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$here/lib/*:$here/classes" "$here/$name.java" "$@"'
}

client_shell() {
    tools shell redis-cli || return
    redis-cli --help 2>&1 | grep -q '^ *-X ' || {
        skip shell "redis-cli is older than 7.0"
        return
    }
    launcher shell 'PATH=$here:$PATH
export PATH
exec sh "$here/$program.sh" "$@"'
}

# The workers of the dialects and of a Cluster. Those in Python and Node share the library of the Python or Node worker.
client_in_python() { # dialect
    if [ -e "$clients/python/skipped" ]; then
        skip "$1" "$(cat "$clients/python/skipped")"
    else
        cp "$here/story/story.py" "$clients/$1/"
        launcher "$1" 'exec "$here/../python/venv/bin/python" -B "$here/$program.py" "$@"'
    fi
}

client_in_node() { # dialect
    if [ -e "$clients/node/skipped" ]; then
        skip "$1" "$(cat "$clients/node/skipped")"
    else
        cp "$here/story/story.js" "$clients/$1/"
        launcher "$1" 'export NODE_PATH="$here/../node/node_modules"
exec node "$here/$program.js" "$@"'
    fi
}

client_in_java() { # dialect
    tools "$1" java javac mvn || return
    fetch "$1" "$(cat "$here/$1/pom.xml")" sh -c 'rm -rf lib && exec mvn -q -B -U dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory=lib' || return
    cp "$here/story/Story.java" "$clients/$1/"
    build "$1" sh -c 'rm -rf classes && javac -Xlint:all,-processing -Werror -cp "lib/*" -d classes *.java' || return
    launcher "$1" 'name=$(echo "$program" | sed "s/^w/W/; s/^p/P/; s/^c/C/; s/^m/M/")
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$here/lib/*:$here/classes" "$name" "$@"'
}

# The workers of docs/dialects/stream.md, with the same libraries and handlers as those of docs/worker-contract.md.
client_stream_python() {
    if [ -e "$clients/python/skipped" ]; then
        skip stream_python "$(cat "$clients/python/skipped")"
        return
    fi
    cp "$here/python/handler.py" "$clients/stream_python/"
    launcher stream_python 'exec "$here/../python/venv/bin/python" -B "$here/$program.py" "$@"'
}

client_stream_go() {
    if [ -e "$clients/go/skipped" ]; then
        skip stream_go "$(cat "$clients/go/skipped")"
        return
    fi
    mkdir -p "$clients/go/stream"
    mv "$clients/stream_go/worker.go" "$clients/go/stream/"
    cp "$here/go/handler.go" "$clients/go/stream/"
    build go sh -c '[ -z "$(gofmt -l stream)" ] && go vet ./stream && go build -mod=vendor -o bin/stream_worker ./stream' || return
    launcher stream_go 'exec "$here/../go/bin/stream_worker" "$@"'
}

client_taskiq() {
    tools taskiq python3 || return
    fetch taskiq taskiq-redis==1.2.4 sh -c 'rm -rf venv && python3 -m venv venv && venv/bin/pip install -q "$0"' taskiq-redis==1.2.4 || return
    cp "$here/story/story.py" "$clients/taskiq/"
    launcher taskiq 'exec "$here/venv/bin/python" -B "$here/$program.py" "$@"'
}

# PHP, its Redis extension and Symfony's transport come from Debian, in a root of their own: its loader starts them on any machine.
client_symfony() { # name, Debian release
    sh tests/support/debian_root.sh "$2" "$clients/$1" php-symfony-redis-messenger,php-cli,php-redis >"$clients/$1/made" 2>&1 || {
        skip "$1" "$(tail -n 1 "$clients/$1/made" | cut -c1-200)"
        return
    }
    cp -p "$here"/symfony/*.php "$clients/$1/"
    launcher "$1" 'debian=$here/root libraries=
for directory in "$debian"/usr/lib/*-linux-gnu; do libraries=$directory; done
for php in "$debian"/usr/bin/php8.*; do break; done
for extensions in "$debian"/usr/lib/php/20*; do break; done
exec "$libraries"/ld-linux-*.so.* --library-path "$libraries" "$php" -n -d extension_dir="$extensions" \
    -d extension=igbinary -d extension=redis -d extension=posix -d include_path="$debian/usr/share/php" -d display_errors=stderr \
    "$here/$program.php" "$@"'
}

# The oldest and the newest Bull that the dialect serves, and one between, whose stalled check does not honour removeOnFail yet (4.12.6
# does). QS_BULL selects one.
client_bull() {
    tools bull node npm || return
    fetch bull 'bull@4.10.4 bull@4.12.2 bull@4.16.5' sh -c 'for package in $0; do
        version=${package#*@} && rm -rf "$version" && mkdir "$version" && echo "{\"private\": true}" >"$version/package.json" &&
        (cd "$version" && npm install --no-save --no-audit --no-fund --loglevel=error "$package") || exit 1; done' \
        'bull@4.10.4 bull@4.12.2 bull@4.16.5' || return
    cp "$here/story/story.js" "$here/story/keys.js" "$clients/bull/"
    launcher bull 'exec node "$here/$program.js" "$@"'
}

# BullMQ 5 and 6; QS_BULLMQ selects one. BullMQ 6 leaves the choice of its Redis client to the application.
client_bullmq() {
    tools bullmq node npm || return
    fetch bullmq 'bullmq@5.81.5 bullmq@6.7.0 ioredis@5.11.1' sh -c 'for package in $0; do
        version=${package#bullmq@} && rm -rf "$version" && mkdir "$version" && echo "{\"private\": true}" >"$version/package.json" &&
        (cd "$version" && npm install --no-save --no-audit --no-fund --loglevel=error "$package" "$1") || exit 1; done' \
        'bullmq@5.81.5 bullmq@6.7.0' ioredis@5.11.1 || return
    cp "$here/story/story.js" "$here/story/keys.js" "$clients/bullmq/"
    launcher bullmq 'exec node "$here/$program.js" "$@"'
}

# The worker of docs/dialects/bullmq.md, with BullMQ 6.
client_bullmq_node() {
    if [ -e "$clients/bullmq/skipped" ]; then
        skip bullmq_node "$(cat "$clients/bullmq/skipped")"
        return
    fi
    cp "$here/story/story.js" "$clients/bullmq_node/"
    launcher bullmq_node 'export NODE_PATH="$here/../bullmq/6.7.0/node_modules"
exec node "$here/$program.js" "$@"'
}

# Sidekiq comes from Debian 12 (6.4) and 13 (7.3), each in a root of its own. QS_SIDEKIQ, 6 or 7, selects one. Programs run there as root.
client_sidekiq() {
    for root in "6 bookworm" "7 trixie"; do
        sh tests/support/debian_root.sh "${root#* }" "$clients/sidekiq/${root% *}" ruby-sidekiq >"$clients/sidekiq/made" 2>&1 || {
            skip sidekiq "$(tail -n 1 "$clients/sidekiq/made" | cut -c1-200)"
            return
        }
        mkdir -p "$clients/sidekiq/${root% *}/root/srv"
        cp "$clients/sidekiq"/*.rb "$clients/sidekiq_ruby/worker.rb" "$clients/sidekiq/${root% *}/root/srv/"
    done
    cp tests/support/in_root.sh "$clients/sidekiq/"
    launcher sidekiq 'ruby="ruby /srv/$program.rb"
[ "$program" != work ] || ruby="sidekiq -e test -r /srv/app.rb"
[ "$program" != worker ] || ruby="sidekiq -e test -r /srv/worker.rb"
# shellcheck disable=SC2086 # words
exec sh "$here/in_root.sh" "$here/${QS_SIDEKIQ:-7}/root" env "REDIS_URL=$REDIS_URL" "RETRY=${RETRY:-0}" "POLL=${POLL:-0}" $ruby "$@"'
}

client_bee_queue() {
    tools bee_queue node npm || return
    echo '{"private": true}' >"$clients/bee_queue/package.json"
    fetch bee_queue bee-queue@2.0.0 npm install --no-save --no-audit --no-fund --loglevel=error bee-queue@2.0.0 || return
    cp "$here/story/story.js" "$clients/bee_queue/"
    launcher bee_queue 'exec node "$here/$program.js" "$@"'
}

rm -f "$clients/failed"
for language in python node go java shell bull bullmq bullmq_node kmqueue delayed_queue private_queues delay_loop huey bee_queue cluster_python cluster_node stream_python stream_go taskiq symfony symfony6 sidekiq; do
    mkdir -p "$clients/$language"
    (cd "$clients/$language" && rm -f run skipped ./*.java)
    [ ! -d "$here/$language" ] || find "$here/$language" -type f -exec cp -p {} "$clients/$language/" \;
done
python3 "$here/extract.py" docs/worker-contract.md "$clients" || exit 1
python3 "$here/extract.py" docs/dialects/stream.md "$clients" stream_ || exit 1
python3 "$here/extract.py" docs/dialects/bullmq.md "$clients" bullmq_ || exit 1
python3 "$here/extract.py" docs/dialects/sidekiq.md "$clients" sidekiq_ || exit 1
# One after the other if they share the cache of a tool, else at the same time.
(client_python; client_in_python private_queues; client_in_python delay_loop; client_in_python huey; client_in_python cluster_python; client_stream_python; client_taskiq) &
(client_node; client_in_node cluster_node; client_bull; client_bullmq; client_bullmq_node; client_bee_queue) &
(client_go; client_stream_go) &
(client_symfony symfony bookworm; client_symfony symfony6 trixie) &
client_sidekiq &
(client_java; client_in_java kmqueue; client_in_java delayed_queue) &
client_shell &
wait
[ ! -e "$clients/failed" ] || exit 1
ready=$(cd "$clients" && for file in */run; do echo "${file%/run}"; done | tr '\n' ' ')
echo "clients: ready: $ready"
