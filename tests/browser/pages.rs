//! Pages to look at: made up where values must be known, from the program where they must be real.

use std::path::PathBuf;

use assert_cmd::Command;
use attnviz::picture::page::{Neurons, Options, Page, Sheet, Side, render};
use attnviz::{Attention, Head, HeadWeights, Token};
use ndarray::Array2;

pub fn token(text: &str, word: Option<usize>) -> Token {
    let special = text.starts_with('[');
    let sequence = (!special).then_some(0);
    Token { text: text.into(), word, special, sequence, id: Some(7), ..Token::default() }
}

/// `[CLS] un ##believ ##able cat [SEP]`
pub fn tokens() -> Vec<Token> {
    let pieces = [
        ("[CLS]", None),
        ("un", Some(0)),
        ("##believ", Some(0)),
        ("##able", Some(0)),
        ("cat", Some(1)),
        ("[SEP]", None),
    ];
    pieces.into_iter().map(|(text, word)| token(text, word)).collect()
}

/// Each query attends to the key `step` further on, with what is left spread over all.
pub fn shifted(n: usize, step: usize, share: f32) -> Array2<f32> {
    Array2::from_shape_fn((n, n), |(i, j)| {
        let rest = (1.0 - share) / n as f32;
        if j == (i + step) % n { share + rest } else { rest }
    })
}

/// The weight that [`shifted`] gives to the key it looks at, and to the others.
pub fn levels(n: usize, share: f32) -> (f64, f64) {
    let rest = (1.0 - f64::from(share)) / n as f64;
    (f64::from(share) + rest, rest)
}

pub fn heads(layers: usize, count: usize, n: usize) -> Vec<HeadWeights> {
    let one = |at: usize| HeadWeights {
        head: Head { layer: at / count, head: at % count },
        weights: shifted(n, at % count, 0.9),
    };
    (0..layers * count).map(one).collect()
}

/// Two layers of three heads, head h looking h tokens further on; L1H1 is pruned.
pub fn small_sheet() -> Sheet {
    let mut heads = heads(2, 3, 6);
    let gone = Head { layer: 1, head: 1 };
    heads.retain(|one| one.head != gone);
    let attention = Attention::new(tokens(), tokens(), heads, vec![3, 3]).unwrap();
    let words = vec![vec!["Unbelievable".to_owned(), "cat".into()]];
    let mut sheet = Sheet::new("self", attention).with_words(words);
    sheet.pruned = vec![gone];
    sheet
}

pub fn of(sheets: Vec<Sheet>) -> Vec<u8> {
    html(&Page::new("Unbelievable cat", Side::new("a text", "a-model", sheets)))
}

pub fn html(page: &Page) -> Vec<u8> {
    render(page, &Options::default()).unwrap().html
}

pub fn small() -> Vec<u8> {
    of(vec![small_sheet()])
}

/// Head L0H0 with queries and keys whose products, scaled and with a term by distance, give the weights.
pub fn with_neurons() -> Vec<u8> {
    let (n, k) = (4, 8);
    let query = Array2::from_shape_fn((n, k), |(i, d)| ((i * 5 + d * 3) as f32).sin() * 2.0);
    let key = Array2::from_shape_fn((n, k), |(j, d)| ((j * 7 + d * 2) as f32).cos() * 2.0);
    let factor = 1.0 / (k as f64).sqrt();
    let term = |i: usize, j: usize| 0.3 * (i as f32 - j as f32).abs();
    let products = query.dot(&key.t());
    let scores =
        Array2::from_shape_fn((n, n), |(i, j)| products[(i, j)] * factor as f32 + term(i, j));
    // the last key is hidden from the first query
    let weights = Array2::from_shape_fn((n, n), |(i, j)| {
        let seen = |j: usize| i > 0 || j < n - 1;
        let sum: f32 = (0..n).filter(|&j| seen(j)).map(|j| scores[(i, j)].exp()).sum();
        if seen(j) { scores[(i, j)].exp() / sum } else { 0.0 }
    });
    let tokens: Vec<Token> = ["a", "b", "c", "d"].map(|text| token(text, None)).to_vec();
    let head = Head { layer: 0, head: 0 };
    let attention =
        Attention::new(tokens.clone(), tokens, vec![HeadWeights { head, weights }], vec![1])
            .unwrap();
    let mut sheet = Sheet::new("self", attention);
    sheet.terms = "position".into();
    sheet.neurons = vec![Neurons { head, query, key, factor, scores }];
    of(vec![sheet])
}

/// A generated text of eight tokens, four of them given; two layers of one head, causal.
pub fn generated_sheet() -> Sheet {
    let n = 8;
    let weights = |layer: usize| {
        let raw =
            |i: usize, j: usize| if j <= i { 1.0 + ((i + 2 * j + layer) % 4) as f32 } else { 0.0 };
        let sum = |i: usize| (0..n).map(|j| raw(i, j)).sum::<f32>();
        Array2::from_shape_fn((n, n), |(i, j)| raw(i, j) / sum(i))
    };
    let tokens: Vec<Token> = (0..n).map(|i| token(&format!("t{i}"), Some(i))).collect();
    let heads = (0..2)
        .map(|layer| HeadWeights { head: Head { layer, head: 0 }, weights: weights(layer) })
        .collect();
    let mut sheet =
        Sheet::new("decoder", Attention::new(tokens.clone(), tokens, heads, vec![1, 1]).unwrap());
    sheet.prompt = Some(4);
    sheet
}

/// Encoder of three tokens and two layers, decoder of two tokens and one layer, and the cross-attention.
pub fn encoder_decoder() -> Vec<u8> {
    let source: Vec<Token> = ["the", "cat", "sat"].map(|text| token(text, None)).to_vec();
    let target: Vec<Token> = ["die", "Katze"].map(|text| token(text, None)).to_vec();
    let head = |layer, weights| HeadWeights { head: Head { layer, head: 0 }, weights };
    let encoder = Attention::new(
        source.clone(),
        source.clone(),
        vec![head(0, shifted(3, 0, 0.9)), head(1, shifted(3, 1, 0.9))],
        vec![1, 1],
    );
    let causal = Array2::from_shape_vec((2, 2), vec![1.0, 0.0, 0.5, 0.5]).unwrap();
    let decoder = Attention::new(target.clone(), target.clone(), vec![head(0, causal)], vec![1]);
    let cross = Array2::from_shape_vec((2, 3), vec![0.9, 0.05, 0.05, 0.1, 0.8, 0.1]).unwrap();
    let cross = Attention::new(target, source, vec![head(0, cross)], vec![1]);
    of(vec![
        Sheet::new("encoder", encoder.unwrap()),
        Sheet::new("decoder", decoder.unwrap()),
        Sheet::new("cross", cross.unwrap()),
    ])
}

/// What the program itself writes with the model that is built in.
pub fn program(args: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("page.html");
    let mut command = Command::cargo_bin("attnviz").unwrap();
    command.arg("html").args(args).arg("--out").arg(&path).assert().success();
    std::fs::read(path).unwrap()
}

/// What `html` or `generate --html` writes of a tiny model of the goldens, with a vocabulary of words.
pub fn tiny(command: &str, model: &str, args: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\non\nmat\nle\nchat\n";
    std::fs::write(folder.path().join("vocab.txt"), words).unwrap();
    let goldens = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/goldens");
    let mut run = Command::cargo_bin("attnviz").unwrap();
    run.current_dir(folder.path()).args([command, "--model"]).arg(goldens.join(model));
    run.args(["--tokenizer", "vocab.txt", "--out", "pages"]).args(args).assert().success();
    let page = std::fs::read_dir(folder.path().join("pages")).unwrap().next().unwrap().unwrap();
    std::fs::read(page.path()).unwrap()
}
