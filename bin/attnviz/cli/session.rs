//! From flags to a loaded model, and from a text to its tokens.

use attnviz::hub::{self, HubEnv, ModelFiles, ModelRequest};
use attnviz::picture::TextEngine;
use attnviz::tokens::{Encoding, Input, Limit};
use attnviz::{Error, Indices, LoadOptions, Model, Result, Task};
use candle_core::Device;

use super::args::{Given, InputArgs, ModelArgs, RunArgs};
use super::console::{Console, Download};
use super::lines;
use super::threads;

/// Finds and loads the model; the fonts get ready at the same time.
pub fn open(args: &ModelArgs, run: &RunArgs, console: &Console) -> Result<(Model, TextEngine)> {
    threads::set(run.threads)?;
    let options = LoadOptions { task: task(args)?, device: device(&run.device)? };
    let (model, engine) = rayon::join(|| load(args, &options, console), TextEngine::new);
    Ok((model?, engine))
}

/// Finds and loads a model that nothing is drawn of, once the number of threads is set.
pub fn open_model(args: &ModelArgs, run: &RunArgs, console: &Console) -> Result<Model> {
    load(args, &LoadOptions { task: task(args)?, device: device(&run.device)? }, console)
}

/// Finds the model's files, downloading what is not there.
pub fn files(args: &ModelArgs, console: &Console) -> Result<ModelFiles> {
    let request = ModelRequest {
        model: args.model.clone(),
        tokenizer: args.files.tokenizer.clone(),
        config: args.files.config.clone(),
        subfolder: args.files.subfolder.clone(),
        revision: args.files.revision.clone(),
        token: args.files.token.clone(),
    };
    hub::resolve(&request, &HubEnv::from_env(), &Download::new(console))
}

/// Finds and loads the model.
fn load(args: &ModelArgs, options: &LoadOptions, console: &Console) -> Result<Model> {
    let model = Model::open(&files(args, console)?, options)?;
    let assumed = model.tokenizer().map(|tokenizer| tokenizer.notes()).unwrap_or_default();
    for note in model.report().notes.iter().chain(assumed) {
        console.note(note);
    }
    if !model.report().unused.is_empty() {
        let unused = &model.report().unused;
        console.detail(&format!("{} tensors not used: {}", unused.len(), unused.join(", ")));
    }
    Ok(model)
}

pub fn task(args: &ModelArgs) -> Result<Option<Task>> {
    let find = |name: &str| Task::NAMES.iter().find(|(n, _)| *n == name).map(|&(_, task)| task);
    Ok(args.task.as_deref().and_then(find))
}

pub fn device(name: &str) -> Result<Device> {
    let wrong = || Error::Usage {
        flag: "--device".into(),
        want: match (cfg!(feature = "cuda"), cfg!(feature = "metal")) {
            (true, _) => "cpu, cuda or cuda:N".into(),
            (_, true) => "cpu or metal".into(),
            _ => "cpu; others are features to build with: cuda, metal".into(),
        },
        found: name.into(),
    };
    match name.split_once(':').unwrap_or((name, "0")) {
        ("cpu", _) if name == "cpu" => Ok(Device::Cpu),
        ("cuda", number) if cfg!(feature = "cuda") => {
            Ok(Device::new_cuda(number.parse().map_err(|_| wrong())?)?)
        }
        ("metal", _) if name == "metal" && cfg!(feature = "metal") => Ok(Device::new_metal(0)?),
        _ => Err(wrong()),
    }
}

/// The text or pair of the command line.
pub fn input(args: &InputArgs) -> Result<Input> {
    match (args.pair.as_deref(), &args.text) {
        (Some([a, b]), _) => Ok(Input::Pair(a.clone(), b.clone())),
        (_, Some(text)) => Ok(Input::Text(text.clone())),
        _ => Err(Error::Usage {
            flag: "TEXT".into(),
            want: "a text, as one argument".into(),
            found: "nothing".into(),
        }),
    }
}

/// Tokens of an input, held against what the model takes.
pub fn encode(model: &Model, input: &Input, run: &RunArgs) -> Result<Encoding> {
    attnviz::task::encode(model, input, &limit(run))
}

/// What the command line says of lengths.
pub fn limit(run: &RunArgs) -> Limit {
    Limit { max: run.max_length.map(|asked| asked as usize), truncate: run.truncate }
}

/// Tokens of the command line's text, in the words and with the global tokens that it asks for.
pub fn encode_given(
    model: &Model,
    input: &Input,
    args: &InputArgs,
    run: &RunArgs,
) -> Result<Encoding> {
    let mut encoding = encode(model, input, run)?;
    if let Some(spans) = &args.spans {
        spans.apply(&mut encoding)?;
    }
    if let Some(list) = &args.global {
        encoding.global = Some(global(model, list, encoding.len())?);
    }
    Ok(encoding)
}

/// Tokens of a line's input, in the words that the line gives.
pub fn encode_line(model: &Model, given: &lines::Given, run: &RunArgs) -> Result<Encoding> {
    let mut encoding = encode(model, &given.input, run)?;
    if let Some(spans) = &given.spans {
        spans.apply(&mut encoding)?;
    }
    Ok(encoding)
}

/// Positions of `--global`.
fn global(model: &Model, list: &Given<Indices>, tokens: usize) -> Result<Vec<usize>> {
    let flag = || "--global".to_owned();
    if !model.config().global_queries {
        let want = "a model with global tokens (longformer)".into();
        return Err(Error::Usage { flag: flag(), want, found: list.text.clone() });
    }
    list.value.resolve("global", tokens).map_err(|error| match error {
        Error::Usage { want, found, .. } => {
            Error::Usage { flag: flag(), want: want.replacen("global", "tokens", 1), found }
        }
        other => other,
    })
}

/// What the decoder of an encoder-decoder reads of a text that it is to have written.
pub fn encode_target(model: &Model, text: Option<&str>, run: &RunArgs) -> Result<Option<Encoding>> {
    let Some(text) = text else { return Ok(None) };
    if model.config().decoder.is_none() {
        let (flag, found) = ("--target".into(), text.into());
        let want = "no text, for the model has no decoder beside an encoder".into();
        return Err(Error::Usage { flag, want, found });
    }
    attnviz::task::encode_written(model, text, &limit(run)).map(|(read, _)| Some(read))
}

/// What a person should know about the tokens of a text.
pub fn token_notes(encoding: &Encoding) -> Vec<String> {
    let mut notes = Vec::new();
    if encoding.cut > 0 {
        let left = encoding.len();
        notes.push(format!("cut by {} tokens to {left} (--truncate)", encoding.cut));
    }
    if let Some(unknown) = encoding.unknown() {
        let knows = unknown.knows.map(|model| format!("; {model} would know them"));
        notes.push(format!(
            "{} of {} tokens are unknown to this vocabulary{}",
            unknown.count,
            unknown.of,
            knows.unwrap_or_default()
        ));
    }
    notes
}
