//! Projected volumes, and files with what a container knows of its Pod. Sources that a server ignores unless a feature is switched on
//! (trust bundles, certificates of Pods) are not looked at.

use std::collections::HashSet;

use super::environment::{resource_field, selected_field};
use super::node::Node;
use super::paths::{file_mode, local, local_at};
use super::volumes::key_to_path;
use crate::schema::Causes;

const DOWNWARD_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Files of the downward API; causes of its files name the volume.
pub(super) fn downward_api(volume: &Node<'_, '_>, causes: &mut Causes) {
    file_mode(&volume.field("defaultMode"), causes);
    volume.field("items").each().for_each(|file| downward_file(volume, &file, causes));
}

fn downward_file(at: &Node<'_, '_>, file: &Node<'_, '_>, causes: &mut Causes) {
    // The path of causes is that of the volume, the value that of the file.
    let file = &file.placed(at);
    file.field("path").is_given(causes);
    local(&file.field("path"), causes);
    let (field, resource) = (file.field("fieldRef"), file.field("resourceFieldRef"));
    if field.is_set() {
        selected_field(&field, DOWNWARD_FIELDS, causes);
        if resource.is_set() {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            file.invalid_as(causes, &"resource".into(), why);
        }
    } else if resource.is_set() {
        resource_field(&resource, true, causes);
    } else {
        file.required(causes, "one of fieldRef and resourceFieldRef is required");
    }
    file_mode(&file.field("mode"), causes);
}

/// A volume of several sources.
pub(super) fn projected(volume: &Node<'_, '_>, causes: &mut Causes) {
    file_mode(&volume.field("defaultMode"), causes);
    let mut paths = HashSet::new();
    for source in volume.field("sources").each() {
        let mut count = 0;
        for name in ["secret", "configMap"] {
            let keys = source.field(name);
            if !keys.is_set() {
                continue;
            }
            count += 1;
            keys.field("name").is_given(causes);
            for item in keys.field("items").each() {
                key_to_path(&item, causes);
                let path = item.field("path").text();
                if !path.is_empty() && !paths.insert(path) {
                    volume.invalid_as(causes, &keys.field("name").text().into(), CONFLICT);
                }
            }
        }
        let downward = source.field("downwardAPI");
        if downward.is_set() {
            count += 1;
            for file in downward.field("items").each() {
                downward_file(&downward, &file, causes);
                take(&mut paths, volume, file.field("path").text(), causes);
            }
        }
        let token = source.field("serviceAccountToken");
        if token.is_set() {
            count += 1;
            token_source(volume, &token, causes);
        }
        if count > 1 {
            source.forbidden(causes, "may not specify more than 1 volume type per source");
        }
    }
}

const CONFLICT: &str = "conflicting duplicate paths";

fn take<'v>(paths: &mut HashSet<&'v str>, volume: &Node<'_, '_>, path: &'v str, causes: &mut Causes) {
    if !path.is_empty() && !paths.insert(path) {
        volume.invalid_as(causes, &path.into(), CONFLICT);
    }
}

fn token_source(volume: &Node<'_, '_>, token: &Node<'_, '_>, causes: &mut Causes) {
    token_lifetime(&token.field("expirationSeconds"), causes);
    // Causes name the volume and not the source.
    let at = volume.field("path");
    if token.field("path").text().is_empty() {
        at.required(causes, "");
    } else {
        local_at(&at, &token.field("path"), causes);
    }
}

/// For how long a token is good.
pub(super) fn token_lifetime(seconds: &Node<'_, '_>, causes: &mut Causes) {
    if seconds.int_or_zero() < 600 {
        seconds.invalid_number(causes, "may not specify a duration less than 10 minutes");
    }
    if seconds.int_or_zero() > 1 << 32 {
        seconds.invalid_number(causes, "may not specify a duration larger than 2^32 seconds");
    }
}
