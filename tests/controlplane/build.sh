#!/bin/sh
# Builds the control plane for tests: sh build.sh OUTPUT [MODULES]
#
# MODULES is the file with the versions of its modules, go.mod by default. go-1.35.mod is that of Kubernetes 1.35.
# The first build takes about ten minutes of two cores and 2.8 GB of Go's build cache.
set -eu
folder=$(dirname "$0")
modules=${2:-go.mod}

kubernetes=$(sed -n 's,^[[:space:]]*k8s\.io/kubernetes v,,p' "$folder/$modules")
major=${kubernetes%%.*}
minor=${kubernetes#*.}
minor=${minor%%.*}

# Otherwise /version and `kubectl version` answer v0.0.0-master.
version=k8s.io/component-base/version
set -- "${1:?usage: sh build.sh OUTPUT [MODULES]}" . "$modules" \
    "-X $version.gitVersion=v$kubernetes -X $version.gitMajor=$major -X $version.gitMinor=$minor -X $version.gitTreeState=clean"
exec sh "$folder/../go-build.sh" "$folder" "$@"
