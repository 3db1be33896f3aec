# Builds a Go program for tests, for the build.sh of each: sh go-build.sh FOLDER OUTPUT PACKAGE [MODULES [LDFLAGS]]
#
# The only place where the build flags stand: the Rust harness (tests/src/go_program.rs) runs the build.sh of a
# program, and so should people. Other compiler flags compile all its modules again. Needs Go 1.26 or newer and access
# to a Go module proxy; no C compiler.
set -eu

folder=$1 out=$2 package=$3 modules=${4:-go.mod}
# The output is named from where the caller stands, the module is where its build.sh is.
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$folder"

# What a user's shell may hold must not choose other flags.
unset GOFLAGS GOOS GOARCH GOAMD64 GOARM64 GOEXPERIMENT GODEBUG
export CGO_ENABLED=0
exec go build -trimpath -buildvcs=false -mod=readonly -modfile="$modules" -ldflags "-s -w ${5:-}" -o "$out" "$package"
