//! [`Classes`]: the sets of letters of one expression, each kept once.
//!
//! A class is a sorted list of ranges that do not touch. Case folding walks a table of the letters that have other forms,
//! not the letters of a range, and everything that a class costs is counted in [`Classes::work`].

use std::collections::HashMap;
use std::sync::LazyLock;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange, HirKind};

/// The last letter of Unicode.
const LAST: u32 = 0x10_FFFF;
/// The last letter that has another form of the same letter.
const LAST_FOLDED: u32 = 0x1_E943;

/// From a letter to a letter, both included.
pub(super) type LetterRange = (u32, u32);

/// Names a class in its [`Classes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClassId(pub(super) usize);

/// The classes of an expression.
#[derive(Debug, Default)]
pub(super) struct Classes {
    ids: HashMap<Vec<LetterRange>, ClassId>,
    pub(super) list: Vec<Vec<LetterRange>>,
    /// How many ranges and folded letters were looked at.
    pub(super) work: usize,
}

impl Classes {
    /// The class of these ranges, in any order.
    pub(super) fn of(&mut self, ranges: Vec<LetterRange>) -> ClassId {
        self.work += ranges.len();
        let clean = cleaned(ranges);
        if let Some(known) = self.ids.get(&clean) {
            return *known;
        }
        let id = ClassId(self.list.len());
        self.list.push(clean.clone());
        self.ids.insert(clean, id);
        id
    }

    /// These ranges with all forms of their letters.
    pub(super) fn folded(&mut self, ranges: Vec<LetterRange>) -> Vec<LetterRange> {
        static FORMS: LazyLock<Vec<(u32, Vec<u32>)>> = LazyLock::new(other_forms);
        let mut ranges = cleaned(ranges);
        for index in 0..ranges.len() {
            let (first, last) = ranges[index];
            let from = FORMS.partition_point(|(letter, _)| *letter < first);
            let to = FORMS.partition_point(|(letter, _)| *letter <= last);
            self.work += 1 + (to - from);
            ranges.extend(FORMS[from..to].iter().flat_map(|(_, forms)| forms).map(|form| (*form, *form)));
        }
        cleaned(ranges)
    }
}

/// Every letter that has other forms, with these.
fn other_forms() -> Vec<(u32, Vec<u32>)> {
    let letters = (0..=LAST_FOLDED).filter_map(char::from_u32);
    letters
        .filter_map(|letter| {
            let mut class = ClassUnicode::new([ClassUnicodeRange::new(letter, letter)]);
            class.try_case_fold_simple().ok()?;
            let forms = class.iter().flat_map(|range| u32::from(range.start())..=u32::from(range.end()));
            let others: Vec<u32> = forms.filter(|form| *form != u32::from(letter)).collect();
            (!others.is_empty()).then_some((u32::from(letter), others))
        })
        .collect()
}

/// Ranges in order, with those merged that touch.
pub(super) fn cleaned(mut ranges: Vec<LetterRange>) -> Vec<LetterRange> {
    ranges.sort_unstable();
    let mut clean: Vec<LetterRange> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match clean.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => clean.push((first, last)),
        }
    }
    clean
}

/// All letters that are in none of these ranges.
pub(super) fn negated(ranges: Vec<LetterRange>) -> Vec<LetterRange> {
    let mut rest = Vec::new();
    let mut next = 0;
    for (first, last) in cleaned(ranges) {
        if next < first {
            rest.push((next, first - 1));
        }
        next = last + 1;
    }
    if next <= LAST {
        rest.push((next, LAST));
    }
    rest
}

/// The classes of Perl: `\d`, `\s` and `\w`, which know ASCII alone.
pub(super) fn perl(letter: char) -> Option<&'static [(char, char)]> {
    Some(match letter.to_ascii_lowercase() {
        'd' => &[('0', '9')],
        's' => &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')],
        'w' => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        _ => return None,
    })
}

/// The classes of POSIX, by the name in `[:name:]`.
pub(super) fn posix(name: &str) -> Option<&'static [(char, char)]> {
    Some(match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "ascii" => &[('\0', '\x7f')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "word" => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    })
}

/// The scripts whose names Go finds: those of one word.
const SCRIPTS: &str = "Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo Brahmi Braille \
    Buginese Buhid Carian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Dogra \
    Duployan Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo Hatran \
    Hebrew Hiragana Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki Khudawadi Lao Latin Lepcha Limbu \
    Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Medefaidrin Miao Modi Mongolian Mro Multani \
    Myanmar Nabataean Nandinagari Newa Nko Nushu Ogham Oriya Osage Osmanya Palmyrene Phoenician Rejang Runic Samaritan \
    Saurashtra Sharada Shavian Siddham Sinhala Sogdian Soyombo Sundanese Syriac Tagalog Tagbanwa Takri Tamil Tangsa Tangut \
    Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Yezidi Yi";
/// The categories, and their long names without what divides the words.
const CATEGORIES: &str = "C Cc Cf Cn Co L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp \
    Zs Closepunctuation=Pe Combiningmark=M Connectorpunctuation=Pc Control=Cc Currencysymbol=Sc Dashpunctuation=Pd \
    Decimalnumber=Nd Enclosingmark=Me Finalpunctuation=Pf Format=Cf Initialpunctuation=Pi Letter=L Letternumber=Nl \
    Lineseparator=Zl Lowercaseletter=Ll Mark=M Mathsymbol=Sm Modifierletter=Lm Modifiersymbol=Sk Nonspacingmark=Mn Number=N \
    Openpunctuation=Ps Other=C Otherletter=Lo Othernumber=No Otherpunctuation=Po Othersymbol=So Paragraphseparator=Zp \
    Privateuse=Co Punctuation=P Separator=Z Spaceseparator=Zs Spacingmark=Mc Symbol=S Titlecaseletter=Lt Unassigned=Cn \
    Uppercaseletter=Lu Cntrl=Cc Digit=Nd Punct=P";

/// The class of a name in `\p{…}`; Go ignores its case and what divides its words.
pub(super) fn unicode(name: &str) -> Option<Vec<LetterRange>> {
    let mut canonical = String::new();
    for letter in name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')) {
        let is_first = canonical.is_empty();
        canonical.push(if is_first { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() });
    }
    match canonical.as_str() {
        "Any" => return Some(vec![(0, LAST)]),
        "Ascii" => return Some(vec![(0, 0x7f)]),
        "Assigned" => return Some(negated(known("gc=Cn")?)),
        "Cs" | "Surrogate" => return Some(vec![(0xD800, 0xDFFF)]),
        "Lc" | "Casedletter" => {
            let parts = ["gc=Lu", "gc=Ll", "gc=Lt"].into_iter().filter_map(known);
            return Some(cleaned(parts.flatten().collect()));
        }
        _ => {}
    }
    if SCRIPTS.split_ascii_whitespace().any(|script| script == canonical) {
        return known(&format!("sc={canonical}"));
    }
    CATEGORIES.split_ascii_whitespace().find_map(|one| {
        let (long, short) = one.split_once('=').unwrap_or((one, one));
        (long == canonical).then(|| known(&format!("gc={short}"))).flatten()
    })
}

/// A class that `regex-syntax` knows by this name.
fn known(name: &str) -> Option<Vec<LetterRange>> {
    let parsed = ParserBuilder::new().build().parse(&format!("\\p{{{name}}}")).ok()?;
    match parsed.kind() {
        HirKind::Class(regex_syntax::hir::Class::Unicode(class)) => {
            Some(class.iter().map(|range| (u32::from(range.start()), u32::from(range.end()))).collect())
        }
        _ => None,
    }
}
