//! The script of `pilothouse completions bash` in a real shell.

use std::process::Command;

/// What bash offers for the last of these words.
fn offered(words: &[&str]) -> Vec<String> {
    let last = words.len() - 1;
    let script = format!(
        "source <(\"$PILOTHOUSE\" completions bash) || exit 1
         COMP_WORDS=({}); COMP_CWORD={last}
         _pilothouse pilothouse \"{}\" \"{}\"
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" "),
        words[last],
        words[last - 1]
    );
    let mut bash = Command::new("bash");
    let output =
        bash.args(["--norc", "-c", &script]).env("PILOTHOUSE", env!("CARGO_BIN_EXE_pilothouse")).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_their_values() {
    assert_eq!(offered(&["pilothouse", "sta"]), ["status"]);
    let commands = offered(&["pilothouse", "\"\""]);
    for name in ["check", "completions", "dev", "events", "run", "status"] {
        assert!(commands.iter().any(|offered| offered == name), "{name}: {commands:?}");
    }
    assert!(!commands.iter().any(|offered| offered.starts_with("__")), "{commands:?}");
    assert_eq!(offered(&["pilothouse", "run", "--leader-elect-ren"]), ["--leader-elect-renew-deadline"]);
    assert_eq!(offered(&["pilothouse", "run", "--log-format", "j"]), ["json"]);
    assert_eq!(offered(&["pilothouse", "completions", "z"]), ["zsh"]);
}
