//! The tokenizer in a GGUF file's metadata, as llama.cpp (`src/llama-vocab.cpp`) reads it.

mod cuts;

use std::collections::HashSet;

use serde_json::json;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::replace::Replace;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer};

use super::ends::around;
use super::load::{Inner, Loaded};
use super::pieces::{CONTROL, Model, NORMAL, Normalizer, Piece, Trainer, UNKNOWN, USER_DEFINED};
use super::settings::Settings;
use super::special::Special;
use super::{class, own_pieces};
use crate::error::{Error, Result};
use crate::gguf::{Header, Value};
use crate::hub::Asset;

/// Pieces that stand for one byte, which no other format marks.
const BYTE: i32 = 6;

/// The tokenizer of a file; `None` where it holds none.
///
/// # Errors
/// [`Error::Config`] for a kind that is not known, naming it, and [`Error::Checkpoint`] for one
/// that does not hold together.
pub(super) fn open(asset: &Asset) -> Result<Option<Loaded>> {
    let header = Header::open(asset)?;
    let (model, advice) = ("tokenizer.ggml.model", "; give one with --tokenizer");
    let mut settings = Settings::default();
    settings.class = Some(&class::OWN);
    let inner = match header.text(model)? {
        None | Some("none") => return Ok(None),
        Some("gpt2") => byte_level(&header, &mut settings)?,
        Some("llama") => pieces(&header, &mut settings)?,
        Some(_) => {
            let want = format!("a tokenizer that attnviz knows (gpt2, llama){advice}");
            return Err(header.wrong(model, &want, header.get(model)));
        }
    };
    let inner = finish(inner, &header, asset, &mut settings)?;
    let special = Special::of(&inner, &settings);
    Ok(Some(Loaded { inner, special, notes: Vec::new(), lookup: None, target: None }))
}

/// `tokenizer.json` and `tokenizer_config.json` that say the same; nothing for a file without a
/// tokenizer.
///
/// # Errors
/// Those of opening it.
pub(crate) fn files(asset: &Asset) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let Some(loaded) = open(asset)? else { return Ok(Vec::new()) };
    let header = Header::open(asset)?;
    let failed = |why: String| Error::checkpoint(asset.path(), why);
    let text = loaded.inner.to_string(true).map_err(|why| failed(why.to_string()))?;
    let name = |key: &str| -> Result<Option<String>> {
        Ok(id(&header, key, None)?.and_then(|id| loaded.inner.id_to_token(id)))
    };
    let about = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": name("bos")?,
        "eos_token": name("eos")?,
        "unk_token": name("unknown")?,
        "pad_token": name("padding")?,
        "clean_up_tokenization_spaces": false,
        "chat_template": header.text("tokenizer.chat_template")?,
    });
    let about = serde_json::to_vec_pretty(&about).map_err(|why| failed(why.to_string()))?;
    Ok(vec![("tokenizer.json", text.into_bytes()), ("tokenizer_config.json", about)])
}

/// The pieces in the order of their ids, as a SentencePiece model would hold them.
fn vocabulary(header: &Header) -> Result<Vec<Piece>> {
    let list = |key: &str| header.list(&format!("tokenizer.ggml.{key}"));
    let (key, want) = ("tokenizer.ggml.tokens", "a list of different texts");
    let wrong = || header.wrong(key, want, header.get(key));
    let tokens = list("tokens")?.ok_or_else(wrong)?;
    let (kinds, scores) = (list("token_type")?, list("scores")?);
    for (name, found) in [("token_type", kinds), ("scores", scores)] {
        if found.is_some_and(|list| list.len() != tokens.len()) {
            let (key, want) = (format!("tokenizer.ggml.{name}"), tokens.len());
            return Err(header.wrong(&key, &format!("a list of {want}"), header.get(&key)));
        }
    }
    let mut seen = HashSet::new();
    let piece = |(id, token): (usize, &Value)| {
        let text = match token.text()? {
            "" => format!("[EMPTY_{id}]"), // as llama.cpp calls it
            text => text.to_owned(),
        };
        seen.insert(text.clone()).then_some(())?;
        let kind = kinds.and_then(|kinds| kinds[id].whole()).unwrap_or(NORMAL as u64);
        let score = scores.and_then(|scores| scores[id].number()).unwrap_or_default();
        Some(Piece {
            piece: Some(text),
            score: Some(score as f32),
            kind: Some(i32::try_from(kind).unwrap_or(NORMAL)),
        })
    };
    let pieces: Option<Vec<Piece>> = tokens.iter().enumerate().map(piece).collect();
    pieces.filter(|pieces| !pieces.is_empty()).ok_or_else(wrong)
}

/// A special token's id.
fn id(header: &Header, key: &str, usual: Option<u32>) -> Result<Option<u32>> {
    let key = format!("tokenizer.ggml.{key}_token_id");
    let Some(found) = header.whole(&key)? else { return Ok(usual) };
    let id = u32::try_from(found).ok();
    id.map(Some).ok_or_else(|| header.wrong(&key, "a token id", header.get(&key)))
}

/// What is wrong, in one line, whatever piece it shows.
fn failed(header: &Header, why: &str) -> Error {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    let why: String = why.chars().map(shown).take(200).collect();
    Error::checkpoint(header.path(), format!("the tokenizer in it: {why}"))
}

/// Names the special tokens that the file gives ids to.
fn name_special(
    header: &Header,
    pieces: &[Piece],
    usual: [Option<u32>; 3],
    settings: &mut Settings,
) -> Result<()> {
    let [bos, eos, unknown] = usual;
    let keys = [
        ("bos", "bos_token", bos),
        ("eos", "eos_token", eos),
        ("unknown", "unk_token", unknown),
        ("padding", "pad_token", None),
        ("mask", "mask_token", None),
    ];
    for (key, here, usual) in keys {
        let Some(id) = id(header, key, usual)? else { continue };
        match pieces.get(id as usize) {
            Some(piece) => settings.call(here, piece.piece()),
            None if header.get(&format!("tokenizer.ggml.{key}_token_id")).is_none() => {}
            None => {
                let key = format!("tokenizer.ggml.{key}_token_id");
                let want = format!("an id below {}", pieces.len());
                return Err(header.wrong(&key, &want, header.get(&key)));
            }
        }
    }
    Ok(())
}

/// Byte-level BPE.
fn byte_level(header: &Header, settings: &mut Settings) -> Result<Inner> {
    let failed = |why: tokenizers::Error| failed(header, &why.to_string());
    let pieces = vocabulary(header)?;
    name_special(header, &pieces, [None; 3], settings)?;
    let key = "tokenizer.ggml.pre";
    let pre = header.text(key)?.unwrap_or_default();
    let Some(cut) = cuts::named(pre) else {
        let want = format!("one of {}; give a tokenizer with --tokenizer", cuts::known());
        return Err(header.wrong(key, &want, header.get(key)));
    };
    settings.add_bos = cut.begins;
    let vocab: Vocab =
        pieces.iter().zip(0u32..).map(|(piece, id)| (piece.piece().to_owned(), id)).collect();
    let model = BPE::builder()
        .vocab_and_merges(vocab, merges(header)?)
        .ignore_merges(cut.whole)
        .build()
        .map_err(failed)?;
    let mut inner = Tokenizer::new(model);
    inner
        .with_pre_tokenizer(Some(cut.steps().map_err(failed)?))
        .with_decoder(Some(ByteLevel::default()));
    inner.add_tokens(beside(&pieces)).map_err(failed)?;
    Ok(inner)
}

/// Pieces that are found in a text before anything else is done to it.
fn beside(pieces: &[Piece]) -> Vec<AddedToken> {
    let token = |piece: &Piece| {
        let special = matches!(piece.kind(), CONTROL | UNKNOWN);
        (special || piece.kind() == USER_DEFINED)
            .then(|| AddedToken::from(piece.piece(), special).normalized(false))
    };
    pieces.iter().filter_map(token).collect()
}

fn merges(header: &Header) -> Result<Merges> {
    let key = "tokenizer.ggml.merges";
    let want = "a list of texts, each two pieces with a space between them";
    let wrong = || header.wrong(key, want, header.get(key));
    let pair = |merge: &Value| {
        let merge = merge.text()?;
        // a piece may itself be a space
        let at = merge.char_indices().skip(1).find(|(_, c)| *c == ' ')?.0;
        Some((merge[..at].to_owned(), merge[at + 1..].to_owned()))
    };
    let list = header.list(key)?.ok_or_else(wrong)?;
    list.iter().map(pair).collect::<Option<Merges>>().ok_or_else(wrong)
}

/// SentencePiece's BPE, by the scores of its pieces.
fn pieces(header: &Header, settings: &mut Settings) -> Result<Inner> {
    let failed = |why: String| failed(header, &why);
    let pieces = vocabulary(header)?;
    name_special(header, &pieces, [Some(1), Some(2), Some(0)], settings)?;
    settings.add_bos = true;
    let flag = |key: &str| header.flag(&format!("tokenizer.ggml.{key}"));
    let trainer = Trainer {
        model_type: Some(2),
        byte_fallback: Some(pieces.iter().any(|piece| piece.kind() == BYTE)),
        unk_id: id(header, "unknown", Some(0))?.and_then(|id| i32::try_from(id).ok()),
        unk_piece: settings.name("unk_token"),
        bos_id: Some(-1), // named above
        eos_id: Some(-1),
        ..Trainer::default()
    };
    let normalizer = Normalizer {
        dummy_prefix: Some(flag("add_space_prefix")?.unwrap_or(true)),
        remove_extra: Some(flag("remove_extra_whitespaces")?.unwrap_or(false)),
        escape: Some(true),
        ..Normalizer::default()
    };
    let prefix = normalizer.dummy_prefix();
    let model = Model { pieces, trainer: Some(trainer), normalizer: Some(normalizer) };
    let (mut inner, mut extra) = own_pieces::build(&model, settings).map_err(failed)?;
    // SentencePiece itself never takes a typed `<unk>` for the token, llama.cpp does
    let unknown = model.pieces.iter().filter(|piece| piece.kind() == UNKNOWN);
    extra.extend(unknown.map(|piece| AddedToken::from(piece.piece(), true).normalized(false)));
    inner.add_tokens(extra).map_err(|why| failed(why.to_string()))?;
    let space = Replace::new("▁", " ").map_err(|why| failed(why.to_string()))?;
    let mut steps = vec![space.into(), ByteFallback::default().into(), Fuse::default().into()];
    steps.extend(prefix.then(|| Strip::new(' ', 1, 0).into()));
    inner.with_decoder(Some(Decoders::new(steps)));
    Ok(inner)
}

/// What stands around texts.
fn finish(
    mut inner: Inner,
    header: &Header,
    asset: &Asset,
    settings: &mut Settings,
) -> Result<Inner> {
    let flag = |key: &str| header.flag(&format!("tokenizer.ggml.{key}"));
    settings.add_bos = flag("add_bos_token")?.unwrap_or(settings.add_bos);
    settings.add_eos = flag("add_eos_token")?.unwrap_or(settings.add_eos);
    for (wanted, key) in [(settings.add_bos, "bos"), (settings.add_eos, "eos")] {
        if wanted && settings.name(&format!("{key}_token")).is_none() {
            let key = format!("tokenizer.ggml.{key}_token_id");
            return Err(header.wrong(&key, "the id of the token to add", None));
        }
    }
    let ends = around(class::OWN.ends, &inner, asset, settings)?;
    inner.with_post_processor(Some(ends));
    Ok(inner)
}
