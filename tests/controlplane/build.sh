#!/bin/sh
# Builds the control plane for tests: sh build.sh OUTPUT [MODULES]
#
# MODULES is the file with the versions of its modules, go.mod by default. go-1.35.mod is that of Kubernetes 1.35.
#
# The only place where the build flags stand: the Rust harness (tests/src/go_program.rs) runs this script, and
# so should people. Another set of compiler flags recompiles all of Kubernetes (about ten minutes of two cores and
# another 2.8 GB of Go's build cache). Needs Go 1.26 or newer and access to a Go module proxy; no C compiler.
set -eu

out=${1:?usage: sh build.sh OUTPUT [MODULES]}
modules=${2:-go.mod}
# The output is named from where the caller stands, the module is where this script is.
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")"

kubernetes=$(sed -n 's,^[[:space:]]*k8s\.io/kubernetes v,,p' "$modules")
major=${kubernetes%%.*}
minor=${kubernetes#*.}
minor=${minor%%.*}

# Otherwise /version and `kubectl version` answer v0.0.0-master.
version=k8s.io/component-base/version
ldflags="-s -w -X $version.gitVersion=v$kubernetes -X $version.gitMajor=$major -X $version.gitMinor=$minor -X $version.gitTreeState=clean"

# What a user's shell may hold must not choose other flags.
unset GOFLAGS GOOS GOARCH GOAMD64 GOARM64 GOEXPERIMENT GODEBUG
export CGO_ENABLED=0
exec go build -trimpath -buildvcs=false -mod=readonly -modfile="$modules" -ldflags "$ldflags" -o "$out" .
