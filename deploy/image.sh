#!/bin/sh
# Writes the container image as an OCI layout, without a daemon and without root. The same input makes the same bytes.
#
#   deploy/image.sh OUT VERSION ARCHITECTURE=BINARY...
#   deploy/image.sh image 0.1.0 amd64=target/x86_64-unknown-linux-gnu/dist/pilothouse
#
# OUT         folder that is made, for `skopeo copy --all oci:OUT docker://…`, `podman load` and registries
# BINARY      pilothouse, linked statically: the image has no loader and no libraries
# CA_BUNDLE   certificates that plugins' HTTPS trusts [/etc/ssl/certs/ca-certificates.crt]
# SOURCE_DATE_EPOCH   time of all files and of the image, in seconds [0]
#
# The image is that of deploy/Dockerfile: a test compares the two.
set -eu

fail() {
  echo "image.sh: $1" >&2
  exit 1
}

[ $# -ge 3 ] || fail "usage: deploy/image.sh OUT VERSION ARCHITECTURE=BINARY..."
out=$1 version=$2
shift 2
bundle=${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}
epoch=${SOURCE_DATE_EPOCH:-0}
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
[ ! -e "$out" ] || fail "$out exists: name a new folder, or remove it"
[ -s "$bundle" ] || fail "$bundle has no certificates: install ca-certificates, or set CA_BUNDLE"

# Whole or not at all.
mkdir -p "$(dirname "$out")"
work=$(mktemp -d "$out.XXXXXX")
trap 'rm -rf "$work"' EXIT
blobs=$work/layout/blobs/sha256
mkdir -p "$blobs"

# Moves a file to the blobs and sets `digest` and `size`.
blob() {
  digest=$(sha256sum "$1" | cut -d ' ' -f 1)
  size=$(stat -c %s "$1")
  mv "$1" "$blobs/$digest"
}

manifests=
for pair; do
  architecture=${pair%%=*} binary=${pair#*=}
  case $pair in
    amd64=* | arm64=*) ;;
    *) fail "$pair: write amd64=BINARY or arm64=BINARY" ;;
  esac
  [ -f "$binary" ] || fail "$binary is no file: build it as docs/install.md says"
  headers=$(LC_ALL=C readelf -hlW "$binary" 2>&1) || fail "$binary is no Linux program"
  case $architecture in
    amd64) machine='X86-64' ;;
    arm64) machine='AArch64' ;;
  esac
  echo "$headers" | grep -q "Machine: .*$machine" || fail "$binary is not for $architecture"
  if echo "$headers" | grep -q INTERP; then
    fail "$binary is linked dynamically, and the image has no libraries: build with -C target-feature=+crt-static"
  fi

  root=$work/root
  mkdir -p "$root/etc/ssl/certs"
  cp "$binary" "$root/pilothouse"
  cp "$bundle" "$root/etc/ssl/certs/ca-certificates.crt"
  find "$root" -type d -exec chmod 0755 {} +
  chmod 0755 "$root/pilothouse"
  chmod 0644 "$root/etc/ssl/certs/ca-certificates.crt"
  tar --create --file "$work/layer" --directory "$root" --format=ustar --sort=name --mtime="@$epoch" \
    --owner=0 --group=0 --numeric-owner etc pilothouse
  rm -r "$root"
  uncompressed=$(sha256sum "$work/layer" | cut -d ' ' -f 1)
  gzip -n -9 "$work/layer"
  blob "$work/layer.gz"
  layer="{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\",\"digest\":\"sha256:$digest\",\"size\":$size}"

  cat > "$work/config" << JSON
{"created":"$created","architecture":"$architecture","os":"linux","config":{"User":"65532:65532","Entrypoint":["/pilothouse"],"Labels":{"org.opencontainers.image.title":"pilothouse","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:$uncompressed"]},"history":[{"created":"$created","created_by":"deploy/image.sh"}]}
JSON
  blob "$work/config"
  config="{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":\"sha256:$digest\",\"size\":$size}"

  cat > "$work/manifest" << JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":$config,"layers":[$layer]}
JSON
  blob "$work/manifest"
  manifests="$manifests${manifests:+,}{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"sha256:$digest\",\"size\":$size,\"platform\":{\"architecture\":\"$architecture\",\"os\":\"linux\"}}"
done

# One index for all architectures, under the name of the version.
cat > "$work/index" << JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[$manifests]}
JSON
blob "$work/index"
cat > "$work/layout/index.json" << JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:$digest","size":$size,"annotations":{"org.opencontainers.image.ref.name":"$version"}}]}
JSON
echo '{"imageLayoutVersion":"1.0.0"}' > "$work/layout/oci-layout"
mv "$work/layout" "$out"
echo "$out: sha256:$digest"
