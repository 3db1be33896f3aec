//! The attribute macros of `pilothouse-sdk`, which re-exports them. Each turns an `impl` block into the exports of one
//! world.
//!
//! A macro keeps the block and adds `pilothouse_sdk::__export!(WORLD, TYPE);` after it; the SDK defines `__export!`
//! with `macro_rules!`. The macros only read the trait's name and the type between `for` and the braces, so they need
//! no parser.

use proc_macro::{Delimiter, TokenStream, TokenTree};

/// Exports the world `reconciler` from an `impl Reconciler for …` block.
#[proc_macro_attribute]
pub fn reconciler(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand(&arguments, item, "reconciler", "Reconciler")
}

/// Exports the world `batch-reconciler` from an `impl BatchReconciler for …` block.
#[proc_macro_attribute]
pub fn batch_reconciler(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand(&arguments, item, "batch_reconciler", "BatchReconciler")
}

/// Exports the world `event-handler` from an `impl EventHandler for …` block.
#[proc_macro_attribute]
pub fn event_handler(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand(&arguments, item, "event_handler", "EventHandler")
}

/// Exports the world `controller` from an `impl Controller for …` block.
#[proc_macro_attribute]
pub fn controller(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand(&arguments, item, "controller", "Controller")
}

fn expand(arguments: &TokenStream, item: TokenStream, world: &str, wanted: &str) -> TokenStream {
    let added = if arguments.is_empty() {
        implementor(item.clone(), wanted).map_or_else(
            || {
                error(&format!(
                    "`#[{world}]` belongs on an `impl {wanted} for …` block of a type without generic parameters"
                ))
            },
            |guest| parse(&format!("::pilothouse_sdk::__export!({world}, {guest});")),
        )
    } else {
        error(&format!("`#[{world}]` takes no arguments"))
    };
    item.into_iter().chain(added).collect()
}

/// The text of the type in `impl … TRAIT for TYPE { … }`, if the block is one for the wanted trait.
fn implementor(item: TokenStream, wanted: &str) -> Option<String> {
    // Attributes and doc comments may come first.
    let mut tokens = item.into_iter().skip_while(|token| !is_word(token, "impl")).skip(1).peekable();
    if tokens.peek().is_some_and(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '<')) {
        return None;
    }
    let path: Vec<TokenTree> = tokens.by_ref().take_while(|token| !is_word(token, "for")).collect();
    if !path.last().is_some_and(|token| is_word(token, wanted)) {
        return None;
    }
    let guest: TokenStream = tokens.take_while(|token| !is_body(token)).collect();
    if guest.is_empty() { None } else { Some(guest.to_string()) }
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

fn is_body(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

fn error(message: &str) -> TokenStream {
    parse(&format!("::core::compile_error!({message:?});"))
}

fn parse(text: &str) -> TokenStream {
    text.parse().expect("the text is Rust")
}
