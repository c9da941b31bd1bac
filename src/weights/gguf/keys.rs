//! Metadata under the name of the model's architecture.

use crate::error::{Error, Result};
use crate::gguf::{self, Header};

/// How llama.cpp writes a family.
pub(super) struct Architecture {
    /// Its name, which its keys begin with, there and in transformers.
    pub name: &'static str,
    /// What transformers calls the model.
    pub class: &'static str,
    /// Whether a rotary position turns neighbours, for which it has put the rows of queries and keys
    /// in pairs.
    pub paired: bool,
    /// Whether the configuration says what has biases.
    pub says_biases: bool,
}

const ARCHITECTURES: [Architecture; 2] = [
    Architecture { name: "llama", class: "LlamaForCausalLM", paired: true, says_biases: true },
    Architecture { name: "qwen2", class: "Qwen2ForCausalLM", paired: false, says_biases: false },
];

impl Architecture {
    /// The one of a file.
    ///
    /// # Errors
    /// [`Error::Config`] for another one and for a part of a file.
    pub fn of(header: &Header) -> Result<&'static Self> {
        let key = "general.architecture";
        let name = header.text(key)?;
        let Some(found) = ARCHITECTURES.iter().find(|one| Some(one.name) == name) else {
            let known = ARCHITECTURES.map(|one| one.name).join(", ");
            let want = format!("an architecture that attnviz runs ({known})");
            return Err(header.wrong(key, &want, header.get(key)));
        };
        if header.whole("split.count")?.is_some_and(|parts| parts > 1) {
            let want = "one file: merge the parts with `llama-gguf-split --merge`";
            return Err(header.wrong("split.count", want, header.get("split.count")));
        }
        Ok(found)
    }
}

/// Keys of one architecture, each remembered.
pub(super) struct Keys<'a> {
    pub header: &'a Header,
    pub architecture: &'static Architecture,
    asked: Vec<String>,
}

impl<'a> Keys<'a> {
    pub fn new(header: &'a Header, architecture: &'static Architecture) -> Self {
        Self { header, architecture, asked: Vec::new() }
    }

    pub fn name(&mut self, key: &str) -> String {
        let name = self.whole_name(key);
        self.asked.push(name.clone());
        name
    }

    pub fn get(&mut self, key: &str) -> Option<&'a gguf::Value> {
        let name = self.name(key);
        self.header.get(&name)
    }

    pub fn whole_name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture.name)
    }

    pub fn wrong(&self, key: &str, want: &str) -> Error {
        let name = self.whole_name(key);
        self.header.wrong(&name, want, self.header.get(&name))
    }

    pub fn number(&mut self, key: &str) -> Result<Option<f64>> {
        let name = self.name(key);
        Ok(self.header.number(&name)?.map(decimal))
    }

    /// A size above 0, the same for all layers where there is one for each.
    pub fn size(&mut self, key: &str) -> Result<Option<u64>> {
        let whole = match self.get(key) {
            None => return Ok(None),
            Some(gguf::Value::List(list)) => {
                list.first().filter(|first| list.iter().all(|one| one == *first))
            }
            Some(value) => Some(value),
        };
        let whole = whole.and_then(gguf::Value::whole).filter(|&n| n > 0 && n <= 1 << 20);
        let want = "a whole number above 0, the same for all layers";
        whole.map(Some).ok_or_else(|| self.wrong(key, want))
    }

    pub fn needed(&mut self, key: &str) -> Result<u64> {
        self.size(key)?.ok_or_else(|| self.wrong(key, "a whole number above 0"))
    }

    /// Those of the architecture that nobody asked for, but for some.
    pub fn unknown(&self, ignorable: &[&str]) -> impl Iterator<Item = &'a str> {
        let unknown = move |key: &&'a str| {
            let own =
                key.strip_prefix(self.architecture.name).and_then(|own| own.strip_prefix('.'));
            let new = own.is_some_and(|own| !ignorable.contains(&own));
            new && !self.asked.iter().any(|one| one == key)
        };
        self.header.keys().filter(unknown)
    }
}

/// The shortest decimal that is this number in single precision, in which files store it.
pub(super) fn decimal(x: f64) -> f64 {
    let single = x as f32;
    match f64::from(single) == x {
        true => single.to_string().parse().unwrap_or(x),
        false => x,
    }
}
