//! Checkpoints in every shape that people meet: those that must load, and one case per error.

mod common;

use std::fs;
use std::path::Path;

use attnviz::{Model, Site, Task};
use candle_core::{DType, Device, Tensor};
use common::variant::{Variant, refusal};
use common::{Golden, fixture, numbers, open, open_with, record};
use serde_json::{Value, json};
use tempfile::TempDir;

fn zeros(shape: &[usize], dtype: DType) -> Tensor {
    Tensor::zeros(shape, dtype, &Device::Cpu).expect("tensor")
}

/// All attention weights of the golden's batch, and the logits.
fn numbers_of(model: &Model, golden: &str) -> (Vec<f32>, Vec<f32>) {
    let run = record(model, &Golden::open(golden).batch(), &[]);
    let layers = 0..model.config().layers();
    let probs = layers.flat_map(|layer| numbers(run.kept(layer, Site::Probs))).collect();
    let logits = model.head(&run.hidden, &run.batch).expect("head").logits;
    (probs, logits.map(|l| numbers(&l)).unwrap_or_default())
}

fn loads_the_same(golden: &str, variants: Vec<(&str, Variant)>) {
    let whole = open(&fixture("goldens").join(golden), None).expect("loads");
    let want = numbers_of(&whole, golden);
    for (what, variant) in variants {
        let model = variant.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(numbers_of(&model, golden) == want, "{what}: other numbers");
    }
}

fn old_norms(name: &str) -> String {
    name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
}

/// S1: prefixes, old norm names, a config without model_type.
#[test]
fn s1_names_with_and_without_prefix() {
    let of = || Variant::of("bert_mlm");
    let bare = |name: &str| name.strip_prefix("bert.").unwrap_or(name).to_string();
    loads_the_same(
        "bert_mlm",
        vec![
            ("old norms", of().renamed(old_norms)),
            ("no prefix", of().renamed(bare)),
            ("no prefix, old norms", of().renamed(|name| old_norms(&bare(name)))),
            ("no model_type", of().unset("model_type")),
            ("no model_type, no prefix", of().renamed(bare).unset("model_type")),
        ],
    );
    let model = of().unset("model_type").open().expect("loads");
    let notes = model.report().notes.join("\n");
    assert!(notes.contains("no `model_type`; taken for bert"), "{notes}");
}

/// S2: the masked-LM decoder tied, explicit, and its bias in either place.
#[test]
fn s2_the_decoder_and_its_bias() {
    let of = || Variant::of("bert_mlm");
    let word = of().tensors["bert.embeddings.word_embeddings.weight"].clone();
    let bias = of().tensors["cls.predictions.bias"].clone();
    let decoder = "cls.predictions.decoder";
    loads_the_same(
        "bert_mlm",
        vec![
            ("explicit decoder", of().with(&format!("{decoder}.weight"), word.clone())),
            (
                "bias at the decoder only",
                of().without("cls.predictions.bias")
                    .with(&format!("{decoder}.weight"), word.clone())
                    .with(&format!("{decoder}.bias"), bias),
            ),
        ],
    );
    // untied: the file's own decoder counts
    let doubled = (word * 2.0).expect("tensor");
    let untied = of().with(&format!("{decoder}.weight"), doubled);
    let untied = untied.set("tie_word_embeddings", json!(false)).open().expect("loads");
    let tied = numbers_of(&of().open().expect("loads"), "bert_mlm").1;
    assert!(numbers_of(&untied, "bert_mlm").1 != tied);
    let missing = of().set("tie_word_embeddings", json!(false)).refusal();
    assert!(missing.0.contains("`lm.decoder.weight` is missing"), "{missing:?}");
}

/// S3: buffers in every form are left alone.
#[test]
fn s3_position_ids() {
    let name = "bert.embeddings.position_ids";
    let of = || Variant::of("bert_mlm");
    let variants = vec![
        ("I64 [1,512]", of().with(name, zeros(&[1, 512], DType::I64))),
        ("I64 [512]", of().with(name, zeros(&[512], DType::I64))),
        ("I32 [1,512]", of().with(name, zeros(&[1, 512], DType::I32))),
        ("no prefix", of().with("embeddings.position_ids", zeros(&[1, 64], DType::I64))),
    ];
    for (what, variant) in &variants {
        let model = variant.open().expect("loads");
        assert!(model.report().unused.is_empty(), "{what}: {:?}", model.report().unused);
    }
    loads_the_same("bert_mlm", variants);
}

#[test]
fn every_tensor_is_accounted_for() {
    let extra = Variant::of("bert_mlm").with("something.else.weight", zeros(&[2], DType::F32));
    let model = extra.open().expect("loads");
    assert_eq!(model.report().unused, ["something.else.weight"]);
    let legacy = open(&fixture("goldens/bert_mlm_legacy_names"), None).expect("loads");
    let unused = legacy.report().unused.join(" ");
    assert!(unused.contains("pooler.dense.weight") && unused.contains("seq_relationship"));
    assert!(!unused.contains("position_ids") && !unused.contains("decoder"), "{unused}");
}

/// S13: the vocabulary axis follows the tensor.
#[test]
fn s13_a_resized_vocabulary() {
    let model = Variant::of("bert_mlm").set("vocab_size", json!(100)).open().expect("loads");
    assert_eq!(model.config().vocab_size, 120);
    let notes = model.report().notes.join("\n");
    assert!(notes.contains("vocabulary of 120 by the tensor; the config says 100"), "{notes}");
}

#[test]
fn ids_beyond_the_model_are_an_input_error() {
    let model = open(&fixture("goldens/bert_model"), None).expect("loads");
    let mut batch = Golden::open("bert_model").batch();
    batch.ids[(1, 2)] = 120;
    let error = model.forward(&batch, &mut attnviz::Recorder::new(), &[]).expect_err("refused");
    assert_eq!(
        (error.to_string(), error.exit_code()),
        ("batch: token id 120, but the model has 120".to_string(), 5)
    );
    let long = attnviz::tokens::Batch {
        ids: ndarray::Array2::ones((1, 65)),
        mask: ndarray::Array2::ones((1, 65)),
        type_ids: ndarray::Array2::zeros((1, 65)),
        global: None,
        lengths: vec![65],
    };
    let error = model.forward(&long, &mut attnviz::Recorder::new(), &[]).expect_err("refused");
    assert!(error.to_string().contains("65 tokens, but the model has 64 positions"), "{error}");
}

#[test]
fn missing_misshapen_and_odd_tensors_are_named() {
    let of = || Variant::of("bert_mlm");
    let query = "bert.encoder.layer.1.attention.self.query";
    for (variant, want) in [
        (of().without(&format!("{query}.weight")), "query.weight` is missing, expected [32, 32]"),
        (
            of().with(&format!("{query}.bias"), zeros(&[31], DType::F32)),
            "`bert.encoder.layer.1.attention.self.query.bias` is [31], expected [32]",
        ),
        (
            of().with(&format!("{query}.bias"), zeros(&[32], DType::I64)),
            "query.bias` is I64, expected F32, F16, BF16 or F64",
        ),
        (
            of().with("encoder.layer.0.output.dense.bias", zeros(&[32], DType::F32)),
            "holds both `bert.encoder.layer.0.output.dense.bias` and \
             `encoder.layer.0.output.dense.bias`",
        ),
    ] {
        let (line, code) = variant.refusal();
        assert!(line.contains(want) || line.contains(&swapped(want)), "{line}");
        assert!(line.contains("model.safetensors"), "names the file: {line}");
        assert_eq!(code, 4);
    }
}

/// "holds both A and B" may name them in either order.
fn swapped(want: &str) -> String {
    match want.strip_prefix("holds both ").and_then(|names| names.split_once(" and ")) {
        Some((a, b)) => format!("holds both {b} and {a}"),
        None => want.to_string(),
    }
}

/// S7 and its kin.
#[test]
fn files_that_are_not_whole_safetensors() {
    let golden = fixture("goldens/bert_model");
    let whole = fs::read(golden.join("model.safetensors")).expect("read");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n".to_vec();
    let mut wide = whole.clone();
    wide[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut broken = whole.clone();
    broken[8] = b'!';
    let longer = [whole.clone(), vec![0; 10]].concat();
    for (bytes, want) in [
        (pointer, "git-lfs pointer"),
        (Vec::new(), "0 bytes long"),
        (whole[..whole.len() - 1000].to_vec(), "the file is truncated: its header promises"),
        (whole[..100].to_vec(), "not a whole safetensors file"),
        (whole[..5].to_vec(), "5 bytes long"),
        (longer, "but its header accounts for"),
        (wide, "not a whole safetensors file"),
        (broken, "not a whole safetensors file"),
        (b"PK\x03\x04 a zip archive".to_vec(), "not a whole safetensors file"),
    ] {
        let folder = TempDir::new().expect("folder");
        fs::copy(golden.join("config.json"), folder.path().join("config.json")).expect("copied");
        fs::write(folder.path().join("model.safetensors"), bytes).expect("written");
        let (line, code) = refusal(folder.path());
        assert!(line.starts_with("/model.safetensors: ") && line.contains(want), "{line}");
        assert_eq!(code, 4);
    }
}

#[test]
fn a_tensor_in_two_shards() {
    let golden = fixture("goldens/bert_mlm_sharded");
    let folder = TempDir::new().expect("folder");
    for file in fs::read_dir(&golden).expect("folder").flatten() {
        fs::copy(file.path(), folder.path().join(file.file_name())).expect("copied");
    }
    let shard = |n: usize| folder.path().join(format!("model-0000{n}-of-00003.safetensors"));
    let mut tensors = candle_core::safetensors::load(shard(2), &Device::Cpu).expect("tensors");
    let first = candle_core::safetensors::load(shard(1), &Device::Cpu).expect("tensors");
    let (name, tensor) = first.into_iter().next().expect("a tensor");
    tensors.insert(name.clone(), tensor);
    candle_core::safetensors::save(&tensors, shard(2)).expect("saved");
    let (line, code) = refusal(folder.path());
    assert!(line.contains(&name) && line.contains("is in /model-00001"), "{line}");
    assert_eq!(code, 4);
}

#[test]
fn configs_that_cannot_be_honoured_are_refused_by_name() {
    let of = || Variant::of("bert_model");
    for (key, value, want) in [
        ("hidden_act", json!("mish"), "`hidden_act`: expected one of gelu, gelu_new"),
        ("position_embedding_type", json!("rotary"), "expected one of absolute, relative_key"),
        ("add_cross_attention", json!(true), "`add_cross_attention`: expected false"),
        ("num_attention_heads", json!(5), "expected a divisor of hidden_size 32, found 5"),
        ("num_attention_heads", json!(0), "expected a whole number above 0, found 0"),
        ("num_hidden_layers", json!(-1), "expected a whole number up to 1048576, found -1"),
        ("hidden_size", json!(1e30), "expected a whole number up to 1048576, found 1e+30"),
        ("hidden_size", json!("32"), "expected a whole number up to 1048576, found \"32\""),
        ("layer_norm_eps", json!([1]), "`layer_norm_eps`: expected a number, 0 or more, found [1]"),
        ("layer_norm_eps", json!(-1e-3), "expected a number, 0 or more, found -0.001"),
        ("model_type", json!("mamba"), "expected a family that attnviz runs (bert, roberta, "),
        ("model_type", json!(7), "`model_type`: expected a string, found 7"),
        ("pruned_heads", json!({"9": [0]}), "`pruned_heads`: expected {layer: [heads]}"),
        ("pruned_heads", json!({"0": [4]}), "found head 4 of layer 0"),
        ("pruned_heads", json!({"0": 4}), "found no list for 0"),
        ("pruned_heads", json!({"0": [1]}), "is [32, 32], expected [24, 32]"),
        ("num_hidden_layers", json!(3), "`layers.2.attention.query.weight` is missing"),
        ("max_position_embeddings", json!(65), "is [64, 32], expected [65, 32]"),
        ("type_vocab_size", json!(1), "is [2, 32], expected [1, 32]"),
        ("type_vocab_size", json!(0), "is [2, 32], expected [0, 32]"),
        ("intermediate_size", json!(1 << 20), "expected [1048576, 32]"),
        ("hidden_size", json!(1 << 20), "expected [120, 1048576]"),
        ("num_hidden_layers", json!(1 << 20), "expected at most 1048576 heads in all"),
        ("intermediate_size", json!(63), "expected [63, 32]"),
    ] {
        let (line, code) = of().set(key, value.clone()).refusal();
        assert!(line.contains(want), "{key} = {value}: {line}");
        assert!(line.contains("config.json") || line.contains("model.safetensors"), "{line}");
        assert_eq!(code, 4);
    }
    for (key, want) in [
        ("hidden_size", "`hidden_size`: expected a whole number above 0, found nothing"),
        ("vocab_size", "`vocab_size`: expected"),
    ] {
        let (line, _) = of().unset(key).refusal();
        assert!(line.contains(want), "{line}");
    }
}

#[test]
fn distances_of_deberta_that_cannot_be_are_refused_and_those_below_1_mean_none() {
    let of = || Variant::of("deberta_v2_model");
    let whole = "a whole number up to 1048576";
    for key in ["position_buckets", "max_relative_positions"] {
        for value in [json!(1 << 21), json!(1e30), json!(8.5), json!("8"), json!([8]), json!(true)]
        {
            let (line, code) = of().set(key, value.clone()).refusal();
            let want = if value.is_number() { whole } else { "a number" };
            let want = format!("/config.json: `{key}`: expected {want}, found {value}");
            assert_eq!((line, code), (want, 4));
        }
    }
    for (buckets, furthest) in [(1, 512), (3, 512), (8, 5)] {
        let odd = of().set("position_buckets", json!(buckets));
        let (line, code) = odd.set("max_relative_positions", json!(furthest)).refusal();
        assert!(line.contains("`position_buckets`: expected 4 or more") && code == 4, "{line}");
    }
    // a table of other distances than the config says
    let (line, code) = of().set("position_buckets", json!(9)).refusal();
    assert!(line.contains("is [16, 32], expected [18, 32]") && code == 4, "{line}");
    for none in [json!(-1), json!(0), json!(null)] {
        // no bucket for each of many distances: every distance up to the longest text has its own
        let (line, code) = of().set("position_buckets", none.clone()).refusal();
        assert!(line.contains("is [16, 32], expected [128, 32]") && code == 4, "{line}");
        let variant = of().set("max_relative_positions", none);
        loads_the_same("deberta_v2_model", vec![("no furthest distance", variant)]);
    }
    let near = of().set("max_relative_positions", json!(9));
    let probs =
        |variant: Variant| numbers_of(&variant.open().expect("loads"), "deberta_v2_model").0;
    assert!(probs(near) != probs(of()), "the furthest distance counts");
}

#[test]
fn configs_of_decoders_that_cannot_be_honoured_are_refused_by_name() {
    let rope = |kind: &str| json!({"rope_theta": 1e4, "rope_type": kind});
    for (golden, family, key, value, want) in [
        (
            "llama_lm",
            "llama",
            "num_key_value_heads",
            json!(3),
            "a divisor of num_attention_heads 4",
        ),
        (
            "llama_lm",
            "llama",
            "num_key_value_heads",
            json!(0),
            "a divisor of num_attention_heads 4",
        ),
        ("llama_lm", "llama", "head_dim", json!(7), "an even width, for rotary positions"),
        ("llama_lm", "llama", "rope_parameters", rope("yarn"), "default, linear or llama3"),
        ("llama_lm", "llama", "rope_parameters", rope("linear"), "a number above 0 as `factor`"),
        ("llama_lm", "mistral", "sliding_window", json!(0), "a whole number above 0, or null"),
        ("llama_lm", "mistral", "sliding_window", json!("4"), "`sliding_window`: expected"),
        ("llama_lm", "qwen2", "use_sliding_window", json!(4), "expected true or false, found 4"),
        (
            "llama_lm",
            "qwen2",
            "layer_types",
            json!(["full_attention"]),
            "a list of 2, one per layer",
        ),
        (
            "llama_lm",
            "qwen2",
            "layer_types",
            json!(["a", "b"]),
            "sliding_attention or full_attention",
        ),
        ("gpt2_lm", "gpt2", "add_cross_attention", json!(true), "`add_cross_attention`: expected"),
        (
            "bart_lm",
            "bart",
            "decoder_attention_heads",
            json!(5),
            "a divisor of d_model 32, found 5",
        ),
        ("bart_lm", "bart", "decoder_layers", json!(3), "`decoder.layers.2"),
        ("bart_lm", "bart", "eos_token_id", json!("</s>"), "`eos_token_id`: expected a token id"),
        ("t5_lm", "t5", "feed_forward_proj", json!("gated-swish"), "expected one of relu, gelu"),
        ("t5_lm", "t5", "relative_attention_num_buckets", json!(3), "4 or more"),
    ] {
        let variant = Variant::of(golden).set("model_type", json!(family));
        let (line, code) = variant.set(key, value.clone()).refusal();
        assert!(line.contains(want), "{family}, {key} = {value}: {line}");
        assert_eq!(code, 4);
    }
}

/// Under a root, an ε below 0 makes numbers that are none.
#[test]
fn no_family_takes_an_epsilon_below_0() {
    let keys = ["layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps", "norm_eps"];
    let mut seen = 0;
    for entry in fs::read_dir(fixture("goldens")).expect("goldens") {
        let name = entry.expect("entry").file_name().into_string().expect("UTF-8");
        let Ok(text) = fs::read(fixture("goldens").join(&name).join("config.json")) else {
            continue;
        };
        let config: Value = serde_json::from_slice(&text).expect("JSON");
        let Some(key) = keys.into_iter().find(|key| config.get(key).is_some()) else { continue };
        if !fixture("goldens").join(&name).join("model.safetensors").exists() {
            continue; // sharded, or not here
        }
        let (line, code) = Variant::of(&name).set(key, json!(-1e-3)).refusal();
        assert!(line.contains(&format!("`{key}`: expected a number, 0 or more")), "{name}: {line}");
        assert_eq!(code, 4, "{name}");
        seen += 1;
    }
    assert!(seen >= 15, "{seen} goldens");
}

#[test]
fn configs_that_are_no_json_object() {
    for (text, want) in [
        ("", "not a model config"),
        ("{\"model_type\": \"bert\",", "not a model config"),
        ("[1, 2]", "expected a JSON object, found an array"),
        ("null", "expected a JSON object, found null"),
    ] {
        let folder = TempDir::new().expect("folder");
        Variant::of("bert_model").write(folder.path());
        fs::write(folder.path().join("config.json"), text).expect("written");
        let (line, code) = refusal(folder.path());
        assert!(line.starts_with("/config.json: ") && line.contains(want), "{line}");
        assert_eq!(code, 4);
    }
}

#[test]
fn keys_that_change_nothing_are_silent_and_unknown_ones_are_not() {
    let chinese = [
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    ];
    let quiet = chinese.iter().fold(Variant::of("bert_model"), |v, key| v.set(key, json!(1)));
    let model = quiet.set("hidden_dropout_prob", json!(0.5)).open().expect("loads");
    assert_eq!(model.report().notes, Vec::<String>::new());
    let model = Variant::of("bert_model").set("flux_capacity", json!(1)).open().expect("loads");
    let notes = model.report().notes.join("\n");
    assert!(notes.contains("unknown key `flux_capacity`, ignored"), "{notes}");
}

#[test]
fn each_config_value_that_matters_matters() {
    let base = numbers_of(&Variant::of("bert_model").open().expect("loads"), "bert_model").0;
    let mut seen = vec![base];
    for (key, value) in [
        ("hidden_act", json!("relu")),
        ("hidden_act", json!("gelu_new")),
        ("hidden_act", json!("quick_gelu")),
        ("hidden_act", json!("silu")),
        ("hidden_act", json!("tanh")),
        ("layer_norm_eps", json!(0.1)),
        ("num_attention_heads", json!(2)),
    ] {
        let model = Variant::of("bert_model").set(key, value.clone()).open().expect("loads");
        let probs = numbers_of(&model, "bert_model").0;
        assert!(seen.iter().all(|other| *other != probs), "{key} = {value} changed nothing");
        seen.push(probs);
    }
    for (name, alias) in
        [("gelu_new", "gelu_pytorch_tanh"), ("gelu_new", "gelu_fast"), ("silu", "swish")]
    {
        let of = |name: &str| {
            let variant = Variant::of("bert_model").set("hidden_act", json!(name));
            numbers_of(&variant.open().expect("loads"), "bert_model").0
        };
        assert!(of(name) == of(alias), "{name} is {alias}");
    }
}

#[test]
fn the_task_follows_the_flag_the_architecture_the_tensors() {
    let task = |variant: Variant| variant.open().expect("loads").config().task;
    let labels = Tensor::zeros((5, 32), DType::F32, &Device::Cpu).expect("tensor");
    let classes = |v: Variant| {
        v.with("classifier.weight", labels.clone()).with("classifier.bias", zeros(&[5], DType::F32))
    };
    let bare = || Variant::of("bert_model").unset("architectures");
    let no_pooler =
        || bare().renamed(|name| if name.contains("pooler") { String::new() } else { name.into() });
    assert_eq!(task(bare()), Task::Encoder);
    assert_eq!(task(classes(bare())), Task::SequenceClassification);
    assert_eq!(task(classes(no_pooler())), Task::TokenClassification);
    assert_eq!(task(Variant::of("bert_mlm").unset("architectures")), Task::MaskedLm);
    let unknown = Variant::of("bert_mlm").set("architectures", json!(["BertForMultipleChoice"]));
    let model = unknown.open().expect("loads");
    assert_eq!(model.config().task, Task::Encoder);
    assert!(model.report().notes.join(" ").contains("the head of `BertForMultipleChoice`"));
    let options = attnviz::LoadOptions { task: Some(Task::Encoder), ..Default::default() };
    let folder = fixture("goldens/bert_mlm");
    let model = open_with(&folder, None, &options).expect("loads");
    assert_eq!(model.config().task, Task::Encoder);
    let options = attnviz::LoadOptions { task: Some(Task::TokenClassification), ..options };
    let error = open_with(&folder, None, &options).err().expect("no classifier");
    assert!(error.to_string().contains("`classifier.weight` is missing"), "{error}");
}

#[test]
fn token_classification_gives_a_score_per_token_and_class() {
    let tokens = Variant::of("bert_model")
        .unset("architectures")
        .renamed(|name| if name.contains("pooler") { String::new() } else { name.into() })
        .with("classifier.weight", Tensor::ones((5, 32), DType::F32, &Device::Cpu).expect("tensor"))
        .with("classifier.bias", zeros(&[5], DType::F32));
    let model = tokens.open().expect("loads");
    let run = record(&model, &Golden::open("bert_model").batch(), &[]);
    let logits = model.head(&run.hidden, &run.batch).expect("head").logits.expect("logits");
    assert_eq!(logits.dims(), [3, 12, 5]);
    let sums = numbers(&run.hidden.sum(2).expect("sums"));
    for (scores, sum) in numbers(&logits).chunks(5).zip(sums) {
        assert!(scores.iter().all(|s| (s - sum).abs() < 1e-3), "{scores:?} {sum}");
    }
}

#[test]
fn f64_weights_and_a_file_by_its_own_path() {
    let whole = open(&fixture("goldens/bert_model"), None).expect("loads");
    let wide = Variant::of("bert_model").cast(DType::F64).open().expect("loads");
    assert_eq!(wide.report().dtypes, ["F64"]);
    assert!(numbers_of(&wide, "bert_model") == numbers_of(&whole, "bert_model"));
    let file = fixture("goldens/bert_model/model.safetensors");
    let by_path = open(Path::new(&file), None).expect("loads");
    assert!(numbers_of(&by_path, "bert_model") == numbers_of(&whole, "bert_model"));
}
