//! The derive of `Schema`, and the CustomResourceDefinition of `#[derive(Resource)]`.

mod attributes;

use proc_macro2::TokenStream;
use quote::quote;
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
    let (sdk, name) = (&own.sdk, &input.ident);
    let schema = match &input.data {
        Data::Struct(data) => {
            let serde = SerdeAttributes::parse(&input.attrs)?;
            let mut fields = vec![quote!(("type", #sdk::schema::Json::Text("object")))];
            fields.extend(description(sdk, &input.attrs));
            fields.extend(properties(sdk, &data.fields, &serde, &[])?);
            fields.extend(own.fields(sdk));
            quote!(#sdk::schema::Json::Object(&[#(#fields),*]))
        }
        Data::Enum(data) => unit_enum(sdk, &input, data)?,
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
        (Some(json), _) => {
            // Beside a text nothing can be added: `With` is about objects that the compiler knows.
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

fn unit_enum(sdk: &Path, input: &DeriveInput, data: &DataEnum) -> Result<TokenStream, Error> {
    let container = SerdeAttributes::parse(&input.attrs)?;
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
    Ok(quote!(#sdk::schema::Json::Object(&[#(#fields),*])))
}

/// The documentation comment as a description.
pub(crate) fn description(sdk: &Path, attributes: &[syn::Attribute]) -> Option<TokenStream> {
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
    (!text.is_empty()).then(|| quote!(("description", #sdk::schema::Json::Text(#text))))
}

fn is_option(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Option"))
}

impl Rename {
    fn words(name: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for part in name.split('_').filter(|part| !part.is_empty()) {
            let mut word = String::new();
            for letter in part.chars() {
                if letter.is_uppercase() && !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                word.extend(letter.to_lowercase());
            }
            words.push(word);
        }
        words
    }

    fn apply(self, name: &str) -> String {
        let words = Self::words(name);
        let capital = |word: &String| {
            let mut letters = word.chars();
            letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
        };
        match self {
            Self::None => name.to_owned(),
            Self::Camel => {
                let rest: String = words.iter().skip(1).map(capital).collect();
                format!("{}{rest}", words.first().map_or("", String::as_str))
            }
            Self::Pascal => words.iter().map(capital).collect(),
            Self::Kebab => words.join("-"),
            Self::Snake => words.join("_"),
            Self::ScreamingSnake => words.join("_").to_uppercase(),
            Self::Lower => words.concat(),
            Self::Upper => words.concat().to_uppercase(),
        }
    }

    pub(crate) fn field(self, name: &str) -> String {
        self.apply(name)
    }

    fn variant(self, name: &str) -> String {
        self.apply(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        assert_eq!(Rename::Camel.field("size_in_gib"), "sizeInGib");
        assert_eq!(Rename::Kebab.variant("ReadWriteOnce"), "read-write-once");
        assert_eq!(Rename::Camel.variant("ReadWriteOnce"), "readWriteOnce");
        assert_eq!(Rename::Pascal.field("size_in_gib"), "SizeInGib");
        assert_eq!(Rename::ScreamingSnake.variant("ReadWrite"), "READ_WRITE");
        assert_eq!(Rename::Lower.variant("ReadWrite"), "readwrite");
        assert_eq!(Rename::None.variant("ReadWrite"), "ReadWrite");
    }
}
