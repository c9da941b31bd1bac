//! The page as a file: its size, what coding its weights costs, and that nothing in it can break out.

use attnviz::picture::page::{Neurons, Options, Page, Sheet, Side, render};
use attnviz::{Attention, Error, Head, HeadWeights, Token};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ndarray::Array2;
use serde_json::Value;
use sha2::{Digest, Sha256};

fn tokens(n: usize) -> Vec<Token> {
    (0..n).map(|i| Token { text: format!("token{i}"), word: Some(i), ..Token::default() }).collect()
}

/// Soft-max rows of made-up scores: some flat, some sharp.
fn weights(n: usize, seed: usize) -> Array2<f32> {
    let mut weights = Array2::from_shape_fn((n, n), |(i, j)| {
        let turn = (seed * 31 + i * 17 + j * 7) as f32;
        ((1.0 + (seed % 7) as f32) * turn.sin()).exp()
    });
    for mut row in weights.rows_mut() {
        let sum = row.sum();
        row /= sum;
    }
    weights
}

fn attention(layers: usize, heads: usize, n: usize) -> Attention {
    let all = (0..layers * heads).map(|i| HeadWeights {
        head: Head { layer: i / heads, head: i % heads },
        weights: weights(n, i),
    });
    Attention::new(tokens(n), tokens(n), all.collect(), vec![heads; layers]).unwrap()
}

fn page(attention: Attention) -> Page {
    Page::new("a title", Side::new("a text", "a model", vec![Sheet::new("self", attention)]))
}

fn html(page: &Page, options: &Options) -> String {
    String::from_utf8(render(page, options).unwrap().html).unwrap()
}

/// The text of the one element that starts with `open`.
fn between<'a>(html: &'a str, open: &str, close: &str) -> &'a str {
    assert_eq!(html.matches(open).count(), 1, "{open}");
    let (_, rest) = html.split_once(open).unwrap();
    rest.split_once(close).unwrap().0
}

fn data(html: &str) -> Value {
    let text = between(html, "<script type=\"application/json\" id=\"data\">", "</script>");
    assert!(!text.contains('<'));
    serde_json::from_str(text).unwrap()
}

#[test]
fn sizes_are_as_promised() {
    let size = |n| render(&page(attention(12, 12, n)), &Options::default()).unwrap().html.len();
    let (short, long) = (size(16), size(128));
    assert!(short <= 250_000, "{short}");
    assert!(long <= 4_000_000, "{long}");
}

#[test]
fn the_block_gives_the_weights_back() {
    for (exact, most) in [(false, 4e-3), (true, 2e-5)] {
        let page = page(attention(2, 3, 40));
        let options = Options { exact, ..Options::default() };
        let rendered = render(&page, &options).unwrap();
        let data = data(std::str::from_utf8(&rendered.html).unwrap());
        let block = STANDARD.decode(data["block"].as_str().unwrap()).unwrap();
        let sheet = &data["sides"][0]["sheets"][0];
        let at = |name: &str| sheet[name].as_u64().unwrap() as usize;
        let scale = |row: usize| {
            let from = at("scales_at") + 4 * row;
            f64::from(f32::from_le_bytes(block[from..from + 4].try_into().unwrap()))
        };
        let code = |i: usize| match exact {
            true => {
                let from = at("codes_at") + 2 * i;
                f64::from(u16::from_le_bytes([block[from], block[from + 1]])) / 65535.0
            }
            false => f64::from(block[at("codes_at") + i]) / 255.0,
        };
        let (mut worst, mut worst_sum) = (0.0_f64, 0.0_f64);
        for (head, one) in page.sides[0].sheets[0].attention.heads.iter().enumerate() {
            for (i, row) in one.weights.rows().into_iter().enumerate() {
                let row_at = head * 40 + i;
                let mut off = 0.0;
                for (j, &want) in row.iter().enumerate() {
                    let got = scale(row_at) * code(row_at * 40 + j).powi(2);
                    worst = worst.max((got - f64::from(want)).abs());
                    off += got - f64::from(want);
                }
                worst_sum = worst_sum.max(off.abs());
            }
        }
        assert!(worst < most && worst_sum < 1e-6, "{worst} {worst_sum}");
        // what the page says of itself
        assert!((rendered.errors.weight - worst).abs() < 1e-7, "{:?} {worst}", rendered.errors);
        assert_eq!(data["errors"]["weight"], rendered.errors.weight);
        assert!(rendered.errors.sum < 1e-6);
    }
}

#[test]
fn small_weights_of_long_texts_keep_their_digits() {
    let n = 512;
    let mut weights = weights(n, 3);
    weights.column_mut(0).fill(1.0); // most goes to one token
    for mut row in weights.rows_mut() {
        let sum = row.sum();
        row /= sum;
    }
    let head = HeadWeights { head: Head { layer: 0, head: 0 }, weights: weights.clone() };
    let one = Attention::new(tokens(n), tokens(n), vec![head], vec![1]).unwrap();
    let errors = render(&page(one), &Options::default()).unwrap().errors;
    assert!(errors.weight < 2e-3 && errors.sum < 1e-6, "{errors:?}");
}

const HOSTILE: [&str; 8] = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\" onmouseover=\"alert(1)",
    "&lt;b&gt;",
    "<!--<script>",
    "]]>",
    "{script}{data}{policy}",
    "\u{202e}evil\u{0}\u{2028}",
];

fn hostile(text: &str) -> Page {
    let mut attention = attention(1, 1, 3);
    for token in attention.queries.iter_mut().chain(&mut attention.keys) {
        token.text = text.into();
        token.unknown = Some(text.into());
    }
    let sheet = Sheet::new(text, attention).with_words(vec![vec![text.into(); 3]]);
    let notes = vec![text.into()];
    Page { notes, ..Page::new(text, Side::new(text, text, vec![sheet])) }
}

#[test]
fn hostile_strings_stay_data() {
    let plain = html(&hostile("plain"), &Options::default());
    for text in HOSTILE {
        let options = Options { generator: text.into(), ..Options::default() };
        let html = html(&hostile(text), &options);
        for mark in ["<script", "</script", "<img", "<!--", "onerror", "<style", "<meta"] {
            let markup = |html: &str| {
                let data = between(html, "id=\"data\">", "</script>").to_owned();
                html.replace(&data, "").matches(mark).count()
            };
            let extra = usize::from(mark == "onerror" && text.contains("onerror"));
            assert!(markup(&html) <= markup(&plain) + extra, "{mark} in {text}");
        }
        let data = data(&html);
        assert_eq!(data["title"], text);
        assert_eq!(data["sides"][0]["model"], text);
        let token = data["sides"][0]["sheets"][0]["rows"]["tokens"][0]["t"].as_str().unwrap();
        assert!(token.contains(text), "{token}");
    }
}

#[test]
fn the_policy_names_the_two_inline_elements_and_nothing_else() {
    let html = html(&page(attention(1, 2, 4)), &Options::default());
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    let policy = between(&html, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
    let script = between(&html, "<script>", "</script>");
    let style = between(&html, "<style>", "</style>");
    let want = format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data: blob:; \
         base-uri 'none'; form-action 'none'",
        hash(script),
        hash(style)
    );
    assert_eq!(policy, want);
    // nothing to load: no address but namespaces
    let markup = html.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http://", "https://", "src=", "@import", "url(", "//cdn"] {
        assert!(!markup.contains(outside), "{outside}");
    }
}

#[test]
fn pairs_words_and_gaps_reach_the_page() {
    let mut attention = attention(2, 3, 4);
    for (i, token) in attention.queries.iter_mut().enumerate() {
        token.word = Some(i / 2 % 2);
        token.sequence = Some(usize::from(i > 1));
        token.special = i == 0;
    }
    attention.keys = attention.queries.clone();
    attention.heads.retain(|one| one.head != Head { layer: 1, head: 1 });
    let mut sheet = Sheet::new("self", attention);
    sheet.pruned = vec![Head { layer: 1, head: 1 }];
    let page = Page::new("t", Side::new("s", "m", vec![sheet]));
    let data = data(&html(&page, &Options { words: true, ..Options::default() }));
    let sheet = &data["sides"][0]["sheets"][0];
    assert_eq!(data["start"]["words"], true);
    assert_eq!(sheet["counts"], serde_json::json!([3, 3]));
    assert_eq!(sheet["heads"].as_array().unwrap().len(), 5);
    assert_eq!(sheet["pruned"], serde_json::json!([[1, 1]]));
    assert_eq!(sheet["columns"], Value::Null);
    let words: Vec<(u64, u64)> = sheet["rows"]["words"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| (word[0].as_u64().unwrap(), word[1].as_u64().unwrap()))
        .collect();
    assert_eq!(words, [(0, 1), (1, 2), (2, 4)]);
    assert_eq!(sheet["rows"]["tokens"][2]["q"], 1);
    assert_eq!(sheet["rows"]["tokens"][0]["s"], 1);
}

#[test]
fn the_same_page_gives_the_same_bytes() {
    let page = page(attention(3, 4, 9));
    assert_eq!(html(&page, &Options::default()), html(&page, &Options::default()));
}

#[test]
fn what_is_no_page_is_refused_in_a_line() {
    let refused = |page: &Page, what: &str| {
        let error = render(page, &Options::default()).unwrap_err();
        assert!(matches!(error, Error::Array { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    let mut bad = page(attention(1, 1, 3));
    bad.sides[0].sheets[0].attention.heads[0].weights[(1, 1)] = f32::NAN;
    refused(&bad, "L0H0");
    bad.sides[0].sheets[0].attention.heads[0].weights[(1, 1)] = -0.1;
    refused(&bad, "-0.1");
    bad.sides.clear();
    refused(&bad, "a page");
    let mut empty = page(attention(1, 1, 3));
    empty.sides[0].sheets[0].attention.heads.clear();
    refused(&empty, "0 heads");
    let mut prompt = page(attention(1, 1, 3));
    prompt.sides[0].sheets[0].prompt = Some(4);
    refused(&prompt, "prompt");
    let mut neurons = page(attention(1, 1, 3));
    neurons.sides[0].sheets[0].neurons = vec![Neurons {
        head: Head { layer: 0, head: 0 },
        query: Array2::zeros((3, 2)),
        key: Array2::zeros((2, 2)),
        factor: 1.0,
        scores: Array2::zeros((3, 3)),
    }];
    refused(&neurons, "key of L0H0");
    let options = Options { residual: 1.0, ..Options::default() };
    let error = render(&page(attention(1, 1, 3)), &options).unwrap_err();
    assert!(matches!(error, Error::Usage { .. }), "{error}");
}
