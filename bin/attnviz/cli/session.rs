//! From flags to a loaded model, and from a text to its tokens.

use attnviz::hub::{self, HubEnv, ModelFiles, ModelRequest};
use attnviz::picture::TextEngine;
use attnviz::tokens::{Batch, Encoding, Input, Limit, Spans};
use attnviz::{Error, LoadOptions, Model, Result, Task};
use candle_core::Device;
use ndarray::Array2;

use super::args::{InputArgs, ModelArgs, RunArgs};
use super::console::{Console, Download, set_threads};

/// Finds and loads the model; the fonts get ready at the same time.
pub fn open(args: &ModelArgs, run: &RunArgs, console: &Console) -> Result<(Model, TextEngine)> {
    set_threads(run.threads)?;
    let options = LoadOptions { task: task(args)?, device: device(&run.device)? };
    let (model, engine) = rayon::join(|| load(args, &options, console), TextEngine::new);
    Ok((model?, engine))
}

/// Finds the model's files, downloading what is not there.
pub fn files(args: &ModelArgs, console: &Console) -> Result<ModelFiles> {
    let request = ModelRequest {
        model: args.model.clone(),
        tokenizer: args.tokenizer.clone(),
        config: args.config.clone(),
        subfolder: args.subfolder.clone(),
        revision: args.revision.clone(),
        token: args.token.clone(),
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

fn device(name: &str) -> Result<Device> {
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
    let most = model.config().max_positions;
    let max = run.max_length.map_or(most, |asked| most.min(asked as usize));
    let limit = Limit { max: Some(max), truncate: run.truncate };
    let tokenizer = model.tokenizer()?;
    let mut encoding = tokenizer.encode(input, &limit)?;
    encoding.limit_types(model.config().type_vocab_size);
    encoding.check_ids(model.config().vocab_size)?;
    Ok(encoding)
}

/// Tokens of an input, in the words that it is given with.
pub fn encode_given(
    model: &Model,
    input: &Input,
    spans: Option<&Spans>,
    run: &RunArgs,
) -> Result<Encoding> {
    let mut encoding = encode(model, input, run)?;
    match spans {
        Some(spans) => spans.apply(&mut encoding).map(|()| encoding),
        None => Ok(encoding),
    }
}

/// One text as a batch, with the global tokens that the command line asks for.
pub fn batch(model: &Model, encoding: &Encoding, args: &InputArgs) -> Result<Batch> {
    let pad = model.tokenizer()?.pad_id();
    let batch = Batch::new(std::slice::from_ref(encoding), pad);
    let Some(list) = &args.global else { return Ok(batch) };
    if !model.config().global_queries {
        return Err(Error::Usage {
            flag: "--global".into(),
            want: "a model with global tokens (longformer)".into(),
            found: list.text.clone(),
        });
    }
    let mut global = Array2::zeros(batch.ids.dim());
    let tokens = list.value.resolve("global", encoding.len()).map_err(|error| match error {
        Error::Usage { flag, want, found } => {
            Error::Usage { flag, want: want.replacen("global", "tokens", 1), found }
        }
        other => other,
    })?;
    for token in tokens {
        global[(0, token)] = 1;
    }
    Ok(Batch { global: Some(global), ..batch })
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
