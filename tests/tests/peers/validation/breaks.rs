//! How objects are broken: a value somewhere in them becomes another, or goes.

use serde_json::{Value, json};

/// splitmix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    pub(super) fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count as u64).unwrap_or_default()
    }

    fn choose<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }
}

/// Breaks one to three values of an object.
pub(super) fn broken(object: &Value, random: &mut Random) -> Value {
    let mut object = object.clone();
    for _ in 0..=random.below(3) {
        let mut places = Vec::new();
        collect(&object, String::new(), &mut places);
        let place = random.choose(&places);
        break_at(&mut object, &place, random);
    }
    object
}

/// Each value of an object broken alone, in a few ways that never depend on chance.
pub(super) fn each_broken(object: &Value) -> Vec<Value> {
    let mut places = Vec::new();
    collect(object, String::new(), &mut places);
    let mut all = Vec::new();
    for place in places {
        let others = match object.pointer(&place) {
            Some(Value::String(_)) => vec![json!(""), json!("-Bad_")],
            Some(Value::Number(_)) => vec![json!(-1), json!(0), json!(70_000)],
            Some(Value::Array(_)) => vec![json!([])],
            Some(Value::Object(_)) => vec![json!({})],
            _ => continue,
        };
        for other in others.into_iter().chain([Value::Null]) {
            let mut broken = object.clone();
            if let Some(value) = broken.pointer_mut(&place) {
                *value = other;
            }
            all.push(broken);
        }
    }
    all
}

/// The pointers of all values that may be broken.
fn collect(value: &Value, pointer: String, into: &mut Vec<String>) {
    let is_fixed = matches!(pointer.as_str(), "" | "/apiVersion" | "/kind" | "/metadata" | "/metadata/name");
    if !is_fixed {
        into.push(pointer.clone());
    }
    match value {
        Value::Array(list) => {
            for (index, one) in list.iter().enumerate() {
                collect(one, format!("{pointer}/{index}"), into);
            }
        }
        Value::Object(object) => {
            for (name, one) in object {
                collect(one, format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")), into);
            }
        }
        _ => {}
    }
}

fn break_at(object: &mut Value, pointer: &str, random: &mut Random) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    let name = name.replace("~1", "/").replace("~0", "~");
    let Some(value) = object.pointer_mut(pointer) else { return };
    let other = match value {
        Value::String(text) => another_text(text, random),
        Value::Number(number) => Some(another_number(number.as_i64().unwrap_or_default(), random)),
        Value::Bool(flag) => random.choose(&[Some((!*flag).into()), None]),
        Value::Array(list) => another_list(list, random),
        Value::Object(map) => another_map(map, random),
        Value::Null => None,
    };
    match (object.pointer_mut(parent), other) {
        (_, Some(other)) => {
            if let Some(value) = object.pointer_mut(pointer) {
                *value = other;
            }
        }
        (Some(Value::Object(parent)), None) => {
            parent.remove(&name);
        }
        (Some(Value::Array(parent)), None) => {
            parent.remove(name.parse().unwrap_or_default());
        }
        _ => {}
    }
}

fn another_text(text: &str, random: &mut Random) -> Option<Value> {
    const WORDS: &[&str] = &[
        "",
        "Bogus",
        "-Bad_",
        "has space",
        "UPPER",
        "..",
        "../up",
        "a/../b",
        "/absolute",
        "10.0.0.300",
        "010.0.0.1",
        "127.0.0.1",
        "::1",
        "5",
        "0",
        "-1",
        "None",
        "a/b/c",
        "a.b",
        "example.com/a",
        "a--b",
        "99%",
        "200%",
        "*",
        "*.a",
        "1500m",
        "-2",
        "10Gi",
        "Always",
        "Never",
        "http",
        "TCP",
        "Exists",
        "In",
        "Gt",
        "x y",
        "A=b",
        "a,b",
        "https://a",
        "8080",
    ];
    let shape = random.below(12);
    match shape {
        0 | 1 => None,
        2 => Some("".into()),
        3 => Some("a".repeat(64).into()),
        4 => Some("b".repeat(300).into()),
        5 => Some(format!("{text}-").into()),
        6 => Some(format!("{text}2").into()),
        _ => Some(random.choose(WORDS).into()),
    }
}

fn another_number(number: i64, random: &mut Random) -> Value {
    random
        .choose(&[-1, 0, 1, 2, 101, 3601, 65536, 70000, 1_000_001, i64::from(i32::MAX), number + 1, -number])
        .into()
}

fn another_list(list: &[Value], random: &mut Random) -> Option<Value> {
    match random.below(5) {
        0 => None,
        1 => Some(json!([])),
        2 => Some(list.iter().chain(list.first()).cloned().collect()),
        3 => Some(list.iter().rev().cloned().collect()),
        _ => Some(list.iter().skip(1).cloned().collect()),
    }
}

fn another_map(map: &serde_json::Map<String, Value>, random: &mut Random) -> Option<Value> {
    let mut other = map.clone();
    match random.below(5) {
        0 => return None,
        1 => return Some(json!({})),
        2 => {
            // In a map of texts a key that is none; elsewhere a field that nobody knows.
            other.insert("-not a key-".to_owned(), "-not a value-".into());
        }
        3 => {
            let name = random.choose(
                &map.keys()
                    .cloned()
                    .collect::<Vec<_>>()
                    .into_iter()
                    .chain([String::new()])
                    .collect::<Vec<_>>(),
            );
            other.remove(&name);
        }
        _ => {
            // A union of which too much is said.
            for (name, value) in [
                ("emptyDir", json!({})),
                ("exec", json!({"command": ["true"]})),
                ("resource", json!({"kind": "A", "name": "b"})),
                ("value", json!("x")),
            ] {
                other.entry(name).or_insert(value);
            }
        }
    }
    Some(other.into())
}
