//! The JSONPath of printer columns, the subset of kubectl's dialect that CRDs use.
//!
//! | step | selects |
//! |---|---|
//! | `.name`, `.a\.b/c`, `['a\.b/c']` | a member; a dot in a name is escaped, inside quotes too |
//! | `.*` | all members or elements |
//! | `[1]`, `[-1]`, `[1:3]`, `[::2]`, `[*]` | elements |
//! | `[?(@.type=="Ready")]` | the elements for which the comparison holds; without one, those that have the path |
//!
//! What is absent selects nothing; an index or a filter applied to what is no list, and an index out of range, are
//! errors.

use serde_json::Value;

/// A parsed path.
#[derive(Debug, PartialEq)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Debug, PartialEq)]
enum Step {
    Member(String),
    All,
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: usize,
    },
    /// One element; not a slice of one, as the last may be `-1`.
    Index(i64),
    Filter {
        left: Operand,
        comparison: Option<(Comparison, Operand)>,
    },
}

#[derive(Debug, PartialEq)]
enum Operand {
    Path(JsonPath),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// `None` if the text is not in the subset.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            rest = match rest.strip_prefix('[') {
                Some(inside) => bracket(inside, &mut steps)?,
                None => member(rest.strip_prefix('.')?, &mut steps),
            };
        }
        Some(Self(steps))
    }

    /// What the path selects; `None` if it cannot be applied.
    pub(super) fn select<'a>(&self, root: &'a Value) -> Option<Vec<&'a Value>> {
        let mut selected = vec![root];
        for step in &self.0 {
            let mut next = Vec::new();
            for value in selected {
                step.select(value, &mut next)?;
            }
            selected = next;
        }
        Some(selected)
    }
}

/// Reads a name up to the next `.` or `[`; a single dot at the end means nothing.
fn member<'t>(text: &'t str, steps: &mut Vec<Step>) -> &'t str {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            '.' | '[' => {
                end = at;
                break;
            }
            c => name.push(c),
        }
    }
    match name.as_str() {
        "" => {}
        "*" => steps.push(Step::All),
        _ => steps.push(Step::Member(name)),
    }
    &text[end..]
}

/// Reads what follows a `[`.
fn bracket<'t>(text: &'t str, steps: &mut Vec<Step>) -> Option<&'t str> {
    if let Some(filter) = text.strip_prefix("?(") {
        let end = end_of_filter(filter)?;
        steps.push(parse_filter(&filter[..end])?);
        return Some(&filter[end + 2..]);
    }
    let (inside, rest) = text.split_once(']')?;
    if let Some(name) = inside.strip_prefix('\'') {
        // As the server does: what is quoted is a path of its own, so its dots separate unless they are escaped.
        steps.extend(JsonPath::parse(&format!(".{}", name.strip_suffix('\'')?))?.0);
    } else if inside == "*" {
        steps.push(Step::Slice { start: None, end: None, step: 1 });
    } else if let Ok(index) = inside.parse() {
        steps.push(Step::Index(index));
    } else {
        let bound = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
        let mut parts = inside.splitn(3, ':');
        let (start, end) = (bound(parts.next()?)?, bound(parts.next()?)?);
        let step = bound(parts.next().unwrap_or_default())?.unwrap_or(1);
        steps.push(Step::Slice { start, end, step: usize::try_from(step).ok().filter(|step| *step > 0)? });
    }
    Some(rest)
}

/// Where the `)]` of a filter is, outside of quotes.
fn end_of_filter(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if text[at..].starts_with(")]") => return Some(at),
            _ => {}
        }
    }
    None
}

fn parse_filter(text: &str) -> Option<Step> {
    let Some(at) = text.find(['=', '!', '<', '>']) else {
        return Some(Step::Filter { left: operand(text)?, comparison: None });
    };
    const OPERATORS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let (operator, comparison) = OPERATORS.iter().find(|(operator, _)| text[at..].starts_with(operator))?;
    let right = operand(&text[at + operator.len()..])?;
    Some(Step::Filter { left: operand(&text[..at])?, comparison: Some((*comparison, right)) })
}

fn operand(text: &str) -> Option<Operand> {
    let text = text.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            return Some(Operand::Literal(inner.strip_suffix(quote)?.into()));
        }
    }
    if let Some(path) = text.strip_prefix('@') {
        return Some(Operand::Path(JsonPath::parse(path)?));
    }
    let literal: Value = serde_json::from_str(text).ok()?;
    (literal.is_number() || literal.is_boolean()).then_some(Operand::Literal(literal))
}

impl Step {
    fn select<'a>(&self, value: &'a Value, selected: &mut Vec<&'a Value>) -> Option<()> {
        if value.is_null() && !matches!(self, Self::Filter { .. }) {
            return Some(());
        }
        match self {
            Self::Member(name) => selected.extend(value.as_object().and_then(|members| members.get(name))),
            Self::All => match value {
                Value::Object(members) => selected.extend(members.values()),
                Value::Array(elements) => selected.extend(elements),
                _ => {}
            },
            Self::Index(index) => {
                let elements = value.as_array()?;
                let from_start =
                    if *index < 0 { index.checked_add_unsigned(elements.len() as u64)? } else { *index };
                selected.push(elements.get(usize::try_from(from_start).ok()?)?);
            }
            Self::Slice { start, end, step } => {
                let elements = value.as_array()?;
                let len = i64::try_from(elements.len()).ok()?;
                let from_start = |bound: i64| if bound < 0 { bound + len } else { bound };
                let (start, end) = (from_start(start.unwrap_or(0)), from_start(end.unwrap_or(len)));
                if start != end {
                    let start = usize::try_from(start).ok().filter(|start| *start < elements.len())?;
                    selected.extend(elements.get(start..usize::try_from(end).ok()?)?.iter().step_by(*step));
                }
            }
            Self::Filter { left, comparison } => {
                for element in value.as_array()? {
                    if holds(left, comparison.as_ref(), element)? {
                        selected.push(element);
                    }
                }
            }
        }
        Some(())
    }
}

/// Whether an element passes a filter; `None` if what is compared cannot be.
fn holds(left: &Operand, comparison: Option<&(Comparison, Operand)>, element: &Value) -> Option<bool> {
    let Some((comparison, right)) = comparison else {
        return Some(left.values(element).is_some_and(|values| !values.is_empty()));
    };
    let (left, right) = (left.values(element)?, right.values(element)?);
    match (left.as_slice(), right.as_slice()) {
        ([], _) | (_, []) => Some(false),
        ([left], [right]) => comparison.holds(left, right),
        _ => None,
    }
}

impl Operand {
    fn values<'a>(&'a self, element: &'a Value) -> Option<Vec<&'a Value>> {
        match self {
            Self::Path(path) => path.select(element),
            Self::Literal(value) => Some(vec![value]),
        }
    }
}

impl Comparison {
    /// Only values of the same type compare, and booleans only for equality.
    fn holds(self, left: &Value, right: &Value) -> Option<bool> {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
                match (left.as_i64(), right.as_i64()) {
                    (Some(left), Some(right)) => left.cmp(&right),
                    _ => left.as_f64()?.total_cmp(&right.as_f64()?),
                }
            }
            (Value::Bool(left), Value::Bool(right)) if matches!(self, Self::Equal | Self::NotEqual) => {
                left.cmp(right)
            }
            _ => return None,
        };
        Some(match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        })
    }
}
