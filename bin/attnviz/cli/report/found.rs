//! The findings about one attention.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::num::NonZeroUsize;

use attnviz::analysis::{Link, Pattern, links, patterns};
use attnviz::picture::token_label;
use attnviz::{Attention, Head, Stack, Token};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::{commas, short, wrapped};
use crate::cli::console::one_line;
use crate::cli::parts::Part;

/// The findings about one attention.
pub struct Found {
    /// Its name for people; empty for the only one.
    pub name: &'static str,
    pub key: &'static str,
    /// Whether it is over tokens of its own, which are then listed.
    pub own: bool,
    pub queries: Vec<Token>,
    pub keys: Vec<Token>,
    pub links: Vec<WordLink>,
    pub patterns: Vec<PlainHead>,
}

/// A link with the words at its ends.
pub struct WordLink {
    link: Link,
    label: String,
    from: String,
    to: String,
    pub json: Value,
}

/// A head with a plain pattern.
pub struct PlainHead {
    head: Head,
    label: String,
    pattern: Pattern,
    share: f32,
    pub json: Value,
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

    /// Where its heads attend most.
    pub fn link_list(&self) -> String {
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

    /// Its heads with a plain pattern, so many of each.
    pub fn pattern_list(&self, shown: usize) -> String {
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
