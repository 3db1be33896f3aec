//! What the macros accept, and what they say when they do not.

#[test]
fn misuse_is_a_compile_error_that_says_what_to_do() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile/pass/*.rs");
    cases.compile_fail("tests/compile/fail/*.rs");
}
