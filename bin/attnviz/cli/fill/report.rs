//! What filling says in the terminal and as JSON.

use std::fmt::Write;

use attnviz::decode::{Candidates, Choice, Filled, Filler, Order, Step};
use attnviz::tokens::Input;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::Found;
use crate::cli::args::FillArgs;
use crate::cli::console::one_line;
use crate::cli::named::as_json;
use crate::cli::report::{WIDTH, files, header, listed, many, wrapped};

pub struct Report<'a> {
    pub args: &'a FillArgs,
    pub filler: &'a Filler<'a>,
    pub input: &'a Input,
    pub found: &'a Found<'a>,
}

impl Report<'_> {
    /// The filled texts alone, one per line, and the folder of the pictures.
    pub fn quiet(&self) -> String {
        let mut text = String::new();
        for filled in &self.found.samples {
            let _ = writeln!(text, "{}", self.spelt(filled));
        }
        if let Some(written) = &self.found.written {
            let _ = writeln!(text, "{}", one_line(&written.folder.display().to_string()));
        }
        text += &self.page();
        text
    }

    /// For people, 80 columns wide.
    pub fn text(&self) -> String {
        let model = self.filler.model();
        let mut text = header(&model.report().name, Some(model));
        let tokens = &self.found.encoding.tokens;
        text += &wrapped(&format!("{}: ", many(tokens.len(), "token")), tokens.iter().map(listed));
        if let Some(written) = &self.found.written {
            let folder = one_line(&written.folder.display().to_string());
            let _ = writeln!(text, "{folder}/\n  {}", files(written));
        }
        text += &self.page();
        for (index, mask) in self.found.masks.iter().enumerate() {
            text += &self.mask_list(index, mask);
        }
        text += &self.filled_list();
        text
    }

    fn page(&self) -> String {
        let page = self.found.page.iter();
        page.map(|page| one_line(&page.display().to_string()) + "\n").collect()
    }

    /// A mask's name: its number where there are several.
    fn name(&self, index: usize) -> String {
        let mask = one_line(&self.filler.mask());
        if self.found.masks.len() > 1 { format!("{mask} {}", index + 1) } else { mask }
    }

    fn mask_list(&self, index: usize, mask: &Candidates) -> String {
        let others = if self.found.masks.len() > 1 { ", the others masked" } else { "" };
        let entropy = mask.entropy;
        let mut text = format!("\n{}{others}, entropy {entropy:.2} nats\n", self.name(index));
        for &(id, probability) in &mask.tokens {
            let _ = writeln!(text, "  {probability:.3}  {}", self.word(id));
        }
        if !self.found.layers.is_empty() {
            let _ = writeln!(text, "  as the head reads it off each layer:");
        }
        for reading in &self.found.layers {
            let layer = reading.layer.map_or("embedding".into(), |layer| format!("layer {layer}"));
            let tokens = reading.masks.get(index).map_or(&[][..], |mask| &mask.tokens);
            let mut line = format!("  {layer:<9}");
            for &(id, probability) in tokens {
                let next = format!("  {} {probability:.3}", self.word(id));
                if line.width() + next.width() > WIDTH {
                    break;
                }
                line += &next;
            }
            let _ = writeln!(text, "{line}");
        }
        text
    }

    fn filled_list(&self) -> String {
        let mut how = vec![match self.found.sampling.temperature {
            0.0 => "always the likeliest".to_owned(),
            temperature => format!("temperature {temperature}, seed {}", self.args.sampling.seed),
        }];
        if self.found.masks.len() > 1 {
            how.push(match self.args.fill_order {
                Order::LeftToRight => "from left to right".into(),
                Order::Confident => "most confident first".into(),
            });
        }
        if self.args.iterations > 0 {
            how.push(format!("rewritten {}", many(self.args.iterations as usize, "time")));
        }
        let mut text = format!("\nFilled: {}\n", how.join(", "));
        for filled in &self.found.samples {
            let spelt = self.spelt(filled);
            text += &wrapped("  ", spelt.split(' ').map(str::to_owned));
        }
        text
    }

    fn spelt(&self, filled: &Filled) -> String {
        let texts = self.filler.spell(self.found.encoding, &filled.ids);
        one_line(&texts.join(" | "))
    }

    /// A token as it is shown; a space that begins a word is left out.
    fn word(&self, id: u32) -> String {
        one_line(&match self.readable(id) {
            Some(text) if text.trim().is_empty() => format!("`{text}`"),
            Some(text) => text.trim_start_matches(' ').to_owned(),
            None => format!("id {id}"),
        })
    }

    fn readable(&self, id: u32) -> Option<String> {
        self.filler.model().tokenizer().ok().and_then(|tokenizer| tokenizer.readable(id))
    }

    /// One object with everything.
    pub fn json(&self) -> Value {
        let (report, found, sampling) =
            (self.filler.model().report(), self.found, &self.found.sampling);
        let mut value = json!({
            "model": report.name,
            "revision": report.revision,
            "dtype": report.dtypes.join(", "),
            "input": as_json(self.input),
            "tokens": found.encoding.tokens,
            "mask": self.filler.mask(),
            "sampling": {
                "temperature": sampling.temperature,
                "top_k": sampling.top_k,
                "top_p": sampling.top_p,
                "min_p": sampling.min_p,
                "seed": self.args.sampling.seed,
                "fill_order": self.args.fill_order.to_string(),
                "iterations": self.args.iterations,
            },
            "masks": found.masks.iter().map(|mask| self.mask_json(mask)).collect::<Vec<_>>(),
            "samples": found.samples.iter().map(|one| self.filled_json(one)).collect::<Vec<_>>(),
            "notes": found.notes,
        });
        if !found.layers.is_empty() {
            let layer = |reading: &attnviz::decode::Reading| {
                let masks: Vec<Value> = reading.masks.iter().map(|m| self.mask_json(m)).collect();
                json!({ "layer": reading.layer, "masks": masks })
            };
            value["layers"] = found.layers.iter().map(layer).collect();
        }
        if let Some(page) = &found.page {
            value["page"] = page.display().to_string().into();
        }
        if let Some(written) = &found.written {
            value["folder"] = written.folder.display().to_string().into();
            value["files"] = json!(written.files);
        }
        value
    }

    fn mask_json(&self, mask: &Candidates) -> Value {
        json!({
            "position": mask.position,
            "entropy": mask.entropy,
            "candidates": self.candidates_json(&mask.tokens),
        })
    }

    fn candidates_json(&self, tokens: &[(u32, f64)]) -> Vec<Value> {
        let one = |&(id, probability): &(u32, f64)| json!({ "id": id, "token": self.readable(id), "probability": probability });
        tokens.iter().map(one).collect()
    }

    fn filled_json(&self, filled: &Filled) -> Value {
        let step = |Step { position, iteration, choice }: &Step| {
            let Choice { id, probability, entropy, alternatives } = choice;
            json!({
                "position": position,
                "iteration": iteration,
                "id": id,
                "token": self.readable(*id),
                "probability": probability,
                "entropy": entropy,
                "alternatives": self.candidates_json(alternatives),
            })
        };
        json!({
            "texts": self.filler.spell(self.found.encoding, &filled.ids),
            "ids": filled.ids,
            "steps": filled.steps.iter().map(step).collect::<Vec<_>>(),
        })
    }
}
