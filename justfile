# The recipes are what CI runs (.ci/run).

# Format, lints and docs.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo clippy -p pilothouse-client -- -D warnings
    cargo clippy -p pilothouse --no-default-features -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Everything, end-to-end tests on the real control plane included.
test:
    cargo test --workspace

# The end-to-end tests alone.
e2e:
    cargo test -p pilothouse-tests

# Figures of docs/benchmarks.md, by the name of the benchmark: cache, client, events, recorder, road, server, workqueue.
bench name *args:
    cargo bench --workspace --bench {{name}} -- {{args}}

# Interleavings of store, delta queue and work queue under thousands of random schedules.
interleavings:
    cargo test -p pilothouse-cache --features shuttle --test interleavings
    cargo test -p pilothouse-workqueue --features shuttle --test interleavings

# Instructions an operation of the work queue takes, beside what was recorded; `just instructions --record` records.
instructions *args:
    cargo bench -p pilothouse-workqueue --bench instructions -- {{args}}
