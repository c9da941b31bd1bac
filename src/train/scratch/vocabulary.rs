//! Text → a WordPiece tokenizer of its own.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence;
use tokenizers::decoders::wordpiece::WordPiece as Decoder;
use tokenizers::models::wordpiece::{WordPiece, WordPieceTrainer};
use tokenizers::normalizers::BertNormalizer;
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{
    AddedToken, DecoderWrapper, NormalizedString, Normalizer, OffsetReferential, OffsetType,
    PreTokenizedString, PreTokenizer, Tokenizer, Trainer,
};

use crate::error::{Error, Result};

/// `[PAD]` and the other tokens that stand for no text, in the order of their ids from 0 on.
pub(super) const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
pub(super) const CLS: u32 = 2;
pub(super) const SEP: u32 = 3;
pub(super) const MASK: u32 = 4;

/// Spaces that the decoder of BERT leaves where written English has none: before closing marks,
/// behind opening ones, about hyphens and apostrophes.
const SPACES: &str = r"(?<=[(\[-]) | (?=[:;)\]'-])|(?<=') (?=(?:s|t|d|m|ll|re|ve)\b)";

/// How a vocabulary is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Vocabulary {
    /// Most tokens, special ones and single letters included.
    pub size: usize,
    /// Capitals become small letters and accents are stripped.
    pub lowercase: bool,
    /// Texts end with `[SEP]`, as a masked language model reads them; without it they are open, to be
    /// gone on from.
    pub closed: bool,
    /// Most tokens of a text.
    pub positions: usize,
}

/// A WordPiece vocabulary of `lines` (Schuster and Nakajima 2012, by the merges of most frequent
/// pairs) with BERT's way to cut words: `tokenizer.json` and `tokenizer_config.json`. The same lines
/// give the same bytes.
///
/// # Errors
/// [`Error::Input`] where there is no word in `lines`, [`Error::Usage`] for a size that has no room
/// for the letters.
pub fn wordpiece<'a>(
    lines: impl Iterator<Item = &'a str>,
    how: &Vocabulary,
) -> Result<[(&'static str, Vec<u8>); 2]> {
    let normalizer = BertNormalizer::new(true, true, None, how.lowercase);
    let words = words(lines, &normalizer)?;
    let model = trained(words, how)?;
    let json = tokenizer(model, normalizer, how).map_err(failed)?;
    Ok([("tokenizer.json", json), ("tokenizer_config.json", settings(how))])
}

fn failed(why: impl ToString) -> Error {
    Error::input("vocabulary", why.to_string())
}

/// Words as the tokenizer cuts them, and how often each occurs.
fn words<'a>(
    lines: impl Iterator<Item = &'a str>,
    normalizer: &BertNormalizer,
) -> Result<BTreeMap<String, usize>> {
    let mut words = BTreeMap::new();
    for line in lines {
        let mut text = NormalizedString::from(line);
        normalizer.normalize(&mut text).map_err(failed)?;
        let mut cut = PreTokenizedString::from(text);
        BertPreTokenizer.pre_tokenize(&mut cut).map_err(failed)?;
        for (word, ..) in cut.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            match words.get_mut(word) {
                Some(count) => *count += 1,
                None => drop(words.insert(word.to_owned(), 1)),
            }
        }
    }
    match words.is_empty() {
        true => Err(failed("the text has no words")),
        false => Ok(words),
    }
}

/// The letters that get a token, the rarest left out where they take more than a third of the
/// vocabulary: within a word they need another one.
fn alphabet(words: &BTreeMap<String, usize>, size: usize) -> Result<BTreeSet<char>> {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    for (word, count) in words {
        word.chars().for_each(|letter| *counts.entry(letter).or_default() += count);
    }
    let all: usize = counts.values().sum();
    let mut letters: Vec<(char, usize)> = counts.into_iter().collect();
    letters.sort_by_key(|&(_, count)| std::cmp::Reverse(count)); // stable: ties by letter
    let mut covered = 0;
    let needed = letters.iter().take_while(|&&(_, count)| {
        let before = covered;
        covered += count;
        before * 10 < all * 9
    });
    let needed = 3 * needed.count();
    if size < needed {
        return Err(Error::Usage {
            flag: "--vocab".into(),
            want: format!("room for nine in ten letters of the text, {needed} or more"),
            found: size.to_string(),
        });
    }
    Ok(letters.into_iter().take(size / 3).map(|(letter, _)| letter).collect())
}

fn trained(words: BTreeMap<String, usize>, how: &Vocabulary) -> Result<WordPiece> {
    let letters = alphabet(&words, how.size)?;
    let known = |word: &str| word.chars().filter(|c| letters.contains(c)).collect::<String>();
    let words = words.iter().fold(BTreeMap::new(), |mut all: BTreeMap<String, usize>, one| {
        *all.entry(known(one.0)).or_default() += one.1;
        all
    });
    // The trainer numbers continuing letters as it meets them, in an order that is another each
    // time, and ties between pairs go by number. Among the special tokens they have their places.
    let inner = words.keys().flat_map(|word| word.chars().skip(1)).collect::<BTreeSet<char>>();
    let first = SPECIAL.iter().map(|name| (*name).to_owned());
    let first: Vec<String> =
        first.chain(inner.iter().map(|letter| format!("##{letter}"))).collect();
    let special = first.into_iter().map(|name| AddedToken::from(name, true)).collect();
    let mut trainer = WordPieceTrainer::builder()
        .vocab_size(how.size)
        .show_progress(false)
        .special_tokens(special)
        .build();
    let each = words.iter().flat_map(|(word, &count)| std::iter::repeat_n(word, count));
    trainer.feed(each, |word| Ok(vec![word.to_owned()])).map_err(failed)?;
    let mut model = WordPiece::default();
    // the special tokens that it gives back are letters too
    trainer.train(&mut model).map_err(failed)?;
    model.unk_token = SPECIAL[1].into();
    Ok(model)
}

fn tokenizer(
    model: WordPiece,
    normalizer: BertNormalizer,
    how: &Vocabulary,
) -> tokenizers::Result<Vec<u8>> {
    let mut tokenizer = Tokenizer::new(model);
    let (single, pair) = match how.closed {
        true => ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:0 [SEP]:0"),
        false => ("[CLS] $A", "[CLS] $A [SEP] $B:0"),
    };
    let template = TemplateProcessing::builder()
        .try_single(single)?
        .try_pair(pair)?
        .special_tokens(vec![(SPECIAL[2], CLS), (SPECIAL[3], SEP)])
        .build()?;
    let spaces = Replace::new(ReplacePattern::Regex(SPACES.into()), "")?;
    let decoder = Sequence::new(vec![
        DecoderWrapper::from(Decoder::default()),
        DecoderWrapper::from(Fuse::default()),
        DecoderWrapper::from(spaces),
    ]);
    tokenizer
        .with_normalizer(Some(normalizer))?
        .with_pre_tokenizer(Some(BertPreTokenizer))
        .with_post_processor(Some(template))
        .with_decoder(Some(decoder));
    tokenizer.add_special_tokens(SPECIAL.map(|name| AddedToken::from(name, true)))?;
    Ok((tokenizer.to_string(true)? + "\n").into_bytes())
}

/// What transformers asks for beside it. The class is the one that takes `tokenizer.json` as it is.
fn settings(how: &Vocabulary) -> Vec<u8> {
    let mut settings = Map::new();
    settings.insert("tokenizer_class".into(), "PreTrainedTokenizerFast".into());
    for (key, name) in ["pad", "unk", "cls", "sep", "mask"].into_iter().zip(SPECIAL) {
        settings.insert(format!("{key}_token"), name.into());
    }
    settings.insert("model_max_length".into(), how.positions.into());
    settings.insert("clean_up_tokenization_spaces".into(), false.into());
    settings.insert("model_input_names".into(), json!(["input_ids", "attention_mask"]));
    (format!("{:#}\n", Value::Object(settings))).into_bytes()
}
