//! Two streams: results, and everything that is said about them.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use attnviz::Error;
use attnviz::hub::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use super::args::TalkArgs;

/// Prints what the user asked to see. A closed pipe is a reader who has seen enough.
pub struct Console {
    pub talk: TalkArgs,
    lost: AtomicBool,
}

impl Console {
    pub fn new(talk: TalkArgs) -> Self {
        Self { talk, lost: AtomicBool::new(false) }
    }

    /// A result, on stdout.
    pub fn result(&self, text: &str) {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                self.line(&format!("error: standard output: {e}"));
                self.lost.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Whether a result could not be written, and not for want of a reader.
    pub fn lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Something to know, on stderr.
    pub fn note(&self, text: &str) {
        if !self.talk.quiet {
            self.line(&format!("note: {text}"));
        }
    }

    /// Something that only the curious want to know.
    pub fn detail(&self, text: &str) {
        if self.talk.verbose {
            self.line(text);
        }
    }

    /// What went wrong: one line.
    pub fn error(&self, error: &Error) {
        self.line(&format!("error: {error}"));
    }

    /// One line whatever a file's own names hold.
    fn line(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{}", one_line(text));
    }

    /// A bar for so many steps, on a terminal only.
    pub fn bar(&self, steps: u64, what: &'static str) -> ProgressBar {
        if self.talk.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}");
        ProgressBar::new(steps)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            .with_message(what)
    }
}

/// A download bar, on a terminal only.
pub struct Download {
    shown: bool,
    bar: RefCell<ProgressBar>,
}

impl Download {
    pub fn new(console: &Console) -> Self {
        let off = std::env::var("HF_HUB_DISABLE_PROGRESS_BARS")
            .is_ok_and(|value| ["1", "ON", "YES", "TRUE"].contains(&&*value.to_uppercase()));
        let shown = !console.talk.quiet && !off && io::stderr().is_terminal();
        Self { shown, bar: RefCell::new(ProgressBar::hidden()) }
    }
}

impl Progress for Download {
    fn start(&self, file: &str, total: Option<u64>, done: u64) {
        if !self.shown {
            return;
        }
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            ),
            None => (ProgressBar::new_spinner(), "{msg} {bytes} {bytes_per_sec}"),
        };
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(plain(file));
        bar.set_position(done);
        self.bar.replace(bar);
    }

    fn update(&self, bytes: u64) {
        self.bar.borrow().inc(bytes);
    }

    fn finish(&self) {
        self.bar.borrow().finish_and_clear();
    }
}

/// Text without anything that could steer a terminal: controls and direction marks are spelt out.
pub fn plain(text: &str) -> String {
    let steers = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if steers(c) {
            out.extend(c.escape_unicode())
        } else {
            out.push(c)
        }
        out
    })
}

/// The same on one line.
pub fn one_line(text: &str) -> String {
    plain(text).replace('\n', "\\n")
}
