#!/bin/sh
# Builds the distribution registry for tests, in the version of go.mod: sh build.sh OUTPUT
set -eu
folder=$(dirname "$0")
exec sh "$folder/../go-build.sh" "$folder" "${1:?usage: sh build.sh OUTPUT}" github.com/distribution/distribution/v3/cmd/registry
