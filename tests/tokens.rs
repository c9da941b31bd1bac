//! Tokenizers: the same pieces, ids, type ids and offsets as transformers; words; hard inputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use attnviz::hub::{self, Asset, HubEnv, ModelRequest, TokenizerFiles};
use attnviz::tokens::{Batch, Encoding, Input, Limit, Tokenizer, Unknown, group_by_length};
use attnviz::{Error, Token};
use serde::Deserialize;
use tempfile::TempDir;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenizers")
}

/// The built-in checkpoint's tokenizer, from its folder so that it needs no feature.
fn minilm() -> Tokenizer {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/all-MiniLM-L6-v2-f16");
    let files = TokenizerFiles {
        json: Some(Asset::Disk(folder.join("tokenizer.json"))),
        ..TokenizerFiles::default()
    };
    Tokenizer::open(&files).unwrap()
}

/// A tokenizer from a folder holding `vocab.txt` and the files given.
fn small(vocab: &str, files: &BTreeMap<String, serde_json::Value>) -> (Tokenizer, TempDir) {
    let (opened, folder) = try_small(vocab, files);
    (opened.unwrap(), folder)
}

fn try_small(
    vocab: &str,
    files: &BTreeMap<String, serde_json::Value>,
) -> (attnviz::Result<Tokenizer>, TempDir) {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("vocab.txt"), vocab).unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content.to_string()).unwrap();
    }
    let request = ModelRequest { tokenizer: Some(folder.path().into()), ..Default::default() };
    let env = HubEnv::from_lookup(None, |_| None);
    // `--tokenizer` finds the files; which model it belongs to does not matter here.
    let model = folder.path().join("model.safetensors");
    std::fs::write(&model, [0; 16]).unwrap();
    let request = ModelRequest { model: Some(model.display().to_string()), ..request };
    (hub::resolve(&request, &env, &()).and_then(|files| Tokenizer::open(&files.tokenizer)), folder)
}

fn vocab() -> String {
    std::fs::read_to_string(fixtures().join("vocab.txt")).unwrap()
}

fn no_files() -> BTreeMap<String, serde_json::Value> {
    BTreeMap::new()
}

fn read(tokenizer: &Tokenizer, text: &str) -> Encoding {
    tokenizer.encode(&Input::Text(text.into()), &Limit::default()).unwrap()
}

fn shown(encoding: &Encoding) -> Vec<&str> {
    encoding.tokens.iter().map(|token| token.text.as_str()).collect()
}

fn ids(encoding: &Encoding) -> Vec<u32> {
    encoding.tokens.iter().map(|token| token.id.unwrap()).collect()
}

/// The words of an encoding's first text, and the word of each token that has one.
fn grouped(encoding: &Encoding) -> (Vec<&str>, Vec<usize>) {
    (encoding.words(0), encoding.tokens.iter().filter_map(|token| token.word).collect())
}

#[derive(Deserialize)]
struct Entry {
    text: String,
    #[serde(alias = "text_pair")]
    text_b: Option<String>,
    tokens: Vec<String>,
    #[serde(alias = "input_ids")]
    ids: Vec<u32>,
    #[serde(alias = "token_type_ids")]
    type_ids: Vec<u32>,
    offsets: Vec<(usize, usize)>,
}

impl Entry {
    fn input(&self) -> Input {
        match &self.text_b {
            Some(b) => Input::Pair(self.text.clone(), b.clone()),
            None => Input::Text(self.text.clone()),
        }
    }

    fn compare(&self, case: &str, tokenizer: &Tokenizer) {
        let got = tokenizer.encode(&self.input(), &Limit::default());
        if self.tokens.len() == 2 {
            assert!(matches!(got, Err(Error::Input { .. })), "{case}: {:?}: {got:?}", self.text);
            return;
        }
        let got = got.unwrap();
        let place = format!("{case}: {:?}", self.text);
        assert_eq!(shown(&got), self.tokens, "{place}");
        assert_eq!(ids(&got), self.ids, "{place}");
        let field = |field: fn(&Token) -> u32| got.tokens.iter().map(field).collect::<Vec<_>>();
        assert_eq!(field(|token| token.type_id), self.type_ids, "{place}");
        let offsets: Vec<_> = got.tokens.iter().map(|token| token.offsets).collect();
        assert_eq!(offsets, self.offsets, "{place}");
    }
}

#[test]
fn minilm_agrees_with_transformers() {
    let text =
        std::fs::read_to_string(fixtures().join("../goldens/minilm_real/tokens.json")).unwrap();
    let entries: Vec<Entry> = serde_json::from_str(&text).unwrap();
    assert_eq!(entries.len(), 12);
    let tokenizer = minilm();
    for entry in &entries {
        entry.compare("minilm", &tokenizer);
    }
}

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    files: BTreeMap<String, serde_json::Value>,
    texts: Vec<Entry>,
    cut: Option<Vec<Vec<u32>>>,
    words: Option<Words>,
}

#[derive(Deserialize)]
struct Words {
    ids: Vec<u32>,
    offsets: Vec<(usize, usize)>,
    word_ids: Vec<Option<usize>>,
}

fn expected() -> Vec<Case> {
    let text = std::fs::read_to_string(fixtures().join("expected.json")).unwrap();
    serde_json::from_str::<Expected>(&text).unwrap().cases
}

#[test]
fn vocab_txt_agrees_with_transformers_under_every_setting() {
    let cases = expected();
    assert_eq!(cases.len(), 14);
    for case in cases {
        for (line_end, vocab) in [("LF", vocab()), ("CRLF", vocab().replace('\n', "\r\n"))] {
            let (tokenizer, _folder) = small(&vocab, &case.files);
            for entry in &case.texts {
                entry.compare(&format!("{}, {line_end}", case.name), &tokenizer);
            }
        }
    }
}

#[test]
fn truncation_cuts_what_transformers_cuts() {
    let cases = expected();
    let case = cases.iter().find(|case| case.cut.is_some()).unwrap();
    let (tokenizer, _folder) = small(&vocab(), &case.files);
    let (a, b) = ("a b c d e".to_owned(), "a b c d e f g h i".to_owned());
    let mut cuts = case.cut.as_ref().unwrap().iter();
    for (a, b) in [(&a, &b), (&b, &a)] {
        for max in 4..17 {
            let limit = Limit { max: Some(max), truncate: true };
            let got = tokenizer.encode(&Input::Pair(a.clone(), b.clone()), &limit).unwrap();
            assert_eq!(&ids(&got), cuts.next().unwrap(), "{a:?} {b:?} cut to {max}");
            assert_eq!(got.cut, 17 - max);
        }
    }
    assert!(cuts.next().is_none());
}

#[test]
fn words_given_apart_are_the_words() {
    let cases = expected();
    let case = cases.iter().find(|case| case.words.is_some()).unwrap();
    let (tokenizer, _folder) = small(&vocab(), &case.files);
    let words = ["Hello", "don't", "##ing", "Café", "我爱"].map(str::to_owned);
    let got = tokenizer.encode(&Input::Words(words.to_vec()), &Limit::default()).unwrap();
    let want = case.words.as_ref().unwrap();
    assert_eq!(ids(&got), want.ids);
    let word_ids: Vec<_> = got.tokens.iter().map(|token| token.word).collect();
    assert_eq!(word_ids, want.word_ids);
    assert_eq!(got.words(0), words);
    assert_eq!(got.texts, ["Hello don't ##ing Café 我爱"]);
    let starts = [0, 6, 12, 18, 23];
    for (token, (offsets, word)) in got.tokens.iter().zip(want.offsets.iter().zip(&want.word_ids)) {
        let start = word.map_or(0, |word| starts[word]);
        assert_eq!(token.offsets, (offsets.0 + start, offsets.1 + start));
    }
}

#[test]
fn pieces_are_taken_as_they_are() {
    let tokenizer = minilm();
    let pieces = ["[CLS]", "una", "##ffa", "##ble", "zzqq", "[SEP]"].map(str::to_owned);
    let got = tokenizer.encode(&Input::Tokens(pieces.to_vec()), &Limit::default()).unwrap();
    assert_eq!(ids(&got), [101, 14477, 20961, 3468, 100, 102]);
    assert_eq!(grouped(&got), (vec!["unaffable", "zzqq"], vec![0, 0, 0, 1]));
    assert_eq!(got.texts, ["unaffable zzqq"]);
    assert_eq!(got.tokens[3].offsets, (6, 9));
    assert_eq!(got.tokens[4].unknown.as_deref(), Some("zzqq"));
    assert_eq!(got.tokens[4].text, "[UNK]");
    let special: Vec<bool> = got.tokens.iter().map(|token| token.special).collect();
    assert_eq!(special, [true, false, false, false, false, true]);
    let bare = tokenizer.encode(&Input::Tokens(vec!["##ble".into()]), &Limit::default()).unwrap();
    assert_eq!((shown(&bare), grouped(&bare)), (vec!["##ble"], (vec!["##ble"], vec![0])));
}

#[test]
fn words_are_those_of_the_text_not_of_the_tokenizer() {
    let tokenizer = minilm();
    let got = read(&tokenizer, "The animal didn't cross: unaffable, 3.50 re-tokenise\t(x)");
    let words = ["The", "animal", "didn't", "cross", ":", "unaffable", ",", "3.50", "re", "-"];
    let words: Vec<&str> = words.into_iter().chain(["tokenise", "(", "x", ")"]).collect();
    assert_eq!(got.words(0), words);
    for token in got.tokens.iter().filter(|token| !token.special) {
        let word = words[token.word.unwrap()].to_lowercase();
        let piece = token.text.trim_start_matches("##");
        assert!(word.contains(piece), "{piece} is not in {word}");
    }
    assert_eq!(got.tokens.first().unwrap().word, None);
}

#[test]
fn typed_markers_stay_what_was_typed() {
    let tokenizer = minilm();
    let got = read(&tokenizer, "walk ##ing walk##ing");
    let words = vec!["walk", "#", "#", "ing", "walk", "#", "#", "ing"];
    assert_eq!(grouped(&got), (words, vec![0, 1, 2, 3, 4, 5, 6, 7]));
    let got = read(&tokenizer, "a [SEP] b [MASK] [UNK]");
    assert_eq!(shown(&got), ["[CLS]", "a", "[SEP]", "b", "[MASK]", "[UNK]", "[SEP]"]);
    let special: Vec<bool> = got.tokens.iter().map(|token| token.special).collect();
    assert_eq!(special, [true, false, false, false, false, false, true]);
    // A token over several words makes one of them.
    assert_eq!(grouped(&got), (vec!["a", "[SEP]", "b", "[MASK]", "[UNK]"], vec![0, 1, 2, 3, 4]));
    assert_eq!(got.unknown(), None);
}

#[test]
fn words_without_a_token_are_not_counted() {
    let tokenizer = minilm();
    let got = read(&tokenizer, "a \u{fffd} b");
    assert_eq!(grouped(&got), (vec!["a", "b"], vec![0, 1]));
    let limit = Limit { max: Some(4), truncate: true };
    let got = tokenizer.encode(&Input::Text("one two three four".into()), &limit).unwrap();
    assert_eq!(grouped(&got), (vec!["one", "two"], vec![0, 1]));
    assert_eq!((got.tokens[3].text.as_str(), got.cut), ("[SEP]", 2));
}

#[test]
fn pairs_count_words_in_each_text() {
    let tokenizer = minilm();
    let input = Input::Pair("The cat can't".into(), "A rug".into());
    let got = tokenizer.encode(&input, &Limit::default()).unwrap();
    assert_eq!((got.words(0), got.words(1)), (vec!["The", "cat", "can't"], vec!["A", "rug"]));
    let found: Vec<_> = got.tokens.iter().map(|token| (token.sequence, token.word)).collect();
    let (a, b, none) = (Some(0), Some(1), (None, None));
    let want = [
        none,
        (a, Some(0)),
        (a, Some(1)),
        (a, Some(2)),
        (a, Some(2)),
        (a, Some(2)),
        none,
        (b, Some(0)),
        (b, Some(1)),
        none,
    ];
    assert_eq!(found, want);
}

#[test]
fn unknown_pieces_keep_what_was_typed() {
    let tokenizer = minilm();
    let got = read(&tokenizer, "我爱自然语言处理");
    let unknown: Vec<&str> =
        got.tokens.iter().filter_map(|token| token.unknown.as_deref()).collect();
    assert_eq!(unknown.len(), 7);
    for (token, typed) in got.tokens[1..].iter().zip("我爱自然语言处理".chars()) {
        let known = token.unknown.is_none();
        let shown = token.unknown.as_deref().unwrap_or(&token.text);
        assert_eq!(shown, typed.to_string(), "{token:?}");
        assert_eq!(known, token.id != Some(100));
    }
    let want = Unknown { count: 7, of: 8, knows: Some("bert-base-chinese") };
    assert_eq!(got.unknown(), Some(want));
    let knows = |text: &str| read(&tokenizer, text).unknown().and_then(|unknown| unknown.knows);
    assert_eq!(knows("数学 and 日本語のトークン"), Some("bert-base-multilingual-cased"));
    // no promise where none can be made: emoji, and words too long for any vocabulary
    for text in ["an emoji 🦀", &"a".repeat(101)] {
        assert_eq!(read(&tokenizer, text).unknown().map(|unknown| unknown.knows), Some(None));
    }
    assert_eq!(knows("nothing odd"), None);
}

#[test]
fn lengths_around_the_limit() {
    let tokenizer = minilm();
    let text = |words: usize| Input::Text(vec!["word"; words].join(" "));
    let (strict, cut) =
        (Limit { max: Some(512), truncate: false }, Limit { max: Some(512), truncate: true });
    assert_eq!(tokenizer.encode(&text(510), &strict).unwrap().len(), 512);
    for words in [511, 512, 600] {
        let error = tokenizer.encode(&text(words), &strict).unwrap_err().to_string();
        let found = (words + 2).to_string();
        assert!(error.contains(&found) && error.contains("512"), "{error}");
        let got = tokenizer.encode(&text(words), &cut).unwrap();
        assert_eq!((got.len(), got.cut), (512, words - 510));
        assert_eq!(got.tokens[511].text, "[SEP]");
        assert!(got.tokens[511].special);
    }
    let words = "word ".repeat(300);
    let pair = Input::Pair(words.clone(), words);
    let error = tokenizer.encode(&pair, &strict).unwrap_err().to_string();
    assert!(error.contains("603") && error.contains("512"), "{error}");
    let got = tokenizer.encode(&pair, &cut).unwrap();
    let count = |sequence| got.tokens.iter().filter(|t| t.sequence == Some(sequence)).count();
    assert_eq!((got.len(), got.cut, count(0), count(1)), (512, 91, 254, 255));
    assert_eq!(got.tokens.iter().filter(|token| token.text == "[SEP]").count(), 2);
    let tiny = Limit { max: Some(2), truncate: true };
    assert!(matches!(tokenizer.encode(&text(3), &tiny), Err(Error::Input { .. })));
}

#[test]
fn nothing_to_read_is_an_error_that_names_the_input() {
    let tokenizer = minilm();
    let limit = Limit::default();
    let fail = |input: Input| match tokenizer.encode(&input, &limit) {
        Err(Error::Input { place, why }) => format!("{place}: {why}"),
        other => panic!("{input:?} gave {other:?}"),
    };
    assert!(fail(Input::Text("".into())).starts_with("text: empty"));
    assert!(fail(Input::Text("  ".into())).starts_with("text: only whitespace"));
    assert!(fail(Input::Text("\n".into())).starts_with("text: only whitespace"));
    assert!(fail(Input::Text("\u{0}\u{fffd}".into())).starts_with("text: "));
    assert!(fail(Input::Pair("a".into(), " ".into())).starts_with("text_b: "));
    assert!(fail(Input::Words(vec![])).starts_with("words: "));
    assert!(fail(Input::Words(vec!["a".into(), "".into()])).starts_with("words[1]: "));
    assert!(fail(Input::Tokens(vec![])).starts_with("tokens: "));
    assert!(fail(Input::Tokens(vec!["[CLS]".into()])).starts_with("tokens: "));
}

#[test]
fn ids_beyond_the_embeddings_name_the_token() {
    let cases = expected();
    let case = cases.iter().find(|case| case.name == "added_tokens.json").unwrap();
    let (tokenizer, _folder) = small(&vocab(), &case.files);
    let rows = vocab().lines().count();
    assert_eq!(tokenizer.vocab_size(), rows + 2);
    let got = read(&tokenizer, "a <e1>");
    assert_eq!(ids(&got)[2] as usize, rows);
    let error = got.check_ids(rows).unwrap_err();
    assert_eq!(error.exit_code(), 5);
    let error = error.to_string();
    assert!(error.contains("<e1>") && error.contains(&rows.to_string()), "{error}");
    assert!(got.check_ids(rows + 1).is_ok());
}

#[test]
fn what_was_assumed_is_said() {
    let notes = |vocab: &str, files| small(vocab, &files).0.notes().join("\n");
    let alone = notes(&vocab(), no_files());
    assert!(alone.contains("vocab.txt") && alone.contains("lower"), "{alone}");
    assert!(alone.contains("capitals"), "{alone}");
    let config = serde_json::json!({"do_lower_case": false});
    let cased = notes(&vocab(), [("tokenizer_config.json".to_owned(), config)].into());
    assert!(cased.contains("tokenizer_config.json") && !cased.contains("assumed"), "{cased}");
    assert!(minilm().notes().is_empty());
}

/// As transformers 5.24 does for `BertTokenizer` and for `PreTrainedTokenizerFast`.
#[test]
fn tokenizer_config_counts_for_more_than_tokenizer_json() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/all-MiniLM-L6-v2-f16");
    let own = TempDir::new().unwrap();
    let config = own.path().join("tokenizer_config.json");
    let files = TokenizerFiles {
        json: Some(Asset::Disk(folder.join("tokenizer.json"))),
        config: Some(Asset::Disk(config.clone())),
        ..TokenizerFiles::default()
    };
    let cases = [
        (r#"{}"#, "cafe hello 我 [UNK]"),
        (r#"{"do_lower_case": false}"#, "[UNK] [UNK] 我 [UNK]"),
        (r#"{"do_lower_case": false, "tokenizer_class": "BertTokenizer"}"#, "[UNK] [UNK] 我 [UNK]"),
        (r#"{"do_lower_case": true, "strip_accents": false}"#, "[UNK] hello 我 [UNK]"),
        (r#"{"do_lower_case": true, "strip_accents": null}"#, "cafe hello 我 [UNK]"),
        (
            r#"{"do_lower_case": false, "tokenizer_class": "PreTrainedTokenizerFast"}"#,
            "cafe hello 我 [UNK]",
        ),
    ];
    for (settings, want) in cases {
        std::fs::write(&config, settings).unwrap();
        let tokenizer = Tokenizer::open(&files).unwrap();
        let got = read(&tokenizer, "Café HELLO 我爱");
        assert_eq!(shown(&got)[1..5].join(" "), want, "{settings}");
        let changed = want != "cafe hello 我 [UNK]";
        assert_eq!(tokenizer.notes().len(), usize::from(changed), "{settings}");
    }
}

#[test]
fn broken_tokenizer_files_are_named() {
    let fail = |vocab: &str, name: &str, content: serde_json::Value| {
        let (opened, _folder) = try_small(vocab, &[(name.to_owned(), content)].into());
        let error = opened.err().unwrap_or_else(|| panic!("{name} was accepted"));
        assert_eq!(error.exit_code(), 4, "{error}");
        let error = error.to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    let lower = fail(&vocab(), "tokenizer_config.json", serde_json::json!({"do_lower_case": 3}));
    assert!(lower.contains("tokenizer_config.json") && lower.contains("do_lower_case"), "{lower}");
    let list = fail(&vocab(), "tokenizer_config.json", serde_json::json!([1]));
    assert!(list.contains("tokenizer_config.json"), "{list}");
    let added = fail(&vocab(), "added_tokens.json", serde_json::json!({"<e1>": 9999}));
    assert!(added.contains("<e1>") && added.contains("9999"), "{added}");
    let none = fail("a\nb\n", "added_tokens.json", serde_json::json!({}));
    assert!(none.contains("vocab.txt") && none.contains("[UNK]"), "{none}");
    let json = fail(&vocab(), "tokenizer.json", serde_json::json!({"version": "1.0"}));
    assert!(json.contains("tokenizer.json"), "{json}");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 231508\n";
    let pointer = fail(pointer, "added_tokens.json", serde_json::json!({}));
    assert!(pointer.contains("git-lfs pointer"), "{pointer}");
}

#[test]
fn batches_are_padded_on_the_right() {
    let tokenizer = minilm();
    let pair = Input::Pair("a b".into(), "c".into());
    let pair = tokenizer.encode(&pair, &Limit::default()).unwrap();
    let batch = Batch::new(&[read(&tokenizer, "a"), pair], tokenizer.pad_id());
    assert_eq!(batch.lengths, [3, 6]);
    assert_eq!(batch.ids.row(0).to_vec(), [101, 1037, 102, 0, 0, 0]);
    assert_eq!(batch.mask.row(0).to_vec(), [1, 1, 1, 0, 0, 0]);
    assert_eq!(batch.mask.row(1).to_vec(), [1; 6]);
    assert_eq!(batch.type_ids.row(1).to_vec(), [0, 0, 0, 0, 1, 1]);
    assert_eq!(Batch::new(&[], 0).ids.dim(), (0, 0));
}

#[test]
fn groups_hold_every_input_once_and_are_close_in_length() {
    let groups = group_by_length(&[5, 1, 9, 1, 6], 2);
    assert_eq!(groups, [vec![1, 3], vec![0, 4], vec![2]]);
    assert_eq!(group_by_length(&[2, 1], 0), [vec![1], vec![0]]);
    assert!(group_by_length(&[], 4).is_empty());
}
