//! What holds in every view: words, special tokens, thresholds, several tokens, links, saving, steps,
//! comparing.

use attnviz::picture::page::{Page, Side};

use crate::chromium::Chromium;
use crate::pages;

fn rows(page: &Chromium) -> Vec<Vec<String>> {
    if page.count("#numbers table") == 0 {
        page.click("#table");
    }
    let rows = page.eval("[...document.querySelectorAll('#numbers tbody tr')].map((r) => [...r.children].map((c) => c.textContent))");
    serde_json::from_value(rows).unwrap()
}

fn number(cell: &str) -> f64 {
    cell.parse().unwrap_or_else(|_| panic!("{cell}"))
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn words_sum_over_pieces_and_come_back_to_them() {
    let page = Chromium::open(&pages::small(), "view=matrix&head=1");
    page.click("#words");
    let table = rows(&page);
    let names: Vec<&str> = table.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["[CLS]", "Unbelievable", "cat", "[SEP]"]);
    let (high, low) = pages::levels(6, 0.9);
    // from the word the mean over its three pieces, to it the sum: two of them look at the next one
    let want = (2.0 * (high + 2.0 * low) + 3.0 * low) / 3.0;
    assert!((number(&table[1][2]) - want).abs() < 3e-3, "{table:?}");
    for row in &table {
        let sum: f64 = row[1..].iter().map(|cell| number(cell)).sum();
        assert!((sum - 1.0).abs() < 1e-3, "{row:?}");
    }
    page.click("#words");
    assert_eq!(rows(&page).len(), 6);
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn hidden_special_tokens_leave_rows_of_one_and_say_what_went() {
    let page = Chromium::open(&pages::small(), "view=matrix&head=1&bare=1");
    let table = rows(&page);
    assert_eq!(table.len(), 4);
    for row in &table {
        let sum: f64 = row[1..].iter().map(|cell| number(cell)).sum();
        assert!((sum - 1.0).abs() < 1e-3, "{row:?}");
    }
    assert!(
        page.string("document.querySelector('#bare').parentElement.title")
            .contains("sum to 1 again")
    );
    assert!(page.text("#said").contains("Special tokens hidden"), "{}", page.text("#said"));
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn thresholds_and_strongest_keys_leave_links_out() {
    let page = Chromium::open(&pages::small(), "heads=1&table=1");
    assert_eq!(rows(&page).len(), 36);
    page.set("#least", "0.5");
    assert_eq!(rows(&page).len(), 6);
    page.set("#least", "0");
    page.set("#most", "1");
    let table = rows(&page);
    assert_eq!(table.len(), 6);
    assert!(table.iter().all(|row| number(&row[5]) > 0.9));
    assert!(page.hash().contains("most=1"));
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn several_tokens_are_summed() {
    let page = Chromium::open(&pages::small(), "heads=1");
    page.click(".queries li:nth-child(1) button");
    page.click(".queries li:nth-child(2) button");
    assert_eq!(page.count(".token[aria-pressed=true]"), 2);
    assert!(page.hash().contains("queries=0-1"));
    assert!(page.text("#clear").starts_with("2 tokens, summed"));
    page.click(".queries li:nth-child(1) button");
    assert_eq!(page.count(".token[aria-pressed=true]"), 1);
    page.click("#clear");
    assert_eq!(page.count(".token[aria-pressed=true]"), 0);
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn a_link_and_a_reload_show_the_same() {
    let page = Chromium::open(&pages::small(), "");
    page.click("#tab-matrix");
    page.set("#layer", "1");
    page.set("#head", "2");
    page.click("#words");
    let fragment = page.hash();
    assert!(fragment.contains("view=matrix") && fragment.contains("words=1"), "{fragment}");
    let before = (page.text(".panel h2"), rows(&page));
    page.go(fragment.trim_start_matches('#'));
    assert_eq!((page.text(".panel h2"), rows(&page)), before);
    // a link that is followed inside the page
    page.eval("(location.hash = 'view=head&layer=1&heads=0', 1)");
    page.wait("document.querySelector('#tab-head').ariaSelected === 'true'");
    assert_eq!(page.texts(".chip[aria-pressed=true]"), ["0"]);
    // nonsense opens the page as it is
    page.go("view=evil&layer=99&heads=x&queries=0-9999999&least=NaN&step=7&zoom=-1&filter=ab&__proto__=1");
    assert_eq!(page.text("#tab-head[aria-selected=true]"), "Head");
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn pairs_are_filtered_by_side() {
    let html = pages::program(&["--pair", "A man is eating.", "Someone has lunch."]);
    let page = Chromium::open(&html, "");
    let all = page.texts(".queries li").len();
    for (filter, first, last) in [("ab", "[CLS]", "someone"), ("ba", "someone", "[CLS]")] {
        page.set("#filter", filter);
        let (queries, keys) = (page.texts(".queries li"), page.texts(".keys li"));
        assert_eq!(queries.len() + keys.len(), all, "{filter}");
        assert_eq!((queries[0].as_str(), keys[0].as_str()), (first, last), "{filter}");
    }
    page.set("#filter", "aa");
    assert_eq!(page.texts(".queries li"), page.texts(".keys li"));
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn every_view_is_saved_as_pixels_and_shapes() {
    let html = pages::program(&["The cat sat because it was tired", "--neuron", "0"]);
    let page = Chromium::open(&html, "");
    for view in ["head", "model", "neuron", "matrix", "flow"] {
        let open = if view == "neuron" { "&open=2" } else { "" };
        page.go(&format!("view={view}{open}"));
        page.click("#png");
        let png = page.saved(&format!("attnviz-{view}.png"));
        let decoder = png::Decoder::new(std::io::Cursor::new(&png));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert!(info.width >= 320 && info.height >= 200, "{view}: {info:?}");
        let bytes = info.color_type.samples();
        let mut colours: Vec<&[u8]> = pixels[..info.buffer_size()].chunks(bytes).collect();
        colours.sort_unstable();
        colours.dedup();
        assert!(colours.len() > 20, "{view}: {} colours", colours.len());
        page.click("#svg");
        let svg = String::from_utf8(page.saved(&format!("attnviz-{view}.svg"))).unwrap();
        let tree = roxmltree::Document::parse(&svg).unwrap();
        let texts: Vec<&str> = tree
            .descendants()
            .filter(|n| n.has_tag_name("text"))
            .filter_map(|n| n.text())
            .collect();
        assert!(texts.contains(&"The cat sat because it was tired"), "{view}: {texts:?}");
        assert!(view == "model" || texts.contains(&"cat"), "{view}: {texts:?}");
        page.assert_quiet();
    }
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn numbers_are_copied_as_a_table() {
    let page = Chromium::open(&pages::small(), "view=matrix&head=1");
    page.eval("(navigator.clipboard.writeText = (text) => { document.body.dataset.copied = text; return Promise.resolve(); }, 1)");
    page.click("#copy");
    page.wait("document.body.dataset.copied !== undefined");
    let text = page.string("document.body.dataset.copied");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0], "query \\ key\t[CLS]\tun\t##believ\t##able\tcat\t[SEP]");
    assert!(page.text("#readout").contains("Copied 6 rows"));
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn a_step_slider_goes_through_a_generated_text() {
    let page = Chromium::open(&pages::of(vec![pages::generated_sheet()]), "");
    assert_eq!(page.texts(".queries li").len(), 8);
    assert_eq!(page.count(".queries .written"), 4);
    page.set("#step", "1");
    assert_eq!(page.texts(".queries li"), ["t0", "t1", "t2", "t3", "t4"]);
    assert!(page.text("output").contains("1 of 4: t4"), "{}", page.text("output"));
    assert!(page.hash().contains("step=1"));
    page.click("#tab-matrix");
    let table = rows(&page);
    assert_eq!(table.len(), 5);
    for row in &table {
        let sum: f64 = row[1..].iter().map(|cell| number(cell)).sum();
        assert!((sum - 1.0).abs() < 1e-3, "{row:?}");
    }
    page.click("#tab-head");
    page.set("#step", "4");
    assert_eq!(page.texts(".queries li").len(), 8);
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn encoder_decoder_and_cross_have_their_own_tokens() {
    let page = Chromium::open(&pages::encoder_decoder(), "");
    assert_eq!(page.texts(".queries li"), ["the", "cat", "sat"]);
    page.set("#layer", "1");
    page.set("#stack", "2");
    assert_eq!(page.texts(".queries li"), ["die", "Katze"]);
    assert_eq!(page.texts(".keys li"), ["the", "cat", "sat"]);
    page.point(".queries li:nth-child(2) button");
    assert!(
        page.text("#readout").starts_with("Katze attends to cat 0.8"),
        "{}",
        page.text("#readout")
    );
    for view in ["model", "matrix", "neuron"] {
        page.click(&format!("#tab-{view}"));
    }
    page.set("#stack", "1");
    page.click("#tab-head");
    assert_eq!(page.texts(".keys li"), ["die", "Katze"]);
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn two_texts_stand_side_by_side_with_their_difference() {
    let mut other = pages::small_sheet();
    for one in &mut other.attention.heads {
        one.weights = pages::shifted(6, 3, 0.9);
    }
    let sides = vec![
        Side::new("first", "a-model", vec![pages::small_sheet()]),
        Side::new("second", "a-model", vec![other]),
    ];
    let html = pages::html(&Page { sides, ..Page::new("two", Side::new("", "", Vec::new())) });
    let page = Chromium::open(&html, "view=matrix&head=1");
    assert_eq!(page.count(".panel"), 3);
    let titles = page.texts(".panel h2");
    assert!(
        titles[0].contains("first")
            && titles[1].contains("second")
            && titles[2].contains("Difference"),
        "{titles:?}"
    );
    let difference: Vec<Vec<String>> =
        rows(&page).into_iter().filter(|row| row[0].contains("Difference")).collect();
    assert!((number(&difference[0][3]) + 0.9).abs() < 5e-3, "{:?}", difference[0]);
    assert!((number(&difference[0][5]) - 0.9).abs() < 5e-3, "{:?}", difference[0]);
    page.click("#tab-head");
    assert_eq!(page.count(".links"), 3);
    page.set("#compare", "layer");
    page.set("#against", "1");
    assert!(page.texts(".panel h2")[1].contains("Layer 1"));
    page.set("#compare", "off");
    assert_eq!(page.count(".panel"), 1);
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn light_and_dark_follow_the_system_or_the_reader() {
    let page = Chromium::open(&pages::small(), "");
    let ground = |page: &Chromium| page.string("getComputedStyle(document.body).backgroundColor");
    assert_eq!(ground(&page), "rgb(255, 255, 255)");
    page.prefer("dark");
    page.wait("document.documentElement.dataset.theme === 'dark'");
    assert_ne!(ground(&page), "rgb(255, 255, 255)");
    page.click("#theme");
    assert_eq!(ground(&page), "rgb(255, 255, 255)");
    assert!(page.hash().contains("theme=light"));
}
