//! The derive of `Schema`, and the CustomResourceDefinition of `#[derive(Resource)]`.

mod attributes;

use proc_macro2::TokenStream;
use quote::quote;
use serde_json::Value;
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Error, Field, Fields, Path, Type};

pub(crate) use attributes::SerdeAttributes;
use attributes::{Rename, SchemaAttributes};

pub(crate) fn derive(item: TokenStream) -> Result<TokenStream, Error> {
    let input: DeriveInput = syn::parse2(item)?;
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new(parameter.span(), "`#[derive(Schema)]` is for types without parameters"));
    }
    let own = SchemaAttributes::parse(&input.attrs)?;
    if let Some((_, span)) = &own.json {
        return Err(Error::new(*span, "`json` is the schema of a field: write it there"));
    }
    let serde = SerdeAttributes::parse_container(&input.attrs)?;
    let (sdk, name) = (&own.sdk, &input.ident);
    let schema = match &input.data {
        Data::Struct(data) => {
            let mut fields = vec![quote!(("type", #sdk::schema::Json::Text("object")))];
            fields.extend(description(sdk, &input.attrs));
            fields.extend(properties(sdk, &data.fields, &serde, &[])?);
            fields.extend(own.fields(sdk));
            quote!(#sdk::schema::Json::Object(&[#(#fields),*]))
        }
        Data::Enum(data) => unit_enum(&own, &serde, &input, data)?,
        Data::Union(_) => return Err(Error::new(input.ident.span(), "a union has no schema")),
    };
    Ok(quote! {
        impl #sdk::schema::Schema for #name {
            const SCHEMA: #sdk::schema::Json = #schema;
        }
    })
}

/// The fields `properties` and `required` of a schema. `skipped` are fields of resources that the API server knows.
pub(crate) fn properties(
    sdk: &Path,
    fields: &Fields,
    container: &SerdeAttributes,
    skipped: &[&str],
) -> Result<Vec<TokenStream>, Error> {
    let Fields::Named(fields) = fields else {
        return Err(Error::new(fields.span(), "a schema has named fields: write a struct with braces"));
    };
    let (mut properties, mut required) = (Vec::new(), Vec::new());
    for field in &fields.named {
        let serde = SerdeAttributes::parse(&field.attrs)?;
        let ident = field.ident.as_ref().map(|ident| ident.to_string().trim_start_matches("r#").to_owned());
        let ident = ident.unwrap_or_default();
        if serde.skip || skipped.contains(&ident.as_str()) {
            continue;
        }
        let name = serde.rename.clone().unwrap_or_else(|| container.rename_all.field(&ident));
        let schema = property(sdk, field, &serde)?;
        properties.push(quote!((#name, #schema)));
        if !serde.default && !container.default && !is_option(&field.ty) {
            required.push(name);
        }
    }
    let mut found = vec![quote!(("properties", #sdk::schema::Json::Object(&[#(#properties),*])))];
    if !required.is_empty() {
        found.push(
            quote!(("required", #sdk::schema::Json::List(&[#(#sdk::schema::Json::Text(#required)),*]))),
        );
    }
    Ok(found)
}

fn property(sdk: &Path, field: &Field, serde: &SerdeAttributes) -> Result<TokenStream, Error> {
    let own = SchemaAttributes::parse(&field.attrs)?;
    let mut fields: Vec<TokenStream> = description(sdk, &field.attrs).into_iter().collect();
    fields.extend(own.fields(sdk));
    let ty = &field.ty;
    let base = match (&own.json, &serde.custom) {
        (Some((schema, _)), _) => {
            let mut schema = schema.clone();
            if let Some(text) = comment(&field.attrs) {
                schema.entry("description").or_insert_with(|| text.into());
            }
            // One line: the section has one document a line.
            let json = Value::Object(schema).to_string();
            return Ok(quote!(#sdk::schema::Json::Raw(#json)));
        }
        (None, Some(span)) => {
            return Err(Error::new(
                *span,
                "what serde makes of this field is not known: add its schema, `#[schema(json = \"{…}\")]`",
            ));
        }
        (None, None) => quote!(<#ty as #sdk::schema::Schema>::SCHEMA),
    };
    if fields.is_empty() {
        return Ok(base);
    }
    Ok(quote!(#sdk::schema::Json::With(&#base, &[#(#fields),*])))
}

fn unit_enum(
    own: &SchemaAttributes,
    container: &SerdeAttributes,
    input: &DeriveInput,
    data: &DataEnum,
) -> Result<TokenStream, Error> {
    let sdk = &own.sdk;
    let mut names = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(
                variant.span(),
                "only an enum of names has a schema; for others, write the schema at the field: `#[schema(json = \"{…}\")]`",
            ));
        }
        let serde = SerdeAttributes::parse(&variant.attrs)?;
        if serde.skip {
            continue;
        }
        names.push(serde.rename.unwrap_or_else(|| container.rename_all.variant(&variant.ident.to_string())));
    }
    let mut fields = vec![
        quote!(("type", #sdk::schema::Json::Text("string"))),
        quote!(("enum", #sdk::schema::Json::List(&[#(#sdk::schema::Json::Text(#names)),*]))),
    ];
    fields.extend(description(sdk, &input.attrs));
    fields.extend(own.fields(sdk));
    Ok(quote!(#sdk::schema::Json::Object(&[#(#fields),*])))
}

/// The documentation comment as a description.
pub(crate) fn description(sdk: &Path, attributes: &[syn::Attribute]) -> Option<TokenStream> {
    comment(attributes).map(|text| quote!(("description", #sdk::schema::Json::Text(#text))))
}

/// The documentation comment.
fn comment(attributes: &[syn::Attribute]) -> Option<String> {
    let lines: Vec<String> = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("doc"))
        .filter_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) => match &pair.value {
                syn::Expr::Lit(literal) => match &literal.lit {
                    syn::Lit::Str(text) => Some(text.value().trim().to_owned()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
        .collect();
    let text = lines.join("\n").trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn is_option(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Option"))
}

impl Rename {
    /// The name of a field, which is written as `size_in_gib`.
    pub(crate) fn field(self, name: &str) -> String {
        match self {
            Self::None | Self::Lower | Self::Snake => name.to_owned(),
            Self::Upper | Self::ScreamingSnake => name.to_ascii_uppercase(),
            Self::Kebab => name.replace('_', "-"),
            Self::ScreamingKebab => name.to_ascii_uppercase().replace('_', "-"),
            Self::Pascal => name.split('_').map(|word| first(word, char::to_ascii_uppercase)).collect(),
            Self::Camel => first(&Self::Pascal.field(name), char::to_ascii_lowercase),
        }
    }

    /// The name of a variant, which is written as `ReadWriteOnce`.
    fn variant(self, name: &str) -> String {
        match self {
            Self::None | Self::Pascal => name.to_owned(),
            Self::Lower => name.to_ascii_lowercase(),
            Self::Upper => name.to_ascii_uppercase(),
            Self::Camel => first(name, char::to_ascii_lowercase),
            Self::Snake => separated(name, '_'),
            Self::Kebab => separated(name, '-'),
            Self::ScreamingSnake => separated(name, '_').to_ascii_uppercase(),
            Self::ScreamingKebab => separated(name, '-').to_ascii_uppercase(),
        }
    }
}

/// Changes the first letter.
fn first(word: &str, change: fn(&char) -> char) -> String {
    let mut letters = word.chars();
    letters.next().map(|letter| change(&letter)).into_iter().chain(letters).collect()
}

/// The words of a variant in lower case, with a separator before each capital but the first.
fn separated(name: &str, separator: char) -> String {
    let mut separated = String::new();
    for (place, letter) in name.char_indices() {
        if place > 0 && letter.is_uppercase() {
            separated.push(separator);
        }
        separated.push(letter.to_ascii_lowercase());
    }
    separated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        for (rule, field, variant) in [
            (Rename::None, "size_in_gib", "ReadWriteOnce"),
            (Rename::Camel, "sizeInGib", "readWriteOnce"),
            (Rename::Pascal, "SizeInGib", "ReadWriteOnce"),
            (Rename::Kebab, "size-in-gib", "read-write-once"),
            (Rename::Snake, "size_in_gib", "read_write_once"),
            (Rename::ScreamingSnake, "SIZE_IN_GIB", "READ_WRITE_ONCE"),
            (Rename::ScreamingKebab, "SIZE-IN-GIB", "READ-WRITE-ONCE"),
            (Rename::Lower, "size_in_gib", "readwriteonce"),
            (Rename::Upper, "SIZE_IN_GIB", "READWRITEONCE"),
        ] {
            assert_eq!(
                (rule.field("size_in_gib"), rule.variant("ReadWriteOnce")),
                (field.into(), variant.into())
            );
        }
        assert_eq!(
            (Rename::Snake.field("type_"), Rename::Camel.field("type_")),
            ("type_".into(), "type".into())
        );
    }
}
