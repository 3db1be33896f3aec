//! The CustomResourceDefinition of `#[derive(Resource)]` with `crd`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, LitStr, Path};

use crate::resource::{Attribute, Column};
use crate::schema::{SerdeAttributes, description, properties};

/// The implementation of `CustomResource`, and the custom section; nothing without `crd`.
pub(crate) fn definition(input: &DeriveInput, attribute: &Attribute) -> Result<TokenStream, Error> {
    let (Some(_), Data::Struct(data)) = (attribute.crd, &input.data) else { return Ok(TokenStream::new()) };
    let Attribute { sdk, group, version, kind, plural, is_namespaced, .. } = attribute;
    let name = &input.ident;
    let json = quote!(#sdk::schema::Json);
    let serde = SerdeAttributes::parse_container(&input.attrs)?;
    let mut schema = vec![quote!(("type", #json::Text("object")))];
    schema.extend(description(sdk, &input.attrs));
    // The API server knows `metadata` by itself.
    schema.extend(properties(sdk, &data.fields, &serde, &["metadata"])?);

    let mut names = vec![quote!(("kind", #json::Text(#kind))), quote!(("plural", #json::Text(#plural)))];
    let singular = kind.to_lowercase();
    names.push(quote!(("singular", #json::Text(#singular))));
    names.extend(list(sdk, "shortNames", &attribute.short_names));
    names.extend(list(sdk, "categories", &attribute.categories));

    let mut served = vec![
        quote!(("name", #json::Text(#version))),
        quote!(("served", #json::Raw("true"))),
        quote!(("storage", #json::Raw("true"))),
        quote!(("schema", #json::Object(&[("openAPIV3Schema", #json::Object(&[#(#schema),*]))]))),
    ];
    if data.fields.iter().any(|field| field.ident.as_ref().is_some_and(|name| name == "status")) {
        served.push(quote!(("subresources", #json::Object(&[("status", #json::Object(&[]))]))));
    }
    if !attribute.columns.is_empty() {
        let columns = attribute.columns.iter().map(|Column { name, r#type, path }| {
            quote!(#json::Object(&[
                ("name", #json::Text(#name)), ("type", #json::Text(#r#type)), ("jsonPath", #json::Text(#path)),
            ]))
        });
        served.push(quote!(("additionalPrinterColumns", #json::List(&[#(#columns),*]))));
    }
    let (full_name, scope) =
        (format!("{plural}.{group}"), if *is_namespaced { "Namespaced" } else { "Cluster" });
    Ok(quote! {
        const _: () = {
            const DEFINITION: #json = #json::Object(&[
                ("apiVersion", #json::Text("apiextensions.k8s.io/v1")),
                ("kind", #json::Text("CustomResourceDefinition")),
                ("metadata", #json::Object(&[("name", #json::Text(#full_name))])),
                ("spec", #json::Object(&[
                    ("group", #json::Text(#group)),
                    ("names", #json::Object(&[#(#names),*])),
                    ("scope", #json::Text(#scope)),
                    ("versions", #json::List(&[#json::Object(&[#(#served),*])])),
                ])),
            ]);
            const LENGTH: usize = #sdk::schema::length(&DEFINITION);

            // A custom section of the component: tools read it, and no memory holds it.
            #[cfg(target_family = "wasm")]
            #[allow(unsafe_code)]
            #[used]
            #[unsafe(link_section = "pilothouse.crd")]
            static SECTION: [u8; LENGTH] = #sdk::schema::bytes(&DEFINITION);

            impl #sdk::schema::CustomResource for #name {
                const DEFINITION: &'static [u8] = &#sdk::schema::bytes::<LENGTH>(&DEFINITION);
            }
        };
    })
}

fn list(sdk: &Path, name: &str, texts: &[LitStr]) -> Option<TokenStream> {
    let json = quote!(#sdk::schema::Json);
    (!texts.is_empty()).then(|| quote!((#name, #json::List(&[#(#json::Text(#texts)),*]))))
}
