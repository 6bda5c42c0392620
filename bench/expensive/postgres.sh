#!/usr/bin/env bash
# Runs the benchmark on a PostgreSQL of its own, which it starts on a unix socket in a temporary folder and removes.
# Its arguments are passed on. PostgreSQL does not run as root: then the user postgres runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | tail -1)
command -v "$bin/postgres" > /dev/null || { echo "apt-get install postgresql" >&2; exit 1; }
dir=$(mktemp -d)
as() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
if [ "$(id -u)" = 0 ]; then chown postgres "$dir"; fi
stop() { as "$bin/pg_ctl" -D "$dir/data" -m fast stop > /dev/null || true; rm -rf "$dir"; }
trap stop EXIT
as "$bin/initdb" -D "$dir/data" -U bench --auth trust > /dev/null
as "$bin/pg_ctl" -D "$dir/data" -w -l "$dir/log" -o "-c listen_addresses= -c unix_socket_directories=$dir" start > /dev/null
go run ./expensive -postgres "postgres://bench@/postgres?host=$dir" "$@"
