//! What a view says in the terminal and as JSON.

mod found;

use std::path::PathBuf;

use attnviz::{Config, Model, Token};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::console::one_line;
use super::named::{Named, Source};
use super::pictures::Written;
pub use found::Found;

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
    /// The page beside the pictures.
    pub page: Option<PathBuf>,
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
            page: None,
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
        let mut all = json!({
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
        });
        if let Some(page) = &self.page {
            all["page"] = page.display().to_string().into();
        }
        all
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
        if let Some(page) = &self.page {
            text += &(one_line(&page.display().to_string()) + "\n");
        }
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

/// A comma after each but the last.
pub fn commas(items: impl ExactSizeIterator<Item = String>) -> impl Iterator<Item = String> {
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
