//! `convert` and `inspect`: what is written is what was read, and what cannot run is described.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use attnviz::export::{ConvertOptions, Converted, FloatType, convert};
use attnviz::hub::{self, HubEnv, ModelFiles, ModelRequest};
use attnviz::model::Inspection;
use attnviz::{LoadOptions, Result, Site};
use candle_core::{DType, Device, Tensor};
use common::variant::Variant;
use common::{Golden, fixture, numbers, open, record};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use tempfile::TempDir;

fn files(model: &str, config: Option<PathBuf>) -> ModelFiles {
    let request = ModelRequest { model: Some(model.into()), config, ..ModelRequest::default() };
    hub::resolve(&request, &HubEnv::from_env(), &()).expect("files")
}

fn to(model: &Path, out: &Path, dtype: Option<FloatType>) -> Result<Converted> {
    let options = ConvertOptions { dtype, force: false };
    convert(&files(&model.display().to_string(), None), out, &options)
}

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

fn tensors(folder: &Path) -> Tensors {
    let bytes = fs::read(folder.join("model.safetensors")).expect("read");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let about = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
        (name.to_owned(), (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
    };
    file.iter().map(about).collect()
}

fn config(folder: &Path) -> Value {
    let bytes = fs::read(folder.join("config.json")).expect("read");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn numbers_of(folder: &Path, golden: &str) -> Vec<f32> {
    let model = open(folder, None).expect("loads");
    let run = record(&model, &Golden::open(golden).batch(), &[]);
    (0..model.config().layers()).flat_map(|l| numbers(run.kept(l, Site::Probs))).collect()
}

#[test]
fn without_a_type_everything_stays_as_it_is() {
    for golden in ["bert_mlm", "bert_mlm_f16", "bert_mlm_legacy_names", "bert_mlm_sharded"] {
        let folder = TempDir::new().expect("folder");
        let (source, out) = (fixture("goldens").join(golden), folder.path().join("out"));
        let done = to(&source, &out, None).expect("converts");
        assert_eq!(done.files, ["model.safetensors", "config.json"]);
        let read = |folder: &Path| fs::read(folder.join("config.json")).expect("read");
        assert_eq!(read(&out), read(&source), "{golden}");
        if golden != "bert_mlm_sharded" {
            assert!(tensors(&out) == tensors(&source), "{golden}");
        }
        assert!(numbers_of(&out, golden) == numbers_of(&source, golden), "{golden}");
        // and once more changes not a byte
        let again = folder.path().join("again");
        to(&out, &again, None).expect("converts");
        let whole = |folder: &Path| fs::read(folder.join("model.safetensors")).expect("read");
        assert!(whole(&again) == whole(&out), "{golden}");
        let bytes = whole(&out);
        let (_, about) = SafeTensors::read_metadata(&bytes).expect("header");
        assert_eq!(about.metadata().as_ref().and_then(|m| m.get("format")).unwrap(), "pt");
    }
}

/// The weights as well, whose writer keeps files to their owner.
#[cfg(unix)]
#[test]
fn files_are_as_readable_as_any_other() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().expect("folder");
    let (out, plain) = (folder.path().join("out"), folder.path().join("plain"));
    fs::write(&plain, "").expect("written");
    let done = to(&fixture("goldens/bert_mlm"), &out, None).expect("converts");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode();
    for name in done.files {
        assert_eq!(mode(&out.join(&name)), mode(&plain), "{name}");
    }
}

/// Decoders keep every byte too, and the file that says where their writing ends goes along.
#[test]
fn decoders_stay_as_they_are() {
    for golden in
        ["bert_lmhead_decoder", "gpt2_lm", "llama_lm", "bart_lm", "marian_mt", "t5_lm", "t5_v11_lm"]
    {
        let folder = TempDir::new().expect("folder");
        let (source, out) = (folder.path().join("source"), folder.path().join("out"));
        fs::create_dir(&source).expect("created");
        let from = fixture("goldens").join(golden);
        for file in ["config.json", "model.safetensors"] {
            fs::copy(from.join(file), source.join(file)).expect("copied");
        }
        let writing = source.join("generation_config.json");
        fs::write(writing, r#"{"eos_token_id": [5, 6]}"#).expect("written");
        let done = to(&source, &out, None).expect("converts");
        assert_eq!(done.files, ["model.safetensors", "config.json", "generation_config.json"]);
        assert!(tensors(&out) == tensors(&from), "{golden}");
        assert_eq!(config(&out), config(&from), "{golden}");
        let model = open(&out, None).expect("loads");
        assert_eq!(model.report().unused, Vec::<String>::new(), "{golden}");
        let side = model.config().decoder.as_deref().unwrap_or(model.config());
        assert_eq!(side.generation.ends, [5, 6], "{golden}");
    }
}

/// As in transformers: what is forced and forbidden is said by generation_config.json alone, where
/// there is one.
#[test]
fn a_generation_config_comes_before_the_config() {
    let folder = TempDir::new().expect("folder");
    let variant = Variant::of("bart_lm")
        .set("bad_words_ids", json!([[3]]))
        .set("forced_bos_token_id", json!(9));
    variant.write(folder.path());
    let read = || {
        let model = open(folder.path(), None).expect("loads");
        let side = model.config().decoder.as_deref().expect("decoder").generation.clone();
        assert_eq!(side, model.config().generation);
        (side.start, side.first, side.ends, side.forbidden, side.last)
    };
    assert_eq!(read(), (Some(2), Some(9), vec![2], vec![vec![3]], vec![]));
    let file = folder.path().join("generation_config.json");
    fs::write(&file, r#"{"num_beams": 4, "forced_bos_token_id": 7}"#).expect("written");
    assert_eq!(read(), (Some(2), Some(7), vec![2], vec![], vec![]));
    let more = json!({
        "decoder_start_token_id": 4,
        "eos_token_id": [5, 6],
        "forced_eos_token_id": 6,
        "bad_words_ids": [[8], [5], [1, 2], [5, 6]],
        "suppress_tokens": [11, 5],
    });
    fs::write(&file, more.to_string()).expect("written");
    // an end by itself is no phrase
    let forbidden = vec![vec![11], vec![5], vec![8], vec![1, 2], vec![5, 6]];
    assert_eq!(read(), (Some(4), None, vec![5, 6], forbidden, vec![6]));
    for (text, word) in [
        ("{", "generation_config.json"),
        (r#"{"eos_token_id": -1}"#, "-1"),
        (r#"{"bad_words_ids": [7]}"#, "`bad_words_ids`: expected lists of token ids, found 7"),
        (r#"{"bad_words_ids": [[1], []]}"#, "found []"),
        (r#"{"forced_eos_token_id": "end"}"#, "forced_eos_token_id"),
    ] {
        fs::write(&file, text).expect("written");
        let error = open(folder.path(), None).err().expect("refused");
        assert!(error.exit_code() == 4 && error.to_string().contains(word), "{error}");
    }
    // another config is not what that file belongs to
    let request = ModelRequest {
        model: Some(folder.path().display().to_string()),
        config: Some(folder.path().join("config.json")),
        ..ModelRequest::default()
    };
    let files = hub::resolve(&request, &HubEnv::from_env(), &()).expect("files");
    assert!(files.generation.is_none());
}

#[test]
fn a_pickle_becomes_the_safetensors_that_it_was_made_from() {
    let folder = TempDir::new().expect("folder");
    let golden = fixture("goldens/bert_mlm");
    let pickle = fixture("pickles/bert_mlm").display().to_string();
    let files = files(&pickle, Some(golden.join("config.json")));
    let out = folder.path().join("out");
    convert(&files, &out, &ConvertOptions::default()).expect("converts");
    let (got, want) = (tensors(&out), tensors(&golden));
    for (name, one) in &want {
        assert!(got.get(name) == Some(one), "{name}");
    }
    let more: Vec<&str> =
        got.keys().filter(|name| !want.contains_key(*name)).map(String::as_str).collect();
    assert_eq!(
        more,
        [
            "bert.embeddings.position_ids",
            "cls.predictions.decoder.bias",
            "cls.predictions.decoder.weight"
        ]
    );
    assert_eq!(got["bert.embeddings.position_ids"].0, Dtype::I64);
    assert!(numbers_of(&out, "bert_mlm") == numbers_of(&golden, "bert_mlm"));
}

#[test]
fn another_type_is_rounded_once_and_whole_numbers_stay() {
    let ids = Tensor::arange(0i64, 64, &Device::Cpu).expect("tensor");
    let ids = ids.reshape((1, 64)).expect("tensor");
    let source = Variant::of("bert_mlm").with("bert.embeddings.position_ids", ids);
    for (dtype, stored, kind, name) in [
        (FloatType::F16, Dtype::F16, DType::F16, "float16"),
        (FloatType::Bf16, Dtype::BF16, DType::BF16, "bfloat16"),
        (FloatType::F32, Dtype::F32, DType::F32, "float32"),
    ] {
        let folder = TempDir::new().expect("folder");
        let (from, out) = (folder.path().join("from"), folder.path().join("out"));
        fs::create_dir(&from).expect("created");
        source.write(&from);
        let done = to(&from, &out, Some(dtype)).expect("converts");
        assert_eq!(done.dtypes, [&format!("{stored:?}"), "I64"].map(str::to_owned));
        assert_eq!(config(&out)["dtype"], json!(name));
        assert!(config(&out).get("torch_dtype").is_none());
        // candle casts as an independent judge
        let cast = candle_core::safetensors::load(out.join("model.safetensors"), &Device::Cpu);
        for (name, got) in cast.expect("tensors") {
            let want = &source.tensors[&name];
            if want.dtype() == DType::I64 {
                assert_eq!(got.dtype(), DType::I64);
                let ids = |t: &Tensor| t.flatten_all().and_then(|t| t.to_vec1::<i64>());
                assert_eq!(ids(&got).expect("ids"), ids(want).expect("ids"));
            } else {
                assert_eq!(got.dtype(), kind, "{name}");
                assert!(numbers(&got) == numbers(&want.to_dtype(kind).expect("cast")), "{name}");
            }
        }
    }
}

#[test]
fn the_config_tells_the_truth_about_the_type_and_keeps_the_rest() {
    let cases = [
        (json!({"transformers_version": "4.8.2"}), Some(FloatType::F16), "torch_dtype"),
        (json!({"transformers_version": "5.1.0"}), Some(FloatType::F16), "dtype"),
        (json!({"torch_dtype": "float32"}), Some(FloatType::F16), "torch_dtype"),
        (json!({"dtype": "torch.float32"}), Some(FloatType::F16), "dtype"),
        (json!({"dtype": "float16"}), None, "dtype"), // which was not true before
    ];
    for (keys, dtype, key) in cases {
        let mut source =
            Variant::of("bert_mlm").unset("dtype").set("epsilon_of_mine", json!(1e-12));
        for (key, value) in keys.as_object().expect("object") {
            source = source.set(key, value.clone());
        }
        let folder = TempDir::new().expect("folder");
        let (from, out) = (folder.path().join("from"), folder.path().join("out"));
        fs::create_dir(&from).expect("created");
        source.write(&from);
        to(&from, &out, dtype).expect("converts");
        let mut want = source.config.clone();
        want[key] = json!(if dtype.is_some() { "float16" } else { "float32" });
        assert_eq!(config(&out), want);
    }
}

#[test]
fn numbers_that_do_not_fit_are_refused_by_name() {
    let large = Tensor::full(1e6f32, (32,), &Device::Cpu).expect("tensor");
    let source = Variant::of("bert_model").with("pooler.dense.bias", large);
    let folder = TempDir::new().expect("folder");
    let (from, out) = (folder.path().join("from"), folder.path().join("out"));
    fs::create_dir(&from).expect("created");
    source.write(&from);
    let error = to(&from, &out, Some(FloatType::F16)).expect_err("refused");
    let line = error.to_string();
    assert!(line.contains("`pooler.dense.bias` holds 1000000, too large for F16"), "{line}");
    assert_eq!(error.exit_code(), 4);
    assert!(!out.exists());
    let left = fs::read_dir(folder.path()).expect("folder").count();
    assert_eq!(left, 1, "nothing is left aside");
    to(&from, &out, Some(FloatType::Bf16)).expect("converts");
}

#[test]
fn a_folder_with_files_is_left_alone_unless_forced() {
    let folder = TempDir::new().expect("folder");
    let out = folder.path().join("a/b");
    let source = fixture("goldens/bert_model");
    to(&source, &out, None).expect("makes the folders on the way");
    fs::write(out.join("notes.txt"), b"mine").expect("written");
    fs::write(out.join("vocab.txt"), b"of another model").expect("written");
    let error = to(&source, &out, None).expect_err("refused");
    assert!(error.to_string().contains("is not empty; choose another folder, or --force"));
    let forced = ConvertOptions { dtype: Some(FloatType::F16), force: true };
    let from = files(&source.display().to_string(), None);
    convert(&from, &out, &forced).expect("converts");
    let mut names: Vec<String> = fs::read_dir(&out)
        .expect("folder")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("name"))
        .collect();
    names.sort();
    assert_eq!(names, ["config.json", "model.safetensors", "notes.txt"]);
    assert_eq!(tensors(&out).values().next().expect("tensor").0, Dtype::F16);
    // into itself
    let own = files(&out.display().to_string(), None);
    let options = ConvertOptions { dtype: Some(FloatType::F32), force: true };
    convert(&own, &out, &options).expect("converts");
    open(&out, None).expect("loads");
    let file = folder.path().join("file");
    fs::write(&file, b"x").expect("written");
    assert!(to(&source, &file, None).is_err());
    fs::create_dir(folder.path().join("empty")).expect("created");
    to(&source, &folder.path().join("empty"), None).expect("an empty folder will do");
}

#[test]
#[cfg(feature = "embedded")]
fn the_built_in_checkpoint_comes_out_as_its_files() {
    let folder = TempDir::new().expect("folder");
    let out = folder.path().join("out");
    convert(&files("built-in", None), &out, &ConvertOptions::default()).expect("converts");
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/all-MiniLM-L6-v2-f16");
    assert!(tensors(&out) == tensors(&assets));
    for name in ["config.json", "tokenizer.json", "vocab.txt", "special_tokens_map.json"] {
        assert!(fs::read(out.join(name)).ok() == fs::read(assets.join(name)).ok(), "{name}");
    }
}

/// The fp32 original is 91 MB and not part of the project; ATTNVIZ_MINILM_F32 names its folder.
#[test]
#[ignore = "needs the fp32 checkpoint: set ATTNVIZ_MINILM_F32 to its folder"]
fn the_built_in_checkpoint_is_made_from_the_original() {
    let original = std::env::var("ATTNVIZ_MINILM_F32").expect("ATTNVIZ_MINILM_F32");
    let folder = TempDir::new().expect("folder");
    let out = folder.path().join("out");
    let options = ConvertOptions { dtype: Some(FloatType::F16), force: false };
    convert(&files(&original, None), &out, &options).expect("converts");
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/all-MiniLM-L6-v2-f16");
    let (got, want) = (tensors(&out), tensors(&assets));
    assert!(got.keys().eq(want.keys()));
    for (name, one) in &want {
        assert!(got[name] == *one, "{name}");
    }
    for name in ["tokenizer.json", "vocab.txt", "tokenizer_config.json"] {
        assert!(fs::read(out.join(name)).ok() == fs::read(assets.join(name)).ok(), "{name}");
    }
}

/// transformers must load what `convert` writes, with the very numbers of the source.
#[test]
#[ignore = "needs Python with torch and transformers: set ATTNVIZ_PYTHON to the interpreter"]
fn transformers_loads_what_is_written() {
    let python = std::env::var("ATTNVIZ_PYTHON").expect("ATTNVIZ_PYTHON");
    for (golden, dtype, name) in [
        ("bert_mlm", None, "float32"),
        ("bert_mlm", Some(FloatType::F16), "float16"),
        ("bert_mlm", Some(FloatType::Bf16), "bfloat16"),
        ("bert_mlm_f16", Some(FloatType::F32), "float32"),
        ("bert_mlm_sharded", None, "float32"),
        ("bert_mlm_legacy_names", None, "float32"),
        ("albert_mlm", Some(FloatType::F16), "float16"),
        ("xlm_roberta_seqcls", Some(FloatType::Bf16), "bfloat16"),
        ("modernbert_mlm", Some(FloatType::F16), "float16"),
    ] {
        let folder = TempDir::new().expect("folder");
        let (source, out) = (fixture("goldens").join(golden), folder.path().join("out"));
        to(&source, &out, dtype).expect("converts");
        let script = fixture("pickles/load.py");
        let run = Command::new(&python).args([&script, &out, &source]).arg(name).output();
        let run = run.expect("python runs");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{golden} {dtype:?}: {said}");
    }
}

// inspect

fn inspect(variant: &Variant) -> Inspection {
    let folder = TempDir::new().expect("folder");
    variant.write(folder.path());
    look(folder.path())
}

fn look(folder: &Path) -> Inspection {
    Inspection::of(&files(&folder.display().to_string(), None), &LoadOptions::default())
}

#[test]
fn an_inspection_is_the_report_of_loading() {
    for (golden, naming) in [
        ("bert_mlm", "`bert.` prefix"),
        ("bert_mlm_legacy_names", "`bert.` prefix, old gamma/beta norms"),
        ("bert_seqcls", "`bert.` prefix"),
        ("bert_relative_key_query", "no prefix"),
        ("albert_mlm", "`albert.` prefix"),
        ("camembert_mlm", "`roberta.` prefix"),
        ("deberta_v2_model", "no prefix"),
        ("modernbert_mlm", "`model.` prefix"),
        ("longformer_mlm", "`longformer.` prefix"),
        ("bert_lmhead_decoder", "`bert.` prefix"),
        ("gpt2_lm", "`transformer.` prefix"),
        ("llama_lm", "`model.` prefix"),
        ("bart_lm", "`model.` prefix"),
        ("marian_mt", "`model.` prefix"),
        ("t5_v11_lm", "no prefix"),
    ] {
        let folder = fixture("goldens").join(golden);
        let (model, seen) = (open(&folder, None).expect("loads"), look(&folder));
        assert_eq!(seen.problems, Vec::<String>::new());
        assert_eq!(json!(seen.report), json!(model.report()), "{golden}");
        assert_eq!(json!(seen.config), json!(model.config()), "{golden}");
        let report = model.report();
        assert_eq!(report.naming, naming, "{golden}");
        let parts: Vec<&str> = report.parts.iter().map(|(part, _)| part.as_str()).collect();
        match model.config().decoder {
            None => {
                assert!(["embeddings", "layers", "head"].starts_with(&parts), "{golden}: {parts:?}")
            }
            Some(_) => assert_eq!(parts[..3], ["embeddings", "encoder", "decoder"], "{golden}"),
        }
        let sum: usize = report.parts.iter().map(|(_, count)| count).sum();
        assert_eq!(sum, report.parameters, "{golden}");
    }
}

#[test]
fn everything_missing_is_listed_not_only_the_first() {
    let of = || Variant::of("bert_mlm");
    let seen = inspect(
        &of()
            .without("bert.encoder.layer.0.output.dense.weight")
            .without("bert.encoder.layer.1.attention.self.key.bias")
            .with(
                "bert.embeddings.LayerNorm.weight",
                Tensor::zeros(31, DType::F32, &Device::Cpu).unwrap(),
            )
            .with("what.is.this", Tensor::zeros(3, DType::F32, &Device::Cpu).unwrap()),
    );
    assert_eq!(seen.problems.len(), 3, "{:?}", seen.problems);
    let all = seen.problems.join("\n");
    for want in [
        "`layers.0.mlp.down.weight` is missing, expected [32, 64]",
        "`layers.1.attention.key.bias` is missing, expected [32]",
        "`bert.embeddings.LayerNorm.weight` is [31], expected [32]",
    ] {
        assert!(all.contains(want), "{want}: {all}");
    }
    let report = seen.report.expect("report");
    assert_eq!(report.unused, ["what.is.this"]);
    assert_eq!(seen.config.expect("config").layers(), 3);
}

#[test]
fn what_no_family_knows_is_described_by_its_tensors() {
    let seen = inspect(&Variant::of("bert_mlm").set("model_type", json!("mamba")));
    assert!(seen.config.is_none());
    assert!(seen.problems[0].contains("found `mamba`"), "{:?}", seen.problems);
    let report = seen.report.expect("report");
    assert_eq!(report.dtypes, ["F32"]);
    assert!(report.parameters > 10_000 && report.unused.len() > 30);
}

#[test]
fn sizes_that_a_config_makes_up_cost_no_memory() {
    for (key, value) in [
        ("intermediate_size", json!(1 << 20)),
        ("hidden_size", json!(1 << 20)),
        ("max_position_embeddings", json!(1 << 20)),
        ("num_hidden_layers", json!(1 << 18)),
    ] {
        let seen = inspect(&Variant::of("bert_model").set(key, value));
        assert!(!seen.problems.is_empty(), "{key}");
    }
}

#[test]
fn a_file_that_cannot_be_read_still_gives_its_reason() {
    let folder = TempDir::new().expect("folder");
    Variant::of("bert_model").write(folder.path());
    let path = folder.path().join("model.safetensors");
    let bytes = fs::read(&path).expect("read");
    fs::write(&path, &bytes[..bytes.len() - 10]).expect("written");
    let seen = look(folder.path());
    assert!(seen.report.is_none());
    assert!(seen.problems[0].contains("the file is truncated"), "{:?}", seen.problems);
}

// The command line

#[cfg(feature = "embedded")]
fn attnviz(args: &[&str]) -> (i32, String, String) {
    let run = assert_cmd::Command::new(env!("CARGO_BIN_EXE_attnviz"))
        .args(args)
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .expect("runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (run.status.code().expect("not killed"), text(run.stdout), text(run.stderr))
}

#[test]
#[cfg(feature = "embedded")]
fn convert_from_the_command_line() {
    let folder = TempDir::new().expect("folder");
    let out = folder.path().join("out").display().to_string();
    let source = fixture("goldens/bert_mlm").display().to_string();
    let (code, said, errors) = attnviz(&["convert", &source, &out, "--dtype", "bf16"]);
    assert_eq!((code, errors.as_str()), (0, ""), "{said}");
    assert!(said.contains("tensors (BF16), 0.1 MB; model.safetensors, config.json"), "{said}");
    let (code, said, errors) = attnviz(&["convert", &source, &out]);
    assert_eq!((code, said.as_str()), (1, ""), "{errors}");
    assert!(errors.contains("--force"), "{errors}");
    let (code, said, _) = attnviz(&["convert", &source, &out, "--force", "--json"]);
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((code, &said["dtypes"]), (0, &json!(["F32"])));
    assert_eq!(attnviz(&["convert", &source, &out, "--dtype", "int8"]).0, 2);
    assert_eq!(attnviz(&["convert", &source]).0, 2);
    assert_eq!(attnviz(&["convert", "./not-there", &out, "--force"]).0, 3);
}

#[test]
#[cfg(feature = "embedded")]
fn inspect_from_the_command_line() {
    let folder = TempDir::new().expect("folder");
    let at = folder.path().display().to_string();
    let gone = Variant::of("bert_seqcls").prune("bert.", 8, &[(0, vec![1, 3]), (1, vec![0])]);
    gone.write(folder.path());
    let (code, said, errors) = attnviz(&["inspect", &at]);
    assert_eq!(code, 0, "{errors}");
    for want in
        ["task head     sequence-classification: ", "pruned        3 of 8: L0H1, L0H3, L1H0"]
    {
        assert!(said.contains(want), "{want}: {said}");
    }
    gone.without("classifier.bias").write(folder.path());
    let (code, said, errors) = attnviz(&["inspect", &at]);
    assert_eq!(code, 4);
    assert!(said.contains("family        bert") && said.contains("problem"), "{said}");
    assert!(errors.contains("cannot run: ") && errors.contains("`classifier.bias` is missing"));
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let (code, said, _) = attnviz(&["inspect", &at, "--json"]);
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((code, said["problems"].as_array().map(Vec::len)), (4, Some(1)));
}
