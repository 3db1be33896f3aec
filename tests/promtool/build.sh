#!/bin/sh
# Builds promtool for tests, in the version of Prometheus in go.mod: sh build.sh OUTPUT
set -eu
folder=$(dirname "$0")
exec sh "$folder/../go-build.sh" "$folder" "${1:?usage: sh build.sh OUTPUT}" github.com/prometheus/prometheus/cmd/promtool
