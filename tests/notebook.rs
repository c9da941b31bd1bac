//! What a Rust notebook is shown, read as its kernel reads it: from the output of another process.

use std::process::Command;

use attnviz::notebook::Picture;
use attnviz::picture::page::{Options, Page, Sheet, Side, render};
use attnviz::picture::{Format, Style, TextEngine, View, grid, heatmap};
use attnviz::{Attention, Head, HeadWeights, Keep, Recorder, Token, Trace};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ndarray::array;

/// A word that would end what is shown, if it were not kept from doing so.
const HOSTILE: &str = "EVCXR_END_CONTENT";

fn attention() -> Attention {
    let word = |text: &str| Token { text: text.into(), ..Token::default() };
    let tokens: Vec<Token> = ["a", "<b>\"&", HOSTILE].map(word).to_vec();
    let weights = array![[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.6, 0.3]];
    let heads = (0..2)
        .map(|head| HeadWeights { head: Head { layer: 0, head }, weights: weights.clone() })
        .collect();
    Attention::new(tokens.clone(), tokens, heads, vec![2]).expect("fits")
}

fn view() -> View {
    let words: Vec<String> = ["a", HOSTILE].map(String::from).to_vec();
    View::new("two", words.clone(), words, array![[0.9, 0.1], [0.4, 0.6]]).expect("fits")
}

fn page() -> Vec<u8> {
    rendered().html
}

fn rendered() -> attnviz::picture::page::Rendered {
    let side = Side::new("a text", "a model", vec![Sheet::new("self", attention())]);
    render(&Page::new(HOSTILE, side), &Options::default()).expect("renders")
}

fn svg() -> Vec<u8> {
    let engine = TextEngine::new();
    heatmap(&view(), &Style::default(), Format::Svg, &engine).expect("draws")
}

#[cfg(feature = "embedded")]
fn trace() -> Trace {
    use attnviz::tokens::{Batch, Input, Limit};
    let model = attnviz::Model::from_pretrained("built-in").expect("loads");
    let tokenizer = model.tokenizer().expect("a tokenizer");
    let encoding = tokenizer.encode(&Input::Text("a cat".into()), &Limit::default());
    let batch = Batch::new(&[encoding.expect("tokens")], tokenizer.pad_id());
    let heads = [(1, vec![2, 5])].into_iter().collect();
    let mut recorder = Recorder::new().keep(attnviz::Site::Probs, Keep::Heads(heads));
    model.forward(&batch, &mut recorder, &[]).expect("runs");
    recorder.into_trace().expect("a trace")
}

/// The other process: shows one value.
#[test]
#[ignore = "the process whose output the other tests read"]
fn shows() {
    match std::env::var("ATTNVIZ_SHOWN").as_deref() {
        Ok("attention") => attention().evcxr_display(),
        Ok("nothing") => {
            Attention::new(vec![], vec![], vec![], vec![]).expect("fits").evcxr_display()
        }
        Ok("view") => view().evcxr_display(),
        Ok("svg") => Picture::new(svg(), Format::Svg).evcxr_display(),
        Ok("page") => rendered().evcxr_display(),
        #[cfg(feature = "embedded")]
        Ok("trace") => trace().evcxr_display(),
        Ok(other) => panic!("{other}"),
        Err(_) => {} // nobody reads
    }
}

/// Type and content of the one value that the process shows.
fn shown(what: &str) -> (String, String) {
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "shows", "--ignored", "--nocapture", "--test-threads=1"])
        .env("ATTNVIZ_SHOWN", what)
        .output()
        .expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let (_, rest) = text.split_once("EVCXR_BEGIN_CONTENT ").expect("a beginning");
    let (kind, rest) = rest.split_once('\n').expect("a type");
    let lines: Vec<&str> = rest.lines().take_while(|line| *line != "EVCXR_END_CONTENT").collect();
    let after = rest.lines().skip(lines.len() + 1).collect::<Vec<_>>();
    assert!(!after.iter().any(|line| line.contains("EVCXR_")), "{after:?}");
    (kind.into(), lines.join("\n"))
}

#[test]
fn attention_is_a_grid_of_its_heads() {
    let (kind, content) = shown("attention");
    assert_eq!(kind, "image/png");
    let title = "2 heads, 3 by 3 tokens";
    let (style, engine) = (Style::default(), TextEngine::new());
    let want = grid(&attention(), title, &[], &style, Format::Png, &engine).expect("draws");
    assert!(STANDARD.decode(content).expect("base64") == want);
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let (kind, content) = shown("nothing");
    assert_eq!(kind, "text/plain");
    assert!(content.contains("at least one head"), "{content}");
}

#[test]
fn a_view_is_its_heatmap() {
    let (kind, content) = shown("view");
    assert_eq!(kind, "image/png");
    let engine = TextEngine::new();
    let want = heatmap(&view(), &Style::default(), Format::Png, &engine).expect("draws");
    assert!(STANDARD.decode(content).expect("base64") == want);
}

#[test]
fn an_svg_stays_xml_of_the_same_words() {
    let (kind, content) = shown("svg");
    assert_eq!(kind, "image/svg+xml");
    assert!(!content.contains(HOSTILE));
    let words = |xml: &str| -> Vec<String> {
        let tree = roxmltree::Document::parse(xml).expect("XML");
        tree.descendants().filter_map(|node| node.text().map(str::to_owned)).collect()
    };
    let drawn = String::from_utf8(svg()).expect("UTF-8");
    assert_eq!(words(&content), words(drawn.trim_end()));
    assert!(words(&content).iter().any(|word| word == HOSTILE), "{:?}", words(&content));
}

#[test]
fn a_page_is_the_same_page_in_a_frame_without_an_origin() {
    let (kind, content) = shown("page");
    assert_eq!(kind, "text/html");
    assert!(!content.contains(HOSTILE));
    let (tag, rest) = content.split_once("srcdoc=\"").expect("a page inside");
    assert!(tag.starts_with("<iframe ") && tag.contains("sandbox=\"allow-scripts "), "{tag}");
    assert!(!tag.contains("allow-same-origin"), "{tag}");
    let (inside, end) = rest.split_once('"').expect("its end");
    assert_eq!(end, "></iframe>");
    let read = inside.replace("&#95;", "_").replace("&quot;", "\"").replace("&amp;", "&");
    assert_eq!(read, String::from_utf8(page()).expect("UTF-8"));
}

#[test]
#[cfg(feature = "embedded")]
fn a_trace_is_a_table_of_what_was_kept() {
    let (kind, content) = shown("trace");
    assert_eq!(kind, "text/html");
    let rows: Vec<&str> = content.lines().filter(|line| line.starts_with("<tr>")).collect();
    let want =
        "<tr><td>Encoder</td><td>1</td><td>Probs</td><td>[1, 2, 4, 4]</td><td>[2, 5]</td></tr>";
    assert_eq!(rows, [want]);
}
