//! Hostile strings, narrow windows, long texts, and reading without a pointer or colours.

use attnviz::Token;
use attnviz::picture::page::{Options, Page, Sheet, Side, render};
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

/// A page of six tokens that all read `text`, as do its names.
fn page_of(text: &str) -> Vec<u8> {
    let mut sheet = pages::small_sheet();
    for token in sheet.attention.queries.iter_mut().chain(&mut sheet.attention.keys) {
        *token = Token { text: text.into(), unknown: Some(text.into()), ..token.clone() };
    }
    let sheet = Sheet {
        name: text.into(),
        terms: text.into(),
        ..sheet.with_words(vec![vec![text.into(); 2]])
    };
    let side = |sheet: Sheet| Side::new(text, text, vec![sheet]);
    let page = Page {
        notes: vec![text.into()],
        sides: vec![side(sheet.clone()), side(sheet)],
        ..Page::new(text, Side::new("", "", Vec::new()))
    };
    let options = Options { generator: text.into(), ..Options::default() };
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
    let want = {
        let page = Chromium::open(&page_of("plain"), "");
        elements(&page)
    };
    for text in HOSTILE {
        let page = Chromium::open(&page_of(text), "");
        assert_eq!(elements(&page), want, "{text}");
        page.go("");
        if !text.contains('\u{202e}') {
            assert_eq!(page.text("#title"), text);
            assert!(page.text(".queries li").contains(text));
        } else {
            assert!(page.text("#title").starts_with("<202E>"), "direction marks are spelt out");
        }
        page.point(".queries li button");
        page.click("#svg");
        let svg = page.saved("attnviz-head.svg");
        let svg = String::from_utf8(svg).unwrap();
        let tree = roxmltree::Document::parse(&svg).unwrap();
        assert!(
            tree.descendants()
                .all(|node| !node.has_tag_name("script") && !node.has_tag_name("img"))
        );
        page.assert_quiet();
    }
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
