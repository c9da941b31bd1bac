//! `attnviz export`: the stages of a run as arrays.

use attnviz::export::{Stages, Target, banded, read_batch};
use attnviz::tokens::{Batch, Encoding, Input};
use attnviz::{Error, Keep, Model, Recorder, Result, Site, Stack};
use candle_core::{Device, Tensor};
use ndarray::Array2;
use serde_json::{Map, Value, json};

use super::args::ExportArgs;
use super::console::{Console, one_line};
use super::report::many;
use super::{session, view};

/// Stages that are written when asked for, by the name before the layer.
pub const FURTHER: [(&str, Site); 6] = [
    ("query", Site::Query),
    ("key", Site::Key),
    ("value", Site::Value),
    ("scores", Site::Scores),
    ("context", Site::Context),
    ("head_output", Site::HeadOutput),
];

pub fn run(args: &ExportArgs, console: &Console) -> Result<u8> {
    let target = Target::new(&args.out, args.force)?;
    let given = args.inputs.as_deref().map(read_batch).transpose()?;
    let input = if given.is_none() { Some(session::input(&args.input)?) } else { None };
    let (model, _) = session::open(&args.model, &args.run, console)?;
    let (batch, about) = match (given, input) {
        (Some(batch), _) => (batch, Map::new()),
        (None, Some(input)) => {
            let encoding = session::encode_given(&model, &input, &args.input, &args.run)?;
            for note in session::token_notes(&encoding) {
                console.note(&note);
            }
            let about = about_text(&input, &encoding);
            (Batch::new(&[encoding], model.tokenizer()?.pad_id()), about)
        }
        (None, None) => {
            return Err(Error::Output { path: args.out.clone(), why: "no input".into() });
        }
    };
    let mut stages = stages(&model, &batch, &args.include)?;
    stages.about = about_model(&model);
    stages.about.extend(about);
    target.write(&stages)?;
    let path = one_line(&args.out.display().to_string());
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => format!("{:#}\n", summary(&path, &stages)),
        (_, true) => format!("{path}\n"),
        _ => format!("{path}: {}\n", many(stages.tensors.len(), "array")),
    });
    Ok(0)
}

fn summary(path: &str, stages: &Stages) -> Value {
    let shapes = stages.tensors.iter().map(|(name, one)| (name.clone(), json!(one.dims())));
    json!({ "file": path, "arrays": shapes.collect::<Map<_, _>>() })
}

fn about_model(model: &Model) -> Map<String, Value> {
    let (report, config) = (model.report(), model.config());
    let about = json!({
        "attnviz": env!("CARGO_PKG_VERSION"),
        "model": report.name,
        "revision": report.revision,
        "dtype": report.dtypes.join(", "),
        "heads": config.heads,
    });
    about.as_object().cloned().unwrap_or_default()
}

fn about_text(input: &Input, encoding: &Encoding) -> Map<String, Value> {
    let words: Vec<Vec<&str>> = (0..encoding.texts.len()).map(|s| encoding.words(s)).collect();
    let about = json!({
        "input": view::as_json(input),
        "tokens": encoding.tokens,
        "words": words,
    });
    about.as_object().cloned().unwrap_or_default()
}

/// Runs the model and gathers its stages under the names that transformers uses.
fn stages(model: &Model, batch: &Batch, include: &[String]) -> Result<Stages> {
    let further = FURTHER.iter().filter(|(name, _)| include.iter().any(|one| one == name));
    let mut recorder = Recorder::new();
    let usual = [Site::Embedding, Site::Residual, Site::Probs];
    for site in usual.into_iter().chain(further.clone().map(|&(_, site)| site)) {
        recorder = recorder.keep(site, Keep::All);
    }
    let last = model.forward(batch, &mut recorder, &[])?;
    let outputs = model.head(&last, batch)?;
    let trace = recorder.into_trace()?;
    let mut tensors = vec![
        ("input_ids".to_owned(), whole(&batch.ids)?),
        ("attention_mask".to_owned(), whole(&batch.mask)?),
        ("token_type_ids".to_owned(), whole(&batch.type_ids)?),
    ];
    let global = model.global_queries(batch)?;
    if let Some(mark) = &global {
        tensors.push(("global_attention_mask".into(), whole(mark)?));
    }
    let mut add = |name: String, layer: usize, site: Site| {
        if let Some(kept) = trace.get(Stack::Encoder, layer, site) {
            tensors.push((name, kept.tensor.clone()));
        }
    };
    let mut narrow = Vec::new(); // Longformer's own layout
    let layers = model.config().layers();
    add("hidden_states.0".into(), 0, Site::Embedding);
    for layer in 0..layers - 1 {
        add(format!("hidden_states.{}", layer + 1), layer, Site::Residual);
    }
    for layer in 0..layers {
        add(format!("attentions.{layer}"), layer, Site::Probs);
    }
    for (layer, radius) in model.config().windows.iter().enumerate().filter(|_| global.is_some()) {
        let kept = trace.get(Stack::Encoder, layer, Site::Probs);
        if let (Some(kept), Some(radius)) = (kept, radius) {
            let (native, columns) = banded(&kept.tensor, global.as_ref(), *radius)?;
            narrow.push((format!("attentions_native.{layer}"), native));
            narrow.extend(columns.map(|t| (format!("global_attentions.{layer}"), t)));
        }
    }
    for (name, site) in further {
        (0..layers).for_each(|layer| add(format!("{name}.{layer}"), layer, *site));
    }
    tensors.extend(narrow);
    // behind the final norm, where there is one
    tensors.push((format!("hidden_states.{layers}"), last.clone()));
    tensors.push(("last_hidden_state".into(), last));
    tensors.extend(outputs.pooler_output.map(|tensor| ("pooler_output".into(), tensor)));
    tensors.extend(outputs.logits.map(|tensor| ("logits".into(), tensor)));
    Ok(Stages { tensors, about: Map::new() })
}

/// Whole numbers [B, T] as transformers has them: 64 bits wide.
fn whole(array: &Array2<u32>) -> Result<Tensor> {
    let wide: Vec<i64> = array.iter().map(|&n| i64::from(n)).collect();
    Ok(Tensor::from_vec(wide, array.dim(), &Device::Cpu)?)
}
