//! What a view says in the terminal and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::num::NonZeroUsize;

use attnviz::analysis::{Link, Pattern, links, patterns};
use attnviz::picture::token_label;
use attnviz::{Attention, Config, Head, Model, Stack, Token};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::console::one_line;
use super::parts::Part;
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
    found: Vec<Found>,
    written: Written,
}

/// The findings about one attention of it.
pub struct Found {
    /// Its name for people; empty for the only one.
    name: &'static str,
    key: &'static str,
    /// Whether it is over tokens of its own, which are then listed.
    own: bool,
    queries: Vec<Token>,
    keys: Vec<Token>,
    links: Vec<WordLink>,
    patterns: Vec<PlainHead>,
}

/// A link with the words at its ends.
struct WordLink {
    link: Link,
    label: String,
    from: String,
    to: String,
    json: Value,
}

/// A head with a plain pattern.
struct PlainHead {
    head: Head,
    label: String,
    pattern: Pattern,
    share: f32,
    json: Value,
}

impl Found {
    /// `words` is the attention by words.
    pub fn new(part: &Part, words: &Attention, top: NonZeroUsize) -> Self {
        let link = |link: Link| {
            let from = token_label(&words.queries[link.query]);
            let to = token_label(&words.keys[link.key]);
            let mut json = json!({
                "head": link.head.to_string(),
                "from": from,
                "to": to,
                "query_word": link.query,
                "key_word": link.key,
                "weight": link.weight,
            });
            part.tag(link.head, &mut json);
            WordLink { label: part.label(link.head), link, from, to, json }
        };
        let plain = |(head, pattern, share): (Head, Pattern, f32)| {
            let head_name = head.to_string();
            let mut json = json!({ "head": head_name, "pattern": pattern, "share": share });
            part.tag(head, &mut json);
            PlainHead { head, label: part.label(head), pattern, share, json }
        };
        // places along the encoder and along the decoder have nothing to do with each other
        let cross = part.stack == Some(Stack::Cross);
        let named =
            |pattern: &Pattern| !cross || matches!(pattern, Pattern::First | Pattern::Separator);
        let patterns = patterns(&part.attention).into_iter().filter(|(_, p, _)| named(p));
        Self {
            name: part.name(),
            key: part.key(),
            own: !cross,
            queries: part.attention.queries.clone(),
            keys: part.attention.keys.clone(),
            links: links(words).into_iter().take(top.get()).map(link).collect(),
            patterns: patterns.map(plain).collect(),
        }
    }
}

impl Report {
    /// Of one input: what was found in each of its attentions.
    pub fn new(source: &Source, named: &Named, found: Vec<Found>, written: Written) -> Self {
        Self {
            model: source.model.clone(),
            revision: source.revision.clone(),
            dtype: source.dtype.clone(),
            input: named.input.clone(),
            notes: named.notes.clone(),
            found,
            written,
        }
    }

    /// Where the pictures are.
    pub fn folder(&self) -> String {
        one_line(&self.written.folder.display().to_string())
    }

    /// One object with everything. What is said of an encoder-decoder names the stack.
    pub fn json(&self) -> Value {
        let links = self.found.iter().flat_map(|one| &one.links).map(|one| one.json.clone());
        let patterns = self.found.iter().flat_map(|one| &one.patterns).map(|one| one.json.clone());
        json!({
            "model": self.model,
            "revision": self.revision,
            "dtype": self.dtype,
            "input": self.input,
            "tokens": self.tokens(),
            "folder": self.written.folder.display().to_string(),
            "files": self.written.files,
            "links": links.collect::<Vec<_>>(),
            "patterns": patterns.collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }

    fn tokens(&self) -> Value {
        let square = self.found.iter().filter(|one| one.own);
        match &*self.found {
            [only] if only.key.is_empty() => json!(only.queries),
            _ => square.map(|one| (one.key.to_owned(), json!(one.queries))).collect(),
        }
    }

    /// The report for people, 80 columns wide; `all` lists every head with a plain pattern.
    pub fn text(&self, model: Option<&Model>, all: bool) -> String {
        let mut text = header(&self.model, model);
        for one in self.found.iter().filter(|one| one.own) {
            let name = if one.name.is_empty() { String::new() } else { format!("{}, ", one.name) };
            let count = format!("{name}{}: ", many(one.queries.len(), "token"));
            text += &wrapped(&count, one.queries.iter().map(listed));
        }
        text += &format!("{}/\n  {}\n", self.folder(), files(&self.written));
        let shown = if all { usize::MAX } else { SHOWN };
        for one in &self.found {
            text.push('\n');
            if !one.name.is_empty() {
                text += &format!("{}\n", one.name.to_uppercase());
            }
            text += &one.link_list();
            text.push('\n');
            text += &one.pattern_list(shown);
        }
        text
    }
}

impl Found {
    fn link_list(&self) -> String {
        if self.links.is_empty() {
            return match self.own {
                true => "No links between different words that are not neighbours.\n".into(),
                false => "No links between different words.\n".into(),
            };
        }
        let which = match self.own {
            true => "between different words that are not neighbours",
            false => "from words of the decoder to others of the encoder",
        };
        let mut text =
            format!("Largest links, by head, {which}\n(where a head attends, not coreference):\n");
        let from: Vec<String> = self.links.iter().map(|one| short(&one.from)).collect();
        let to: Vec<String> = self.links.iter().map(|one| short(&one.to)).collect();
        let widest = |texts: &[String]| texts.iter().map(|text| text.width()).max().unwrap_or(0);
        let (wide_from, wide_to) = (widest(&from), widest(&to));
        let labels = self.links.iter().map(|one| one.label.len()).max().unwrap_or(0).max(7);
        for ((one, from), to) in self.links.iter().zip(&from).zip(&to) {
            let label = &one.label;
            let gap = " ".repeat(wide_from - from.width());
            let end = " ".repeat(wide_to - to.width());
            let weight = one.link.weight;
            let _ = writeln!(text, "  {label:<labels$} {from}{gap} → {to}{end}  {weight:.3}");
        }
        text
    }

    fn pattern_list(&self, shown: usize) -> String {
        if self.patterns.is_empty() {
            return "No head has a plain pattern.\n".into();
        }
        let mut kinds: BTreeMap<Pattern, Vec<&PlainHead>> = BTreeMap::new();
        for one in &self.patterns {
            kinds.entry(one.pattern).or_default().push(one);
        }
        let mut text = "Heads with a plain pattern (mean share of their weight):\n".to_owned();
        for (kind, mut heads) in kinds {
            heads.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.head.cmp(&b.head)));
            let names =
                heads.iter().take(shown).map(|one| format!("{} {:.2}", one.label, one.share));
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
        let mut special = self.keys.iter().filter(|token| token.special);
        let first = special.next().map(|token| one_line(&token.text));
        let last = special.next_back().map(|token| one_line(&token.text));
        match (pattern, first, last) {
            (Pattern::First, Some(first), _) => format!("to {first}"),
            (Pattern::First, None, _) => "to the first token".to_owned(),
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
    let revision = report.revision.as_deref().map(|r| format!("@{r:.8}"));
    let sizes = match &config.decoder {
        None => sizes(config),
        Some(decoder) => format!("encoder {}, decoder {}", sizes(config), sizes(decoder)),
    };
    format!(
        "{}{}: {}, {sizes}, {}\n",
        one_line(name),
        one_line(&revision.unwrap_or_default()),
        config.model_type,
        report.dtypes.join(", "),
    )
}

/// Layers and heads of a stack.
fn sizes(config: &Config) -> String {
    let heads = match (config.head_counts.iter().min(), config.head_counts.iter().max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most} heads"),
        (_, most) => many(most.copied().unwrap_or(0), "head"),
    };
    let groups = config.head_counts.first().map_or(0, |count| count / config.group_size.max(1));
    let groups = (config.group_size > 1).then(|| format!(" in {}", many(groups, "group")));
    format!("{} of {heads}{}", many(config.layers(), "layer"), groups.unwrap_or_default())
}

/// What is in a folder.
pub fn files(written: &Written) -> String {
    let mut parts = Vec::new();
    if written.heads > 0 {
        parts.push(many(written.heads, "head"));
    }
    match written.grids {
        0 => {}
        1 => parts.push("a grid".into()),
        grids => parts.push(many(grids, "grid")),
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
