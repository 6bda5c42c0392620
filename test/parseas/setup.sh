#!/bin/sh
# Installs what `make upstreams` asks: npm, PyPI, crates.io and Maven packages into DIR, Debian packages on the machine
# (as root). What cannot be installed is left out of the run. With `fuzz` behind DIR: only the npm and PyPI packages.
set -u
dir=${1:?usage: setup.sh DIR [fuzz]}
[ "${2:-}" = fuzz ] && set -e
mkdir -p "$dir/node"
(cd "$dir/node" && npm install --no-audit --no-fund --silent \
  express4@npm:express@4 express5@npm:express@5 koa @koa/router fastify hono @hono/node-server)
python3 -m venv "$dir/py" && "$dir/py/bin/pip" install -q django flask fastapi gunicorn uvicorn httptools
[ "${2:-}" = fuzz ] && exit
"$dir/py/bin/pip" install -q --target "$dir/gunicorn20" gunicorn==20.1.0 'setuptools<81' # which has pkg_resources
here=$(cd "$(dirname "$0")" && pwd) && work=$(cd "$dir" && pwd)
cargo build -q --release --manifest-path "$here/apps/axum/Cargo.toml" --target-dir "$work/rust"
mvn -q -f "$here/apps/java/pom.xml" -Dout="$work/java" package dependency:copy-dependencies
[ "$(id -u)" = 0 ] || exit 0
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
for packages in nginx "php8.2-cli php8.2-fpm" "ruby-rack ruby-sinatra puma" "ruby-actionpack ruby-railties"; do
  # shellcheck disable=SC2086
  apt-get install -qq -y --no-install-recommends $packages
done
