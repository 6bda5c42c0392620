#!/bin/sh
# Fetches a server of another Debian release than this machine's, with all that
# it needs, its C library included, into a folder of its own: nothing is
# installed, and the configuration of apt is only read.
#
#   sh fetch-server.sh FOLDER bullseye redis-server     # Redis 6.0
#   sh fetch-server.sh FOLDER trixie valkey-server      # Valkey 8.1
#   HOTPARAM_REDIS_SERVER=FOLDER/server go test ./internal/storage/redis...
set -eu
mkdir -p "$1"
cd "$1"
here=$PWD release=$2 package=$3
keys=/usr/share/keyrings/debian-archive-keyring.gpg

# The mirror that this machine uses. apt knows whose it is once it has seen it.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' |
  head -n 1)
if [ -z "$mirror" ]; then
  echo "apt knows no mirror of Debian here: apt-get update first" >&2
  exit 1
fi

mkdir -p apt/lists/partial apt/cache/archives/partial files
: > apt/status # nothing is there yet, so apt fetches everything
echo "deb [target=Packages signed-by=$keys] $mirror $release main" > apt/sources.list
# Read after the machine's own files, so a proxy that is set there is used.
cat > apt/conf <<END
Dir::Etc::SourceList "$here/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "$here/apt";
Dir::State::Lists "$here/apt/lists";
Dir::State::status "$here/apt/status";
Dir::Cache "$here/apt/cache";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
END
apt-get -q -c "$here/apt/conf" update
apt-get -q -y -c "$here/apt/conf" --no-install-recommends --download-only install "$package"
for deb in apt/cache/archives/*.deb; do
  dpkg-deb -x "$deb" files
done
rm -rf apt

# Started by its own loader it finds its own libraries. The folder may be moved.
loader=$(ls files/lib/*-linux-*/ld-linux* files/usr/lib/*-linux-*/ld-linux* 2> /dev/null | head -n 1)
libs=$(basename "$(dirname "$loader")")
cat > server <<END
#!/bin/sh
here=\${0%/*}
exec "\$here/$loader" --library-path "\$here/files/lib/$libs:\$here/files/usr/lib/$libs" \\
  "\$here/files/usr/bin/$package" "\$@"
END
chmod +x server
"$here/server" --version
