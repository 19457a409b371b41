#!/bin/sh
set -eu
cat >job
redis() { redis-cli -e -u "$REDIS_URL" "$@"; }
# CONTRACT
