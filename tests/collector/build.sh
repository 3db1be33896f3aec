#!/bin/sh
# Builds the core of the OpenTelemetry collector for tests, in the version of go.mod: sh build.sh OUTPUT
#
# Needs Go 1.26 or newer and access to a Go module proxy; no C compiler.
set -eu

out=${1:?usage: sh build.sh OUTPUT}
# The output is named from where the caller stands, the module is where this script is.
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")"

# What a user's shell may hold must not choose other flags.
unset GOFLAGS GOOS GOARCH GOAMD64 GOARM64 GOEXPERIMENT GODEBUG
export CGO_ENABLED=0
exec go build -trimpath -buildvcs=false -mod=readonly -ldflags "-s -w" -o "$out" .
