//! A test or more per view.

use attnviz::analysis::{RESIDUAL, rollout, rollout_null};
use serde_json::json;

use crate::chromium::Chromium;
use crate::pages;

/// Middle of a token's row on the canvas of lines.
fn y(i: usize) -> f64 {
    30.0 + 22.0 * i as f64 + 11.0
}

/// Halfway between the columns of a picture 760 pixels wide.
const HALFWAY: f64 = 380.0;

/// The strength of the line from query `i` to key `j`, where it crosses the middle.
fn line(page: &Chromium, i: usize, j: usize) -> u8 {
    let at = (y(i) + y(j)) / 2.0;
    (-1..=1).map(|off| page.pixel(".links canvas", HALFWAY, at + f64::from(off))[3]).max().unwrap()
}

fn query(i: usize) -> String {
    format!(".queries li:nth-child({}) button", i + 1)
}

fn key(j: usize) -> String {
    format!(".keys li:nth-child({}) button", j + 1)
}

fn chip(value: usize) -> String {
    format!(".chip[value=\"{value}\"]")
}

fn numbers(page: &Chromium) -> Vec<Vec<String>> {
    if page.count("#numbers table") == 0 {
        page.click("#table");
    }
    let rows = page.eval("[...document.querySelectorAll('#numbers tbody tr')].map((r) => [...r.children].map((c) => c.textContent))");
    serde_json::from_value(rows).unwrap()
}

fn value(cell: &str) -> f64 {
    cell.parse().unwrap_or_else(|_| panic!("{cell}"))
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn head_view_draws_a_line_per_link_in_the_colour_of_its_head() {
    let page = Chromium::open(&pages::small(), "");
    assert_eq!(page.texts(".queries li"), ["[CLS]", "un", "##believ", "##able", "cat", "[SEP]"]);
    assert_eq!(page.count(".chip[aria-pressed=true]"), 3);
    page.double_click(&chip(2));
    assert_eq!(page.count(".chip[aria-pressed=true]"), 1);
    let colour = page.eval("getComputedStyle(document.querySelector('.chip[value=\"2\"]')).backgroundColor.match(/\\d+/g).map(Number)");
    // L0H2 looks two tokens further on
    let [r, g, b, a] = page.pixel(".links canvas", HALFWAY, (y(0) + y(2)) / 2.0);
    assert!(a > 200, "{a}");
    for (got, want) in [r, g, b].into_iter().zip(colour.as_array().unwrap()) {
        assert!(f64::from(got) - want.as_f64().unwrap() < 12.0, "{:?} {colour}", [r, g, b]);
    }
    assert!(line(&page, 0, 2) > 200 && line(&page, 2, 4) > 200);
    page.double_click(&chip(2));
    assert_eq!(page.count(".chip[aria-pressed=true]"), 3);
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn head_squares_toggle_and_the_last_one_stays() {
    let page = Chromium::open(&pages::small(), "");
    page.click(&chip(0));
    assert_eq!(page.text(".chip[aria-pressed=false]"), "0");
    page.click(&chip(1));
    page.click(&chip(2));
    assert_eq!(page.texts(".chip[aria-pressed=true]"), ["2"]);
    page.focus(&chip(1));
    page.press("i");
    assert_eq!(page.texts(".chip[aria-pressed=true]"), ["1"]);
    // another layer, where that head is pruned: its square is off under its own number
    page.set("#layer", "1");
    assert_eq!(page.texts(".chip:disabled"), ["1"]);
    assert!(page.text(".panel h2").contains("none of the chosen heads"));
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
pub fn head_view_shows_one_token_while_it_is_pointed_at_on_either_side() {
    let page = Chromium::open(&pages::small(), "heads=1");
    assert!(line(&page, 0, 1) > 200 && line(&page, 3, 4) > 200);
    page.point(&query(3));
    assert!(line(&page, 3, 4) > 200, "its line stays");
    assert_eq!(line(&page, 0, 1), 0, "others go");
    assert!(page.pixel(".links canvas", 540.0, y(4))[3] > 100, "the key's box fills");
    assert!(page.pixel(".links canvas", 540.0, y(1))[3] < 30);
    assert!(
        page.text("#readout").starts_with("##able attends to cat 0.9"),
        "{}",
        page.text("#readout")
    );
    page.point(&key(1));
    assert!(line(&page, 0, 1) > 200);
    assert_eq!(line(&page, 3, 4), 0);
    assert!(page.pixel(".links canvas", 30.0, y(0))[3] > 100, "the query's box fills");
    assert!(page.text("#readout").starts_with("un is attended to by [CLS] 0.9"));
    page.point_away();
    assert!(line(&page, 0, 1) > 200 && line(&page, 3, 4) > 200);
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
pub fn model_view_walks_through_heads_and_opens_one() {
    let page = Chromium::open(&pages::small(), "view=model");
    assert_eq!(page.count(".tile"), 5);
    assert_eq!(page.texts(".gap"), ["pruned"]);
    page.wait("document.querySelectorAll('.tile[data-drawn]').length === 5");
    let tile =
        |layer: usize, head: usize| format!(".tile[data-layer=\"{layer}\"][data-head=\"{head}\"]");
    // L0H1: bright beside the diagonal, dark on it
    let canvas = format!("{} canvas", tile(0, 1));
    let cell = 64.0 / 6.0;
    let [bright, dark] =
        [page.pixel(&canvas, 1.5 * cell, 0.5 * cell), page.pixel(&canvas, 0.5 * cell, 0.5 * cell)];
    assert!(bright[1] > 200 && dark[1] < 60, "{bright:?} {dark:?}");
    page.click(&tile(0, 1));
    assert_eq!(page.text(".detail h2"), "Layer 0, head 1");
    assert!(page.drawn(".detail canvas", [100.0, 30.0, 100.0, 130.0]) > 50);
    assert!(page.hash().contains("detail=1"));
    page.point(&format!(".detail {}", query(2)));
    assert!(page.text("#readout").starts_with("##believ attends to ##able 0.9"));
    page.click(&tile(0, 1));
    assert_eq!(page.count(".detail[hidden]"), 1);
    page.click(&tile(1, 0));
    page.press("ArrowRight");
    assert_eq!(page.text(".detail h2"), "Layer 1, head 2", "the pruned head is passed over");
    page.press("ArrowUp");
    assert_eq!(page.text(".detail h2"), "Layer 0, head 2");
    page.click("#lines");
    page.wait(&format!("document.querySelector('{}').dataset.drawn === 'lines'", tile(0, 1)));
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
pub fn matrix_view_tells_every_cell_and_zooms() {
    let page = Chromium::open(&pages::small(), "view=matrix&head=1&zoom=20");
    let (high, low) = pages::levels(6, 0.9);
    // label widths differ by font: the cells end where the canvas does
    let place = |i: f64, j: f64| {
        page.eval(&format!(
            "(() => {{ const b = document.querySelector('.space canvas').getBoundingClientRect(); \
             return [b.right - 1 - (6 - {j}) * 20 + 10, b.bottom - 46 - 1 - (6 - {i}) * 20 + 10]; }})()"
        ))
    };
    let at = |i: f64, j: f64| {
        let xy = place(i, j);
        (xy[0].as_f64().unwrap(), xy[1].as_f64().unwrap())
    };
    page.point_at(at(2.0, 3.0));
    let told = page.text("#readout");
    assert!(told.starts_with("##believ (2) → ##able (3): "), "{told}");
    assert!((value(told.rsplit(' ').next().unwrap()) - high).abs() < 2e-3, "{told}");
    page.point_at(at(5.0, 1.0));
    let told = page.text("#readout");
    assert!((value(told.rsplit(' ').next().unwrap()) - low).abs() < 2e-3, "{told}");
    page.focus(".space canvas");
    page.press("ArrowUp");
    assert!(page.text("#readout").starts_with("cat (4) → un (1): "), "{}", page.text("#readout"));
    let rows = numbers(&page);
    assert_eq!(rows.len(), 6);
    assert!((value(&rows[0][2]) - high).abs() < 2e-3);
    page.point_away();
    let colour = |i: f64, j: f64| {
        let (x, y) = at(i, j);
        let origin = page.eval("(() => { const b = document.querySelector('.space canvas').getBoundingClientRect(); return [b.left, b.top]; })()");
        page.pixel(
            ".space canvas",
            x - origin[0].as_f64().unwrap(),
            y - origin[1].as_f64().unwrap(),
        )
    };
    assert!(colour(0.0, 1.0)[0] > 240 && colour(0.0, 0.0)[0] < 90, "yellow and violet of viridis");
    page.click_at(at(4.0, 5.0));
    assert!(page.hash().contains("queries=4") && page.hash().contains("keys=5"));
    page.click("#in");
    assert!(page.hash().contains("zoom=30"));
    page.set("#scale", "shared");
    assert!(
        page.eval("document.querySelector('.space canvas').getAttribute('aria-label')")
            .as_str()
            .unwrap()
            .contains("scale: all heads")
    );
    page.set("#combine", "mean");
    assert!(
        page.text(".panel h2").contains("mean of 5 heads, all layers"),
        "{}",
        page.text(".panel h2")
    );
    let rows = numbers(&page);
    let want = (2.0 * high + 3.0 * low) / 5.0; // two heads look at the token itself
    assert!((value(&rows[1][2]) - want).abs() < 2e-3, "{}", rows[1][2]);
    page.set("#combine", "max");
    assert!((value(&numbers(&page)[1][2]) - high).abs() < 2e-3);
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
pub fn neuron_view_adds_up_to_the_weights() {
    let page = Chromium::open(&pages::with_neurons(), "view=neuron");
    assert_eq!(page.text("[aria-expanded]"), "+ Expand");
    let collapsed = numbers(&page);
    page.click(&query(2));
    assert_eq!(page.text("[aria-expanded=true]"), "− Collapse");
    let rows = numbers(&page);
    assert_eq!(rows.len(), 4);
    for row in &rows {
        let (dot, term, score, weight) =
            (value(&row[2]), value(&row[3]), value(&row[4]), value(&row[5]));
        assert!((dot / 8.0_f64.sqrt() + term - score).abs() < 1e-3, "{row:?}");
        assert!((term - 0.3 * (2.0 - value(&row[0])).abs()).abs() < 1e-3, "{row:?}");
        let page_weight =
            collapsed.iter().find(|link| link[1] == "2" && link[3] == row[0]).unwrap();
        assert!((value(&page_weight[5]) - weight).abs() < 4e-3, "{row:?} {page_weight:?}");
    }
    // positive products in blue upwards, negative ones in another colour downwards
    let sum = |r: usize, c: usize| {
        page.number(&format!(
        "(() => {{ const c = document.querySelector('.neuron .sideways canvas'); \
         const d = c.getContext('2d').getImageData(0, 74, c.width, c.height - 74).data; \
         let n = 0; for (let i = 0; i < d.length; i += 4) if (d[i + {r}] > d[i + {c}] + 60) n++; return n; }})()"))
    };
    assert!(sum(2, 0) > 100.0 && sum(0, 2) > 100.0, "both signs are drawn");
    page.focus(".neuron .sideways canvas");
    page.press("ArrowUp");
    page.press("ArrowUp");
    assert!(page.hash().contains("open=0"));
    assert_eq!(numbers(&page)[3][4], "hidden");
    let weights: f64 = numbers(&page).iter().map(|row| value(&row[5])).sum();
    assert!((weights - 1.0).abs() < 1e-4, "{weights}");
    page.click("[aria-expanded=true]");
    assert!(!page.hash().contains("open="));
    assert_eq!(page.count(".neuron .queries li"), 4);
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn neuron_view_of_a_real_model_agrees_with_its_weights() {
    let html = pages::program(&["The cat sat because it was tired", "--neuron", "2", "--exact"]);
    let page = Chromium::open(&html, "view=neuron&layer=2&head=5");
    let collapsed = numbers(&page);
    page.go("view=neuron&layer=2&head=5&open=5&table=1");
    for row in numbers(&page) {
        let weight = collapsed.iter().find(|link| link[1] == "5" && link[3] == row[0]).unwrap();
        assert!((value(&weight[5]) - value(&row[5])).abs() < 5e-5, "{row:?} {weight:?}");
    }
    page.go("view=neuron&layer=1");
    assert!(page.text("#view").contains("attnviz html --neuron 1"), "{}", page.text("#view"));
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
pub fn flow_view_is_rollout_and_shows_what_the_mask_alone_gives() {
    let sheet = pages::generated_sheet();
    let want = rollout(&sheet.attention, RESIDUAL).unwrap().pop().unwrap();
    let null = rollout_null(8, 2, RESIDUAL).unwrap().pop().unwrap();
    let page = Chromium::open(&pages::of(vec![sheet]), "view=flow");
    page.click(&key(6));
    for (j, row) in numbers(&page).iter().enumerate() {
        assert!((value(&row[2]) - f64::from(want[(6, j)])).abs() < 3e-3, "{row:?}");
        assert!((value(&row[3]) - f64::from(null[(6, j)])).abs() < 1e-4, "{row:?}");
    }
    page.set("#residual", "0.9");
    assert!(value(&numbers(&page)[6][2]) > 0.8);
    assert!(page.hash().contains("residual=0.9"));
    page.point(&key(0));
    assert!(
        page.text("#readout").starts_with("t0 is made of t0 1.000"),
        "{}",
        page.text("#readout")
    );
    let wide = page.number("document.querySelector('.flow canvas').width");
    assert!(page.drawn(".flow canvas", [wide * 0.4, 30.0, wide * 0.3, 20.0]) > 20);
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn flow_is_refused_where_rollout_means_nothing() {
    let page = Chromium::open(&pages::encoder_decoder(), "view=flow");
    assert!(page.text("#view").contains("not defined for encoder-decoders"));
    assert_eq!(page.count(".flow canvas:not([hidden] *)"), 0);
    let some = pages::program(&["The cat sat", "--layers", "0-1"]);
    drop(page);
    let page = Chromium::open(&some, "view=flow");
    assert!(page.text("#view").contains("does not hold all of layer 2"), "{}", page.text("#view"));
    let values = json!(page.texts(".flow .small"));
    assert_eq!(values.as_array().unwrap().len(), 1);
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn neuron_view_agrees_with_the_weights_of_every_kind_of_decoder() {
    let text = "the cat sat on the mat";
    // learnt positions, rotated queries of grouped heads, biases by distance without a factor, cross
    let cases: [(&str, &[&str], usize); 4] = [
        ("gpt2_lm", &[text], 1),
        ("llama_lm", &[text], 1),
        ("t5_lm", &[text, "--target", "le chat"], 3),
        ("bart_lm", &[text, "--target", "le chat"], 3),
    ];
    let page = Chromium::open(&pages::small(), "");
    for (model, args, stacks) in cases {
        page.load(&pages::tiny("html", model, &[args, &["--neuron", "0", "--exact"]].concat()), "");
        for stack in 0..stacks {
            let shown = format!("view=neuron&layer=0&head=1&stack={stack}&table=1");
            page.go(&shown);
            let collapsed = numbers(&page);
            page.go(&format!("{shown}&open=1"));
            for row in numbers(&page) {
                let link = collapsed.iter().find(|link| link[1] == "1" && link[3] == row[0]);
                let weight = link.map_or(0.0, |link| value(&link[5]));
                assert!(
                    (weight - value(&row[5])).abs() < 5e-5,
                    "{model} {stack}: {row:?} {link:?}"
                );
            }
        }
        page.assert_quiet();
    }
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn a_text_that_gpt2_wrote_is_shown_in_every_view() {
    let args = ["the cat", "--max-new-tokens", "5", "--ignore-end", "--html"];
    let page = Chromium::open(&pages::tiny("generate", "gpt2_lm", &args), "");
    let all = page.count(".queries li");
    assert_eq!(page.count(".queries .written"), 4, "the last of five was read by none");
    page.set("#step", "0");
    assert_eq!(page.count(".queries li"), all - 4);
    for view in ["model", "matrix", "neuron", "flow"] {
        page.click(&format!("#tab-{view}"));
        assert!(page.number("document.querySelectorAll('#view canvas').length") >= 1.0, "{view}");
    }
    assert!(page.text(".flow .small").contains("causal mask"));
    page.assert_quiet();
}
