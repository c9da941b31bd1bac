//! How a byte-level vocabulary's text is cut before its merges, by llama.cpp's name for it.

use tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

/// One way to cut, and what goes with it.
pub(super) struct Cut {
    /// As `tokenizer.ggml.pre` names it.
    names: &'static [&'static str],
    how: How,
    /// Texts begin with the first token unless the file says otherwise.
    pub begins: bool,
    /// A word that is a token is that token, whatever the merges say.
    pub whole: bool,
}

enum How {
    /// GPT-2's expression.
    Gpt2,
    /// Digits apart, then GPT-2's expression.
    DigitsApart,
    Expression(&'static str),
}

const LLAMA3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

static CUTS: [Cut; 5] = [
    Cut {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
        how: How::DigitsApart,
        begins: false,
        whole: false,
    },
    Cut { names: &["gpt-2", "phi-2", "mpt", "olmo"], how: How::Gpt2, begins: false, whole: false },
    Cut {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3"],
        how: How::Expression(LLAMA3),
        begins: true,
        whole: true,
    },
    Cut {
        names: &["dbrx", "smaug-bpe"],
        how: How::Expression(LLAMA3),
        begins: false,
        whole: false,
    },
    Cut {
        names: &["qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"],
        how: How::Expression(QWEN2),
        begins: false,
        whole: false,
    },
];

/// The cut of this name.
pub(super) fn named(pre: &str) -> Option<&'static Cut> {
    CUTS.iter().find(|cut| cut.names.contains(&pre))
}

/// All names.
pub(super) fn known() -> String {
    CUTS.iter().flat_map(|cut| cut.names).copied().collect::<Vec<_>>().join(", ")
}

impl Cut {
    pub fn steps(&self) -> tokenizers::Result<PreTokenizerWrapper> {
        Ok(match self.how {
            How::Gpt2 => ByteLevel::new(false, true, true).into(),
            How::DigitsApart => Sequence::new(vec![
                Digits::new(true).into(),
                ByteLevel::new(false, true, true).into(),
            ])
            .into(),
            How::Expression(pattern) => {
                let pattern = SplitPattern::Regex(pattern.to_owned());
                let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?;
                Sequence::new(vec![split.into(), ByteLevel::new(false, true, false).into()]).into()
            }
        })
    }
}
