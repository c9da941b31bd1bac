//! What a page takes: `cargo test --release --test browser -- --ignored --nocapture measure`.

use attnviz::picture::page::Sheet;
use attnviz::{Attention, Token};

use crate::chromium::Chromium;
use crate::pages;

fn page(layers: usize, heads: usize, n: usize) -> Vec<u8> {
    let tokens: Vec<Token> = (0..n).map(|i| pages::token(&format!("token{i}"), Some(i))).collect();
    let all = pages::heads(layers, heads, n);
    let attention = Attention::new(tokens.clone(), tokens, all, vec![heads; layers]).unwrap();
    pages::of(vec![Sheet::new("self", attention)])
}

/// Milliseconds from one frame to the next while the pointer goes from token to token: middle, 95 %.
fn frames(page: &Chromium) -> (f64, f64) {
    let times = page.eval(
        "(async () => { const frame = () => new Promise(requestAnimationFrame); \
         const all = [...document.querySelectorAll('.queries button')].slice(0, 120); const times = []; \
         let last = await frame(); \
         for (const button of all) { button.dispatchEvent(new PointerEvent('pointerover', { bubbles: true })); \
         const now = await frame(); times.push(now - last); last = now; } \
         return times.sort((a, b) => a - b); })()",
    );
    let times: Vec<f64> = serde_json::from_value(times).unwrap();
    (times[times.len() / 2], times[times.len() * 95 / 100])
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn what_a_page_takes() {
    for (layers, heads, n) in [(12, 12, 16), (12, 12, 128), (12, 12, 512)] {
        let html = page(layers, heads, n);
        let browser = Chromium::open(&html, "");
        browser.go(""); // once more, with everything warm
        let paint =
            browser.number("performance.getEntriesByName('first-contentful-paint')[0].startTime");
        let ready = browser.number(
            "performance.timing.domContentLoadedEventEnd - performance.timing.navigationStart",
        );
        let (middle, late) = frames(&browser);
        eprintln!(
            "{layers} x {heads} x {n} tokens: {:.2} MB, first paint after {paint:.0} ms, ready after {ready:.0} ms, \
             frames while pointing {middle:.1} ms (95 %: {late:.1} ms)",
            html.len() as f64 / 1e6
        );
        assert!(ready < 20_000.0 && middle < 200.0, "not usable");
        browser.assert_quiet();
    }
}
