//! `pytorch_model.bin` in the forms that people have, and files that are no tensor pickles.

mod common;

use std::collections::HashMap;
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use attnviz::Model;
use attnviz::Site;
use attnviz::export::{ConvertOptions, convert};
use attnviz::hub::{self, HubEnv, ModelFiles, ModelRequest};
use common::variant::refusal;
use common::{Golden, fixture, numbers, open, record};
use safetensors::SafeTensors;
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

fn pickles(name: &str) -> PathBuf {
    fixture("pickles").join(name)
}

fn golden_config() -> PathBuf {
    fixture("goldens/bert_mlm/config.json")
}

fn open_pickled(path: &Path) -> Model {
    open(path, golden_config().to_str()).unwrap_or_else(|error| panic!("{error}"))
}

/// All attention weights of the golden's batch, and the logits.
fn numbers_of(model: &Model) -> Vec<f32> {
    let run = record(model, &Golden::open("bert_mlm").batch(), &[]);
    let layers = 0..model.config().layers();
    let mut all: Vec<f32> = layers.flat_map(|l| numbers(run.kept(l, Site::Probs))).collect();
    all.extend(numbers(
        &model.head(&run.hidden, &run.batch).expect("head").logits.expect("logits"),
    ));
    all
}

#[test]
fn a_pickled_model_gives_the_numbers_of_the_safetensors_one() {
    let want = numbers_of(&open(&fixture("goldens/bert_mlm"), None).expect("loads"));
    for name in [
        "bert_mlm",
        "bert_mlm/pytorch_model.bin",
        "bert_mlm_old",
        "bert_mlm_old/pytorch_model.bin",
        "bert_mlm_sharded",
    ] {
        let model = open_pickled(&pickles(name));
        assert!(numbers_of(&model) == want, "{name}: other numbers");
        assert_eq!(model.report().unused, Vec::<String>::new(), "{name}");
        assert_eq!(model.report().notes, Vec::<String>::new(), "{name}");
        assert_eq!(model.report().dtypes, ["F32"], "{name}");
    }
}

#[test]
fn safetensors_win_over_a_pickle_and_it_is_said() {
    let folder = TempDir::new().expect("folder");
    for file in ["model.safetensors", "config.json"] {
        let golden = fixture("goldens/bert_mlm");
        fs::copy(golden.join(file), folder.path().join(file)).expect("copied");
    }
    fs::write(folder.path().join("pytorch_model.bin"), b"never read").expect("written");
    let model = open(folder.path(), None).expect("loads");
    let notes = model.report().notes.join("\n");
    assert!(notes.contains("pytorch_model.bin ignored: the safetensors"), "{notes}");
}

/// Number format, shape and bytes by name.
type Arrays = HashMap<String, (String, Vec<usize>, Vec<u8>)>;

/// The tensors of a file of torch.save by name: type, shape and bytes, through a conversion.
fn converted(path: &Path) -> (Arrays, Vec<String>) {
    let request = ModelRequest {
        model: Some(path.display().to_string()),
        config: Some(golden_config()),
        ..ModelRequest::default()
    };
    let files = hub::resolve(&request, &HubEnv::from_env(), &()).expect("files");
    let folder = TempDir::new().expect("folder");
    let out = folder.path().join("out");
    let done = convert(&files, &out, &ConvertOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (tensors(&out.join("model.safetensors")), done.notes)
}

fn tensors(path: &Path) -> HashMap<String, (String, Vec<usize>, Vec<u8>)> {
    let bytes = fs::read(path).expect("read");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let about = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
        let dtype = format!("{:?}", view.dtype());
        (name.to_owned(), (dtype, view.shape().to_vec(), view.data().to_vec()))
    };
    file.iter().map(about).collect()
}

#[test]
fn every_type_and_every_view() {
    let want = tensors(&pickles("odd.safetensors"));
    assert_eq!(want.len(), 21);
    for name in ["odd.bin", "odd_old.bin", "odd_zip64.bin", "odd_big_endian.bin"] {
        let (got, notes) = converted(&pickles(name));
        for (tensor, want) in &want {
            assert!(got.get(tensor) == Some(want), "{name}: {tensor}");
        }
        assert_eq!(got.len(), want.len(), "{name}");
        let notes = notes.join("\n");
        assert!(notes.contains("those under its key `state_dict`"), "{notes}");
        let beside = "left aside, being no tensor of the model: `best`, `epoch`, `names`";
        assert!(notes.contains(beside), "{notes}");
    }
}

// What is refused

/// A folder with this as pytorch_model.bin: the line that refuses it.
fn refused(bytes: &[u8]) -> String {
    let folder = TempDir::new().expect("folder");
    fs::copy(golden_config(), folder.path().join("config.json")).expect("copied");
    fs::write(folder.path().join("pytorch_model.bin"), bytes).expect("written");
    let (line, code) = refusal(folder.path());
    assert_eq!(code, 4, "{line}");
    assert!(line.starts_with("/pytorch_model.bin: "), "{line}");
    assert!(line.chars().count() < 300, "{line}");
    line
}

/// A zip archive in torch's manner.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in entries {
        zip.start_file(*name, options).expect("entry");
        zip.write_all(bytes).expect("entry");
    }
    zip.finish().expect("archive").into_inner()
}

fn pickled(pickle: &[u8]) -> Vec<u8> {
    archive(&[("archive/data.pkl", pickle), ("archive/data/0", &[0; 24])])
}

/// `{name: tensor}` with these parts as pickle operations.
fn tensor_pickle(storage: &str, offset: &str, shape: &str, strides: &str) -> Vec<u8> {
    let unhex = |text: &str| -> Vec<u8> {
        let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16);
        digits.chunks(2).map(|pair| byte(pair).expect("hex")).collect()
    };
    let mut pickle = b"\x80\x02}(X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(".to_vec();
    pickle.extend(b"(X\x07\0\0\0storagectorch\n");
    pickle.extend(storage.as_bytes());
    pickle.extend(b"\nX\x01\0\0\x000X\x03\0\0\0cpuK\x06tQ");
    for part in [offset, shape, strides] {
        pickle.extend(unhex(part));
    }
    pickle.extend(b"\x89}tRu.");
    pickle
}

#[test]
fn the_smallest_pickle_by_hand_is_read() {
    let folder = TempDir::new().expect("folder");
    let path = folder.path().join("x.bin");
    let pickle = tensor_pickle("FloatStorage", "4b00", "4b02 4b03 86", "4b03 4b01 86");
    fs::write(&path, pickled(&pickle)).expect("written");
    let (tensors, _) = converted(&path);
    assert_eq!(tensors["w"], ("F32".into(), vec![2, 3], vec![0; 24]));
}

#[test]
fn a_pickle_that_would_run_something_is_refused_and_nothing_is_run() {
    let marker = TempDir::new().expect("folder");
    let marker = marker.path().join("was-run");
    let command = format!("touch {}", marker.display());
    let mut system = b"\x80\x02cposix\nsystem\nX".to_vec();
    system.extend(u32::try_from(command.len()).expect("short").to_le_bytes());
    system.extend(command.as_bytes());
    system.extend(b"\x85R.");
    let line = refused(&pickled(&system));
    assert!(line.contains("`posix.system`; refused, nothing was run"), "{line}");
    // the same before torch 1.6, where it is the third pickle
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    let old = [&magic[..], b"\x80\x02M\xe9\x03.\x80\x02}.", &system].concat();
    assert!(refused(&old).contains("`posix.system`"));
    assert!(!marker.exists());
    for (pickle, want) in [
        (&b"\x80\x02cbuiltins\neval\n)R."[..], "`builtins.eval`"),
        (b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)R.", "`numpy.core.multiarray."),
        (b"\x80\x02c__torch__\nNet\n)\x81}b.", "`__torch__.Net`"),
        (b"\x80\x02c\x1b[31m\nx\n.", "\\u{1b}[31m"),
        (b"\x80\x04\x95\0\0\0\0\0\0\0\0\x8c\x05posix\x8c\x06system\x93.", "protocol 4"),
        (b"\x80\x02X\x05\0\0\0posixX\x06\0\0\0system\x93.", "operation 0x93"),
        (b"(iposix\nsystem\n.", "operation 0x69"),
        (b"\x80\x02]q\x00.", "expected a dictionary of tensors"),
        (b"\x80\x02}X\x01\0\0\0aK\x01s.", "no tensor in its dictionary"),
        (b"\x80\x02}", "cut short"),
        (b"", "cut short"),
    ] {
        let line = refused(&pickled(pickle));
        assert!(line.contains(want), "{want}: {line}");
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let (zero, long) = ("4b00", "8a08ffffffffffffff7f");
    for (storage, offset, shape, strides, want) in [
        ("FloatStorage", zero, "4b02 4b04 86", "4b04 4b01 86", "reaches beyond its storage of 24"),
        ("FloatStorage", "4b01", "4b02 4b03 86", "4b03 4b01 86", "reaches beyond"),
        ("DoubleStorage", zero, "4b02 4b03 86", "4b03 4b01 86", "reaches beyond"),
        ("FloatStorage", zero, "4b02 85", &format!("{long} 85"), "reaches beyond"),
        ("FloatStorage", long, "4b02 85", "4b01 85", "reaches beyond"),
        ("FloatStorage", zero, &format!("{long} {long} 86"), "4b00 4b00 86", "impossible shape"),
        ("FloatStorage", zero, "8a05ffffffff01 85", "4b00 85", "overlap many times"),
        ("FloatStorage", zero, "4d0001 4d0001 86", "4b00 4b00 86", "overlap many times"),
        ("FloatStorage", zero, "4b02 4b03 86", "4b01 85", "not saved as torch saves"),
        ("FloatStorage", zero, "4affffffff 85", "4b01 85", "not saved as torch saves"),
        ("QInt8Storage", zero, "4b02 85", "4b01 85", "holds a `QInt8Storage`"),
    ] {
        let line = refused(&pickled(&tensor_pickle(storage, offset, shape, strides)));
        assert!(line.contains(want), "{want}: {line}");
    }
    // any stride will do where there is one element
    let pickle = tensor_pickle("FloatStorage", zero, "4b01 4b06 86", &format!("{long} 4b01 86"));
    let folder = TempDir::new().expect("folder");
    fs::write(folder.path().join("x.bin"), pickled(&pickle)).expect("written");
    assert_eq!(converted(&folder.path().join("x.bin")).0["w"].1, [1, 6]);
}

#[test]
fn files_that_are_not_whole_or_not_torchs() {
    let whole = fs::read(pickles("bert_mlm/pytorch_model.bin")).expect("read");
    let old = fs::read(pickles("bert_mlm_old/pytorch_model.bin")).expect("read");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n".to_vec();
    let tensor = tensor_pickle("FloatStorage", "4b00", "4b02 85", "4b01 85");
    let mut tar = vec![0; 600];
    tar[257..262].copy_from_slice(b"ustar");
    let safetensors = fs::read(fixture("goldens/bert_mlm/model.safetensors")).expect("read");
    for (bytes, want) in [
        (pointer, "git-lfs pointer"),
        (Vec::new(), "0 bytes long, expected pickled weights"),
        (b"PK\x03\x04".to_vec(), "4 bytes long"),
        (whole[..whole.len() - 1000].to_vec(), "truncated or damaged"),
        (whole[..1000].to_vec(), "truncated or damaged"),
        (old[..old.len() - 1000].to_vec(), "the file is truncated: storage"),
        (old[..5000].to_vec(), "cut short"),
        (old[..20].to_vec(), "cut short"),
        (tar, "torch before 0.2 (a tar archive)"),
        (b"\x80\x02}q\x00.\x00\x00\x00\x00".to_vec(), "not a file of torch.save"),
        (b"<!DOCTYPE html><html>".to_vec(), "not a file of torch.save"),
        (safetensors, "not a file of torch.save"),
        (archive(&[("readme.txt", b"hello")]), "without data.pkl"),
        (archive(&[("a/data.pkl", b"}."), ("b/data.pkl", b"}.")]), "several data.pkl"),
        (archive(&[("a/data.pkl", &tensor)]), "storage `0` of tensor `w` is not in the file"),
    ] {
        let line = refused(&bytes);
        assert!(line.contains(want), "{want}: {line}");
    }
}

#[test]
fn any_damage_gives_an_error_or_a_model_and_never_a_panic() {
    for name in ["odd.bin", "odd_old.bin"] {
        let whole = fs::read(pickles(name)).expect("read");
        let folder = TempDir::new().expect("folder");
        let path = folder.path().join("x.bin");
        let files = |path: &Path| ModelFiles {
            config: Some(hub::Asset::Disk(golden_config())),
            generation: None,
            weights: vec![hub::Asset::Disk(path.to_path_buf())],
            ..files_of(path)
        };
        for at in (0..whole.len()).step_by(7) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            fs::write(&path, &bytes).expect("written");
            let _ = Model::open(&files(&path), &attnviz::LoadOptions::default());
            fs::write(&path, &whole[..at]).expect("written");
            assert!(Model::open(&files(&path), &attnviz::LoadOptions::default()).is_err());
        }
    }
}

fn files_of(path: &Path) -> ModelFiles {
    ModelFiles {
        name: path.display().to_string(),
        revision: None,
        config: None,
        generation: None,
        weights: Vec::new(),
        index: None,
        tokenizer: hub::TokenizerFiles::default(),
        notes: Vec::new(),
    }
}

// Shards

fn sharded() -> TempDir {
    let folder = TempDir::new().expect("folder");
    for file in fs::read_dir(pickles("bert_mlm_sharded")).expect("folder").flatten() {
        fs::copy(file.path(), folder.path().join(file.file_name())).expect("copied");
    }
    fs::copy(golden_config(), folder.path().join("config.json")).expect("copied");
    folder
}

#[test]
fn shards_that_are_missing_or_hold_the_same() {
    let folder = sharded();
    let second = folder.path().join("pytorch_model-00002-of-00002.bin");
    fs::remove_file(&second).expect("removed");
    let (line, code) = refusal(folder.path());
    assert!(line.contains("names 2 shards, but `pytorch_model-00002-of-00002.bin`"), "{line}");
    assert!(line.starts_with("/pytorch_model.bin.index.json: ") && code == 4, "{line}");

    fs::copy(folder.path().join("pytorch_model-00001-of-00002.bin"), &second).expect("copied");
    let (line, code) = refusal(folder.path());
    assert!(line.contains("is in /pytorch_model-00001-of-00002.bin too"), "{line}");
    assert!(line.starts_with("/pytorch_model-00002-of-00002.bin: ") && code == 4, "{line}");

    fs::remove_file(folder.path().join("pytorch_model.bin.index.json")).expect("removed");
    let (line, _) = refusal(folder.path());
    assert!(line.contains("but no pytorch_model.bin.index.json"), "{line}");
}

#[test]
fn a_file_of_settings_is_not_taken_for_weights() {
    let folder = TempDir::new().expect("folder");
    fs::write(folder.path().join("training_args.bin"), b"x").expect("written");
    let (line, _) = refusal(folder.path());
    assert!(line.contains("no weights in this folder, expected model.safetensors or"), "{line}");
    fs::write(folder.path().join("epoch3.bin"), b"x").expect("written");
    let (line, _) = refusal(folder.path());
    assert!(line.contains("to read `epoch3.bin`, give that file as --model"), "{line}");
}
