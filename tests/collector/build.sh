#!/bin/sh
# Builds the core of the OpenTelemetry collector for tests, in the version of go.mod: sh build.sh OUTPUT
set -eu
folder=$(dirname "$0")
exec sh "$folder/../go-build.sh" "$folder" "${1:?usage: sh build.sh OUTPUT}" .
