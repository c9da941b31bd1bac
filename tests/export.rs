//! Arrays out and in.

use std::fs;
use std::path::{Path, PathBuf};

use attnviz::export::{Array, Arrays, Stages, Target, read_attention, read_batch};
use attnviz::{Attention, Error};
use candle_core::{DType, Device, Tensor};
use ndarray::{IxDyn, array};
use serde_json::{Value, json};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new("tests/fixtures/arrays").join(name)
}

fn read(name: &str) -> attnviz::Result<Attention> {
    read_attention(&fixture(name), Some(&fixture("tokens.json")))
}

/// The formula of the fixtures' README.
fn weight(l: usize, h: usize, q: usize, k: usize) -> f64 {
    let raw = |k: usize| ((48 * l + 16 * h + 4 * q + k + 1) % 7 + 1) as f64;
    raw(k) / (0..4).map(raw).sum::<f64>()
}

#[test]
fn every_layout_gives_the_same_attention() {
    for (name, tolerance) in [
        ("stacked.npz", 1e-7),
        ("layers_f16.npz", 3e-4),
        ("hooks.npz", 1e-7),
        ("unnamed.npz", 1e-7),
        ("fortran.npy", 1e-7),
    ] {
        let attention = read(name).unwrap();
        assert_eq!(attention.head_counts, [3, 3], "{name}");
        assert_eq!(attention.heads.len(), 6, "{name}");
        for one in &attention.heads {
            for ((q, k), &got) in one.weights.indexed_iter() {
                let want = weight(one.head.layer, one.head.head, q, k);
                assert!((f64::from(got) - want).abs() < tolerance, "{name} {} {q} {k}", one.head);
            }
        }
    }
}

#[test]
fn plain_token_lists_say_which_are_special_and_which_belong_together() {
    let tokens = read("stacked.npz").unwrap().keys;
    assert_eq!(tokens.iter().map(|t| t.special).collect::<Vec<_>>(), [true, false, false, true]);
    assert_eq!(tokens[1].word, tokens[2].word);

    let dir = TempDir::new().unwrap();
    let words_of = |tokens: Value| {
        let path = dir.path().join("tokens.json");
        fs::write(&path, tokens.to_string()).unwrap();
        let attention = read_attention(&fixture("stacked.npz"), Some(&path)).unwrap();
        attention.queries.iter().map(|t| (t.sequence, t.word)).collect::<Vec<_>>()
    };
    assert_eq!(
        words_of(json!(["The", "Ġcat", "s", "Ġsat"])),
        [(Some(0), Some(0)), (Some(0), Some(1)), (Some(0), Some(1)), (Some(0), Some(2))]
    );
    assert_eq!(
        words_of(json!(["a", "[SEP]", "b", {"text": "[SEP]", "special": true}])),
        [(Some(0), Some(0)), (None, None), (Some(1), Some(0)), (None, None)]
    );
    // a manifest will do
    assert_eq!(words_of(json!({"tool": "attnviz", "tokens": ["a", "b", "c", "d"]})).len(), 4);
}

#[test]
fn arrays_that_do_not_fit_their_tokens_name_both_numbers() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("tokens.json");
    fs::write(&path, r#"["a", "b", "c"]"#).unwrap();
    let error = read_attention(&fixture("stacked.npz"), Some(&path)).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.exit_code(), 5, "{text}");
    for part in ["stacked.npz", "3 queries", "4 by 4"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn unusable_files_are_one_line_errors() {
    let dir = TempDir::new().unwrap();
    let tokens = fixture("tokens.json");
    let npz = fs::read(fixture("stacked.npz")).unwrap();
    for (name, bytes) in [
        ("empty.npz", &b""[..]),
        ("text.npz", b"not a zip file"),
        ("cut.npz", &npz[..npz.len() / 2]),
        ("empty.npy", b""),
        ("text.safetensors", b"version https://git-lfs.github.com/spec/v1"),
        ("other.txt", b"x"),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let error = read_attention(&path, Some(&tokens)).unwrap_err();
        assert_eq!(error.exit_code(), 5, "{error}");
        assert!(error.to_string().contains(name) && !error.to_string().contains('\n'), "{error}");
    }
    let error = read_attention(&fixture("absent.npz"), Some(&tokens)).unwrap_err();
    assert!(matches!(error, Error::Io { .. }));
    let error = read_attention(&fixture("ids.npz"), Some(&tokens)).unwrap_err();
    assert!(error.to_string().contains("attention_mask, input_ids"), "{error}");
    let error = read_attention(&fixture("stacked.npz"), None).unwrap_err();
    assert!(error.to_string().contains("--tokens"), "{error}");
    for text in ["", "{}", "[1]", "{\"tokens\": 3}", "[[\"a\"]]"] {
        let path = dir.path().join("tokens.json");
        fs::write(&path, text).unwrap();
        let error = read_attention(&fixture("stacked.npz"), Some(&path)).unwrap_err();
        assert_eq!(error.exit_code(), 5, "{text}: {error}");
    }
}

#[test]
fn shapes_that_promise_the_world_are_refused() {
    let dir = TempDir::new().unwrap();
    for shape in ["(9223372036854775807, 4, 2)", "(0, 9223372036854775807, 4)", "(1000000000000,)"]
    {
        let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.bytes());
        let path = dir.path().join("huge.npy");
        fs::write(&path, bytes).unwrap();
        assert!(read_attention(&path, Some(&fixture("tokens.json"))).is_err(), "{shape}");
    }
}

#[test]
fn ids_come_with_a_mask_or_without() {
    let batch = read_batch(&fixture("ids.npz")).unwrap();
    assert_eq!(batch.ids, array![[1, 5, 2, 0], [1, 6, 7, 2]]);
    assert_eq!(batch.mask, array![[1, 1, 1, 0], [1, 1, 1, 1]]);
    assert_eq!(batch.type_ids.sum(), 0);
    assert_eq!(batch.lengths, [3, 4]);

    let dir = TempDir::new().unwrap();
    let path = dir.path().join("in.safetensors");
    let wrong = |ids: Tensor| {
        candle_core::safetensors::save(&[("input_ids", ids)].into(), &path).unwrap();
        let error = read_batch(&path).unwrap_err();
        assert_eq!(error.exit_code(), 5, "{error}");
        error.to_string()
    };
    let cpu = &Device::Cpu;
    assert!(wrong(Tensor::zeros((2, 0), DType::I64, cpu).unwrap()).contains("at least one token"));
    assert!(wrong(Tensor::new(&[1_i64, 2], cpu).unwrap()).contains("[batch, tokens]"));
    assert!(wrong(Tensor::new(&[[-1_i64, 2]], cpu).unwrap()).contains("-1"));
    assert!(wrong(Tensor::new(&[[1_f32, 2.0]], cpu).unwrap()).contains("whole numbers"));
    let error = read_batch(&fixture("stacked.npz")).unwrap_err();
    assert!(error.exit_code() == 5 && error.to_string().contains("`input_ids`"), "{error}");
}

#[test]
fn whole_numbers_of_every_width() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.npy");
    for (name, bytes) in [
        ("|i1", &b"\xfe\x07"[..]),
        ("<i2", b"\xfe\xff\x07\0"),
        ("<i4", b"\xfe\xff\xff\xff\x07\0\0\0"),
        ("<i8", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x07\0\0\0\0\0\0\0"),
        ("|u1", b"\xfe\x07"),
        ("<u2", b"\xfe\xff\x07\0"),
        ("<u4", b"\xfe\xff\xff\xff\x07\0\0\0"),
        ("|b1", b"\x01\0"),
    ] {
        let head = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': (2,), }}\n");
        let length = u16::try_from(head.len()).unwrap().to_le_bytes();
        let file = [b"\x93NUMPY\x01\x00", &length[..], head.as_bytes(), bytes].concat();
        fs::write(&path, file).unwrap();
        let Array::Int(got) = Arrays::open(&path).unwrap().get("").unwrap() else {
            panic!("{name}: no whole numbers")
        };
        let want = match name {
            "|u1" => [254, 7],
            "<u2" => [65_534, 7],
            "<u4" => [4_294_967_294, 7],
            "|b1" => [1, 0],
            _ => [-2, 7],
        };
        assert_eq!(got.into_raw_vec_and_offset().0, want, "{name}");
    }
}

fn stages() -> Stages {
    let cpu = &Device::Cpu;
    let values: Vec<f32> = (0..24).map(|i| i as f32 / 7.0).collect();
    let floats = Tensor::from_vec(values, (1, 2, 3, 4), cpu).unwrap();
    let about = json!({"model": "m", "tokens": ["[CLS]", "我", "🙂x"]});
    Stages {
        tensors: vec![
            ("input_ids".into(), Tensor::new(&[[101_u32, 7, 102]], cpu).unwrap()),
            ("hidden_states.0".into(), floats.t().unwrap()), // not contiguous
            ("attentions.0".into(), floats.to_dtype(DType::F64).unwrap()),
        ],
        about: about.as_object().unwrap().clone(),
    }
}

#[test]
fn what_is_written_reads_back_from_arrays() {
    let dir = TempDir::new().unwrap();
    for name in ["x.npz", "x.safetensors"] {
        let path = dir.path().join(name);
        let target = Target::new(&path, false).unwrap();
        target.write(&stages()).unwrap();
        let first = fs::read(&path).unwrap();
        target.write(&stages()).unwrap();
        assert_eq!(first, fs::read(&path).unwrap(), "{name}: other bytes the second time");

        let mut file = Arrays::open(&path).unwrap();
        let Array::Int(ids) = file.get("input_ids").unwrap() else { panic!("whole numbers") };
        assert_eq!(ids, array![[101_i64, 7, 102]].into_dyn());
        let Array::Float(hidden) = file.get("hidden_states.0").unwrap() else { panic!("reals") };
        assert_eq!(hidden.shape(), [1, 2, 4, 3]);
        assert_eq!(hidden[IxDyn(&[0, 1, 2, 1])], 18.0 / 7.0);
        assert!(matches!(file.get("attentions.0").unwrap(), Array::Float(_)));
        assert!(file.get("absent").is_err());
    }
}

#[test]
fn json_holds_nested_lists_that_read_back_exactly() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.json");
    let mut stages = stages();
    let odd = Tensor::new(&[f32::NAN, f32::INFINITY, 0.1], &Device::Cpu).unwrap();
    stages.tensors.push(("logits".into(), odd));
    stages.tensors.push(("one".into(), Tensor::new(7_i64, &Device::Cpu).unwrap()));
    Target::new(&path, false).unwrap().write(&stages).unwrap();
    let value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(value["tokens"][1], "我");
    assert_eq!(value["input_ids"], json!([[101, 7, 102]]));
    assert_eq!(value["hidden_states.0"][0][1][2][1].as_f64().unwrap() as f32, 18.0 / 7.0);
    assert_eq!(value["logits"], json!([null, null, 0.1]));
    assert_eq!(value["one"], 7);
    Target::new(&path, true).unwrap().write(&Stages::default()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n");
}

#[test]
fn what_is_there_is_not_overwritten() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.npz");
    fs::write(&path, "mine").unwrap();
    let error = Target::new(&path, false).unwrap_err();
    assert!(error.to_string().contains("--force"), "{error}");
    assert_eq!(Target::new(&dir.path().join("x.csv"), false).unwrap_err().exit_code(), 2);
    assert!(Target::new(&dir.path().join("new/x.npz"), false).is_ok());
    Target::new(&path, true).unwrap().write(&stages()).unwrap();
    assert!(Arrays::open(&path).is_ok());
}

#[cfg(unix)]
#[test]
fn files_are_as_readable_as_any_other() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    let plain = dir.path().join("plain");
    fs::write(&plain, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    for name in ["x.npz", "x.safetensors", "x.json"] {
        let path = dir.path().join(name);
        Target::new(&path, false).unwrap().write(&stages()).unwrap();
        assert_eq!(mode(&path), mode(&plain), "{name}");
    }
}

#[test]
fn an_exported_file_can_be_drawn_by_itself() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.safetensors");
    let weights = Tensor::full(1.0_f32 / 3.0, (1, 2, 3, 3), &Device::Cpu).unwrap();
    let mut stages = stages();
    stages.tensors[2].1 = weights;
    Target::new(&path, false).unwrap().write(&stages).unwrap();
    let attention = read_attention(&path, None).unwrap();
    assert_eq!(attention.heads.len(), 2);
    assert_eq!(attention.keys[1].text, "我");
}

/// Largest difference at real positions, relative where the reference is above 1.
fn distance(name: &str, got: &Array, want: &Array, mask: &Array) -> f64 {
    let (Array::Float(got), Array::Float(want), Array::Int(mask)) = (got, want, mask) else {
        panic!("{name}: types");
    };
    assert_eq!(got.shape(), want.shape(), "{name}");
    // the axis of query positions: second of [B,T,..], third of [B,H,T,S], none of [B,D]
    let position = match got.ndim() {
        4 => Some(2),
        3 => Some(1),
        _ => None,
    };
    let mut worst = 0.0_f64;
    for (at, &value) in got.indexed_iter() {
        if position.is_some_and(|axis| mask[[at[0], at[axis]]] == 0) {
            continue;
        }
        let want = f64::from(want[&at]);
        let off = (f64::from(value) - want).abs() / want.abs().max(1.0);
        worst = if off.is_nan() { f64::INFINITY } else { worst.max(off) };
    }
    worst
}

/// The command gives what transformers gave for the same ids, padding and batch axis kept. The
/// logits of bert_mlm are 6.2e-6 from float64 in the reference itself, hence three times that.
#[test]
fn the_command_agrees_with_transformers_on_given_ids() {
    let dir = TempDir::new().unwrap();
    for (model, outputs, tolerance) in [
        ("bert_model", &["last_hidden_state", "pooler_output"][..], 1e-5),
        ("bert_mlm", &["logits"], 1.86e-5),
        ("bert_seqcls", &["logits"], 1e-5),
    ] {
        let folder = Path::new("tests/fixtures/goldens").join(model);
        let golden = folder.join("golden.safetensors");
        let out = dir.path().join(format!("{model}.npz"));
        let run = std::process::Command::new(env!("CARGO_BIN_EXE_attnviz"))
            .args(["export", "--model"])
            .arg(&folder)
            .arg("--inputs")
            .arg(&golden)
            .arg("--out")
            .arg(&out)
            .output()
            .unwrap();
        assert!(run.status.success(), "{model}: {}", String::from_utf8_lossy(&run.stderr));
        let (mut got, mut want) = (Arrays::open(&out).unwrap(), Arrays::open(&golden).unwrap());
        let mask = want.get("attention_mask").unwrap();
        assert_eq!(got.get("attention_mask").unwrap(), mask);
        assert_eq!(got.get("input_ids").unwrap(), want.get("input_ids").unwrap());
        let names = want.names();
        let stages = names
            .iter()
            .filter(|name| name.starts_with("hidden_states.") || name.starts_with("attentions."));
        let mut compared = 0;
        for (name, limit) in stages
            .map(|name| (name.as_str(), 1e-5))
            .chain(outputs.iter().map(|&name| (name, tolerance)))
        {
            let off = distance(name, &got.get(name).unwrap(), &want.get(name).unwrap(), &mask);
            assert!(off <= limit, "{model} {name}: off by {off:.1e}");
            compared += 1;
        }
        assert!(compared >= 5, "{model}: {compared} stages");
    }
}
