//! Marian: a SentencePiece model for each side, whose pieces have their ids in `vocab.json`.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use tokenizers::AddedToken;

use super::class::{self, Class, SPECIAL, Vocabulary};
use super::ends::around;
use super::load::{Inner, Loaded, add, parse};
use super::pieces::{self, CONTROL, Model, UNKNOWN, UNUSED};
use super::settings::Settings;
use super::special::Special;
use super::{Token, own_pieces};
use crate::error::{Error, Result};
use crate::hub::{Asset, TokenizerFiles};

/// Ids by the name of a piece, whatever numbers the pieces have in their model.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    ids: HashMap<String, u32>,
    pieces: HashMap<u32, String>,
    /// What a piece without a name here becomes.
    pub unknown: u32,
}

impl Lookup {
    fn read(asset: &Asset, settings: &Settings) -> Result<Self> {
        let mut ids: HashMap<String, u32> = parse(asset)?;
        let unknown = settings.name("unk_token").unwrap_or_default();
        let Some(&unknown) = ids.get(&unknown) else {
            let why = format!("the unknown token `{unknown}` is not among its {} names", ids.len());
            return Err(Error::checkpoint(asset.path(), why));
        };
        for (&id, token) in &settings.added {
            let name = &token.content;
            let found = *ids.entry(name.clone()).or_insert(id);
            if found != id {
                let why =
                    format!("`{name}` has id {found}, but as an added token should have {id}");
                return Err(Error::checkpoint(asset.path(), why));
            }
        }
        let mut pieces = HashMap::with_capacity(ids.len());
        for (name, &id) in &ids {
            if let Some(other) = pieces.insert(id, name.clone()) {
                let why = format!("`{name}` and `{other}` both have id {id}");
                return Err(Error::checkpoint(asset.path(), why));
            }
        }
        Ok(Self { ids, pieces, unknown })
    }

    /// Gives a name that has no id the next one.
    fn name(&mut self, name: &str) {
        if !self.ids.contains_key(name) {
            let next = self.pieces.keys().max().map_or(0, |last| last.saturating_add(1));
            self.ids.insert(name.to_owned(), next);
            self.pieces.insert(next, name.to_owned());
        }
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn id(&self, piece: &str) -> Option<u32> {
        self.ids.get(piece).copied()
    }

    pub fn piece(&self, id: u32) -> Option<String> {
        self.pieces.get(&id).cloned()
    }
}

/// Whether the files are Marian's: where nothing says so, they are if there are no others.
pub(super) fn is_meant(files: &TokenizerFiles, class: Option<&Class>) -> bool {
    let others = files.vocab.is_some() || files.pieces.is_some() || files.merges.is_some();
    let said = class.is_some_and(|class| class.vocabulary == Vocabulary::Sides);
    files.source.is_some() && (said || !others)
}

/// The tokenizer of the source side, with that of the target side in it.
pub(super) fn open(files: &TokenizerFiles, settings: &mut Settings) -> Result<Loaded> {
    let class = &class::MARIAN;
    settings.class = Some(class);
    let Some((source, vocab)) = files.source.as_ref().zip(files.vocab_json.as_ref()) else {
        let path = files.source.as_ref().map_or(Path::new("source.spm"), Asset::path);
        return Err(Error::checkpoint(path, "has no vocab.json beside it"));
    };
    let other = match (settings.separate, &files.target_vocab) {
        (false, _) => vocab,
        (true, Some(other)) => other,
        (true, None) => {
            let why = "`separate_vocabs` is true, but there is no target_vocab.json beside it";
            return Err(Error::checkpoint(files.config.as_ref().unwrap_or(vocab).path(), why));
        }
    };
    let target = files.target.as_ref().map(|target| side(target, other, settings, class));
    let target = target.transpose()?.map(Box::new);
    Ok(Loaded { target, ..side(source, vocab, settings, class)? })
}

fn side(asset: &Asset, vocab: &Asset, settings: &Settings, class: &Class) -> Result<Loaded> {
    let failed = |why: String| Error::checkpoint(asset.path(), why);
    let model = hide(pieces::parse(asset)?);
    let (mut inner, _) = own_pieces::build(&model, &mut Settings::default()).map_err(failed)?;
    let mut lookup = Lookup::read(vocab, settings)?;
    add_all(&mut inner, &mut lookup, settings, vocab)?;
    let ends = around(class.ends, &inner, vocab, settings)?;
    inner.with_post_processor(Some(ends));
    let id = |key: &str| settings.name(key).and_then(|name| lookup.id(&name));
    let special = Special {
        unknown: Some(lookup.unknown),
        pad: id("pad_token"),
        cls: id("cls_token"),
        sep: id("sep_token"),
        mask: id("mask_token"),
        prefix: None,
    };
    Ok(Loaded { inner, special, notes: Vec::new(), lookup: Some(lookup), target: None })
}

/// Control pieces and their like are no text: here they get names that no text has, since its
/// spaces are written otherwise by then. What is special is said by the files beside the model.
fn hide(mut model: Model) -> Model {
    let hidden = |name: &str| format!(" {name}");
    for piece in &mut model.pieces {
        if [UNKNOWN, CONTROL, UNUSED].contains(&piece.kind()) {
            piece.piece = Some(hidden(piece.piece()));
        }
    }
    let mut trainer = model.trainer.take().unwrap_or_default();
    trainer.unk_piece = Some(hidden(trainer.unk_piece()));
    model.trainer = Some(trainer);
    model
}

/// Tokens that are taken whole wherever they are typed.
fn add_all(
    inner: &mut Inner,
    lookup: &mut Lookup,
    settings: &Settings,
    asset: &Asset,
) -> Result<()> {
    let special: Vec<AddedToken> = SPECIAL.iter().filter_map(|key| settings.token(key)).collect();
    let named = |name: &str| special.iter().any(|one| one.content == name);
    let added = settings.added.values().cloned().map(|token| {
        let said = token.special || named(&token.content);
        token.special(said)
    });
    let all = added.chain(special.iter().cloned()).chain(settings.further.iter().cloned());
    let mut once = HashSet::new();
    for token in all {
        if once.insert(token.content.clone()) {
            lookup.name(&token.content);
            add(inner, token.normalized(false), asset)?;
        }
    }
    Ok(())
}

/// A language code such as `>>fr<<` at the start of a text, and the rest of it.
pub(super) fn split_code(text: &str) -> (&str, &str) {
    match text.find("<<") {
        Some(end) if text.starts_with(">>") => text.split_at(end + 2),
        _ => ("", text),
    }
}

/// Puts the code's token before those of its sequence, which were read without it.
pub(super) fn put_code(tokens: &mut Vec<Token>, sequence: usize, code: &str, mut token: Token) {
    let length = code.chars().count();
    for token in tokens.iter_mut().filter(|token| token.sequence == Some(sequence)) {
        token.offsets.0 += length;
        token.offsets.1 += length;
    }
    token.sequence = Some(sequence);
    token.offsets = (0, length);
    let before = |token: &Token| token.sequence.is_some_and(|other| other < sequence);
    let at = tokens.iter().take_while(|token| before(token)).count();
    tokens.insert(at, token);
}
