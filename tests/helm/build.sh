#!/bin/sh
# Builds Helm for tests, in the version of go.mod: sh build.sh OUTPUT
# Three minutes of two cores the first time.
set -eu
folder=$(dirname "$0")
exec sh "$folder/../go-build.sh" "$folder" "${1:?usage: sh build.sh OUTPUT}" helm.sh/helm/v3/cmd/helm
