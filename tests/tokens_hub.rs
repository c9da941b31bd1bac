//! Vocabularies of every form come from a Hub, and from its cache.

#![cfg(feature = "hub")]

mod loopback;

use std::collections::BTreeMap;
use std::path::Path;

use attnviz::hub::{HubEnv, ModelRequest, Proxies, resolve};
use attnviz::tokens::{Kind, Tokenizer};
use loopback::{Repository, Server};
use tempfile::TempDir;

fn fixture(path: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(path);
    std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

#[test]
fn vocabularies_of_every_form_are_fetched_once() {
    type Files<'a> = &'a [(&'a str, &'a str)]; // by their names on the Hub, the fixtures'
    let table: [(&str, Files, Kind); 4] = [
        ("deberta-v2", &[("spm.model", "deberta.model")], Kind::Unigram),
        ("albert", &[("spiece.model", "albert.model")], Kind::Unigram),
        (
            "roberta",
            &[("vocab.json", "vocab.json"), ("merges.txt", "merges.txt")],
            Kind::ByteLevelBpe,
        ),
        (
            "marian",
            &[
                ("source.spm", "marian-source.spm"),
                ("target.spm", "marian-target.spm"),
                ("vocab.json", "marian-vocab.json"),
            ],
            Kind::Unigram,
        ),
    ];
    for (model_type, vocabulary, kind) in table {
        let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let config = format!("{{\"model_type\": \"{model_type}\"}}");
        files.insert("config.json".into(), config.into_bytes());
        let weights = fixture("goldens/bert_model/model.safetensors");
        files.insert("model.safetensors".into(), weights);
        for (name, from) in vocabulary {
            files.insert((*name).into(), fixture(&format!("tokenizers_kinds/{from}")));
        }
        let repository = Repository {
            id: "some/model".into(),
            commit: "0123456789abcdef0123456789abcdef01234567".into(),
            revisions: vec!["main".into()],
            files,
        };
        let server = Server::start(move |request| repository.answer(request));
        let folder = TempDir::new().unwrap();
        let env = |offline| HubEnv {
            cache: folder.path().join("hub"),
            token: None,
            endpoint: server.address.clone(),
            offline,
            quiet: true,
            proxies: Proxies::default(),
        };
        let request = ModelRequest { model: Some("some/model".into()), ..Default::default() };
        for offline in [false, false, true] {
            let files = resolve(&request, &env(offline), &()).unwrap();
            let tokenizer = Tokenizer::open(&files.tokenizer).unwrap();
            assert_eq!(tokenizer.kind(), kind, "{model_type}");
        }
        let asked = server.paths();
        for (name, _) in vocabulary {
            let path = format!("/{name}");
            let requests = server.requests();
            let times = requests.iter().filter(|r| r.method == "GET");
            assert!(times.filter(|r| r.path.ends_with(&path)).count() <= 2, "{asked:?}");
            assert!(asked.iter().any(|one| one.ends_with(&path)), "{asked:?}");
        }
    }
}
