//! The text of a plan, and messages that name a place in it: file, line and key.

use std::ops::{Range, RangeInclusive};
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;

use crate::error::{Error, Result};

/// The text of a plan.
pub(super) struct Page<'a> {
    pub text: &'a str,
    pub path: &'a Path,
}

impl Page<'_> {
    /// All keys.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        toml::from_str(self.text).map_err(|error| self.not_toml(&error))
    }

    fn at(&self, offset: usize) -> String {
        let line = self.text.get(..offset).unwrap_or(self.text).matches('\n').count() + 1;
        format!("{}, line {line}", self.path.display())
    }

    pub fn wrong(&self, span: Range<usize>, key: &str, want: &str, found: impl ToString) -> Error {
        let why = format!("`{key}`: expected {want}, found {}", found.to_string());
        Error::input(self.at(span.start), why)
    }

    pub fn missing(&self, key: &str, want: &str) -> Error {
        Error::input(self.path.display().to_string(), format!("`{key}` is missing: {want}"))
    }

    fn not_toml(&self, error: &toml::de::Error) -> Error {
        let message = error.message().replace('\n', " ");
        let Some(span) = error.span() else {
            return Error::input(self.path.display().to_string(), message);
        };
        // what serde says of a key that it does not know: that one, then all that there are
        let mut names = message.split('`').skip(1).step_by(2);
        let why = match (message.starts_with("unknown field `"), names.next()) {
            (true, Some(key)) => no_such_key(key, &names.collect::<Vec<_>>()),
            _ => match self.key_before(span.start) {
                Some(key) if message.starts_with("invalid") => format!("`{key}`: {message}"),
                _ => message,
            },
        };
        Error::input(self.at(span.start), why)
    }

    /// The key whose value a place is in: on its line or on one above.
    fn key_before(&self, offset: usize) -> Option<&str> {
        let lines = self.text.get(..offset).unwrap_or_default().lines().rev();
        let mut keys = lines.filter_map(|line| line.split_once('=')).map(|(key, _)| key.trim());
        keys.find(|key| !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
    }

    /// A number of things, within what makes sense of them.
    pub fn count(
        &self,
        key: &str,
        found: Option<Spanned<usize>>,
        within: RangeInclusive<usize>,
    ) -> Result<Option<usize>> {
        match found {
            Some(found) if !within.contains(found.get_ref()) => {
                let want = format!("a number from {} to {}", within.start(), within.end());
                Err(self.wrong(found.span(), key, &want, found.get_ref()))
            }
            found => Ok(found.map(Spanned::into_inner)),
        }
    }

    /// One of some names.
    pub fn one_of(&self, key: &str, found: &Spanned<String>, names: &[&str]) -> Result<()> {
        match names.contains(&found.get_ref().as_str()) {
            true => Ok(()),
            false => {
                let want = format!("one of {}", names.join(", "));
                Err(self.wrong(found.span(), key, &want, format!("`{}`", found.get_ref())))
            }
        }
    }

    /// Names without one twice.
    pub fn several(
        &self,
        key: &str,
        found: Spanned<Vec<String>>,
        names: &[&str],
    ) -> Result<Vec<String>> {
        let span = found.span();
        let found = found.into_inner();
        if found.is_empty() {
            return Err(self.wrong(span, key, "at least one", "none"));
        }
        for (i, name) in found.iter().enumerate() {
            self.one_of(key, &Spanned::new(span.clone(), name.clone()), names)?;
            if found[..i].contains(name) {
                return Err(self.wrong(span, key, "each once", format!("`{name}` twice")));
            }
        }
        Ok(found)
    }
}

fn no_such_key(key: &str, known: &[&str]) -> String {
    let likeness = |other: &str| strsim::jaro_winkler(other, key);
    let near = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match near.filter(|near| likeness(near) > 0.8) {
        Some(near) => format!("`{key}`: no such key; did you mean `{near}`?"),
        None => format!("`{key}`: no such key; keys are {}", known.join(", ")),
    }
}
