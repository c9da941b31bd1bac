//! Every kind of tokenizer, from every kind of file, held against transformers 5.24.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use attnviz::hub::{self, HubEnv, ModelRequest};
use attnviz::tokens::{Behaviour, Encoding, Input, Kind, Limit, Tokenizer};
use attnviz::{Error, Token};
use serde::Deserialize;
use tempfile::TempDir;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenizers_kinds")
}

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    /// By the name that they have in the model's folder, the fixtures' own.
    files: BTreeMap<String, String>,
    contents: BTreeMap<String, serde_json::Value>,
    special: BTreeMap<String, Option<u32>>,
    size: usize,
    /// Whether it is about the side that is written.
    target: bool,
    /// Ids at random, and what they decode to.
    decoded: Vec<(Vec<u32>, String)>,
    texts: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    text: String,
    text_b: Option<String>,
    /// What the ids decode to.
    decoded: Option<String>,
    shown: Vec<String>,
    ids: Vec<u32>,
    type_ids: Vec<u32>,
    offsets: Option<Vec<(usize, usize)>>,
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(fixtures().join("expected.json")).unwrap();
    serde_json::from_str::<Expected>(&text).unwrap().cases
}

impl Case {
    fn folder(&self) -> TempDir {
        let folder = TempDir::new().unwrap();
        for (file, from) in &self.files {
            std::fs::copy(fixtures().join(from), folder.path().join(file)).unwrap();
        }
        for (file, content) in &self.contents {
            std::fs::write(folder.path().join(file), content.to_string()).unwrap();
        }
        folder
    }

    fn decodings(&self) -> impl Iterator<Item = (&[u32], &str)> {
        let texts = self.texts.iter();
        let texts = texts.filter_map(|entry| Some((&*entry.ids, entry.decoded.as_deref()?)));
        self.decoded.iter().map(|(ids, text)| (&**ids, &**text)).chain(texts)
    }

    fn open(&self) -> Tokenizer {
        let tokenizer = open(self.folder().path());
        let tokenizer = tokenizer.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        if self.target { tokenizer.target().unwrap().clone() } else { tokenizer }
    }
}

/// The tokenizer of a model's folder.
fn open(folder: &Path) -> attnviz::Result<Tokenizer> {
    std::fs::write(folder.join("model.safetensors"), [0; 16]).unwrap();
    let request = ModelRequest { model: Some(folder.display().to_string()), ..Default::default() };
    let env = HubEnv::from_lookup(None, |_| None);
    let files = hub::resolve(&request, &env, &())?;
    Tokenizer::open(&files.tokenizer)
}

fn case(name: &str) -> Tokenizer {
    cases().into_iter().find(|case| case.name == name).unwrap().open()
}

fn read(tokenizer: &Tokenizer, text: &str) -> Encoding {
    tokenizer.encode(&Input::Text(text.into()), &Limit::default()).unwrap()
}

fn shown(encoding: &Encoding) -> Vec<&str> {
    encoding.tokens.iter().map(|token| token.text.as_str()).collect()
}

fn compare(name: &str, tokenizer: &Tokenizer, entry: &Entry) {
    let input = match &entry.text_b {
        Some(b) => Input::Pair(entry.text.clone(), b.clone()),
        None => Input::Text(entry.text.clone()),
    };
    let place = format!("{name}: {input:?}");
    let got = tokenizer.encode(&input, &Limit::default()).unwrap();
    assert_eq!(shown(&got), entry.shown, "{place}");
    let ids: Vec<u32> = got.tokens.iter().map(|token| token.id.unwrap()).collect();
    assert_eq!(ids, entry.ids, "{place}");
    let types: Vec<u32> = got.tokens.iter().map(|token| token.type_id).collect();
    assert_eq!(types, entry.type_ids, "{place}");
    let offsets: Vec<_> = got.tokens.iter().map(|token| token.offsets).collect();
    if let Some(want) = &entry.offsets {
        assert_eq!(offsets, *want, "{place}");
    }
}

#[test]
fn every_kind_agrees_with_transformers() {
    let cases = cases();
    assert_eq!(cases.len(), 26);
    for case in &cases {
        let tokenizer = case.open();
        assert_eq!(tokenizer.vocab_size(), case.size, "{}", case.name);
        assert_eq!(tokenizer.mask_id(), case.special["mask"], "{}", case.name);
        assert_eq!(tokenizer.pad_id(), case.special["pad"].unwrap_or(0), "{}", case.name);
        for entry in &case.texts {
            compare(&case.name, &tokenizer, entry);
        }
    }
}

#[test]
fn ids_decode_to_what_transformers_writes() {
    for case in cases() {
        let tokenizer = case.open();
        for (ids, want) in case.decodings() {
            assert_eq!(tokenizer.decode(ids), want, "{}: {ids:?}", case.name);
        }
        let size = u32::try_from(tokenizer.vocab_size()).unwrap();
        assert_eq!(tokenizer.decode(&[size + 9, u32::MAX]), "", "{}", case.name);
        assert_eq!(tokenizer.decode(&[]), "");
    }
}

#[test]
fn ids_that_come_one_by_one_decode_to_the_same_text() {
    for case in cases() {
        let tokenizer = case.open();
        for (ids, want) in case.decodings() {
            let mut stream = tokenizer.decode_stream();
            let parts: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
            let got = parts.concat() + &stream.finish();
            // byte fallback: later bytes spoil those before them in their run
            let spoilt = |(got, want): (char, char)| got == want || want == '\u{fffd}';
            let close = got.chars().count() == want.chars().count()
                && got.chars().zip(want.chars()).all(spoilt);
            let same = got == want || (case.name.starts_with("llama") && close);
            assert!(same, "{}: {parts:?}, expected {want:?}", case.name);
            let broken = |part: &String| part.ends_with('\u{fffd}');
            assert!(!parts.iter().any(broken), "{}: {parts:?}", case.name);
        }
    }
}

#[test]
fn a_character_comes_when_its_last_byte_does() {
    for name in ["roberta", "modernbert", "llama"] {
        let tokenizer = case(name);
        let ids: Vec<u32> = read(&tokenizer, "a 天 b").tokens.iter().filter_map(|t| t.id).collect();
        let mut stream = tokenizer.decode_stream();
        let parts: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
        let told: Vec<&str> =
            parts.iter().map(|part| part.as_str()).filter(|p| !p.is_empty()).collect();
        assert_eq!(told.concat(), "a 天 b", "{name}");
        assert!(told.contains(&"天") || told.contains(&" 天"), "{name}: {parts:?}");
        // an end in the middle of it is not lost
        let cut = ids.len() - if name == "llama" { 2 } else { 3 };
        let mut stream = tokenizer.decode_stream();
        let parts: String = ids[..cut].iter().map(|&id| stream.push(id)).collect();
        assert!(parts.starts_with('a') && !parts.contains('\u{fffd}'), "{name}: {parts}");
        assert!(stream.finish().contains('\u{fffd}'), "{name}");
    }
}

#[test]
fn a_decoder_that_would_count_beyond_a_piece_is_left_aside() {
    let cases = cases();
    let folder = cases.iter().find(|case| case.name == "modernbert").unwrap().folder();
    let path = folder.path().join("tokenizer.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let strip = serde_json::json!({"type": "Strip", "content": "l", "start": 9, "stop": 9});
    json["decoder"] = serde_json::json!({"type": "Sequence", "decoders": [strip]});
    std::fs::write(&path, json.to_string()).unwrap();
    let tokenizer = open(folder.path()).unwrap();
    let ids: Vec<u32> = read(&tokenizer, "a walk").tokens.iter().filter_map(|t| t.id).collect();
    assert_eq!(tokenizer.decode(&ids), "a walk");
}

#[test]
fn kinds_and_what_they_do_to_letters() {
    let table = [
        ("roberta", "byte-level BPE", (true, true, false)),
        ("gpt2", "byte-level BPE", (true, true, false)),
        ("modernbert", "byte-level BPE", (true, true, false)),
        ("xlm-roberta", "Unigram", (true, true, false)),
        ("albert", "Unigram", (false, false, false)),
        ("albert, cased, accents kept", "Unigram", (true, true, false)),
        ("deberta-v2", "Unigram", (true, true, false)),
        ("deberta-v2, lower-cased, punctuation apart", "Unigram", (false, true, false)),
        ("llama", "BPE", (true, true, false)),
        ("mpnet", "WordPiece", (false, false, true)),
        ("mpnet, cased", "WordPiece", (true, true, true)),
    ];
    for (name, kind, (cased, accents, chinese_split)) in table {
        let tokenizer = case(name);
        assert_eq!(tokenizer.kind().to_string(), kind, "{name}");
        let want = Behaviour { cased, accents, chinese_split };
        assert_eq!(tokenizer.behaviour(), want, "{name}");
    }
    assert_eq!(case("roberta").kind(), Kind::ByteLevelBpe);
    let said = case("mpnet").behaviour().to_string();
    assert_eq!(said, "uncased, accents stripped, Chinese characters apart");
}

/// Where nothing is normalized away, every kind finds the same words, each made of its own pieces.
#[test]
fn words_are_those_of_the_text_for_every_kind() {
    let text = "  The animal didn't cross:  walking, 3.50\tagain ";
    let words = ["The", "animal", "didn't", "cross", ":", "walking", ",", "3.50", "again"];
    for case in cases() {
        let got = read(&case.open(), text);
        assert_eq!(got.words(0), words, "{}", case.name);
        let mut last = 0;
        for token in got.tokens.iter().filter(|token| !token.special) {
            let piece = token.text.trim().trim_start_matches("##").to_lowercase();
            let Some(word) = token.word else {
                assert_eq!(piece, "", "{}: {token:?} has no word", case.name);
                continue;
            };
            let whole = words[word].to_lowercase();
            let within = whole.contains(&piece) || token.unknown.is_some();
            assert!(within, "{}: {piece} is not in {whole}", case.name);
            assert!(word >= last, "{}: {token:?}", case.name);
            last = word;
        }
    }
}

#[test]
fn a_space_by_itself_belongs_to_the_word_after_it() {
    let grouped = |name: &str, text: &str| -> Vec<(String, Option<usize>)> {
        let got = read(&case(name), text);
        let typed = got.tokens.into_iter().filter(|token| !token.special);
        typed.map(|token| (token.text, token.word)).collect()
    };
    let pair = |text: &str, word| (text.to_owned(), word);
    let want = [pair("a", Some(0)), pair(" ", Some(1)), pair("+", Some(1)), pair("+", Some(2))];
    assert_eq!(grouped("modernbert", "a ++"), want);
    let want = [pair(" a", Some(0)), pair(" ", Some(1)), pair("我", Some(1))];
    for name in ["xlm-roberta", "deberta-v2", "llama"] {
        assert_eq!(grouped(name, "a 我"), want, "{name}");
    }
    // a second space belongs to nobody, nor does one at the end
    let want = [pair("a", Some(0)), pair(" ", None), pair(" a", Some(1)), pair(" ", None)];
    assert_eq!(grouped("roberta", "a  a "), want);
    assert_eq!(grouped("modernbert", "a  a "), want);
}

#[test]
fn bytes_of_one_character_are_one_word() {
    for name in ["roberta", "modernbert", "llama"] {
        let got = read(&case(name), "天");
        let typed: Vec<&Token> = got.tokens.iter().filter(|token| !token.special).collect();
        let text: String = typed.iter().map(|token| token.text.trim()).collect();
        assert_eq!(text, "<E5><A4><A9>", "{name}");
        assert!(typed.iter().all(|token| token.word == Some(0)), "{name}: {typed:?}");
        assert_eq!(got.words(0), ["天"]);
        assert_eq!(got.unknown(), None);
    }
}

#[test]
fn unknown_pieces_keep_what_was_typed() {
    for (name, called) in [("xlm-roberta", "<unk>"), ("deberta-v2", "[UNK]"), ("t5", "<unk>")] {
        let got = read(&case(name), "a 天 b");
        let token = got.tokens.iter().find(|token| token.unknown.is_some()).unwrap();
        assert_eq!((token.text.as_str(), token.unknown.as_deref()), (called, Some("天")), "{name}");
        assert_eq!(got.unknown().unwrap().count, 1, "{name}");
        assert_eq!(token.word, Some(1), "{name}");
        assert_eq!(read(&case(name), &format!("a {called}")).unknown(), None, "{name}");
    }
}

#[test]
fn pairs_have_the_separators_and_types_of_their_family() {
    let table = [
        ("roberta", "<s> 0 </s> </s> 1 </s>", false),
        ("longformer, offsets not trimmed", "<s> 0 </s> </s> 1 </s>", false),
        ("mpnet", "<s> 0 </s> </s> 1 </s>", false),
        ("xlm-roberta", "<s> 0 </s> </s> 1 </s>", false),
        ("camembert", "<s> 0 </s> </s> 1 </s>", false),
        ("albert", "[CLS] 0 [SEP] 1 [SEP]", true),
        ("deberta-v2", "[CLS] 0 [SEP] 1 [SEP]", true),
        ("modernbert", "[CLS] 0 [SEP] 1 [SEP]", true),
        ("t5", "0 </s> 1 </s>", false),
        ("gpt2", "0 1", true),
    ];
    for (name, layout, typed) in table {
        let pair = Input::Pair("walk".into(), "walk".into());
        let mut got = case(name).encode(&pair, &Limit::default()).unwrap();
        let mut parts: Vec<String> = Vec::new();
        for token in &got.tokens {
            let part = token.sequence.map_or(token.text.clone(), |sequence| sequence.to_string());
            if token.special || parts.last() != Some(&part) {
                parts.push(part);
            }
        }
        assert_eq!(parts.join(" "), layout, "{name}");
        assert_eq!(got.words(1), ["walk"], "{name}");
        let ones = |got: &Encoding| got.tokens.iter().any(|token| token.type_id == 1);
        assert_eq!(ones(&got), typed, "{name}");
        got.limit_types(1);
        assert!(!ones(&got), "{name}");
    }
    let empty = Input::Pair("walk".into(), String::new());
    let error = case("roberta").encode(&empty, &Limit::default()).unwrap_err();
    assert!(error.to_string().starts_with("text_b: empty"), "{error}");
}

#[test]
fn words_given_apart_keep_the_spaces_before_them() {
    let words = ["Hello", "didn't", "cross", "語", "walk"].map(str::to_owned);
    for case in cases() {
        let tokenizer = case.open();
        let got = tokenizer.encode(&Input::Words(words.to_vec()), &Limit::default()).unwrap();
        assert_eq!(got.words(0), words, "{}", case.name);
        assert_eq!(got.texts, ["Hello didn't cross 語 walk"]);
        let whole = read(&tokenizer, &got.texts[0]);
        assert_eq!(shown(&got), shown(&whole), "{}", case.name);
    }
}

#[test]
fn pieces_are_taken_as_they_are() {
    let tokenizer = case("roberta");
    let pieces = ["<s>", "The", "Ġanimal", "Ġdid", "n", "'t", "</s>"].map(str::to_owned);
    let got = tokenizer.encode(&Input::Tokens(pieces.to_vec()), &Limit::default()).unwrap();
    assert_eq!(shown(&got), ["<s>", "The", " animal", " did", "n", "'t", "</s>"]);
    assert_eq!(got.texts, ["The animal didn't"]);
    assert_eq!(got.words(0), ["The", "animal", "didn't"]);
    let offsets: Vec<_> = got.tokens.iter().map(|token| token.offsets).collect();
    assert_eq!(offsets, [(0, 0), (0, 3), (4, 10), (11, 14), (14, 15), (15, 17), (0, 0)]);
    let pieces = ["▁the", "▁an", "i", "ma", "l"].map(str::to_owned);
    let got = case("albert").encode(&Input::Tokens(pieces.to_vec()), &Limit::default()).unwrap();
    assert_eq!((got.texts[0].as_str(), got.words(0)), ("the animal", vec!["the", "animal"]));
}

#[test]
fn words_may_be_given_as_spans() {
    let tokenizer = case("mpnet");
    let mut got = read(&tokenizer, "我爱自然语言");
    assert_eq!(got.words(0).len(), 6);
    got.set_words(0, &[(0, 1), (1, 2), (2, 4), (4, 6)]).unwrap();
    assert_eq!(got.words(0), ["我", "爱", "自然", "语言"]);
    let words: Vec<_> = got.tokens.iter().map(|token| token.word).collect();
    let numbers = [0, 1, 2, 2, 3, 3].map(Some);
    assert_eq!(words, [&[None][..], &numbers, &[None]].concat());
    // what no span covers belongs to no word
    got.set_words(0, &[(2, 4)]).unwrap();
    assert_eq!((got.tokens[1].word, got.tokens[3].word), (None, Some(0)));

    let mut pair =
        tokenizer.encode(&Input::Pair("我爱".into(), "语言".into()), &Limit::default()).unwrap();
    let spans: attnviz::tokens::Spans = "[[[0,1],[1,2]],[[0,2]]]".parse().unwrap();
    assert_eq!(spans.to_string(), "[[[0,1],[1,2]],[[0,2]]]");
    spans.apply(&mut pair).unwrap();
    assert_eq!((pair.words(0), pair.words(1)), (vec!["我", "爱"], vec!["语言"]));

    let fail = |spans: &[(usize, usize)]| {
        let error = read(&tokenizer, "我爱").set_words(0, spans).unwrap_err();
        assert_eq!(error.exit_code(), 5);
        error.to_string()
    };
    assert!(fail(&[(1, 1)]).contains("[1,1] is empty"));
    assert!(fail(&[(0, 2), (1, 2)]).contains("[1,2] begins before"));
    assert!(fail(&[(0, 3)]).contains("2 characters"));
    assert!(read(&tokenizer, "我").set_words(1, &[]).is_err());
    let error = "0-2".parse::<attnviz::tokens::Spans>().unwrap_err();
    assert!(error.exit_code() == 2 && error.to_string().contains("[[0,2],[2,5]]"), "{error}");
}

#[test]
fn marian_has_a_tokenizer_for_each_side() {
    let tokenizer = case("marian");
    let target = tokenizer.target().unwrap();
    assert!(target.target().is_none() && case("t5").target().is_none());
    assert_eq!(tokenizer.kind(), Kind::Unigram);
    assert!(tokenizer.notes()[0].contains("Marian's"), "{:?}", tokenizer.notes());
    // the same ids, other pieces
    assert_eq!(shown(&read(&tokenizer, "Straße"))[..3], [" ", "S", "t"]);
    assert_eq!(shown(&read(target, "Straße"))[..3], [" ", "S", "tr"]);
    let got = read(&tokenizer, ">>fr<< Hello world");
    assert_eq!(got.words(0), [">>fr<<", "Hello", "world"]);
    assert_eq!((got.tokens[0].word, got.tokens[0].offsets), (Some(0), (0, 6)));
    assert_eq!(got.tokens[2].offsets, (7, 8));
    let got = read(&tokenizer, ">>xx<< 語");
    let unknown = got.tokens.iter().filter_map(|token| token.unknown.as_deref());
    assert_eq!(unknown.collect::<Vec<_>>(), [">>xx<<", "語"]);
    let pair = Input::Pair(">>fr<< a".into(), ">>fr<< b".into());
    let got = tokenizer.encode(&pair, &Limit::default()).unwrap();
    let codes = got.tokens.iter().filter(|token| token.text == ">>fr<<");
    assert_eq!(codes.map(|token| token.sequence).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert_eq!(got.tokens.last().unwrap().text, "</s>");
}

#[test]
fn marian_without_one_of_its_files() {
    let cases = cases();
    let folder = cases.iter().find(|case| case.name == "marian").unwrap().folder();
    let path = |file: &str| folder.path().join(file);
    // by its source.spm, whatever else is there
    let request = ModelRequest {
        model: Some(fixtures().join("../goldens/bert_model").display().to_string()),
        tokenizer: Some(path("source.spm")),
        ..Default::default()
    };
    let files = hub::resolve(&request, &HubEnv::from_lookup(None, |_| None), &()).unwrap();
    assert!(Tokenizer::open(&files.tokenizer).unwrap().target().is_some());
    // nothing says Marian but the files
    std::fs::write(path("config.json"), "{}").unwrap();
    let tokenizer = open(folder.path()).unwrap();
    assert!(tokenizer.notes()[0].contains("no tokenizer_class"), "{:?}", tokenizer.notes());
    std::fs::remove_file(path("target.spm")).unwrap();
    assert!(open(folder.path()).unwrap().target().is_none());
    std::fs::remove_file(path("vocab.json")).unwrap();
    let said = open(folder.path()).unwrap_err().to_string();
    assert!(said.contains("source.spm") && said.contains("no vocab.json"), "{said}");
}

#[test]
fn the_class_comes_from_the_files() {
    let cases = cases();
    let from = cases.iter().find(|case| case.name == "xlm-roberta").unwrap();
    let folder = from.folder();
    let notes = |config: serde_json::Value, tokenizer: serde_json::Value| {
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        std::fs::write(folder.path().join("tokenizer_config.json"), tokenizer.to_string()).unwrap();
        let tokenizer = open(folder.path()).unwrap();
        (tokenizer.notes().join("\n"), read(&tokenizer, "walk").tokens[0].id)
    };
    use serde_json::json;
    let (said, first) = notes(json!({"model_type": "xlm-roberta"}), json!({}));
    assert!(
        said.contains("XLM-RoBERTa's tokenizer was made from sentencepiece.bpe.model"),
        "{said}"
    );
    assert_eq!(first, Some(0));
    let class = json!({"tokenizer_class": "CamembertTokenizer"});
    let (said, first) = notes(json!({"model_type": "xlm-roberta"}), class.clone());
    assert!(said.contains("CamemBERT's"), "{said}");
    assert_eq!(first, Some(5));
    let (said, _) = notes(class, json!({}));
    assert!(said.contains("CamemBERT's"), "{said}");
    let (said, first) = notes(json!({"model_type": "odd"}), json!({}));
    assert!(said.contains("no tokenizer_class or model_type said which it is"), "{said}");
    assert_ne!(first, Some(0));
}

#[test]
fn a_space_before_the_text_is_what_tokenizer_config_says() {
    let cases = cases();
    let from = cases.iter().find(|case| case.name == "roberta, tokenizer.json").unwrap();
    let folder = from.folder();
    let path = folder.path().join("tokenizer.json");
    let before = std::fs::read_to_string(&path).unwrap();
    let after = before.replace("\"add_prefix_space\": false", "\"add_prefix_space\": true");
    assert_ne!(before, after);
    std::fs::write(&path, after).unwrap();
    let first = |settings: &str| {
        std::fs::write(folder.path().join("tokenizer_config.json"), settings).unwrap();
        let tokenizer = open(folder.path()).unwrap();
        (read(&tokenizer, "a").tokens[1].text.clone(), tokenizer.notes().len())
    };
    // as transformers 5.24 does for `RobertaTokenizer` and for `PreTrainedTokenizerFast`
    assert_eq!(first("{}"), ("a".into(), 1));
    assert_eq!(first(r#"{"add_prefix_space": true}"#), (" a".into(), 0));
    assert_eq!(first(r#"{"tokenizer_class": "PreTrainedTokenizerFast"}"#), (" a".into(), 0));
}

#[test]
fn ids_beyond_the_embeddings_name_the_token() {
    let tokenizer = case("roberta with added tokens");
    let rows = tokenizer.vocab_size() - 1;
    let got = read(&tokenizer, "a <e1>");
    assert!(read(&tokenizer, "a b").check_ids(rows).is_ok());
    let error = got.check_ids(rows).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("<e1>") && said.contains(&rows.to_string()), "{said}");
    // a resized embedding has room for more
    assert!(got.check_ids(rows + 64).is_ok());
}

/// Opens a case with one file changed and gives the error.
fn broken(name: &str, file: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) -> String {
    let cases = cases();
    let folder = cases.iter().find(|case| case.name == name).unwrap().folder();
    let path = folder.path().join(file);
    std::fs::write(&path, change(std::fs::read(&path).unwrap_or_default())).unwrap();
    let error = match open(folder.path()) {
        Ok(_) => panic!("{name}: a broken {file} was accepted"),
        Err(error) => error,
    };
    assert_eq!(error.exit_code(), 4, "{error}");
    assert!(!matches!(error, Error::Io { .. }));
    let said = error.to_string();
    assert!(!said.contains('\n') && said.contains(file), "{said}");
    said
}

#[test]
fn broken_files_are_named() {
    let spm = |change: fn(Vec<u8>) -> Vec<u8>| broken("albert", "spiece.model", change);
    assert!(spm(|_| b"version https://git-lfs.github.com/spec/v1\n".to_vec()).contains("git-lfs"));
    assert!(spm(|_| Vec::new()).contains("no pieces"));
    assert!(spm(|_| b"<html>".to_vec()).contains("not a SentencePiece model"));
    spm(|bytes| bytes[..bytes.len() / 2].to_vec());
    let merges = |change: fn(Vec<u8>) -> Vec<u8>| broken("roberta", "merges.txt", change);
    assert!(merges(|bytes| [&bytes[..], b"a b c\n"].concat()).contains("`a b c`"));
    merges(|bytes| [&bytes[..], b"zq xx\n"].concat());
    merges(|_| vec![0xff, 0xfe]);
    broken("roberta", "vocab.json", |_| b"[1]".to_vec());
    broken("roberta", "added_tokens.json", |_| br#"{"<e1>": 7}"#.to_vec());
    let names = |json: &'static [u8]| broken("marian", "vocab.json", move |_| json.to_vec());
    assert!(names(b"{\"a\": 0, \"</s>\": 1}").contains("`<unk>` is not among"));
    assert!(names(b"{\"<unk>\": 0, \"a\": 0}").contains("both have id 0"));
    broken("marian", "target.spm", |_| b"<html>".to_vec());
    let apart = |_| br#"{"separate_vocabs": true}"#.to_vec();
    let said = broken("marian", "tokenizer_config.json", apart);
    assert!(said.contains("no target_vocab.json"), "{said}");
    broken("t5", "tokenizer_config.json", |_| br#"{"extra_ids": 1e9}"#.to_vec());

    let cases = cases();
    let folder = cases.iter().find(|case| case.name == "roberta").unwrap().folder();
    std::fs::remove_file(folder.path().join("merges.txt")).unwrap();
    let said = open(folder.path()).unwrap_err().to_string();
    assert!(said.contains("vocab.json") && said.contains("merges.txt"), "{said}");
}

/// The tokenizers crate follows the numbers of a character map wherever they lead.
#[test]
fn a_damaged_character_map_is_refused_or_harmless() {
    let cases = cases();
    let from = cases.iter().find(|case| case.name == "xlm-roberta").unwrap();
    let folder = from.folder();
    let path = folder.path().join("sentencepiece.bpe.model");
    let whole = std::fs::read(&path).unwrap();
    // The map begins with its length in bytes, then the trie.
    let trie: &[u8] = &[0, 4, 0, 0];
    let start = whole.windows(4).rposition(|window| window == trie).unwrap();
    let text: String = (1..=0x2ff).filter_map(char::from_u32).collect();
    let mut refused = 0;
    for at in (start..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xa5;
        std::fs::write(&path, &bytes).unwrap();
        match open(folder.path()) {
            Ok(tokenizer) => {
                let _ = tokenizer.encode(&Input::Text(text.clone()), &Limit::default());
            }
            Err(error) => {
                assert_eq!(error.exit_code(), 4, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 10, "{refused}");
    let said = broken("xlm-roberta, tokenizer.json", "tokenizer.json", |json| {
        let json = String::from_utf8(json).unwrap();
        json.replace("\"precompiled_charsmap\": \"AAQAAAAY", "\"precompiled_charsmap\": \"AAQA/AAY")
            .into_bytes()
    });
    assert!(said.contains("precompiled_charsmap"), "{said}");
}
