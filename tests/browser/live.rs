//! The served page: typing, masking, switching off, and what an address keeps.

use std::path::Path;

use crate::chromium::Chromium;
use crate::served::Server;

const TEXT: &str = "The cat sat on the mat.";

/// A browser at a tiny masked language model's page.
fn open(query: &str) -> (Server, Chromium) {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fill/bert");
    let server = Server::start(&[&model], &[TEXT]);
    let page = Chromium::open(b"<div id=view><p></div>", "");
    page.visit(&format!("http://{}/{query}", server.address));
    page.wait("document.querySelector('#live') !== null");
    (server, page)
}

/// Until the last run is shown.
fn ran(page: &Chromium) {
    page.wait("document.querySelector('#live').getAttribute('aria-busy') !== 'true'");
    page.settle();
}

/// The numbers of the matrix that is shown.
fn numbers(page: &Chromium) -> Vec<String> {
    page.texts("#numbers tbody td")
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn a_sentence_is_typed_and_its_heads_shown() {
    let (_server, page) = open("");
    assert_eq!(page.text("#title"), TEXT);
    page.set("#live-text", "A dog ran.");
    page.click("#live-run");
    page.wait("document.querySelector('#title').textContent === 'A dog ran.'");
    assert_eq!(page.texts(".queries li"), ["[CLS]", "a", "dog", "ran", ".", "[SEP]"]);
    page.set("#live-pair", "It slept.");
    page.focus("#live-text");
    page.press("Enter");
    page.wait("document.querySelector('#title').textContent === 'A dog ran. / It slept.'");
    page.set("#filter", "ab");
    assert_eq!(page.texts(".keys li"), ["it", "slept", ".", "[SEP]"]);
    // the arrow keys still go one view further, after two other pages
    page.focus("#tab-head");
    page.press("ArrowRight");
    assert_eq!(page.text("[role=tab][aria-selected=true]"), "Model");
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn a_head_is_clicked_off_and_the_matrix_after_it_changes() {
    let (server, page) = open("#view=matrix&layer=1&table=1");
    let before = numbers(&page);
    assert_eq!(before.len(), 81);
    page.click("#live-heads button[value='0.1']");
    page.wait("document.querySelector('#live summary').textContent.includes('L0H1 switched off')");
    ran(&page);
    let after = numbers(&page);
    assert!(after.len() == 81 && after != before);
    assert!(page.text("#notes").contains("Switched off: L0H1."));
    // where a head looks itself is decided before it is switched off
    page.set("#layer", "0");
    let own = numbers(&page);
    page.click("#live-undo");
    ran(&page);
    assert_eq!(numbers(&page), own);
    page.set("#layer", "1");
    assert_eq!(numbers(&page), before);
    // a link shows the same again
    let link =
        format!("http://{}/?text={TEXT}&off=L0H1#view=matrix&layer=1&table=1", server.address);
    page.visit(&link.replace(' ', "%20"));
    page.wait("document.querySelector('#live summary').textContent.includes('L0H1 switched off')");
    ran(&page);
    assert_eq!(numbers(&page), after);
    page.click("#live-compare");
    ran(&page);
    assert_eq!(
        page.texts(".panel h2")[..2],
        ["1: changed, Layer 1, L1H0", "2: unchanged, Layer 1, L1H0"]
    );
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn a_token_is_clicked_away_and_the_model_fills_it() {
    let (_server, page) = open("");
    assert!(page.text("#live .small").contains("replace it by [MASK]"));
    page.click("#live-tokens button:nth-child(3)");
    page.wait("document.querySelector('#live-answers p') !== null");
    assert!(page.text("#live-answers p").starts_with("[MASK] at 2 "));
    assert_eq!(page.text(".queries li:nth-child(3)"), "[MASK]");
    assert_eq!(page.text("#live-tokens button[aria-pressed=true]"), "[MASK]");
    assert!(page.string("location.search").contains("masked=2"));
    // special tokens stay
    assert_eq!(page.count("#live-tokens button:disabled"), 2);
    page.click("#live-tokens button:nth-child(3)");
    page.wait("document.querySelector('#live-answers p') === null");
    assert_eq!(page.text(".queries li:nth-child(3)"), "cat");
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn what_goes_wrong_is_said_beside_the_page_as_it_was() {
    let (mut server, page) = open("");
    page.set("#live-text", &"cat ".repeat(60));
    page.click("#live-run");
    page.wait("document.querySelector('#live-error').textContent !== ''");
    assert!(page.text("#live-error").contains("62 tokens"), "{}", page.text("#live-error"));
    assert_eq!(page.text("#title"), TEXT);
    page.set("#live-text", "A cat.");
    page.click("#live-run");
    page.wait("document.querySelector('#title').textContent === 'A cat.'");
    assert_eq!(page.text("#live-error"), "");
    server.child.kill().unwrap();
    page.click("#live-run");
    page.wait("document.querySelector('#live-error').textContent !== ''");
    assert!(page.text("#live-error").contains("is `attnviz serve` still running?"));
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn nothing_that_is_typed_becomes_markup() {
    let (_server, page) = open("");
    page.set("#live-text", "cat dog a b");
    page.click("#live-run");
    page.wait("document.querySelector('#title').textContent === 'cat dog a b'");
    let before = page.count("img, svg, style, script");
    for text in ["<img src=x onerror=alert(1)>", "</script><svg onload=alert(1)>"] {
        page.set("#live-text", text);
        page.set("#live-pair", text);
        page.click("#live-run");
        page.wait("document.querySelector('#title').textContent.includes('alert(1)')");
        ran(&page);
        assert_eq!(page.count("img, svg, style, script"), before);
    }
    page.assert_quiet();
}

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn the_box_fits_a_narrow_window_and_works_without_a_pointer() {
    let (_server, page) = open("");
    page.resize(360, 800);
    page.settle();
    assert_eq!(page.number("document.documentElement.scrollWidth"), 360.0);
    page.focus("#live-heads button");
    page.press("ArrowDown");
    page.press("ArrowRight");
    assert_eq!(page.string("document.activeElement.getAttribute('aria-label')"), "L1H1, on");
    page.press("Enter");
    page.wait("document.activeElement.getAttribute('aria-label') === 'L1H1, off'");
    assert_eq!(page.count("#live-heads [tabindex='0']"), 1);
    page.assert_quiet();
}

/// Least contrast of text on its ground that WCAG 2 asks for.
const READABLE: f64 = 4.5;

/// Where a control is not usable as it is: out of the window, covered, too small, hardly readable.
const UNUSABLE: &str = "
    (selector => {
        const node = document.querySelector(selector), at = node.getBoundingClientRect();
        const over = document.elementFromPoint(at.x + at.width / 2, at.y + at.height / 2);
        const found = [];
        if (at.left < 0 || at.right > innerWidth) found.push(`from ${at.left} to ${at.right}`);
        if (at.width < 40 || at.height < 24) found.push(`${at.width} by ${at.height}`);
        if (over !== node && !node.contains(over)) found.push('covered');
        if (node.scrollWidth > node.clientWidth + 1) found.push('wider than it shows');
        const light = colour => {
            const [r, g, b] = colour.match(/[\\d.]+/g).map(c => c / 255)
                .map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
            return .2126 * r + .7152 * g + .0722 * b;
        };
        const style = getComputedStyle(node);
        const two = [light(style.color), light(style.backgroundColor)].sort((a, b) => a - b);
        const contrast = (two[1] + .05) / (two[0] + .05);
        if (!(contrast >= LEAST)) found.push(`contrast ${contrast}`);
        return found.join(', ');
    })";

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn the_box_is_usable_at_360_pixels_in_both_schemes() {
    let (server, page) = open("");
    let unusable = UNUSABLE.replace("LEAST", &READABLE.to_string());
    for scheme in ["light", "dark"] {
        for width in [1280, 400, 360] {
            page.prefer(scheme);
            page.resize(width, 900);
            page.visit(&format!("http://{}/", server.address));
            page.wait("document.querySelector('#live') !== null");
            let typed =
                format!("A long sentence, in {scheme}, that needs more than one line here.");
            page.set("#live-text", &typed);
            page.settle();
            for control in ["#live-model", "#live-text", "#live-pair", "#live-run"] {
                let found = page.string(&format!("{unusable}('{control}')"));
                assert_eq!(found, "", "{scheme}, {width}: {control}");
            }
            assert_eq!(page.number("document.documentElement.scrollWidth"), f64::from(width));
            page.click("#live-run");
            page.wait("document.querySelector('#title').textContent.startsWith('A long')");
            ran(&page);
            page.shot(&format!("live-{scheme}-{width}"));
        }
    }
    page.assert_quiet();
}
