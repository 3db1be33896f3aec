//! [`EventFields`]: the fields of an event of tracing. Used by the layers of logs for people.

use std::fmt::Debug;

use tracing::field::{Field, Visit};

/// The fields of an event as text.
#[derive(Debug, Default)]
pub struct EventFields {
    /// The message.
    pub message: String,
    /// The plugin that it is about.
    pub plugin: Option<String>,
    /// The key that it is about.
    pub key: Option<String>,
    /// What a guest added, as a JSON object.
    pub fields: Option<String>,
    /// All other fields.
    pub rest: Vec<(&'static str, String)>,
}

impl EventFields {
    /// The value of one of the other fields.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.rest.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
    }

    fn set(&mut self, name: &'static str, value: String) {
        match name {
            "message" => self.message = value,
            "plugin" => self.plugin = Some(value),
            "key" => self.key = Some(value),
            "fields" => self.fields = Some(value),
            name => self.rest.push((name, value)),
        }
    }
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field.name(), format!("{value:?}"));
    }
}
