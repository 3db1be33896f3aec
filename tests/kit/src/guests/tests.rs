//! Builds a temporary guest workspace in the same way as the real ones.

use super::*;

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn a_workspace_is_built_to_a_component() {
    let dir = tempfile::tempdir().unwrap();
    let guest = dir.path().join("examples/hello-world");
    let manifest = "[package]\nname = \"hello-world\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n";
    write(&guest.join("Cargo.toml"), manifest);
    // The build fails if it inherits a flag of the native build or the name of the package under test.
    write(
        &guest.join("src/lib.rs"),
        "const _: () = assert!(option_env!(\"RUSTFLAGS\").is_none());\n\
         const _: () = assert!(matches!(env!(\"CARGO_PKG_NAME\").as_bytes(), b\"hello-world\"));\n",
    );
    write(&dir.path().join("examples/README.md"), "no guest");

    let found = workspaces(dir.path()).unwrap();
    assert_eq!(found, [guest.join("Cargo.toml")]);
    check_target().unwrap();
    let built = build(&found[0], &dir.path().join("target")).unwrap();
    assert_eq!(built, [dir.path().join("target/wasm32-wasip2/release/hello_world.wasm")]);
    // A component, not a core module.
    assert_eq!(fs::read(&built[0]).unwrap()[..8], *b"\0asm\x0d\0\x01\0");
}

#[test]
fn what_the_compiler_says_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("Cargo.toml"), "[package]\nname = \"broken\"\nedition = \"2024\"\n[workspace]\n");
    write(&dir.path().join("src/lib.rs"), "compile_error!(\"so broken\");");
    let error = build(&dir.path().join("Cargo.toml"), &dir.path().join("target")).unwrap_err();
    assert!(error.to_string().contains("so broken"), "{error}");
}
