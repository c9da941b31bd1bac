//! Heads cut out of checkpoints: what is written computes what gates of 0 compute.

mod common;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::Command;

use attnviz::hub::{self, HubEnv, ModelFiles, ModelRequest};
use attnviz::prune::{PruneOptions, Pruned, Removal, StackHead, heads_left, prune};
use attnviz::tokens::Batch;
use attnviz::{Head, Intervention, Keep, Model, Recorder, Result, Site, Stack, Trace};
use candle_core::{DType, Device, Tensor};
use common::{Golden, fixture, numbers, open};
use ndarray::Array2;
use serde_json::{Value, json};
use tempfile::TempDir;

/// One checkpoint of every family and of every way in which heads lie in its tensors.
const CHECKPOINTS: [&str; 34] = [
    "goldens/bert_mlm",
    "goldens/bert_mlm_f16",
    "goldens/bert_mlm_sharded",
    "goldens/bert_mlm_legacy_names",
    "goldens/bert_seqcls",
    "goldens/bert_relative_key_query",
    "goldens/bert_lmhead_decoder",
    "goldens/roberta_mlm",
    "goldens/xlm_roberta",
    "goldens/camembert_mlm",
    "goldens/distilbert_mlm",
    "goldens/albert_mlm",
    "options/albert_groups",
    "goldens/electra_pretraining",
    "goldens/mpnet_model",
    "goldens/deberta_v2_model",
    "options/deberta_own_projections",
    "options/deberta_p2c",
    "goldens/modernbert_mlm",
    "options/modernbert_biases",
    "goldens/longformer_mlm",
    "goldens/gpt2_lm",
    "goldens/llama_lm",
    "options/llama_no_groups",
    "options/llama_biases",
    "options/llama_head_dim",
    "options/mistral_window",
    "options/qwen2_window",
    "goldens/bart_lm",
    "options/bart_heads",
    "goldens/t5_lm",
    "goldens/t5_v11_lm",
    "options/t5_decoder_layers",
    "goldens/marian_mt",
];

fn files(folder: &Path) -> ModelFiles {
    let model = Some(folder.display().to_string());
    let request = ModelRequest { model, ..ModelRequest::default() };
    hub::resolve(&request, &HubEnv::from_env(), &()).expect("files")
}

fn cut(from: &Path, to: &Path, remove: &BTreeSet<StackHead>) -> Pruned {
    prune(&files(from), to, remove, &PruneOptions::default()).expect("prunes")
}

fn golden(name: &str) -> Golden {
    Golden::at(fixture(name))
}

/// Some heads of every stack: of layer 0 the second group, of the last layer the first and, where
/// three are left, the last one.
fn some_heads(model: &Model) -> BTreeSet<StackHead> {
    let mut layers: BTreeMap<(Stack, usize), Vec<usize>> = BTreeMap::new();
    for StackHead { stack, head } in heads_left(model.config()) {
        layers.entry((stack, head.layer)).or_default().push(head.head);
    }
    let mut chosen = BTreeSet::new();
    for (&(stack, layer), heads) in &layers {
        let group = model.config().of(stack).group_size;
        let groups: Vec<&[usize]> = heads.chunks(group).collect();
        let last = !layers.contains_key(&(stack, layer + 1));
        let gone: Vec<usize> = match (layer, groups.len()) {
            (_, 0 | 1) => Vec::new(),
            (0, _) if !last => groups[1].to_vec(),
            (_, count) if last && count > 2 => [groups[0], groups[count - 1]].concat(),
            _ if last => groups[0].to_vec(),
            _ => Vec::new(),
        };
        chosen.extend(gone.into_iter().map(|head| StackHead { stack, head: Head { layer, head } }));
    }
    chosen
}

fn gates(heads: &[StackHead]) -> Vec<Intervention> {
    heads.iter().map(|one| Intervention::gate(one.stack, one.head, 0.0)).collect()
}

struct Found {
    trace: Trace,
    output: Tensor,
    /// Real rows of the output.
    mask: Array2<u32>,
}

fn run(model: &Model, golden: &Golden, changes: &[Intervention]) -> Found {
    let mut recorder = Recorder::new().keep(Site::Probs, Keep::All);
    let batch = golden.batch();
    let (hidden, batch) = match model.config().decoder {
        Some(_) => {
            let memory = model.encode(&batch, &mut recorder, changes).expect("encodes");
            let (ids, mask) = ("decoder_input_ids", "decoder_attention_mask");
            let batch = Batch::from_ids(golden.ids(ids), golden.ids(mask));
            let hidden = model.decode(&batch, Some(&memory), None, &mut recorder, changes);
            (hidden.expect("decodes"), batch)
        }
        None => (model.forward(&batch, &mut recorder, changes).expect("runs"), batch),
    };
    let output = model.head(&hidden, &batch).expect("head").logits.unwrap_or(hidden);
    Found { trace: recorder.into_trace().expect("trace"), output, mask: batch.mask }
}

/// Largest |got − want| / max(1, |want|) of what a run gives, real rows only.
fn hold(name: &str, got: &Found, want: &Found) {
    let axis = (got.output.rank() > 1 && got.output.dims()[1] == got.mask.ncols()).then_some(1);
    let off = common::worst(&got.output, &want.output, axis, &got.mask);
    assert!(off <= 1e-5, "{name}: output off by {off:.1e}");
    for (stack, layer, site, kept) in got.trace.iter() {
        let all = want.trace.get(stack, layer, site).expect("recorded");
        let place =
            |head: &usize| all.heads.iter().position(|one| one == head).expect("head") as u32;
        let places: Vec<u32> = kept.heads.iter().map(place).collect();
        let count = places.len();
        let places = Tensor::from_vec(places, count, &Device::Cpu).expect("places");
        let all = all.tensor.index_select(&places, 1).expect("heads");
        for (g, w) in numbers(&kept.tensor).into_iter().zip(numbers(&all)) {
            assert!((g - w).abs() <= 1e-5, "{name}, {stack:?} layer {layer}: {g} for {w}");
        }
    }
}

#[test]
fn gate_0_is_the_head_cut_out_of_the_weights_in_every_family() {
    for name in CHECKPOINTS {
        let golden = golden(name);
        let whole = open(&golden.folder, None).expect("loads");
        let folder = TempDir::new().expect("folder");
        let out = folder.path().join("out");
        let done = cut(&golden.folder, &out, &some_heads(&whole));
        assert!(!done.removed.is_empty(), "{name}");
        let left = open(&out, None).expect(name);
        let expected: BTreeSet<StackHead> = heads_left(whole.config())
            .into_iter()
            .filter(|one| !done.removed.contains(one))
            .collect();
        assert_eq!(heads_left(left.config()), expected, "{name}");
        assert_eq!(done.left, expected.len());
        assert!(done.parameters.1 < done.parameters.0 && done.bytes.0 < done.bytes.1 + 4096);
        let (gated, cut) = (run(&whole, &golden, &gates(&done.removed)), run(&left, &golden, &[]));
        hold(name, &cut, &gated);
        assert_eq!(left.report().unused, whole.report().unused, "{name}");
        assert_eq!(left.report().notes, whole.report().notes, "{name}");
    }
}

#[test]
fn pruning_twice_gives_the_bytes_of_pruning_once() {
    for name in CHECKPOINTS {
        let golden = golden(name);
        let heads = some_heads(&open(&golden.folder, None).expect("loads"));
        // the second stack or layer first, so that the order of prunings differs from that of names
        let (early, late): (BTreeSet<_>, BTreeSet<_>) =
            heads.iter().partition(|one| one.stack == Stack::Encoder && one.head.layer == 0);
        let folder = TempDir::new().expect("folder");
        let path = |name: &str| folder.path().join(name);
        cut(&golden.folder, &path("first"), &late);
        cut(&path("first"), &path("twice"), &early);
        cut(&golden.folder, &path("once"), &heads);
        for file in ["model.safetensors", "config.json"] {
            let read = |folder: &str| fs::read(path(folder).join(file)).expect("read");
            assert!(read("twice") == read("once"), "{name}: {file}");
        }
        let again = cut(&path("once"), &path("again"), &heads);
        assert!(again.removed.is_empty() && again.notes[0].ends_with("was removed before"));
    }
}

#[test]
fn the_reference_pruned_gives_the_same() {
    let golden = Golden::open("bert_mlm");
    let keep = golden.tensor("pruned.keep").to_vec2::<f32>().expect("keep");
    let mut remove = BTreeSet::new();
    for (layer, row) in keep.iter().enumerate() {
        for head in (0..row.len()).filter(|&head| row[head] == 0.0) {
            remove.insert(StackHead { stack: Stack::Encoder, head: Head { layer, head } });
        }
    }
    let folder = TempDir::new().expect("folder");
    let out = folder.path().join("out");
    cut(&golden.folder, &out, &remove);
    let found = run(&open(&out, None).expect("loads"), &golden, &[]);
    let off = common::worst(&found.output, golden.tensor("pruned.logits"), Some(1), &found.mask);
    assert!(off <= 2e-5, "logits: {off:.1e}"); // 3 × the float32-float64 distance in info.json
    for layer in 0..3 {
        let kept = found.trace.get(Stack::Encoder, layer, Site::Probs).expect("kept");
        let want = golden.tensor(&format!("pruned.attentions.{layer}"));
        let off = common::worst(&kept.tensor, want, Some(2), &found.mask);
        assert!(off <= 1e-5, "layer {layer}: {off:.1e}");
    }
}

#[test]
fn a_layer_that_loses_all_heads_passes_its_residual_and_bias() {
    for name in ["goldens/bert_mlm", "goldens/gpt2_lm", "goldens/modernbert_mlm", "goldens/bart_lm"]
    {
        let golden = golden(name);
        let whole = open(&golden.folder, None).expect("loads");
        let stack = whole.config().stack();
        let of = |layer| (0..4).map(move |head| StackHead { stack, head: Head { layer, head } });
        let mut remove: BTreeSet<StackHead> = of(1).collect();
        if name.ends_with("bart_lm") {
            remove.extend(of(0).map(|one| StackHead { stack: Stack::Cross, ..one }));
        }
        let folder = TempDir::new().expect("folder");
        let out = folder.path().join("out");
        let files = files(&golden.folder);
        let error = prune(&files, &out, &remove, &PruneOptions::default()).expect_err("refused");
        let line = error.to_string();
        let found = line.ends_with("found `all 4 heads of layer 1 (L1H0, …)`")
            || line.ends_with("(decoder:L1H0, …)`");
        assert!(found && line.contains("--allow-empty-layers") && !out.exists(), "{line}");

        let options = PruneOptions { allow_empty_layers: true, ..PruneOptions::default() };
        let done = prune(&files, &out, &remove, &options).expect("prunes");
        let left = open(&out, None).expect("loads");
        let gated = run(&whole, &golden, &gates(&done.removed));
        hold(name, &run(&left, &golden, &[]), &gated);
    }
}

#[test]
fn heads_that_share_keys_and_values_go_only_together() {
    let golden = Golden::open("llama_lm");
    let model = open(&golden.folder, None).expect("loads");
    assert_eq!(model.config().group_size, 2);
    let remove: Removal = "L1H2".parse().expect("list");
    let remove = remove.resolve(model.config()).expect("heads").into_iter().collect();
    let folder = TempDir::new().expect("folder");
    let out = folder.path().join("out");
    let error = prune(&files(&golden.folder), &out, &remove, &PruneOptions::default());
    let line = error.expect_err("refused").to_string();
    let want = "--remove: expected the whole group 1 of layer 1, which shares its keys and values: \
                L1H2, L1H3, found `L1H2 alone`";
    assert_eq!(line, want);
}

#[test]
fn what_went_is_named_as_transformers_4_names_it() {
    let read = |golden: &str, list: &[&str]| -> Value {
        let golden = golden_of(golden);
        let model = open(&golden, None).expect("loads");
        let heads = list.iter().flat_map(|list| {
            let list: Removal = list.parse().expect("list");
            list.resolve(model.config()).expect("heads")
        });
        let folder = TempDir::new().expect("folder");
        let out = folder.path().join("out");
        cut(&golden, &out, &heads.collect());
        let bytes = fs::read(out.join("config.json")).expect("config");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    let config = read("goldens/bert_mlm", &["2:3,1;0:0"]);
    assert_eq!(config["pruned_heads"], json!({"0": [0], "2": [1, 3]}));
    // a block's number stands for all layers that share it
    let config = read("goldens/albert_mlm", &["L2H3"]);
    assert_eq!(config["pruned_heads"], json!({"0": [3]}));
    let config = read("options/albert_groups", &["L0H0,L3H1"]);
    assert_eq!(config["pruned_heads"], json!({"0": [0], "1": [1]}));
    let lists = ["L0H2", "decoder:L1H0", "cross:{\"0\": [1, 3]}"];
    let config = read("goldens/t5_lm", &lists);
    assert_eq!(config["pruned_heads"], json!({"0": [2]}));
    assert_eq!(config["decoder_pruned_heads"], json!({"1": [0]}));
    assert_eq!(config["cross_pruned_heads"], json!({"0": [1, 3]}));
}

fn golden_of(name: &str) -> std::path::PathBuf {
    fixture(name)
}

#[test]
fn heads_that_are_not_there_are_refused() {
    let config = open(&fixture("goldens/bert_mlm"), None).expect("loads");
    let config = config.config();
    for (list, end) in [
        ("L3H0", "expected layers 0 to 2 (or -3 to -1), found `3`"),
        ("L0H4", "expected heads 0 to 3 (or -4 to -1), found `4`"),
        ("decoder:L0H0", "--remove: expected heads of encoder, found `decoder:`"),
    ] {
        let removal: Removal = list.parse().expect("list");
        let line = removal.resolve(config).expect_err("refused").to_string();
        assert!(line.ends_with(end), "{line}");
    }
    let beyond = StackHead { stack: Stack::Cross, head: Head { layer: 0, head: 0 } };
    let folder = TempDir::new().expect("folder");
    let files = files(&fixture("goldens/bert_mlm"));
    let remove = BTreeSet::from([beyond]);
    let error = prune(&files, &folder.path().join("out"), &remove, &PruneOptions::default());
    let line = error.expect_err("refused").to_string();
    assert!(line.starts_with("--remove: expected a head of encoder"), "{line}");
}

/// transformers 4 must load what is written and compute the same.
#[test]
#[ignore = "needs Python with torch and transformers 4: set ATTNVIZ_PYTHON to the interpreter, and \
            ATTNVIZ_TRANSFORMERS_4 to its folder where that is not the interpreter's own"]
fn transformers_4_loads_what_is_written() -> Result<()> {
    let python = std::env::var("ATTNVIZ_PYTHON").expect("ATTNVIZ_PYTHON");
    for name in [
        "bert_mlm",
        "bert_seqcls",
        "roberta_mlm",
        "xlm_roberta",
        "camembert_mlm",
        "distilbert_mlm",
        "albert_mlm",
        "electra_pretraining",
        "gpt2_lm",
    ] {
        let golden = Golden::open(name);
        let model = open(&golden.folder, None)?;
        let folder = TempDir::new().expect("folder");
        let out = folder.path().join("out");
        cut(&golden.folder, &out, &some_heads(&model));
        let found = run(&open(&out, None)?, &golden, &[]);
        let mut expected: HashMap<String, Tensor> = HashMap::new();
        for key in ["input_ids", "attention_mask", "token_type_ids"] {
            if let Some(tensor) = golden.tensors.get(key) {
                expected.insert(key.into(), tensor.clone());
            }
        }
        expected.insert("output".into(), found.output.to_dtype(DType::F32)?.contiguous()?);
        for (_, layer, _, kept) in found.trace.iter() {
            expected.insert(format!("probs.{layer}"), kept.tensor.contiguous()?);
        }
        let file = folder.path().join("expected.safetensors");
        candle_core::safetensors::save(&expected, &file)?;
        let mut command = Command::new(&python);
        command.args([&fixture("pruned/check.py"), &out, &file]);
        command.args(std::env::var("ATTNVIZ_TRANSFORMERS_4"));
        let run = command.output().expect("python runs");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{name}: {said}");
    }
    Ok(())
}
