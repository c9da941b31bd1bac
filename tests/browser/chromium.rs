//! A page in headless Chromium: opening, pointing, clicking, reading the DOM and the pixels of canvases,
//! and a log of what a page must never do.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headless_chrome::protocol::cdp::Page::CaptureScreenshotFormatOption;
use headless_chrome::protocol::cdp::types::{Event, Method};
use headless_chrome::{Browser, LaunchOptions, Tab};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// How long a page may take to do what was asked of it.
const PATIENCE: Duration = Duration::from_secs(20);

/// One browser at a time: several would only wait for each other.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// A part of the script and what to put in its place, in every page that this thread opens.
    static FAULT: Cell<Option<(&'static str, &'static str)>> = const { Cell::new(None) };
}

/// Whether a test fails once a part of the page's script is replaced.
pub fn fails_with(fault: (&'static str, &'static str), test: fn()) -> bool {
    FAULT.set(Some(fault));
    let failed = std::panic::catch_unwind(test).is_err();
    FAULT.set(None);
    failed
}

/// The page with this thread's fault in its script, which its policy then names.
fn faulty(html: &[u8]) -> Vec<u8> {
    let Some((part, other)) = FAULT.get() else { return html.to_vec() };
    let html = std::str::from_utf8(html).expect("UTF-8");
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    let (_, rest) = html.split_once("<script>").expect("a script");
    let (script, _) = rest.split_once("</script>").expect("its end");
    assert_eq!(script.matches(part).count(), 1, "{part}");
    let changed = script.replace(part, other);
    html.replace(script, &changed).replace(&hash(script), &hash(&changed)).into_bytes()
}

/// A command of the DevTools protocol as plain JSON.
macro_rules! command {
    ($name:ident, $method:literal) => {
        #[derive(Debug, Serialize)]
        #[serde(transparent)]
        struct $name(Value);
        impl Method for $name {
            const NAME: &'static str = $method;
            type ReturnObject = Value;
        }
    };
}

command!(Mouse, "Input.dispatchMouseEvent");
command!(Key, "Input.dispatchKeyEvent");
command!(Enable, "Network.enable");
command!(PageEnable, "Page.enable");
command!(Size, "Emulation.setDeviceMetricsOverride");
command!(Media, "Emulation.setEmulatedMedia");
command!(Downloads, "Browser.setDownloadBehavior");

/// A browser with one page in it.
pub struct Chromium {
    tab: Arc<Tab>,
    seen: Arc<Mutex<Vec<String>>>,
    pub folder: tempfile::TempDir,
    page: PathBuf,
    _browser: Browser,
    _turn: MutexGuard<'static, ()>,
}

impl Chromium {
    /// Opens `html` from disk with a fragment.
    pub fn open(html: &[u8], fragment: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let options = LaunchOptions::default_builder()
            .sandbox(false)
            .window_size(Some((1280, 900)))
            .idle_browser_timeout(Duration::from_secs(300))
            .path(std::env::var_os("CHROMIUM").map(PathBuf::from))
            .args(vec![OsStr::new("--disable-dev-shm-usage"), OsStr::new("--hide-scrollbars")])
            .build()
            .expect("options");
        let browser = Browser::new(options).expect("Chromium starts");
        let tab = browser.new_tab().expect("a tab");
        let folder = tempfile::tempdir().expect("a folder");
        let page = folder.path().join("page.html");
        fs::write(&page, faulty(html)).expect("the page");
        let seen = watch(&tab);
        let this = Self { tab, seen, folder, page, _browser: browser, _turn: turn };
        let downloads = this.folder.path().to_str().expect("a path");
        this.call(Downloads(json!({ "behavior": "allow", "downloadPath": downloads })));
        this.resize(1280, 900);
        this.go(fragment);
        this
    }

    fn call<M: Method + Serialize + std::fmt::Debug>(&self, method: M) {
        self.tab.call_method(method).map(drop).expect(M::NAME);
    }

    /// A window of this size, at one pixel per pixel.
    pub fn resize(&self, width: u32, height: u32) {
        let scale =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call(Size(scale));
    }

    /// What the system prefers: `light` or `dark`.
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call(Media(json!({ "features": features })));
    }

    /// Saves what is seen into the folder `ATTNVIZ_SHOTS`, for people to look at; nothing without one.
    pub fn shot(&self, name: &str) {
        let Some(folder) = std::env::var_os("ATTNVIZ_SHOTS") else { return };
        let kind = CaptureScreenshotFormatOption::Png;
        let png = self.tab.capture_screenshot(kind, None, None, true).expect("a picture");
        fs::write(PathBuf::from(folder).join(format!("{name}.png")), png).expect("saved");
    }

    /// Another page in the same browser.
    pub fn load(&self, html: &[u8], fragment: &str) {
        fs::write(&self.page, faulty(html)).expect("the page");
        self.go(fragment);
    }

    /// Loads the page anew with a fragment.
    pub fn go(&self, fragment: &str) {
        let hash = if fragment.is_empty() { String::new() } else { format!("#{fragment}") };
        self.visit(&format!("file://{}{hash}", self.page.display()));
    }

    /// Loads a page from where it is served.
    pub fn visit(&self, url: &str) {
        self.tab.navigate_to("about:blank").and_then(Tab::wait_until_navigated).expect("blank");
        self.tab.navigate_to(url).and_then(Tab::wait_until_navigated).expect("the page");
        self.wait("document.querySelector('#view > *') !== null");
        self.settle();
    }

    /// The value of an expression, awaited.
    pub fn eval(&self, script: &str) -> Value {
        let body = format!("(async () => JSON.stringify(await ({script})) ?? 'null')()");
        let got = self.tab.evaluate(&body, true).unwrap_or_else(|e| panic!("{script}: {e}"));
        let text = got
            .value
            .as_ref()
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("{script}: {got:?}"));
        serde_json::from_str(text).expect("JSON")
    }

    pub fn number(&self, script: &str) -> f64 {
        self.eval(script).as_f64().unwrap_or_else(|| panic!("{script} is no number"))
    }

    pub fn string(&self, script: &str) -> String {
        self.eval(script).as_str().unwrap_or_else(|| panic!("{script} is no text")).to_owned()
    }

    /// Waits until an expression is true.
    pub fn wait(&self, script: &str) {
        let start = Instant::now();
        while self.eval(script) != Value::Bool(true) {
            assert!(start.elapsed() < PATIENCE, "never true: {script}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Until what was asked for is drawn.
    pub fn settle(&self) {
        self.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))");
    }

    /// Text of the first element.
    pub fn text(&self, selector: &str) -> String {
        let text = self.string(&format!("document.querySelector({}).textContent", json!(selector)));
        text.replace(['\u{2068}', '\u{2069}'], "") // what keeps directions apart
    }

    pub fn texts(&self, selector: &str) -> Vec<String> {
        let all = self.eval(&format!(
            "[...document.querySelectorAll({})].map((e) => e.textContent)",
            json!(selector)
        ));
        serde_json::from_value(all).expect("texts")
    }

    pub fn count(&self, selector: &str) -> usize {
        self.number(&format!("document.querySelectorAll({}).length", json!(selector))) as usize
    }

    pub fn hash(&self) -> String {
        self.string("location.hash")
    }

    /// The middle of an element, scrolled into view.
    fn middle(&self, selector: &str) -> (f64, f64) {
        let box_ = self.eval(&format!(
            "(() => {{ const e = document.querySelector({}); e.scrollIntoView({{ block: 'center' }}); \
             const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()",
            json!(selector)
        ));
        (box_[0].as_f64().expect("x"), box_[1].as_f64().expect("y"))
    }

    fn mouse(&self, kind: &str, (x, y): (f64, f64), clicks: u32) {
        let button = if clicks > 0 { "left" } else { "none" };
        self.call(Mouse(
            json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": clicks }),
        ));
    }

    /// Moves the pointer to an element.
    pub fn point(&self, selector: &str) {
        self.point_at(self.middle(selector));
    }

    /// Moves the pointer to a place in the window.
    pub fn point_at(&self, at: (f64, f64)) {
        self.mouse("mouseMoved", at, 0);
        self.settle();
    }

    /// Moves it where nothing answers.
    pub fn point_away(&self) {
        self.point_at((1.0, 1.0));
    }

    pub fn click(&self, selector: &str) {
        self.click_at(self.middle(selector));
    }

    pub fn click_at(&self, at: (f64, f64)) {
        self.mouse("mouseMoved", at, 0);
        self.mouse("mousePressed", at, 1);
        self.mouse("mouseReleased", at, 1);
        self.settle();
    }

    pub fn double_click(&self, selector: &str) {
        let at = self.middle(selector);
        self.mouse("mouseMoved", at, 0);
        for clicks in [1, 2] {
            self.mouse("mousePressed", at, clicks);
            self.mouse("mouseReleased", at, clicks);
        }
        self.settle();
    }

    pub fn focus(&self, selector: &str) {
        self.eval(&format!("(document.querySelector({}).focus(), 1)", json!(selector)));
    }

    /// Presses and releases a key such as `ArrowRight`.
    pub fn press(&self, key: &str) {
        let code = match key {
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            "Enter" => 13,
            "Escape" => 27,
            _ => 0,
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let mut event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            self.call(Key(event));
        }
        self.settle();
    }

    /// Chooses in a select, or types into an input, as a person's change would.
    pub fn set(&self, selector: &str, value: &str) {
        self.eval(&format!(
            "(() => {{ const e = document.querySelector({}); e.value = {}; \
             e.dispatchEvent(new Event('input', {{ bubbles: true }})); \
             e.dispatchEvent(new Event('change', {{ bubbles: true }})); return 1; }})()",
            json!(selector),
            json!(value)
        ));
        self.settle();
    }

    /// Red, green, blue and alpha of a canvas at a place in its own CSS pixels.
    pub fn pixel(&self, canvas: &str, x: f64, y: f64) -> [u8; 4] {
        let got = self.eval(&format!(
            "(() => {{ const c = document.querySelector({}); const s = c.width / c.getBoundingClientRect().width; \
             return [...c.getContext('2d').getImageData(Math.round({x} * s), Math.round({y} * s), 1, 1).data]; }})()",
            json!(canvas)
        ));
        serde_json::from_value(got).expect("a pixel")
    }

    /// How many pixels of a part of a canvas are drawn on at all.
    pub fn drawn(&self, canvas: &str, [x, y, width, height]: [f64; 4]) -> usize {
        self.number(&format!(
            "(() => {{ const c = document.querySelector({}); const s = c.width / c.getBoundingClientRect().width; \
             const d = c.getContext('2d').getImageData({x} * s, {y} * s, {width} * s, {height} * s).data; \
             let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i] > 8) n++; return n; }})()",
            json!(canvas)
        )) as usize
    }

    /// Waits for a saved file.
    pub fn saved(&self, name: &str) -> Vec<u8> {
        let path = self.folder.path().join(name);
        let start = Instant::now();
        loop {
            match fs::read(&path) {
                Ok(bytes) if !bytes.is_empty() => return bytes,
                _ => assert!(start.elapsed() < PATIENCE, "{name} was never saved"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Nothing was requested but the page itself, nothing logged, no dialog opened.
    pub fn assert_quiet(&self) {
        std::thread::sleep(Duration::from_millis(50));
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let first: String = seen.iter().flat_map(|text| text.chars().take(600)).collect();
        assert!(seen.is_empty(), "{} entries: {first}", seen.len());
    }
}

/// Notes what a page must not do: errors, warnings, dialogs, requests beyond its own file.
fn watch(tab: &Arc<Tab>) -> Arc<Mutex<Vec<String>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let listen = move |event: &Event| {
        let text = format!("{event:?}");
        let name = text.split('(').next().unwrap_or_default().to_owned();
        let own = text.contains("/page.html")
            || text.contains("about:blank")
            || text.contains("request: Request { url: \"http://127.0.0.1:")
            || text.contains("\"data:")
            || text.contains("\"blob:");
        let bad = match name.as_str() {
            "NetworkRequestWillBeSent" => !own,
            "RuntimeConsoleAPICalled" | "LogEntryAdded" => !text.contains("willReadFrequently"),
            "RuntimeExceptionThrown" | "PageJavascriptDialogOpening" => true,
            _ => false,
        };
        if bad {
            notes.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
    };
    tab.add_event_listener(Arc::new(listen)).expect("a listener");
    tab.enable_log().and_then(|tab| tab.enable_runtime()).expect("a log");
    tab.call_method(Enable(json!({}))).expect("network events");
    tab.call_method(PageEnable(json!({}))).expect("page events");
    seen
}
