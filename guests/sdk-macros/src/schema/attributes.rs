//! The attributes `#[serde(…)]` and `#[schema(…)]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use serde_json::{Map, Value};
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Lit, LitStr, Path, Token, parse_quote};

/// A rule of `rename_all`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Rename {
    #[default]
    None,
    Camel,
    Pascal,
    Kebab,
    Snake,
    ScreamingSnake,
    ScreamingKebab,
    Lower,
    Upper,
}

/// What a schema takes from serde's attributes.
#[derive(Default)]
pub(crate) struct SerdeAttributes {
    pub(crate) rename_all: Rename,
    pub(crate) rename: Option<String>,
    pub(crate) default: bool,
    pub(crate) skip: bool,
    /// An attribute that changes the form in a way that is not known here.
    pub(crate) custom: Option<Span>,
}

impl SerdeAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self, Error> {
        let mut found = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| found.take(&meta))?;
        }
        Ok(found)
    }

    /// The attributes of a type.
    pub(crate) fn parse_container(attributes: &[Attribute]) -> Result<Self, Error> {
        let found = Self::parse(attributes)?;
        match found.custom {
            None => Ok(found),
            Some(span) => Err(Error::new(
                span,
                "what serde makes of this type is not known: leave `Schema` out, and add the schema at each field of this \
                 type, `#[schema(json = \"{…}\")]`",
            )),
        }
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<(), Error> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "rename_all" => self.rename_all = rename(&text(meta)?)?,
            "rename" => self.rename = Some(text(meta)?.value()),
            "default" => {
                self.default = true;
                skip_value(meta)?;
            }
            "skip" => self.skip = true,
            "flatten" => {
                let message = "a schema has no flattened fields: name the field, or write its schema by hand";
                return Err(Error::new(meta.path.span(), message));
            }
            "untagged" | "tag" | "content" | "with" | "serialize_with" | "deserialize_with" | "try_from"
            | "from" | "into" | "transparent" => {
                self.custom = Some(meta.path.span());
                skip_value(meta)?;
            }
            _ => skip_value(meta)?,
        }
        Ok(())
    }
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr, Error> {
    meta.value()?.parse()
}

/// Skips the value of an attribute that is of no interest.
fn skip_value(meta: &ParseNestedMeta<'_>) -> Result<(), Error> {
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<syn::Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let inner;
        syn::parenthesized!(inner in meta.input);
        inner.parse::<TokenStream>()?;
    }
    Ok(())
}

fn rename(rule: &LitStr) -> Result<Rename, Error> {
    Ok(match rule.value().as_str() {
        "camelCase" => Rename::Camel,
        "PascalCase" => Rename::Pascal,
        "kebab-case" => Rename::Kebab,
        "snake_case" => Rename::Snake,
        "SCREAMING_SNAKE_CASE" => Rename::ScreamingSnake,
        "SCREAMING-KEBAB-CASE" => Rename::ScreamingKebab,
        "lowercase" => Rename::Lower,
        "UPPERCASE" => Rename::Upper,
        _ => return Err(Error::new(rule.span(), "this rule of `rename_all` is not known to `Schema`")),
    })
}

/// The attribute `#[schema(…)]`.
pub(crate) struct SchemaAttributes {
    pub(crate) sdk: Path,
    /// The whole schema, and its place.
    pub(crate) json: Option<(Map<String, Value>, Span)>,
    /// Names and JSON texts of further fields.
    fields: Vec<(&'static str, String)>,
    /// CEL rules and their messages, as JSON texts.
    rules: Vec<String>,
}

const KNOWN: &str = "`#[schema(…)]` takes `minimum`, `maximum`, `min_length`, `max_length`, `min_items`, `max_items`, \
                     `pattern`, `format`, `default`, `rule`, `json` and `crate`";

impl SchemaAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self, Error> {
        let mut found =
            Self { sdk: parse_quote!(::pilothouse_sdk), json: None, fields: Vec::new(), rules: Vec::new() };
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("schema")) {
            attribute.parse_nested_meta(|meta| found.take(&meta))?;
        }
        if let Some((_, span)) = &found.json
            && !(found.fields.is_empty() && found.rules.is_empty())
        {
            return Err(Error::new(
                *span,
                "`json` is the whole schema: write the other attributes into its text",
            ));
        }
        Ok(found)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<(), Error> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let field = match name.as_str() {
            "crate" => {
                self.sdk = meta.value()?.parse()?;
                return Ok(());
            }
            "json" => {
                let text = text(meta)?;
                let schema = serde_json::from_str(&text.value()).map_err(|error| {
                    Error::new(text.span(), format!("a schema is the text of a JSON object: {error}"))
                })?;
                self.json = Some((schema, text.span()));
                return Ok(());
            }
            "rule" => {
                self.rules.push(rule(meta)?);
                return Ok(());
            }
            "minimum" => "minimum",
            "maximum" => "maximum",
            "min_length" => "minLength",
            "max_length" => "maxLength",
            "min_items" => "minItems",
            "max_items" => "maxItems",
            "pattern" => "pattern",
            "format" => "format",
            "default" => "default",
            _ => return Err(meta.error(KNOWN)),
        };
        self.fields.push((field, literal(meta)?));
        Ok(())
    }

    /// The further fields of the schema.
    pub(crate) fn fields(&self, sdk: &Path) -> Vec<TokenStream> {
        let mut all: Vec<TokenStream> =
            self.fields.iter().map(|(name, json)| quote!((#name, #sdk::schema::Json::Raw(#json)))).collect();
        if !self.rules.is_empty() {
            let rules = format!("[{}]", self.rules.join(","));
            all.push(quote!(("x-kubernetes-validations", #sdk::schema::Json::Raw(#rules))));
        }
        all
    }
}

/// A literal as a JSON text.
fn literal(meta: &ParseNestedMeta<'_>) -> Result<String, Error> {
    let value = meta.value()?;
    let sign = if value.peek(Token![-]) {
        value.parse::<Token![-]>()?;
        "-"
    } else {
        ""
    };
    let literal: Lit = value.parse()?;
    match &literal {
        Lit::Int(number) => Ok(format!("{sign}{}", number.base10_digits())),
        // A literal such as `1.` is no JSON.
        Lit::Float(number) => Ok(format!("{sign}{}", Value::from(number.base10_parse::<f64>()?))),
        Lit::Bool(flag) if sign.is_empty() => Ok(flag.value.to_string()),
        Lit::Str(text) if sign.is_empty() => Ok(json_string(&text.value())),
        _ => Err(Error::new(literal.span(), "a value here is a number, a string or a boolean")),
    }
}

/// `rule("self.a > 0")`, or `rule("self.a > 0", "the message")`.
fn rule(meta: &ParseNestedMeta<'_>) -> Result<String, Error> {
    let inner;
    syn::parenthesized!(inner in meta.input);
    let rule: LitStr = inner.parse()?;
    let mut json = format!("{{\"rule\":{}", json_string(&rule.value()));
    if inner.parse::<Option<Token![,]>>()?.is_some() && !inner.is_empty() {
        let message: LitStr = inner.parse()?;
        json.push_str(&format!(",\"message\":{}", json_string(&message.value())));
    }
    json.push('}');
    Ok(json)
}

/// A JSON string.
pub(crate) fn json_string(text: &str) -> String {
    let mut json = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            control if (control as u32) < 0x20 => json.push_str(&format!("\\u{:04x}", control as u32)),
            letter => json.push(letter),
        }
    }
    json.push('"');
    json
}
