//! Finding models: built in, on disk, in the Hub cache, and from a Hub on loopback.

#![cfg(feature = "hub")]

mod loopback;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use attnviz::Error;
use attnviz::hub::{Asset, HubEnv, ModelFiles, ModelRequest, Progress, Proxies, resolve};
use loopback::{Reply, Repository, Server, part, sha256};
use tempfile::TempDir;

const ID: &str = "some-org/tiny.bert_1";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const INDEX: &str = "model.safetensors.index.json";

fn fixture(path: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(path);
    std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// A tiny BERT with one weights file and a vocabulary.
fn tiny() -> BTreeMap<String, Vec<u8>> {
    [
        ("config.json", fixture("goldens/bert_model/config.json")),
        ("model.safetensors", fixture("goldens/bert_model/model.safetensors")),
        ("vocab.txt", fixture("tokenizers/vocab.txt")),
        ("tokenizer_config.json", br#"{"do_lower_case": true}"#.to_vec()),
    ]
    .map(|(name, content)| (name.to_owned(), content))
    .into()
}

/// The same weights' sharded relative.
fn sharded() -> BTreeMap<String, Vec<u8>> {
    let mut files = tiny();
    files.remove("model.safetensors");
    let shard = |n| format!("model-0000{n}-of-00003.safetensors");
    for name in [shard(1), shard(2), shard(3), "config.json".into(), INDEX.into()] {
        let content = fixture(&format!("goldens/bert_mlm_sharded/{name}"));
        files.insert(name, content);
    }
    files
}

fn repository(files: BTreeMap<String, Vec<u8>>) -> Repository {
    Repository { id: ID.into(), commit: COMMIT.into(), revisions: vec!["main".into()], files }
}

fn serve(repository: Repository) -> Server {
    Server::start(move |request| repository.answer(request))
}

/// A place of its own for the cache, and the Hub at that address.
fn at(endpoint: &str) -> (TempDir, HubEnv) {
    let folder = TempDir::new().unwrap();
    let env = HubEnv {
        cache: folder.path().join("hub"),
        token: None,
        endpoint: endpoint.into(),
        offline: false,
        quiet: false,
        proxies: Proxies::default(),
    };
    (folder, env)
}

fn asking(model: &str) -> ModelRequest {
    ModelRequest { model: Some(model.into()), ..ModelRequest::default() }
}

fn get(env: &HubEnv) -> attnviz::Result<ModelFiles> {
    resolve(&asking(ID), env, &())
}

fn content(asset: &Asset) -> Vec<u8> {
    asset.bytes().unwrap().into_owned()
}

/// The error's line, after checking its exit code.
fn fails(result: attnviz::Result<ModelFiles>, exit_code: u8) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.exit_code(), exit_code, "{error}");
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

fn write(folder: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for (name, content) in files {
        std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        std::fs::write(folder.join(name), content).unwrap();
    }
}

/// What huggingface_hub leaves after a download: blobs, a ref, a snapshot of links.
fn cache_as_transformers_does(cache: &Path, files: &BTreeMap<String, Vec<u8>>) -> PathBuf {
    let model = cache.join("models--some-org--tiny.bert_1");
    let snapshot = model.join("snapshots").join(COMMIT);
    for folder in [&model.join("blobs"), &model.join("refs"), &snapshot] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(model.join("refs/main"), COMMIT).unwrap();
    for (name, content) in files {
        let blob = sha256(content);
        std::fs::write(model.join("blobs").join(&blob), content).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(format!("../../blobs/{blob}"), snapshot.join(name)).unwrap();
        #[cfg(not(unix))]
        std::fs::write(snapshot.join(name), content).unwrap();
    }
    snapshot
}

// Built in

#[cfg(feature = "embedded")]
#[test]
fn the_built_in_checkpoint_is_ready_in_place() {
    let (_folder, env) = at("http://127.0.0.1:1");
    for model in [None, Some("built-in"), Some("built-in:all-MiniLM-L6-v2")] {
        let request = ModelRequest { model: model.map(str::to_owned), ..Default::default() };
        let files = resolve(&request, &env, &()).unwrap();
        assert_eq!(files.name, "all-MiniLM-L6-v2 (built in)");
        let [Asset::BuiltIn { bytes, .. }] = files.weights[..] else { panic!("one built-in file") };
        assert_eq!(bytes.len(), 45_441_944);
        assert_eq!(bytes.as_ptr() as usize % 64, 0);
        assert!(content(&files.config.unwrap()).starts_with(b"{"));
        assert!(attnviz::tokens::Tokenizer::open(&files.tokenizer).is_ok());
    }
    let files = resolve(&asking("built-in:kjv"), &env, &()).unwrap();
    assert_eq!(files.name, "kjv (built in)");
    let [Asset::BuiltIn { bytes, .. }] = files.weights[..] else { panic!("one built-in file") };
    assert_eq!(bytes.as_ptr() as usize % 64, 0);
    let line = fails(resolve(&asking("built-in:other"), &env, &()), 3);
    let all = "built in are `built-in:all-MiniLM-L6-v2` and `built-in:kjv`";
    assert!(line.contains(all), "{line}");
}

#[cfg(not(feature = "embedded"))]
#[test]
fn a_build_without_a_checkpoint_says_how_to_get_one() {
    let (_folder, env) = at("http://127.0.0.1:1");
    let line = fails(resolve(&ModelRequest::default(), &env, &()), 3);
    assert!(line.contains("--model"), "{line}");
}

// On disk

#[test]
fn folders_files_and_overrides() {
    let folder = TempDir::new().unwrap();
    let (_cache, env) = at("http://127.0.0.1:1");
    write(folder.path(), &tiny());
    let path = folder.path().display().to_string();
    let files = resolve(&asking(&path), &env, &()).unwrap();
    assert_eq!(files.weights, [Asset::Disk(folder.path().join("model.safetensors"))]);
    assert_eq!(files.config, Some(Asset::Disk(folder.path().join("config.json"))));
    assert_eq!(files.tokenizer.vocab, Some(Asset::Disk(folder.path().join("vocab.txt"))));
    assert_eq!((files.tokenizer.json, files.notes), (None, vec![]));

    let weights = format!("{path}/model.safetensors");
    let files = resolve(&asking(&weights), &env, &()).unwrap();
    assert_eq!(files.weights, [Asset::Disk(weights.clone().into())]);
    assert_eq!(files.config, Some(Asset::Disk(folder.path().join("config.json"))));

    write(folder.path(), &[("other/vocab.txt".into(), b"x".to_vec())].into());
    write(folder.path(), &[("mine.json".into(), b"{}".to_vec())].into());
    let request = ModelRequest {
        tokenizer: Some(folder.path().join("other")),
        config: Some(folder.path().join("mine.json")),
        revision: Some("v2".into()),
        ..asking(&path)
    };
    let files = resolve(&request, &env, &()).unwrap();
    assert_eq!(files.tokenizer.vocab, Some(Asset::Disk(folder.path().join("other/vocab.txt"))));
    assert_eq!(files.tokenizer.config, None);
    assert_eq!(files.config, Some(Asset::Disk(folder.path().join("mine.json"))));
    assert!(files.notes.iter().any(|note| note.contains("--revision v2")), "{:?}", files.notes);

    let missing = ModelRequest { config: Some("no/such.json".into()), ..asking(&path) };
    assert!(fails(resolve(&missing, &env, &()), 3).contains("no/such.json"));
    let empty = ModelRequest { tokenizer: Some(std::env::temp_dir().join("no-such")), ..missing };
    fails(resolve(&empty, &env, &()), 3);
}

#[test]
fn subfolders() {
    let folder = TempDir::new().unwrap();
    let (_cache, env) = at("http://127.0.0.1:1");
    write(&folder.path().join("deep/er"), &tiny());
    let path = folder.path().display().to_string();
    let with = |sub: &str| ModelRequest { subfolder: Some(sub.into()), ..asking(&path) };
    let files = resolve(&with("deep/er"), &env, &()).unwrap();
    assert_eq!(files.weights, [Asset::Disk(folder.path().join("deep/er/model.safetensors"))]);
    for bad in ["absent", "..", "deep/../..", "/", ""] {
        assert!(fails(resolve(&with(bad), &env, &()), 3).contains("--subfolder"), "{bad}");
    }
}

#[test]
fn shards_are_those_that_the_index_names() {
    let folder = TempDir::new().unwrap();
    let (_cache, env) = at("http://127.0.0.1:1");
    write(folder.path(), &sharded());
    write(folder.path(), &[("model-00009-of-00009.safetensors".into(), vec![0; 32])].into());
    let at_path = || resolve(&asking(&folder.path().display().to_string()), &env, &());
    let files = at_path().unwrap();
    let shard = |n| Asset::Disk(folder.path().join(format!("model-0000{n}-of-00003.safetensors")));
    assert_eq!(files.weights, [shard(1), shard(2), shard(3)]);
    assert_eq!(files.index, Some(Asset::Disk(folder.path().join(INDEX))));

    std::fs::remove_file(shard(2).path()).unwrap();
    let line = fails(at_path(), 4);
    assert!(line.contains("model-00002-of-00003.safetensors"), "{line}");
    assert!(line.contains(&folder.path().display().to_string()), "{line}");

    std::fs::remove_file(folder.path().join(INDEX)).unwrap();
    let line = fails(at_path(), 4);
    assert!(line.contains(INDEX) && line.contains("-of-"), "{line}");
}

#[test]
fn an_index_cannot_lead_out_of_its_folder() {
    let (_cache, env) = at("http://127.0.0.1:1");
    let bad = ["../outside.safetensors", "/etc/hostname", "a/../../b", "", ".", "..\\b", "C:\\b"];
    for name in bad {
        let folder = TempDir::new().unwrap();
        let index = serde_json::json!({"weight_map": {"a": name}}).to_string().into_bytes();
        write(folder.path(), &[(INDEX.to_owned(), index)].into());
        let line = fails(resolve(&asking(&folder.path().display().to_string()), &env, &()), 4);
        assert!(line.contains("outside the model's folder"), "{name}: {line}");
    }
    for text in ["", "[]", "{}", r#"{"weight_map": {}}"#, r#"{"weight_map": {"a": 1}}"#] {
        let folder = TempDir::new().unwrap();
        write(folder.path(), &[(INDEX.to_owned(), text.into())].into());
        let line = fails(resolve(&asking(&folder.path().display().to_string()), &env, &()), 4);
        assert!(line.contains(INDEX), "{text}: {line}");
    }
}

#[test]
fn what_is_no_safetensors_checkpoint_is_said() {
    let (_cache, env) = at("http://127.0.0.1:1");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 90868376\n";
    let cases: [(&str, &[u8], &str); 7] = [
        ("pytorch_model.bin", b"PK", "2 bytes"),
        ("pytorch_model.bin.index.json", b"{}", "not a weights index"),
        ("model.safetensors", pointer.as_bytes(), "git-lfs pointer"),
        (INDEX, pointer.as_bytes(), "git-lfs pointer"),
        ("model.safetensors", b"", "0 bytes"),
        ("other.safetensors", b"12345678901", "other.safetensors"),
        ("README.md", b"", "model.safetensors"),
    ];
    for (name, bytes, expected) in cases {
        let folder = TempDir::new().unwrap();
        write(folder.path(), &[(name.to_owned(), bytes.to_vec())].into());
        let line = fails(resolve(&asking(&folder.path().display().to_string()), &env, &()), 4);
        assert!(line.contains(expected), "{name}: {line}");
        assert!(line.contains(&folder.path().display().to_string()), "{name}: {line}");
    }
    let folder = TempDir::new().unwrap();
    write(folder.path(), &tiny());
    write(folder.path(), &[("pytorch_model.bin".into(), b"PK".to_vec())].into());
    let path = folder.path().display().to_string();
    let files = resolve(&asking(&path), &env, &()).unwrap();
    assert!(files.weights[0].path().ends_with("model.safetensors"));
    assert!(files.notes[0].contains("pytorch_model.bin"), "{:?}", files.notes);
    let bin = fails(resolve(&asking(&format!("{path}/pytorch_model.bin")), &env, &()), 4);
    assert!(bin.contains("2 bytes"), "{bin}");
    let text = fails(resolve(&asking(&format!("{path}/vocab.txt")), &env, &()), 4);
    assert!(text.contains(".safetensors"), "{text}");
}

#[test]
fn names_that_are_neither_paths_nor_ids() {
    let server = serve(repository(tiny()));
    let (_folder, env) = at(&server.address);
    let bad = [
        "a/b/c", "...", "../x/y", "", "a/", "/a", "a b", "-a/b", "a--b", "a/b..c", "ä/b", "~/m",
        "a\nb",
    ];
    for id in bad {
        fails(resolve(&asking(id), &env, &()), 3);
    }
    fails(resolve(&asking(&"a".repeat(97)), &env, &()), 3);
    for revision in ["", "..", "../main", "/main", "a/../../b", "a\nb"] {
        let request = ModelRequest { revision: Some(revision.into()), ..asking(ID) };
        assert!(fails(resolve(&request, &env, &()), 3).contains("--revision"), "{revision}");
    }
    assert!(server.paths().is_empty());
}

// From a Hub

#[test]
fn a_download_fills_the_cache_that_others_read() {
    let server = serve(repository(tiny()));
    let (_folder, env) = at(&server.address);
    let files = get(&env).unwrap();
    assert_eq!((files.name.as_str(), files.revision.as_deref()), (ID, Some(COMMIT)));
    assert_eq!(content(&files.weights[0]), tiny()["model.safetensors"]);
    assert_eq!(content(&files.tokenizer.vocab.clone().unwrap()), tiny()["vocab.txt"]);
    assert_eq!(files.tokenizer.json, None);

    let model = env.cache.join("models--some-org--tiny.bert_1");
    assert_eq!(std::fs::read_to_string(model.join("refs/main")).unwrap(), COMMIT);
    let snapshot = model.join("snapshots").join(COMMIT);
    assert_eq!(files.weights[0].path(), snapshot.join("model.safetensors"));
    let blob = model.join("blobs").join(sha256(&tiny()["model.safetensors"]));
    assert!(blob.is_file());
    #[cfg(unix)]
    assert_eq!(
        std::fs::read_link(snapshot.join("model.safetensors")).unwrap(),
        Path::new("../../blobs").join(blob.file_name().unwrap())
    );
    assert!(model.join(".no_exist").join(COMMIT).join("tokenizer.json").is_file());

    // Each file once, then nothing more.
    let prefix = format!("/{ID}/resolve/main/");
    let asked: Vec<String> =
        server.paths().iter().map(|path| path.strip_prefix(&prefix).unwrap().to_owned()).collect();
    let want = [
        "config.json",
        "model.safetensors",
        "generation_config.json",
        "tokenizer.json",
        "vocab.txt",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
    ];
    assert_eq!(asked, want);
    assert_eq!(get(&env).unwrap(), files);
    assert_eq!(get(&HubEnv { offline: true, ..env }).unwrap(), files);
    assert_eq!(server.paths().len(), want.len());
}

#[test]
fn shards_are_downloaded_by_the_index() {
    let server = serve(repository(sharded()));
    let (_folder, env) = at(&server.address);
    let files = get(&env).unwrap();
    assert_eq!(files.weights.len(), 3);
    assert!(files.index.is_some());

    let mut lacking = sharded();
    lacking.remove("model-00002-of-00003.safetensors");
    let server = serve(repository(lacking));
    let (_folder, env) = at(&server.address);
    let line = fails(get(&env), 3);
    assert!(line.contains("model-00002-of-00003.safetensors"), "{line}");

    let mut outside = sharded();
    outside.insert(INDEX.into(), br#"{"weight_map": {"a": "../../../../x"}}"#.to_vec());
    let server = serve(repository(outside));
    let (_folder, env) = at(&server.address);
    let line = fails(get(&env), 4);
    assert!(line.contains("outside the model's folder"), "{line}");
}

#[test]
fn subfolders_and_names_of_one_part() {
    let files = tiny().into_iter().map(|(name, content)| (format!("deep/er/{name}"), content));
    let server = serve(Repository { id: "gpt3".into(), ..repository(files.collect()) });
    let (_folder, env) = at(&server.address);
    let request = ModelRequest { subfolder: Some("deep/er".into()), ..asking("gpt3") };
    let files = resolve(&request, &env, &()).unwrap();
    assert_eq!(content(&files.weights[0]), tiny()["model.safetensors"]);
    assert!(files.weights[0].path().ends_with(format!("{COMMIT}/deep/er/model.safetensors")));
    let before = server.paths().len();
    assert_eq!(resolve(&request, &env, &()).unwrap(), files);
    assert_eq!(server.paths().len(), before);
}

#[test]
fn what_a_flag_replaces_is_not_fetched() {
    let mut only = tiny();
    only.retain(|name, _| name == "model.safetensors");
    let server = serve(repository(only));
    let (folder, env) = at(&server.address);
    write(folder.path(), &tiny());
    let request = ModelRequest {
        config: Some(folder.path().join("config.json")),
        tokenizer: Some(folder.path().join("vocab.txt")),
        ..asking(ID)
    };
    resolve(&request, &env, &()).unwrap();
    assert_eq!(server.paths(), [format!("/{ID}/resolve/main/model.safetensors")]);
}

#[test]
fn revisions() {
    let mut repository = repository(tiny());
    repository.revisions.push("refs%2Fpr%2F1".into());
    let server = serve(repository);
    let (_folder, env) = at(&server.address);
    let with = |revision: &str| ModelRequest { revision: Some(revision.into()), ..asking(ID) };
    let files = resolve(&with("refs/pr/1"), &env, &()).unwrap();
    assert_eq!(files.revision.as_deref(), Some(COMMIT));
    let model = env.cache.join("models--some-org--tiny.bert_1");
    assert_eq!(std::fs::read_to_string(model.join("refs/refs/pr/1")).unwrap(), COMMIT);

    // A commit that is cached needs no ref and no request.
    let before = server.paths().len();
    assert_eq!(resolve(&with(COMMIT), &env, &()).unwrap(), files);
    assert_eq!(server.paths().len(), before);
    let line = fails(resolve(&with("nope"), &env, &()), 3);
    assert!(line.contains("revision"), "{line}");
}

#[test]
fn only_what_is_missing_is_fetched() {
    let server = serve(repository(tiny()));
    let (_folder, env) = at(&server.address);
    let mut cached = tiny();
    cached.remove("vocab.txt");
    cache_as_transformers_does(&env.cache, &cached);
    let files = get(&env).unwrap();
    assert_eq!(content(&files.tokenizer.vocab.unwrap()), tiny()["vocab.txt"]);
    let asked = server.paths();
    assert!(asked.iter().any(|path| path.ends_with("/vocab.txt")), "{asked:?}");
    assert!(!asked.iter().any(|path| path.ends_with("/config.json")), "{asked:?}");
    assert!(!asked.iter().any(|path| path.ends_with("/model.safetensors")), "{asked:?}");
}

#[test]
fn a_model_that_has_moved_on_is_fetched_whole() {
    let mut changed = tiny();
    changed.insert("config.json".into(), br#"{"changed": true}"#.to_vec());
    let new = "f".repeat(40);
    let server = serve(Repository { commit: new.clone(), ..repository(changed.clone()) });
    let (_folder, env) = at(&server.address);
    let mut cached = tiny();
    // As transformers leaves a model that had no safetensors when it was cached.
    cached.remove("model.safetensors");
    cache_as_transformers_does(&env.cache, &cached);
    let absent = env.cache.join("models--some-org--tiny.bert_1/.no_exist").join(COMMIT);
    write(&absent, &["model.safetensors", INDEX].map(|name| (name.into(), vec![])).into());
    let files = get(&env).unwrap();
    assert_eq!(files.revision, Some(new));
    assert_eq!(content(&files.config.unwrap()), changed["config.json"]);
    assert_eq!(content(&files.weights[0]), tiny()["model.safetensors"]);
}

#[test]
fn redirects_to_another_host_do_not_take_the_token_along() {
    let storage = Server::start(|request| {
        part(&tiny()["model.safetensors"], request).with("ETag", "\"of-the-storage\"")
    });
    let elsewhere = storage.address.clone();
    let repository = repository(tiny());
    let server = Server::start(move |request| {
        // Renamed repositories redirect within the host, large files to another.
        if request.path.starts_with("/old/name/") {
            let path = request.path.replace("/old/name/", &format!("/{ID}/"));
            return Reply::status(307).with("Location", path);
        }
        let reply = repository.answer(request);
        if !request.path.ends_with("/model.safetensors") {
            return reply;
        }
        Reply::status(302)
            .with("Location", format!("{elsewhere}/bucket/abc?sig=1"))
            .with("X-Repo-Commit", COMMIT)
            .with("X-Linked-ETag", format!("\"{}\"", sha256(&reply.body)))
            .with("X-Linked-Size", reply.body.len().to_string())
    });
    let (_folder, mut env) = at(&server.address);
    env.token = Some("hf_of_env".into());
    let request = ModelRequest { token: Some("hf_of_flag".into()), ..asking("old/name") };
    let files = resolve(&request, &env, &()).unwrap();
    assert_eq!(content(&files.weights[0]), tiny()["model.safetensors"]);
    for request in server.requests() {
        let sent = request.headers.get("authorization").map(String::as_str);
        assert_eq!(sent, Some("Bearer hf_of_flag"), "{}", request.path);
    }
    let stored = storage.requests();
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].path, "/bucket/abc?sig=1");
    assert_eq!(stored[0].headers.get("authorization"), None);
    let blobs = env.cache.join("models--old--name/blobs");
    assert!(blobs.join(sha256(&tiny()["model.safetensors"])).is_file());
}

#[test]
fn redirects_that_go_round_or_nowhere_end() {
    for location in ["/round", "ftp://127.0.0.1/x", "http://", ""] {
        let server = Server::start(move |_| Reply::status(302).with("Location", location));
        let (_folder, env) = at(&server.address);
        let line = fails(get(&env), 3);
        assert!(line.contains("redirect"), "{location}: {line}");
    }
}

/// Answers with the weights broken off after so many bytes, the first `times` times.
fn breaking(times: usize, after: usize, ranges: bool) -> Server {
    let repository = repository(tiny());
    let broken = AtomicUsize::new(0);
    Server::start(move |request| {
        let mut request = request.clone();
        if !ranges {
            request.headers.remove("range");
        }
        let mut reply = repository.answer(&request);
        let weights = request.path.ends_with("/model.safetensors");
        if weights && broken.fetch_add(1, Ordering::SeqCst) < times {
            reply.break_after = Some(after);
        }
        reply
    })
}

fn weights_ranges(server: &Server) -> Vec<Option<usize>> {
    let asked = server.requests().into_iter();
    asked.filter(|r| r.path.ends_with("/model.safetensors")).map(|r| r.from()).collect()
}

#[test]
fn a_broken_transfer_is_taken_up_where_it_broke() {
    let server = breaking(2, 30_000, true);
    let (_folder, env) = at(&server.address);
    let files = get(&env).unwrap();
    assert_eq!(content(&files.weights[0]), tiny()["model.safetensors"]);
    assert_eq!(weights_ranges(&server), [None, Some(30_000), Some(60_000)]);
}

#[test]
fn a_server_without_ranges_sends_it_again() {
    let server = breaking(1, 30_000, false);
    let (_folder, env) = at(&server.address);
    let files = get(&env).unwrap();
    assert_eq!(content(&files.weights[0]), tiny()["model.safetensors"]);
}

#[test]
fn a_transfer_that_stays_broken_goes_on_with_the_next_command() {
    let server = breaking(3, 10_000, true);
    let (_folder, env) = at(&server.address);
    let line = fails(get(&env), 3);
    assert!(line.contains("model.safetensors") && line.contains("30000 of 100600"), "{line}");
    assert!(!env.cache.join("models--some-org--tiny.bert_1/refs/main").exists());
    let files = get(&env).unwrap();
    assert_eq!(content(&files.weights[0]), tiny()["model.safetensors"]);
    let asked = weights_ranges(&server);
    assert_eq!(asked, [None, Some(10_000), Some(20_000), None, Some(30_000)]);
}

#[test]
fn a_part_that_is_whole_needs_only_its_name() {
    let server = serve(repository(tiny()));
    let (_folder, env) = at(&server.address);
    let weights = &tiny()["model.safetensors"];
    let blobs = env.cache.join("models--some-org--tiny.bert_1/blobs");
    let part = format!("{}.incomplete", sha256(weights));
    write(&blobs, &[(part.clone(), weights.clone())].into());
    assert_eq!(content(&get(&env).unwrap().weights[0]), *weights);
    assert!(!blobs.join(part).exists());
}

#[test]
fn what_arrives_is_checked() {
    // A part of something else: the checksum finds it, and the next command starts anew.
    let server = serve(repository(tiny()));
    let (_folder, env) = at(&server.address);
    let weights = &tiny()["model.safetensors"];
    let blobs = env.cache.join("models--some-org--tiny.bert_1/blobs");
    let part = format!("{}.incomplete", sha256(weights));
    write(&blobs, &[(part.clone(), vec![7; 50])].into());
    let line = fails(get(&env), 3);
    assert!(line.contains("SHA-256"), "{line}");
    assert_eq!(content(&get(&env).unwrap().weights[0]), *weights);
    // More than the whole: the range is refused, and it starts anew at once.
    let (_folder, env) = at(&server.address);
    let blobs = env.cache.join("models--some-org--tiny.bert_1/blobs");
    write(&blobs, &[(part, vec![7; weights.len() + 1])].into());
    assert_eq!(content(&get(&env).unwrap().weights[0]), *weights);
}

#[test]
fn refusals_say_what_to_do() {
    let answers = |status: u16, code: &'static str| {
        let server = Server::start(move |_| {
            let reply = Reply::status(status);
            if code.is_empty() { reply } else { reply.with("X-Error-Code", code) }
        });
        let (_folder, env) = at(&server.address);
        let bare = fails(get(&env), 3);
        let with = fails(get(&HubEnv { token: Some("t".into()), ..env }), 3);
        (bare, with)
    };
    for (status, code) in [(401, "GatedRepo"), (403, "GatedRepo"), (401, "RepoNotFound"), (401, "")]
    {
        let (bare, with) = answers(status, code);
        assert!(bare.contains("HF_TOKEN") && bare.contains(ID), "{bare}");
        assert!(with.contains("token given"), "{with}");
    }
    assert!(answers(404, "RepoNotFound").0.contains("no such model"));
    assert!(answers(404, "RevisionNotFound").0.contains("revision"));
    let (line, _) = answers(404, "");
    assert!(line.contains("no such model, or no config.json"), "{line}");
    assert!(answers(503, "").0.contains("503"));
    assert!(answers(200, "").0.contains("commit"));

    let mut none = tiny();
    none.remove("model.safetensors");
    let server = serve(repository(none));
    let (_folder, env) = at(&server.address);
    let line = fails(get(&env), 3);
    assert!(line.contains("model.safetensors") && line.contains("pytorch_model.bin"), "{line}");
}

#[test]
fn a_model_of_pickles_alone() {
    let pickle = |n: u8| vec![n; 40];
    let index = br#"{"weight_map": {"a": "pytorch_model-1.bin", "b": "pytorch_model-2.bin"}}"#;
    let shards: [(&str, Vec<u8>); 3] = [
        ("pytorch_model.bin.index.json", index.to_vec()),
        ("pytorch_model-1.bin", pickle(1)),
        ("pytorch_model-2.bin", pickle(2)),
    ];
    let whole = [("pytorch_model.bin", pickle(3))];
    for weights in [&shards[..], &whole[..]] {
        let mut files = tiny();
        files.remove("model.safetensors");
        files.extend(weights.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())));
        let server = serve(repository(files.clone()));
        let (_folder, env) = at(&server.address);
        let got = get(&env).unwrap();
        let want: Vec<&str> = weights.iter().map(|(name, _)| *name).collect();
        let want: Vec<&str> = want.into_iter().filter(|name| name.ends_with(".bin")).collect();
        let names: Vec<_> = got.weights.iter().filter_map(|one| one.path().file_name()).collect();
        assert_eq!(names, want);
        assert_eq!(got.notes, Vec::<String>::new());
        let asked = server.paths().len();
        assert_eq!(get(&env).unwrap().weights, got.weights);
        assert_eq!(server.paths().len(), asked, "the second time from the cache alone");
        // as transformers leaves it
        let (_folder, env) = at(&server.address);
        cache_as_transformers_does(&env.cache, &files);
        assert_eq!(get(&HubEnv { offline: true, ..env }).unwrap().weights.len(), want.len());
    }
}

#[test]
fn names_from_the_network_cannot_leave_the_cache() {
    for (commit, etag) in [("../../../x", "a"), ("a", "../../../x"), ("..", "a"), ("a", "a/b")] {
        let server = Server::start(move |_| {
            Reply { status: 200, body: b"{}".to_vec(), ..Reply::default() }
                .with("X-Repo-Commit", commit)
                .with("ETag", format!("\"{etag}\""))
        });
        let (folder, env) = at(&server.address);
        fails(get(&env), 3);
        assert!(!folder.path().join("x").exists());
    }
}

#[test]
fn an_endpoint_that_is_not_there() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (_folder, env) = at(&format!("http://127.0.0.1:{port}"));
    let line = fails(get(&env), 3);
    assert!(line.contains("could not reach") && line.contains("config.json"), "{line}");
    let (_folder, env) = at("nonsense");
    assert!(fails(get(&env), 3).contains("HF_ENDPOINT"));
}

// Offline, and the cache of others

#[test]
fn a_cached_model_opens_no_socket() {
    let server = serve(repository(tiny()));
    let (_folder, env) = at(&server.address);
    let snapshot = cache_as_transformers_does(&env.cache, &tiny());
    for offline in [false, true] {
        let files = get(&HubEnv { offline, ..env.clone() }).unwrap();
        assert_eq!(files.weights, [Asset::Disk(snapshot.join("model.safetensors"))]);
        assert_eq!(files.revision.as_deref(), Some(COMMIT));
    }
    assert!(server.paths().is_empty());
}

#[test]
fn offline_says_what_is_missing_and_where_it_looked() {
    let server = serve(repository(tiny()));
    let (_folder, env) = at(&server.address);
    let env = HubEnv { offline: true, ..env };
    let line = fails(get(&env), 3);
    let model = env.cache.join("models--some-org--tiny.bert_1");
    assert!(line.contains("config.json"), "{line}");
    assert!(line.contains(&model.display().to_string()), "{line}");

    let mut files = sharded();
    files.remove("model-00003-of-00003.safetensors");
    let snapshot = cache_as_transformers_does(&env.cache, &files);
    let line = fails(get(&env), 3);
    assert!(line.contains("model-00003-of-00003.safetensors"), "{line}");
    assert!(line.contains(&snapshot.display().to_string()), "{line}");

    std::fs::remove_file(snapshot.join(INDEX)).unwrap();
    std::fs::write(snapshot.join("pytorch_model.bin"), b"PK").unwrap();
    let line = fails(get(&env), 4);
    assert!(line.contains("pytorch_model.bin") && line.contains("2 bytes"), "{line}");
    assert!(server.paths().is_empty());
}

#[test]
fn a_path_that_exists_wins_over_an_id() {
    let server = serve(repository(tiny()));
    let (folder, env) = at(&server.address);
    let path = folder.path().join("org/model");
    write(&path, &tiny());
    let files = resolve(&asking(&path.display().to_string()), &env, &()).unwrap();
    assert_eq!(files.weights, [Asset::Disk(path.join("model.safetensors"))]);
    assert!(server.paths().is_empty());
}

// Progress

#[derive(Default)]
struct Log(Mutex<Vec<(String, Option<u64>, u64)>>);

impl Progress for Log {
    fn start(&self, file: &str, total: Option<u64>, done: u64) {
        self.0.lock().unwrap().push((file.into(), total, done));
    }
    fn update(&self, bytes: u64) {
        self.0.lock().unwrap().last_mut().unwrap().2 += bytes;
    }
    fn finish(&self) {}
}

#[test]
fn progress_adds_up_and_can_be_switched_off() {
    let server = serve(repository(tiny()));
    let (_folder, env) = at(&server.address);
    let log = Log::default();
    resolve(&asking(ID), &env, &log).unwrap();
    let log = log.0.into_inner().unwrap();
    let names: Vec<&str> = log.iter().map(|(name, ..)| name.as_str()).collect();
    let want = ["config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"];
    assert_eq!(names, want);
    assert!(log.iter().all(|(_, total, done)| *total == Some(*done)), "{log:?}");

    let (_folder, env) = at(&server.address);
    let log = Log::default();
    resolve(&asking(ID), &HubEnv { quiet: true, ..env }, &log).unwrap();
    assert!(log.0.into_inner().unwrap().is_empty());
}

// Proxies

#[test]
fn proxies_are_used_for_their_scheme_and_not_for_exempt_hosts() {
    let proxy = Server::start(|_| Reply::status(502));
    let through = |endpoint: &str, proxies: Proxies| {
        let (_folder, env) = at(endpoint);
        fails(get(&HubEnv { proxies, ..env }), 3)
    };
    let https = Proxies { https: Some(proxy.address.clone()), ..Proxies::default() };
    through("https://hub.invalid", https.clone());
    let asked = proxy.requests();
    assert_eq!((asked[0].method.as_str(), asked[0].path.as_str()), ("CONNECT", "hub.invalid:443"));

    let seen = asked.len();
    let server = serve(repository(tiny()));
    let (_folder, env) = at(&server.address);
    get(&HubEnv { proxies: https.clone(), ..env }).unwrap(); // http goes direct
    for no_proxy in ["*", "other, hub.invalid", ".invalid", "invalid:443"] {
        let no_proxy = Some(no_proxy.to_owned());
        through("https://hub.invalid", Proxies { no_proxy, ..https.clone() });
    }
    assert_eq!(proxy.requests().len(), seen);
    let line = through("https://hub.invalid", Proxies { https: Some("::".into()), ..https });
    assert!(line.contains("HTTPS_PROXY"), "{line}");
}

// The environment

fn env_of(variables: &[(&str, &str)]) -> HubEnv {
    let map: BTreeMap<&str, &str> = variables.iter().copied().collect();
    HubEnv::from_lookup(Some("/home/me".into()), |name| map.get(name).map(|v| (*v).to_owned()))
}

#[test]
fn the_cache_is_where_the_environment_says() {
    let cache = |variables: &[(&str, &str)]| env_of(variables).cache;
    let is = |variables: &[(&str, &str)], want: &str| assert_eq!(cache(variables), Path::new(want));
    is(&[], "/home/me/.cache/huggingface/hub");
    let mut set = vec![("XDG_CACHE_HOME", "/xdg")];
    is(&set, "/xdg/huggingface/hub");
    set.push(("HF_HOME", "~/hf"));
    is(&set, "/home/me/hf/hub");
    set.push(("HUGGINGFACE_HUB_CACHE", "/old"));
    is(&set, "/old");
    set.push(("HF_HUB_CACHE", "/new"));
    is(&set, "/new");
    is(&[("HF_HOME", ""), ("HF_HUB_CACHE", " ")], "/home/me/.cache/huggingface/hub");
}

#[test]
fn tokens_come_from_the_environment_or_a_file() {
    let home = TempDir::new().unwrap();
    let text = |path: &Path| path.display().to_string();
    let (hf_home, other) = (text(home.path()), text(&home.path().join("elsewhere")));
    std::fs::write(home.path().join("token"), "hf_file\n").unwrap();
    std::fs::write(&other, "hf_other\n").unwrap();
    let token = |variables: &[(&str, &str)]| env_of(variables).token;
    let is = |variables: &[(&str, &str)], want: Option<&str>| {
        assert_eq!(token(variables).as_deref(), want, "{variables:?}");
    };
    is(&[], None);
    let mut set = vec![("HF_HOME", hf_home.as_str())];
    is(&set, Some("hf_file"));
    set.push(("HF_TOKEN_PATH", &other));
    is(&set, Some("hf_other"));
    set.push(("HF_TOKEN", " hf_direct "));
    is(&set, Some("hf_direct"));
}

#[test]
fn switches_and_addresses_of_the_environment() {
    let env = env_of(&[]);
    assert_eq!((env.offline, env.quiet), (false, false));
    assert_eq!(env.endpoint, "https://huggingface.co");
    assert_eq!(
        env_of(&[("HF_ENDPOINT", "https://hf-mirror.com/")]).endpoint,
        "https://hf-mirror.com"
    );
    for on in ["1", "on", "YES", "True"] {
        assert!(env_of(&[("HF_HUB_OFFLINE", on)]).offline);
        assert!(env_of(&[("TRANSFORMERS_OFFLINE", on)]).offline);
        assert!(env_of(&[("HF_HUB_DISABLE_PROGRESS_BARS", on)]).quiet);
    }
    for off in ["0", "", "no", "2"] {
        assert!(!env_of(&[("HF_HUB_OFFLINE", off)]).offline);
        assert!(!env_of(&[("HF_HUB_DISABLE_PROGRESS_BARS", off)]).quiet);
    }
    assert!(!env_of(&[("HF_HUB_OFFLINE", "0"), ("TRANSFORMERS_OFFLINE", "1")]).offline);
    let proxies = env_of(&[("https_proxy", "a"), ("ALL_PROXY", "b"), ("NO_PROXY", "c")]).proxies;
    let want = [Some("a"), Some("b"), Some("c")].map(|name| name.map(str::to_owned));
    assert_eq!([proxies.https, proxies.http, proxies.no_proxy], want);
}

#[test]
fn errors_of_the_hub_have_their_exit_code() {
    let (_folder, env) = at("http://127.0.0.1:1");
    let offline = HubEnv { offline: true, ..env };
    assert!(matches!(get(&offline), Err(Error::ModelNotFound { .. })));
}
