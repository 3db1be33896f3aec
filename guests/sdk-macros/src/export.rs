//! The attributes of the worlds. Each keeps its `impl` block, with a `new` if it has none, and adds a call of the SDK's
//! macro `__export!`, with the spans of the block, so that errors point at the user's code.

use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as Tokens};
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{Error, GenericParam, Ident, ImplItem, ItemImpl, Path, Type, parse_quote, parse_quote_spanned};

pub(crate) fn expand(arguments: TokenStream, item: TokenStream, world: &str, wanted: &str) -> TokenStream {
    let item = Tokens::from(item);
    exports(arguments.into(), &item, world, wanted)
        .unwrap_or_else(|error| {
            let error = error.to_compile_error();
            quote!(#item #error)
        })
        .into()
}

/// The block and the exports.
fn exports(arguments: Tokens, item: &Tokens, world: &str, wanted: &str) -> Result<Tokens, Error> {
    let sdk = parse_arguments(arguments, world)?;
    let mut block = implementor(item, world, wanted)?;
    let guest = &*block.self_ty;
    let world = Ident::new(world, Span::call_site());
    let exports = quote_spanned!(guest.span()=> #sdk::__export!(#world, #guest););
    let is_new = |item: &ImplItem| matches!(item, ImplItem::Fn(function) if function.sig.ident == "new");
    if block.items.iter().any(is_new) {
        return Ok(quote!(#item #exports));
    }
    // With fields, the compiler names those that are missing.
    block.items.push(parse_quote_spanned! {guest.span()=>
        fn new(_config: &#sdk::Config) -> ::std::result::Result<Self, ::std::string::String> {
            ::std::result::Result::Ok(Self {})
        }
    });
    Ok(quote!(#block #exports))
}

/// The path of the SDK.
fn parse_arguments(arguments: Tokens, world: &str) -> Result<Path, Error> {
    let mut sdk = parse_quote!(::pilothouse_sdk);
    let parser = syn::meta::parser(|meta| {
        if !meta.path.is_ident("crate") {
            return Err(meta.error(format!(
                "`#[{world}]` takes `crate = path`, if the dependency pilothouse-sdk has another name"
            )));
        }
        sdk = meta.value()?.parse()?;
        Ok(())
    });
    parser.parse2(arguments)?;
    Ok(sdk)
}

/// The block `impl TRAIT for TYPE { … }`, if it is one for the wanted trait.
fn implementor(item: &Tokens, world: &str, wanted: &str) -> Result<ItemImpl, Error> {
    let belongs = format!("`#[{world}]` belongs on an `impl {wanted} for …` block");
    let block: ItemImpl = syn::parse2(item.clone()).map_err(|error| {
        // An error inside an `impl` block is the user's; anything else is no `impl` block.
        let is_impl = item.clone().into_iter().any(|token| token.to_string() == "impl");
        if is_impl { error } else { Error::new_spanned(item, &belongs) }
    })?;
    let Some((_, path, _)) = &block.trait_ else {
        return Err(Error::new_spanned(
            &block.self_ty,
            format!("{belongs}: write `impl {wanted} for {}`", text(&block.self_ty)),
        ));
    };
    if path.segments.last().is_none_or(|segment| segment.ident != wanted) {
        return Err(Error::new_spanned(
            path,
            format!(
                "{belongs}; another trait has another attribute: `reconciler`, `batch_reconciler`, `event_handler` or `controller`"
            ),
        ));
    }
    // Lifetimes and types of the block would have to be chosen by the host, which knows none.
    if let Some(parameter) = block.generics.params.first() {
        let what = match parameter {
            GenericParam::Lifetime(_) => "a lifetime",
            GenericParam::Type(_) => "a type",
            GenericParam::Const(_) => "a constant",
        };
        return Err(Error::new_spanned(
            parameter,
            format!(
                "a component is of one type: this block has {what} as a parameter; put `#[{world}]` on a block \
                 without parameters, such as `impl {wanted} for Controller<Concrete>`"
            ),
        ));
    }
    Ok(block)
}

fn text(ty: &Type) -> String {
    quote!(#ty).to_string()
}
