//! What a view says in the terminal and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use attnviz::analysis::{Link, Pattern};
use attnviz::picture::token_label;
use attnviz::{Attention, Head, Model, Token};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::console::one_line;
use super::pictures::{Named, Source, Written};

pub const WIDTH: usize = 80;
/// Heads of one pattern that are listed unless all are asked for: the strongest.
const SHOWN: usize = 6;

/// The findings about one input.
pub struct Report {
    model: String,
    revision: Option<String>,
    dtype: Option<String>,
    input: Value,
    notes: Vec<String>,
    tokens: Vec<Token>,
    links: Vec<WordLink>,
    patterns: Vec<(Head, Pattern, f32)>,
    written: Written,
}

/// A link with the words at its ends.
struct WordLink {
    link: Link,
    from: String,
    to: String,
}

impl Report {
    /// `links` are links of `words`.
    pub fn new(
        source: &Source,
        named: &Named,
        pieces: &Attention,
        words: &Attention,
        links: Vec<Link>,
        patterns: Vec<(Head, Pattern, f32)>,
        written: Written,
    ) -> Self {
        let ends = |link: Link| WordLink {
            link,
            from: token_label(&words.queries[link.query]),
            to: token_label(&words.keys[link.key]),
        };
        Self {
            model: source.model.clone(),
            revision: source.revision.clone(),
            dtype: source.dtype.clone(),
            input: named.input.clone(),
            notes: named.notes.clone(),
            tokens: pieces.queries.clone(),
            links: links.into_iter().map(ends).collect(),
            patterns,
            written,
        }
    }

    /// Where the pictures are.
    pub fn folder(&self) -> String {
        one_line(&self.written.folder.display().to_string())
    }

    /// One object with everything.
    pub fn json(&self) -> Value {
        let link = |one: &WordLink| {
            json!({
                "head": one.link.head.to_string(),
                "from": one.from,
                "to": one.to,
                "query_word": one.link.query,
                "key_word": one.link.key,
                "weight": one.link.weight,
            })
        };
        let pattern = |&(head, pattern, share): &(Head, Pattern, f32)| json!({ "head": head.to_string(), "pattern": pattern, "share": share });
        json!({
            "model": self.model,
            "revision": self.revision,
            "dtype": self.dtype,
            "input": self.input,
            "tokens": self.tokens,
            "folder": self.written.folder.display().to_string(),
            "files": self.written.files,
            "links": self.links.iter().map(link).collect::<Vec<_>>(),
            "patterns": self.patterns.iter().map(pattern).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }

    /// The report for people, 80 columns wide; `all` lists every head with a plain pattern.
    pub fn text(&self, model: Option<&Model>, all: bool) -> String {
        let mut text = header(&self.model, model);
        let count = format!("{}: ", many(self.tokens.len(), "token"));
        text += &wrapped(&count, self.tokens.iter().map(listed));
        text += &format!("{}/\n  {}\n\n", self.folder(), files(&self.written));
        text += &self.link_list();
        text.push('\n');
        text += &self.pattern_list(if all { usize::MAX } else { SHOWN });
        text
    }

    fn link_list(&self) -> String {
        if self.links.is_empty() {
            return "No links between different words that are not neighbours.\n".into();
        }
        let mut text = "Largest links, by head, between different words that are not neighbours\n\
                        (where a head attends, not coreference):\n"
            .to_owned();
        let from: Vec<String> = self.links.iter().map(|one| short(&one.from)).collect();
        let to: Vec<String> = self.links.iter().map(|one| short(&one.to)).collect();
        let widest = |texts: &[String]| texts.iter().map(|text| text.width()).max().unwrap_or(0);
        let (wide_from, wide_to) = (widest(&from), widest(&to));
        for ((one, from), to) in self.links.iter().zip(&from).zip(&to) {
            let head = one.link.head.to_string();
            let gap = " ".repeat(wide_from - from.width());
            let end = " ".repeat(wide_to - to.width());
            let weight = one.link.weight;
            let _ = writeln!(text, "  {head:<7} {from}{gap} → {to}{end}  {weight:.3}");
        }
        text
    }

    fn pattern_list(&self, shown: usize) -> String {
        if self.patterns.is_empty() {
            return "No head has a plain pattern.\n".into();
        }
        let mut kinds: BTreeMap<Pattern, Vec<(Head, f32)>> = BTreeMap::new();
        for &(head, pattern, share) in &self.patterns {
            kinds.entry(pattern).or_default().push((head, share));
        }
        let mut text = "Heads with a plain pattern (mean share of their weight):\n".to_owned();
        for (kind, mut heads) in kinds {
            heads.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let names = heads.iter().take(shown).map(|(head, share)| format!("{head} {share:.2}"));
            let mut names: Vec<String> = commas(names).collect();
            if heads.len() > shown {
                names.push(format!("and {} more (-v)", heads.len() - shown));
            }
            text += &wrapped(&format!("  {}: ", self.pattern_name(kind)), names);
        }
        text
    }

    /// Special tokens by their own names.
    fn pattern_name(&self, pattern: Pattern) -> String {
        let mut special = self.tokens.iter().filter(|token| token.special);
        let first = special.next().map(|token| one_line(&token.text));
        let last = special.next_back().map(|token| one_line(&token.text));
        match (pattern, first, last) {
            (Pattern::First, Some(first), _) => format!("to {first}"),
            (Pattern::Separator, _, Some(last)) => format!("to {last}"),
            _ => pattern.to_string(),
        }
    }
}

/// A token in a list with spaces between: what an unknown one stood for is in parentheses, the
/// space that begins a word is left out.
pub fn listed(token: &Token) -> String {
    one_line(&match &token.unknown {
        Some(typed) => format!("{}({typed})", token.text),
        None if token.text.trim().is_empty() => token.text.clone(),
        None => token.text.trim_start_matches(' ').to_owned(),
    })
}

/// What ran.
pub fn header(name: &str, model: Option<&Model>) -> String {
    let Some(model) = model else { return format!("{}\n", one_line(name)) };
    let (report, config) = (model.report(), model.config());
    let heads = match (config.head_counts.iter().min(), config.head_counts.iter().max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most} heads"),
        (_, most) => many(most.copied().unwrap_or(0), "head"),
    };
    let revision = report.revision.as_deref().map(|r| format!("@{r:.8}"));
    format!(
        "{}{}: {}, {} of {heads}, {}\n",
        one_line(name),
        one_line(&revision.unwrap_or_default()),
        config.model_type,
        many(config.layers(), "layer"),
        report.dtypes.join(", "),
    )
}

/// What is in a folder.
pub fn files(written: &Written) -> String {
    let mut parts = Vec::new();
    if written.heads > 0 {
        parts.push(many(written.heads, "head"));
    }
    if written.grid {
        parts.push("a grid".into());
    }
    if written.means > 0 {
        parts.push(many(written.means, "layer mean"));
    }
    parts.join(", ")
}

pub fn many(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn commas(items: impl ExactSizeIterator<Item = String>) -> impl Iterator<Item = String> {
    let last = items.len().saturating_sub(1);
    items.enumerate().map(move |(i, item)| if i == last { item } else { item + "," })
}

/// Items after a start, wrapped and indented under the first one.
pub fn wrapped(start: &str, items: impl IntoIterator<Item = String>) -> String {
    let indent = start.width().min(WIDTH / 3);
    let (mut text, mut column) = (start.to_owned(), start.width());
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 && column + 1 + item.width() > WIDTH {
            text.push('\n');
            text += &" ".repeat(indent);
            column = indent;
        } else if i > 0 {
            text.push(' ');
            column += 1;
        }
        column += item.width();
        text += &item;
    }
    text.push('\n');
    text
}

/// At most 24 columns of a word.
fn short(word: &str) -> String {
    let word = one_line(word);
    if word.width() <= 24 {
        return word;
    }
    let mut cut = String::new();
    for c in word.chars() {
        cut.push(c);
        if cut.width() > 22 {
            break;
        }
    }
    cut + "…"
}
