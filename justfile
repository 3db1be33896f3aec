# Each recipe but `check` and `check-target` is one plain command line: it can be typed without just.

# Format, lints and docs, as CI runs them.
check:
    cargo fmt --all --check
    cargo fmt --manifest-path guests/Cargo.toml --all --check
    for crate in guests/kube/Cargo.toml examples/*/Cargo.toml; do cargo fmt --manifest-path $crate --check || exit 1; done
    cargo clippy --workspace --all-targets -- -D warnings
    cargo clippy -p pilothouse-client -- -D warnings
    cargo clippy -p pilothouse --no-default-features -- -D warnings
    cargo clippy -p pilothouse --all-targets --features oci,traces -- -D warnings
    for crate in guests/Cargo.toml examples/*/Cargo.toml; do CARGO_TARGET_DIR=target/guests cargo clippy --manifest-path $crate --workspace --release --target wasm32-wasip2 -- -D warnings || exit 1; done
    test -z "$(cd tests && gofmt -l controlplane clientgo collector peers/clientgo)"
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Windows: what `check-target` checks.
check-windows: (check-target "x86_64-pc-windows-gnu")

# macOS: what `check-target` checks.
check-macos: (check-target "aarch64-apple-darwin")

# The crates that plugin authors compile for their own machine: the SDK, plugins with their tests, and the check of the toolchain. They have no C code, so no linker and no C compiler for the target is needed; nothing runs.
check-target target:
    rustup target add {{target}}
    cargo check -p pilothouse-toolchain --target {{target}}
    CARGO_TARGET_DIR=target/guests cargo check --manifest-path guests/Cargo.toml -p pilothouse-sdk --lib --tests --target {{target}}
    for crate in guests/kube/Cargo.toml examples/*/Cargo.toml; do CARGO_TARGET_DIR=target/guests cargo check --manifest-path $crate --tests --target {{target}} || exit 1; done

# Tier 0: the crates by themselves. No Go, no component is built.
unit:
    cargo test --workspace --features pilothouse-client/full --exclude pilothouse-engine --exclude pilothouse-bench --exclude pilothouse-testkit --exclude pilothouse-tests

# Tier 1: end to end on the development server alone. No Go.
fast:
    cargo test -p pilothouse-tests --lib --test e2e -- --skip on_the_real_server

# The gate of a change: everything, on both servers, of what takes long a sample.
test:
    cargo test --workspace

# Before an issue is resolved: everything at full length, with a random seed unless one is given.
full seed=`od -An -N4 -tu4 /dev/urandom | tr -d ' '`:
    PILOTHOUSE_FULL=1 PILOTHOUSE_SEED={{seed}} PROPTEST_RNG_SEED={{seed}} PILOTHOUSE_STEPS=20000 cargo test --workspace --no-fail-fast

# On kube-apiserver of an older minor version, which has its `tests/controlplane/go-MINOR.mod`: lists and watches, apply, election, both ways to install.
versions minor="1.35":
    PILOTHOUSE_FULL=1 PILOTHOUSE_KUBERNETES={{minor}} cargo test -p pilothouse-tests --no-fail-fast --test e2e --test slow --test peers -- --skip on_the_development_server controlplane:: restarts_and_compactions a_list_whose_pages a_plugin_applies_and_hears_of_conflicts leader_election:: the_documented_installation a_release_is_installed

# Figures of docs/benchmarks.md with the profile that is shipped, of `all` or by the name of the benchmark: cache, client, contract, events, fleet, isolation, languages, narrow, recorder, rest, road, server, workqueue.
bench name *args:
    cargo bench --workspace --profile dist --bench {{ if name == "all" { "'*'" } else { name } }} -- {{args}}

# Charts of docs/benchmarks, from what `just bench` has written; names those that it has no figures for.
charts:
    cargo run -p pilothouse-bench --bin charts

# Figures of an event to a thousand plugins.
dispatch *args:
    cargo bench -p pilothouse-manager --features bench --bench dispatch -- {{args}}

# Instructions an operation of the work queue takes, beside what was recorded; `just instructions --record` records.
instructions *args:
    cargo bench -p pilothouse-workqueue --features valgrind --bench instructions -- {{args}}
