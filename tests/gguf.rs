//! Checkpoints of Llama and Qwen2 from GGUF files: against the goldens, against the same weights decoded,
//! and files that cannot be read.

mod common;

use std::path::Path;

use attnviz::config::RopeScaling;
use attnviz::export::{ConvertOptions, convert};
use attnviz::hub::{self, HubEnv, ModelRequest};
use attnviz::model::Inspection;
use attnviz::tokens::Batch;
use attnviz::{Keep, LoadOptions, Model, Recorder, Site};
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use candle_core::{Device, Tensor};
use common::gguf::{Gguf, random, rounded};
use common::variant::Variant;
use common::{Golden, SITES, fixture, open, worst};
use ndarray::{Array2, s};
use tempfile::TempDir;

/// As for every other checkpoint: relative to max(1, |ref|).
const STAGE: f32 = 1e-5;

/// Every site, the last layer and the logits of a batch.
fn everything(model: &Model, batch: &Batch) -> Vec<(String, Tensor)> {
    let mut recorder =
        SITES.into_iter().fold(Recorder::new(), |recorder, site| recorder.keep(site, Keep::All));
    let hidden = model.forward(batch, &mut recorder, &[]).expect("forward");
    let logits = model.head(&hidden, batch).expect("head").logits.expect("logits");
    let trace = recorder.into_trace().expect("trace");
    let kept = trace.iter().map(|(stack, layer, site, one)| {
        (format!("{stack:?} {layer} {site:?}"), one.tensor.clone())
    });
    kept.chain([("hidden".into(), hidden), ("logits".into(), logits)]).collect()
}

/// A batch of which every token is real.
fn batch(vocab: u32) -> Batch {
    let ids = Array2::from_shape_fn((2, 11), |(b, t)| (5 + 7 * t as u32 + 31 * b as u32) % vocab);
    let mask = Array2::ones(ids.dim());
    Batch::from_ids(ids, mask)
}

fn hold_same(what: &str, got: &Model, want: &Model) {
    let batch = batch(want.config().vocab_size as u32);
    let (got, want) = (everything(got, &batch), everything(want, &batch));
    assert_eq!(got.len(), want.len());
    for ((stage, got), (_, want)) in got.iter().zip(&want) {
        let off = worst(got, want, None, &batch.mask);
        assert!(off <= STAGE, "{what}, {stage}: off by {off:.1e}");
    }
}

fn golden_gguf(kind: GgmlDType) -> Gguf {
    Gguf::of(&Variant::of("llama_lm"), |_| kind)
}

#[test]
fn f32_agrees_with_the_golden_at_every_stage() {
    let golden = Golden::open("llama_lm");
    let model = golden_gguf(GgmlDType::F32).open().expect("loads");
    assert_eq!(model.report().notes, [""; 0]);
    assert_eq!(model.report().unused, [""; 0]);
    assert!(model.tokenizer().is_err());
    let batch = golden.batch();
    let mut recorder = Recorder::new().keep(Site::Probs, Keep::All).keep(Site::Residual, Keep::All);
    let hidden = model.forward(&batch, &mut recorder, &[]).expect("forward");
    let logits = model.head(&hidden, &batch).expect("head").logits.expect("logits");
    let trace = recorder.into_trace().expect("trace");
    for (_, layer, site, one) in trace.iter() {
        let (name, axis) = match site {
            Site::Probs => (format!("attentions.{layer}"), 2),
            // the golden's last is behind the final norm
            _ if layer + 1 == model.config().layers() => continue,
            _ => (format!("hidden_states.{}", layer + 1), 1),
        };
        let off = worst(&one.tensor, golden.tensor(&name), Some(axis), &batch.mask);
        assert!(off <= STAGE, "{name}: off by {off:.1e}");
    }
    for (name, got) in [("hidden_states.2", &hidden), ("logits", &logits)] {
        let off = worst(got, golden.tensor(name), Some(1), &batch.mask);
        assert!(off <= STAGE, "{name}: off by {off:.1e}");
    }
}

#[test]
fn the_config_is_that_of_the_folder() {
    let folder = open(&fixture("goldens/llama_lm"), None).expect("loads");
    for kind in [GgmlDType::F32, GgmlDType::F16, GgmlDType::Q8_0] {
        let model = golden_gguf(kind).open().expect("loads");
        assert_eq!(model.config(), folder.config(), "{kind:?}");
    }
}

/// Its queries, keys and values have biases, and no rows are in pairs.
#[test]
fn qwen2_agrees_with_its_golden() {
    let place = fixture("options/qwen2_no_window");
    let (golden, folder) = (Golden::at(place.clone()), open(&place, None).expect("loads"));
    let variant = Variant::at(&place);
    let model = Gguf::of(&variant, |_| GgmlDType::F32).open().expect("loads");
    assert_eq!(model.config(), folder.config());
    assert_eq!((&model.report().notes, &model.report().unused), (&vec![], &vec![]));
    let batch = golden.batch();
    let hidden = model.forward(&batch, &mut Recorder::new(), &[]).expect("forward");
    let logits = model.head(&hidden, &batch).expect("head").logits.expect("logits");
    let off = worst(&logits, golden.tensor("logits"), Some(1), &batch.mask);
    assert!(off <= STAGE, "off by {off:.1e}");
    hold_same("qwen2", &model, &folder);
    let half = |_: &str| GgmlDType::F16;
    let want = rounded(&variant, half).open().expect("loads");
    hold_same("qwen2, F16", &Gguf::of(&variant, half).open().expect("loads"), &want);
    // a folder of it says qwen2 too
    let to = TempDir::new().expect("folder");
    let (from, to) = (to.path().join("model.gguf"), to.path().join("out"));
    Gguf::of(&variant, half).write(&from);
    let request =
        ModelRequest { model: Some(from.display().to_string()), ..ModelRequest::default() };
    let files = hub::resolve(&request, &HubEnv::from_env(), &()).expect("found");
    convert(&files, &to, &ConvertOptions::default()).expect("converted");
    hold_same("qwen2, converted", &open(&to, None).expect("loads"), &want);
    let (line, code) = Gguf::of(&variant, half).without("qwen2.block_count").refusal();
    assert!(line.contains("`qwen2.block_count`: expected a whole number") && code == 4, "{line}");
}

/// What ggml stores in blocks of 32 and 256.
const KINDS: [GgmlDType; 11] = [
    GgmlDType::F16,
    GgmlDType::BF16,
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
    GgmlDType::Q2K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];

#[test]
fn quantized_weights_are_those_that_they_decode_to() {
    let golden = Variant::of("llama_lm");
    let wide = random(256, 512, 64);
    for kind in KINDS {
        let small = if kind.block_size() == 256 { &wide } else { &golden };
        for variant in [small, &wide] {
            let stored = Gguf::of(variant, |_| kind).open().expect("loads");
            let dense = rounded(variant, |_| kind).open().expect("loads");
            hold_same(&format!("{kind:?}"), &stored, &dense);
        }
    }
}

/// Each tensor of a file has a type of its own.
#[test]
fn types_mix() {
    let wide = random(256, 512, 64);
    let kind = |name: &str| match name {
        name if name.contains("v_proj") => GgmlDType::Q6K,
        name if name.contains("k_proj") => GgmlDType::F32,
        name if name.contains("embed") => GgmlDType::Q8_0,
        name if name.contains("down") => GgmlDType::F16,
        _ => GgmlDType::Q4K,
    };
    let stored = Gguf::of(&wide, kind).open().expect("loads");
    assert_eq!(stored.report().dtypes, ["F16", "F32", "Q4_K", "Q6_K", "Q8_0"]);
    hold_same("mixed", &stored, &rounded(&wide, kind).open().expect("loads"));
}

/// A step with a cache is the last row of a full pass, for quantized weights too.
#[test]
fn cached_steps_are_rows_of_a_full_pass() {
    let wide = random(256, 512, 64);
    for kind in [GgmlDType::Q8_0, GgmlDType::Q4_1, GgmlDType::Q4K] {
        let model = Gguf::of(&wide, |_| kind).open().expect("loads");
        let batch = batch(96);
        let full = model.forward(&batch, &mut Recorder::new(), &[]).expect("forward");
        let mut cache = model.cache();
        for t in 0..batch.ids.ncols() {
            let ids = batch.ids.slice(s![.., t..t + 1]).to_owned();
            let step = Batch::from_ids(ids, Array2::ones((2, 1)));
            let mut recorder = Recorder::new();
            let got = model.decode(&step, None, Some(&mut cache), &mut recorder, &[]);
            let want = full.narrow(1, t, 1).expect("row");
            let off = worst(&got.expect("step"), &want, None, &step.mask);
            assert!(off <= STAGE, "{kind:?}, position {t}: off by {off:.1e}");
        }
    }
}

#[test]
fn biases_go_along() {
    let mut variant = Variant::of("llama_lm");
    for (part, rows) in [("q_proj", 32), ("k_proj", 16), ("v_proj", 16), ("o_proj", 32)] {
        for layer in 0..2 {
            let bias: Vec<f32> = (0..rows).map(|i| (i as f32 - 9.0) / 40.0).collect();
            let bias = Tensor::from_vec(bias, rows, &Device::Cpu).expect("bias");
            variant = variant.with(&format!("model.layers.{layer}.self_attn.{part}.bias"), bias);
        }
    }
    let want = variant.open().expect("loads");
    hold_same("biases", &Gguf::of(&variant, |_| GgmlDType::F32).open().expect("loads"), &want);
    let q8 = |_: &str| GgmlDType::Q8_0;
    let want = rounded(&variant, q8).open().expect("loads");
    hold_same("biases, Q8_0", &Gguf::of(&variant, q8).open().expect("loads"), &want);
}

#[test]
fn a_folder_with_one_file_is_that_file() {
    let folder = TempDir::new().expect("folder");
    golden_gguf(GgmlDType::F32).write(&folder.path().join("one.GGUF"));
    std::fs::write(folder.path().join("README.md"), "text").expect("written");
    assert!(open(folder.path(), None).is_ok());
    golden_gguf(GgmlDType::F32).write(&folder.path().join("two.gguf"));
    let (line, code) = common::variant::refusal(folder.path());
    assert!(line.contains("holds 2 .gguf files: give the one to read as --model"), "{line}");
    assert_eq!(code, 4);
}

#[test]
fn converted_it_is_a_folder_of_the_same_numbers() {
    let folder = TempDir::new().expect("folder");
    let (from, to) = (folder.path().join("model.gguf"), folder.path().join("out"));
    let gguf = golden_gguf(GgmlDType::Q8_0);
    gguf.write(&from);
    let request =
        ModelRequest { model: Some(from.display().to_string()), ..ModelRequest::default() };
    let files = hub::resolve(&request, &HubEnv::from_env(), &()).expect("found");
    let done = convert(&files, &to, &ConvertOptions::default()).expect("converted");
    assert_eq!(done.files, ["model.safetensors", "config.json"]);
    assert_eq!(done.dtypes, ["F32"]);
    let model = open(&to, None).expect("loads");
    assert_eq!(model.report().unused, [""; 0]);
    hold_same("converted", &model, &gguf.open().expect("loads"));
    let seen = Inspection::of(&files, &LoadOptions::default());
    assert_eq!(seen.problems, [""; 0]);
    assert!(seen.tokenizer.is_none());
}

/// What frequencies of Llama 3.1 are divided by, by its own definition in wavelengths.
fn llama31(base: f64, head_dim: usize, factor: f64) -> Tensor {
    let factors = (0..head_dim / 2).map(|i| {
        let wave = std::f64::consts::TAU * base.powf(2.0 * i as f64 / head_dim as f64);
        let (longest, shortest) = (8192.0 / 1.0, 8192.0 / 4.0);
        if wave < shortest {
            1.0
        } else if wave > longest {
            factor as f32
        } else {
            let smooth = (8192.0 / wave - 1.0) / (4.0 - 1.0);
            (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
        }
    });
    Tensor::from_vec(factors.collect(), head_dim / 2, &Device::Cpu).expect("factors")
}

#[test]
fn scaled_rotary_positions() {
    let wide = random(256, 512, 64);
    let gguf = || Gguf::of(&wide, |_| GgmlDType::F32).set("llama.rope.freq_base", Value::F32(5e5));
    let model = gguf().with("rope_freqs.weight", &llama31(5e5, 64, 32.0)).open().expect("loads");
    let llama3 = RopeScaling::Llama3 { factor: 32.0, low: 1.0, high: 4.0, original: 8192.0 };
    assert_eq!((model.config().rotary[0].base, model.config().rotary[0].scaling), (5e5, llama3));
    assert_eq!(model.report().unused, [""; 0]);
    let ones = Tensor::ones(32, candle_core::DType::F32, &Device::Cpu).expect("ones");
    let other = ((ones * 1.5).expect("factors"),);
    let (line, code) = gguf().with("rope_freqs.weight", &other.0).refusal();
    assert!(line.contains("`rope_freqs.weight` is not the scaling of Llama 3.1"), "{line}");
    assert_eq!(code, 4);
    let linear = gguf()
        .set("llama.rope.scaling.type", Value::String("linear".into()))
        .set("llama.rope.scaling.factor", Value::F32(4.0));
    let model = linear.open().expect("loads");
    assert_eq!(model.config().rotary[0].scaling, RopeScaling::Linear { factor: 4.0 });
}

#[test]
fn what_is_not_run_is_refused_by_name() {
    let text = |text: &str| Value::String(text.into());
    let cases = [
        ("general.architecture", text("phi3"), "an architecture that attnviz runs (llama, qwen2)"),
        ("llama.expert_count", Value::U32(8), "`llama.expert_count`: expected 0"),
        ("llama.attention.sliding_window", Value::U32(16), "expected 0 (windows"),
        ("llama.rope.scaling.type", text("yarn"), "`llama.rope.scaling.type`: expected none"),
        ("llama.rope.dimension_count", Value::U32(4), "expected 8, the width of a head, found 4"),
        ("llama.attention.head_count_kv", Value::U32(3), "expected a divisor"),
        ("llama.attention.scale", Value::F32(0.5), "`llama.attention.scale`: expected 0"),
        ("llama.attention.causal", Value::Bool(false), "expected true"),
        ("llama.block_count", text("two"), "expected a whole number above 0"),
        ("llama.block_count", Value::U32(3), "tensor `layers.2.attention"),
        ("split.count", Value::U16(2), "merge the parts"),
        ("tokenizer.ggml.model", text("bert"), "(gpt2, llama); give one with --tokenizer"),
        ("tokenizer.ggml.model", text("gpt2"), "`tokenizer.ggml.tokens`: expected a list"),
    ];
    for (key, value, want) in cases {
        let (line, code) = golden_gguf(GgmlDType::F32).set(key, value).refusal();
        assert!(line.contains(want), "{key}: {line}");
        assert_eq!(code, 4, "{key}");
    }
    let missing = golden_gguf(GgmlDType::F32).without("llama.context_length").refusal();
    assert!(missing.0.contains("`llama.context_length`: expected"), "{missing:?}");
    let missing = golden_gguf(GgmlDType::F32).without("blk.1.ffn_up.weight").refusal();
    assert!(missing.0.contains("is missing") && missing.1 == 4, "{missing:?}");
    let unknown = golden_gguf(GgmlDType::F32).set("llama.new.key", Value::U32(1));
    let notes = unknown.open().expect("loads").report().notes.join("\n");
    assert!(notes.contains("unknown key `llama.new.key`, ignored"), "{notes}");
    let extra = Tensor::ones(3, candle_core::DType::F32, &Device::Cpu).expect("ones");
    let extra = golden_gguf(GgmlDType::F32).with("blk.0.attn_new.weight", &extra);
    assert_eq!(extra.open().expect("loads").report().unused, ["blk.0.attn_new.weight"]);
}

/// The first place of some bytes.
fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).expect("there")
}

/// Opens bytes as a file: what went wrong in one line, if anything did.
fn try_bytes(path: &Path, bytes: &[u8]) -> Option<String> {
    std::fs::write(path, bytes).expect("written");
    let error = open(path, None).err()?;
    let line = error.to_string();
    assert!(!line.contains('\n') && error.exit_code() == 4, "{line}");
    Some(line)
}

#[test]
fn damaged_files_are_refused_in_one_line() {
    let folder = TempDir::new().expect("folder");
    let path = folder.path().join("model.gguf");
    let gguf = golden_gguf(GgmlDType::Q8_0).set("general.alignment", Value::U32(32));
    gguf.write(&path);
    let whole = std::fs::read(&path).expect("bytes");
    let patched = |at: usize, with: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        bytes
    };
    let alignment = find(&whole, b"general.alignment") + 17 + 4;
    let name = b"blk.0.attn_q.weight";
    let (first, kind) = (find(&whole, name), find(&whole, name) + name.len() + 4 + 16);
    let cases: [(&str, Vec<u8>, &str); 9] = [
        ("magic", patched(0, b"GGML"), "not a GGUF file"),
        ("version", patched(4, &9u32.to_le_bytes()), "GGUF of version 9, expected 2 or 3"),
        ("order", patched(4, &3u32.to_be_bytes()), "big-endian"),
        ("count", patched(8, &u64::MAX.to_le_bytes()), "truncated or damaged"),
        ("alignment", patched(alignment, &[0; 4]), "`general.alignment`: expected 1 to"),
        ("type", patched(kind, &20u32.to_le_bytes()), "`blk.0.attn_q.weight` is stored as IQ4_NL"),
        ("offset", patched(kind + 4, &u64::MAX.to_le_bytes()), "more than any file holds"),
        ("twice", patched(first, b"blk.0.attn_k.weight"), "`blk.0.attn_k.weight` is in it twice"),
        ("end", whole[..whole.len() - 40].to_vec(), "the file is truncated: tensor"),
    ];
    for (what, bytes, want) in cases {
        let line = try_bytes(&path, &bytes).unwrap_or_else(|| panic!("{what}: was read"));
        assert!(line.contains(want), "{what}: {line}");
    }
    for length in (9..whole.len() - 32).step_by(97) {
        assert!(try_bytes(&path, &whole[..length]).is_some(), "cut at {length}");
    }
}

/// Whatever a byte of the header becomes, the file is read or refused.
#[test]
fn no_byte_of_a_header_makes_it_panic() {
    let folder = TempDir::new().expect("folder");
    let path = folder.path().join("model.gguf");
    golden_gguf(GgmlDType::Q8_0).write(&path);
    let mut bytes = std::fs::read(&path).expect("bytes");
    let header = find(&bytes, b"token_embd.weight");
    for at in 0..header + 64 {
        let old = bytes[at];
        for new in [0, 0xff, old ^ 0x20] {
            bytes[at] = new;
            std::fs::write(&path, &bytes).expect("written");
            if let Err(error) = open(&path, None) {
                assert!(!error.to_string().contains('\n'), "byte {at}: {error}");
            }
        }
        bytes[at] = old;
    }
}
