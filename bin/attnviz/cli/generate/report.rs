//! What was written, as JSON.

use attnviz::Model;
use attnviz::decode::{Choice, End, Written};
use attnviz::tokens::Tokenizer;
use serde_json::{Map, Value, json};

use super::Sample;
use super::start::Begin;
use crate::cli::args::GenerateArgs;

pub struct Report<'a> {
    pub args: &'a GenerateArgs,
    pub model: &'a Model,
    pub begin: &'a Begin,
    pub samples: &'a [Sample],
}

impl Report<'_> {
    pub fn json(&self) -> Value {
        let (report, sampling) = (self.model.report(), self.args.sampling(&[]));
        let mut all = Map::new();
        let mut put = |key: &str, value: Value| all.insert(key.into(), value);
        put("model", report.name.clone().into());
        put("revision", report.revision.clone().into());
        put("prompt", self.args.prompt.clone().into());
        put("prompt_tokens", json!(self.begin.typed.as_ref().map(|typed| &typed.tokens)));
        put(
            "sampling",
            json!({
                "temperature": sampling.temperature,
                "top_k": sampling.top_k,
                "top_p": sampling.top_p,
                "min_p": sampling.min_p,
                "repetition_penalty": sampling.repetition_penalty,
                "no_repeat_ngram": sampling.no_repeat_ngram,
                "attn_temperature": self.args.attn_temperature,
            }),
        );
        let texts = self.samples.iter().flat_map(|sample| {
            let rows = sample.writing.texts.iter().zip(&sample.texts).enumerate();
            rows.map(|(row, (one, text))| self.text(sample, row, one, text))
        });
        put("texts", texts.collect());
        Value::Object(all)
    }

    fn text(&self, sample: &Sample, row: usize, written: &Written, text: &str) -> Value {
        let tokenizer = self.begin.writes(self.model);
        let end = match written.end {
            End::Length => json!("length"),
            End::Token(id) => json!({ "token": id }),
            End::Stopped => json!("stop"),
        };
        let steps: Vec<Value> = written.choices.iter().map(|one| step(tokenizer, one)).collect();
        let mut all = json!({
            "seed": sample.seed.wrapping_add(row as u64),
            "text": text,
            "end": end,
            "mean_entropy": written.mean_entropy(),
            "repeated_4grams": written.repetition(4),
            "steps": steps,
        });
        if let Some(page) = &sample.page {
            all["page"] = page.display().to_string().into();
        }
        if let Some(drawn) = &sample.written {
            all["folder"] = drawn.folder.display().to_string().into();
            all["files"] = json!(drawn.files);
        }
        all
    }
}

fn step(tokenizer: Option<&Tokenizer>, choice: &Choice) -> Value {
    let piece = |id: u32| tokenizer.and_then(|tokenizer| tokenizer.readable(id));
    let other = |&(id, probability): &(u32, f64)| json!({ "id": id, "token": piece(id), "probability": probability });
    json!({
        "id": choice.id,
        "token": piece(choice.id),
        "probability": choice.probability,
        "entropy": choice.entropy,
        "alternatives": choice.alternatives.iter().map(other).collect::<Vec<_>>(),
    })
}
