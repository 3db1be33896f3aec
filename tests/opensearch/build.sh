#!/bin/sh
# Builds the OpenSearch for tests: sh build.sh FOLDER
#
# Fetches the jars with Maven, about 40 MB the first time, and compiles Main.java beside them. The Rust harness
# (tests/src/opensearch.rs) runs it. Needs a JDK of version 17 or newer, Maven, and a Maven repository to fetch from.
set -eu

out=${1:?usage: sh build.sh FOLDER}
# The folder is named from where the caller stands, the sources are where this script is.
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")"

mkdir -p "$out"
mvn --quiet --batch-mode --file pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$out/jars"
javac --release 17 -cp "$out/jars/*" -d "$out/classes" Main.java
