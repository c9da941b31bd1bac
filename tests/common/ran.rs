//! What a run of a program said.

use std::process::Output;

use serde_json::Value;

pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Of one that came to its end, and not by a panic.
    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().expect("not killed");
        let ran = Self { code, out: text(output.stdout), err: text(output.stderr) };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {} {}", self.out, self.err))
    }

    /// Holds that it was refused: an exit code, nothing on standard output, these words of why.
    pub fn refused(&self, code: i32, want: &str) {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{}", self.err);
        assert!(self.err.contains(want), "`{want}` is not in {}", self.err);
    }
}
