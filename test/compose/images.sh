#!/usr/bin/env bash
# Makes the images that docker-compose.yml and the Dockerfile name, where there
# are none yet, without a registry. Needs mmdebstrap, mvn, npm and go.
#   DOCKER_HOST=… test/compose/images.sh
set -euo pipefail
cd "$(dirname "$0")/images"
root=$(git rev-parse --show-toplevel)
export DOCKER_BUILDKIT=1
have() { docker image inspect "$1" > /dev/null 2>&1; }
name() { sed -n "s|^ *image: *\($1[^ ]*\).*|\1|p" "$root/docker-compose.yml" | head -1; }
golang=$(sed -n 's/^FROM .*\(golang:[^ ]*\).*/\1/p' "$root/Dockerfile")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# stand_in NAME TARGET: an image from the Dockerfile beside, which sees $work.
stand_in() {
  have "$1" && return
  docker build -q --network none --target "$2" -t "$1" -f Dockerfile "$work" > /dev/null
  echo "made $1"
}

if ! have hotparam-test/base; then
  packages=ca-certificates,redis-server,haproxy,openjdk-17-jre-headless,graphite-carbon,graphite-web,gunicorn,nodejs
  mmdebstrap --quiet --variant=minbase --include=$packages --aptopt='APT::Install-Recommends "false"' bookworm - |
    docker import - hotparam-test/base > /dev/null
  echo "made hotparam-test/base"
fi
missing=0
for image in "$(name redis:)" "$(name apache/kafka:)" "$(name graphiteapp/)" \
  "$(name haproxy:)" "$(name traefik/whoami:)" "$golang"; do
  have "$image" || missing=1
done
[ $missing = 1 ] || exit 0

cp -r kafka graphite "$work"

mvn -q -B -f kafka/pom.xml dependency:copy-dependencies -DoutputDirectory="$work/libs" &
jars=$!
npm install --silent --no-save --ignore-scripts --omit=optional --prefix "$work/statsd" statsd@0.9.0 > /dev/null &
statsd=$!
CGO_ENABLED=0 go build -o "$work/whoami" ./whoami
# The modules of go.mod and no others, as a module proxy in a directory.
GOFLAGS=-modcacherw GOMODCACHE=$work/mod GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" \
  go -C "$root" mod download
mv "$work/mod/cache/download" "$work/goproxy"
mkdir "$work/go"
tar -C "$(go env GOROOT)" --exclude=./test --exclude=./api --exclude=./doc -c . | tar -C "$work/go" -x
wait $jars
wait $statsd
chmod -R a+rX "$work" # their users are not root, whatever the umask here

stand_in "$(name redis:)" redis
stand_in "$(name apache/kafka:)" kafka
stand_in "$(name graphiteapp/)" graphite
stand_in "$(name haproxy:)" haproxy
stand_in "$(name traefik/whoami:)" whoami
stand_in "$golang" golang
