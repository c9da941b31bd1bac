//! Hostile strings, narrow windows, long texts, and reading without a pointer or colours.

use attnviz::picture::page::{Options, Page, Sheet, Side, render};
use attnviz::{Attention, Token};
use serde_json::Value;

use crate::chromium::Chromium;
use crate::pages;

const VIEWS: [&str; 5] = ["head", "model", "neuron", "matrix", "flow"];

const HOSTILE: [&str; 9] = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\" onmouseover=\"alert(1)",
    "&lt;b&gt;",
    "<!--<script>",
    "javascript:alert(1)",
    "__proto__",
    "\u{202e}dlrow\u{0}\u{2028}",
    "<svg onload=alert(1)><style>*{display:none}</style>",
];

/// A page whose tokens, names and notes are `texts`, each its own; so are its title and model, together.
fn page_of(texts: &[&str]) -> Vec<u8> {
    let all = texts.join(" ");
    let tokens: Vec<Token> = texts
        .iter()
        .enumerate()
        .map(|(i, text)| Token { unknown: Some((*text).into()), ..pages::token(text, Some(i)) })
        .collect();
    let n = tokens.len();
    let attention =
        Attention::new(tokens.clone(), tokens, pages::heads(2, 2, n), vec![2, 2]).unwrap();
    let words = texts.iter().map(|text| (*text).to_owned()).collect();
    let sheet = Sheet { terms: all.clone(), ..Sheet::new(&all, attention).with_words(vec![words]) };
    let page = Page {
        notes: texts.iter().map(|text| (*text).to_owned()).collect(),
        sides: vec![Side::new(&all, &all, vec![sheet.clone()]), Side::new(&all, &all, vec![sheet])],
        ..Page::new(&all, Side::new("", "", Vec::new()))
    };
    let options = Options { generator: all, ..Options::default() };
    render(&page, &options).unwrap().html
}

/// Elements by name in every view, with the numbers shown.
fn elements(page: &Chromium) -> Vec<Value> {
    VIEWS
        .iter()
        .map(|view| {
            page.go(&format!("view={view}&table=1&words=1"));
            page.eval(
                "(() => { const all = {}; for (const e of document.querySelectorAll('*')) \
                 all[e.localName] = (all[e.localName] ?? 0) + 1; return all; })()",
            )
        })
        .collect()
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn hostile_strings_leave_the_dom_as_it_was_designed() {
    let page = Chromium::open(&page_of(&["plain"; HOSTILE.len()]), "");
    let want = elements(&page);
    page.load(&page_of(&HOSTILE), "");
    assert_eq!(elements(&page), want);
    page.go("compare=off");
    let shown: Vec<String> = HOSTILE
        .iter()
        .map(|text| {
            text.replace('\u{202e}', "<202E>").replace('\0', "<0000>").replace('\u{2028}', "<2028>")
        })
        .collect();
    assert_eq!(page.text("#title"), shown.join(" "), "direction marks and the like are spelt out");
    for (got, want) in page.texts(".queries li").iter().zip(&shown) {
        assert!(got.starts_with(want), "{got} for {want}");
    }
    for i in 1..=HOSTILE.len() {
        page.point(&format!(".queries li:nth-child({i}) button"));
    }
    page.click("#svg");
    let svg = String::from_utf8(page.saved("attnviz-head.svg")).unwrap();
    let tree = roxmltree::Document::parse(&svg).unwrap();
    let known = ["svg", "rect", "text", "path", "g", "line", "image", "circle"];
    assert!(
        tree.descendants().filter(|n| n.is_element()).all(|n| known.contains(&n.tag_name().name()))
    );
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn everything_fits_a_window_of_360_pixels() {
    let text = "The quick brown fox jumped over the unbelievably lazy dog";
    let page = Chromium::open(&pages::program(&[text, "--neuron", "0"]), "");
    page.resize(360, 740);
    for view in VIEWS {
        page.go(&format!("view={view}&open=3"));
        let wide = page.number("document.documentElement.scrollWidth");
        assert!(wide <= 360.0, "{view}: {wide}");
    }
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn every_control_has_a_name_and_head_colours_are_apart() {
    let page = Chromium::open(&pages::program(&["The cat sat"]), "");
    for view in VIEWS {
        page.go(&format!("view={view}"));
        let nameless = page.eval(
            "[...document.querySelectorAll('button, select, input')].filter((e) => e.offsetParent && \
             !(e.textContent.trim() || e.ariaLabel || e.title || e.labels?.[0]?.textContent.trim())).map((e) => e.outerHTML)",
        );
        assert_eq!(nameless, Value::Array(Vec::new()), "{view}");
    }
    page.go("");
    let colours = page.texts(".chip").len();
    assert_eq!(colours, 12);
    // redmean distance: the nearest two of twelve stay apart
    let least = page.number(
        "(() => { const c = [...document.querySelectorAll('.chip')].map((e) => \
         getComputedStyle(e).backgroundColor.match(/\\d+/g).map(Number)); let least = 1e9; \
         for (let i = 0; i < c.length; i++) for (let j = 0; j < i; j++) { \
         const m = (c[i][0] + c[j][0]) / 2, d = c[i].map((v, k) => v - c[j][k]); \
         least = Math.min(least, Math.sqrt((2 + m / 256) * d[0] ** 2 + 4 * d[1] ** 2 + (2 + (255 - m) / 256) * d[2] ** 2)); } \
         return least; })()",
    );
    assert!(least > 60.0, "{least}");
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn right_to_left_text_is_isolated() {
    let page = Chromium::open(&pages::program(&["שלום عالم hello"]), "");
    let dirs = page.eval("[...document.querySelectorAll('.queries span')].map((e) => e.dir)");
    assert!(dirs.as_array().unwrap().iter().all(|dir| dir == "auto"));
    assert_eq!(page.string("document.querySelector('#title').dir"), "auto");
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn five_hundred_tokens_are_usable() {
    let text = vec!["one"; 500].join(" ");
    let page =
        Chromium::open(&pages::program(&[&text, "--layers", "0-1", "--max-length", "512"]), "");
    assert_eq!(page.count(".queries li"), 502);
    page.point(".queries li:nth-child(400) button");
    assert!(page.text("#readout").starts_with("one attends to"));
    for view in VIEWS {
        page.click(&format!("#tab-{view}"));
    }
    page.assert_quiet();
}
