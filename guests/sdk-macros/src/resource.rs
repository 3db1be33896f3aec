//! The derive of `Resource`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::meta::ParseNestedMeta;
use syn::parse::ParseBuffer;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, LitStr, Path, Token, parse_quote};

/// The attribute `#[resource(…)]`.
pub(crate) struct Attribute {
    pub(crate) sdk: Path,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) is_namespaced: bool,
    /// The span of `crd`, if a definition is wanted.
    pub(crate) crd: Option<Span>,
    pub(crate) short_names: Vec<LitStr>,
    pub(crate) categories: Vec<LitStr>,
    pub(crate) columns: Vec<Column>,
}

/// A column of `kubectl get`.
pub(crate) struct Column {
    pub(crate) name: LitStr,
    pub(crate) r#type: LitStr,
    pub(crate) path: LitStr,
}

pub(crate) fn derive(item: TokenStream) -> Result<TokenStream, Error> {
    let input: DeriveInput = syn::parse2(item)?;
    let attribute = Attribute::parse(&input)?;
    let metadata = metadata_field(&input)?;
    let definition = crate::crd::definition(&input, &attribute)?;
    let Attribute { sdk, group, version, kind, plural, is_namespaced, .. } = &attribute;
    let (name, metadata) = (&input.ident, &metadata.ty);
    let scope = format_ident!("{}", if *is_namespaced { "Namespaced" } else { "Cluster" });
    Ok(quote! {
        impl #sdk::Resource for #name {
            type Metadata = #metadata;

            fn resource_kind() -> #sdk::Kind {
                #sdk::Kind::new(#group, #version, #kind)
            }

            fn resource_plural() -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(#plural)
            }

            fn resource_scope() -> #sdk::Scope {
                #sdk::Scope::#scope
            }

            fn metadata(&self) -> &#metadata {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut #metadata {
                &mut self.metadata
            }
        }

        #definition
    })
}

impl Attribute {
    fn parse(input: &DeriveInput) -> Result<Self, Error> {
        let mut sdk: Path = parse_quote!(::pilothouse_sdk);
        let [mut group, mut version, mut kind, mut plural] = [const { None::<LitStr> }; 4];
        let mut is_namespaced = true;
        let mut crd = None;
        let (mut short_names, mut categories, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("resource")) {
            attribute.parse_nested_meta(|meta| {
                let Some(name) = meta.path.get_ident().map(ToString::to_string) else {
                    return Err(meta.error(KNOWN));
                };
                match name.as_str() {
                    "crate" => sdk = meta.value()?.parse()?,
                    "group" => group = Some(meta.value()?.parse()?),
                    "version" => version = Some(meta.value()?.parse()?),
                    "kind" => kind = Some(meta.value()?.parse()?),
                    "plural" => plural = Some(meta.value()?.parse()?),
                    "scope" => {
                        let scope: LitStr = meta.value()?.parse()?;
                        is_namespaced = match scope.value().as_str() {
                            "Namespaced" => true,
                            "Cluster" => false,
                            _ => {
                                return Err(Error::new(
                                    scope.span(),
                                    "a scope is \"Namespaced\" or \"Cluster\"",
                                ));
                            }
                        };
                    }
                    "crd" => crd = Some(meta.path.span()),
                    "short_names" => short_names = strings(&meta)?,
                    "categories" => categories = strings(&meta)?,
                    "column" => match <[LitStr; 3]>::try_from(strings(&meta)?) {
                        Ok([name, r#type, path]) => columns.push(Column { name, r#type, path }),
                        Err(_) => {
                            return Err(meta.error(
                                "a column has a name, a type and a JSON path: `column(\"Ready\", \"string\", \".status.ready\")`",
                            ));
                        }
                    },
                    _ => return Err(meta.error(KNOWN)),
                }
                if crd.is_none() && ["short_names", "categories", "column"].contains(&name.as_str()) {
                    return Err(meta.error(
                        "this is part of a CustomResourceDefinition: write `crd` before it, for a kind that your plugin defines",
                    ));
                }
                Ok(())
            })?;
        }
        let Some(version) = version else {
            return Err(Error::new(
                input.ident.span(),
                "`#[derive(Resource)]` needs the API version: add `#[resource(group = \"apps\", version = \"v1\")]`, \
                 without a group for the core group",
            ));
        };
        let text = |literal: Option<LitStr>| literal.map(|literal| literal.value());
        let (group_span, version_span) =
            (group.as_ref().map_or_else(Span::call_site, LitStr::span), version.span());
        let (group, version) = (text(group).unwrap_or_default(), version.value());
        if version.is_empty() || version.contains('/') {
            return Err(Error::new(
                version_span,
                "a version is written without its group, such as \"v1\" or \"v1beta1\"",
            ));
        }
        if group.contains('/') {
            return Err(Error::new(
                group_span,
                "a group is written without its version, such as \"apps\"; the version goes to `version`",
            ));
        }
        let kind = text(kind).unwrap_or_else(|| input.ident.to_string());
        let plural = text(plural).unwrap_or_else(|| plural_of(&kind));
        if let Some(span) = crd
            && !group.contains('.')
        {
            let message = "a kind of your own needs a group with a dot, such as `group = \"example.com\"`: the other \
                           groups belong to Kubernetes";
            return Err(Error::new(span, message));
        }
        Ok(Self { sdk, group, version, kind, plural, is_namespaced, crd, short_names, categories, columns })
    }
}

const KNOWN: &str = "`#[resource(…)]` takes `group`, `version`, `kind`, `plural`, `scope` and `crate`, and for a kind that \
                     your plugin defines `crd`, `short_names`, `categories` and `column`";

/// The strings in parentheses.
fn strings(meta: &ParseNestedMeta<'_>) -> Result<Vec<LitStr>, Error> {
    let inner;
    syn::parenthesized!(inner in meta.input);
    Ok(inner.parse_terminated(ParseBuffer::parse::<LitStr>, Token![,])?.into_iter().collect())
}

/// The plural of a kind, by the rules of English that fit the kinds of Kubernetes.
fn plural_of(kind: &str) -> String {
    let name = kind.to_lowercase();
    let ends = |ending: &str| name.ends_with(ending);
    if ends("endpoints") {
        return name;
    }
    if ["s", "x", "z", "ch", "sh"].iter().any(|ending| ends(ending)) {
        return format!("{name}es");
    }
    match name.strip_suffix('y') {
        Some(stem) if !["a", "e", "i", "o", "u"].iter().any(|vowel| stem.ends_with(vowel)) => {
            format!("{stem}ies")
        }
        _ => format!("{name}s"),
    }
}

/// The field `metadata`.
fn metadata_field(input: &DeriveInput) -> Result<&Field, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            input.ident.span(),
            "a resource is a struct with the fields of the kind: `metadata`, and `spec` and `status` if it has them",
        ));
    };
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new(
            parameter.span(),
            "a resource has no parameters: one struct is one kind of objects",
        ));
    }
    let is_metadata = |field: &&Field| field.ident.as_ref().is_some_and(|name| name == "metadata");
    data.fields.iter().find(is_metadata).ok_or_else(|| {
        Error::new(
            input.ident.span(),
            "a resource needs its metadata: add the field `metadata: pilothouse_sdk::Metadata`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_of_kubernetes() {
        for (kind, plural) in [
            ("Pod", "pods"),
            ("Ingress", "ingresses"),
            ("NetworkPolicy", "networkpolicies"),
            ("Endpoints", "endpoints"),
            ("Gateway", "gateways"),
            ("StorageClass", "storageclasses"),
            ("ConfigMap", "configmaps"),
        ] {
            assert_eq!(plural_of(kind), plural);
        }
    }
}
