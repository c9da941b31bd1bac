//! Special tokens around one text and around two.

use tokenizers::PostProcessorWrapper;
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::processors::template::TemplateProcessing;

use super::load::Inner;
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::hub::Asset;

/// What special tokens stand around one text, and around two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`; the second text has type 1.
    Bert,
    /// `<s> A </s>` and `<s> A </s> </s> B </s>`; everything has type 0.
    Roberta,
    /// As `Roberta`, with the offsets of pieces leaving spaces out.
    RobertaTrimmed,
    /// `A </s>` and `A </s> B </s>`; everything has type 0.
    T5,
    /// `A </s>` and `A B </s>`; everything has type 0.
    Marian,
    /// What `add_bos_token` and `add_eos_token` ask for.
    Asked,
}

/// The special tokens around texts, under the names that the settings give them.
pub(super) fn around(
    ends: Ends,
    inner: &Inner,
    asset: &Asset,
    settings: &Settings,
) -> Result<PostProcessorWrapper> {
    let name = |key: &str| settings.name(key).unwrap_or_default();
    let id = |name: &str| required(inner, asset, name);
    let (cls, sep) = (name("cls_token"), name("sep_token"));
    // Where a class has both, its sequences begin and end with bos and eos.
    let (bos, eos) = (name("bos_token"), name("eos_token"));
    match ends {
        Ends::Bert => template(
            asset,
            &format!("{cls}:0 $A:0 {sep}:0"),
            &format!("{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1"),
            vec![(cls.clone(), id(&cls)?), (sep.clone(), id(&sep)?)],
        ),
        Ends::Roberta => template(
            asset,
            &format!("{bos}:0 $A:0 {eos}:0"),
            &format!("{bos}:0 $A:0 {eos}:0 {eos}:0 $B:0 {eos}:0"),
            vec![(bos.clone(), id(&bos)?), (eos.clone(), id(&eos)?)],
        ),
        Ends::RobertaTrimmed => {
            let (cls_id, sep_id) = (id(&cls)?, id(&sep)?);
            let processor = RobertaProcessing::new((sep, sep_id), (cls, cls_id))
                .trim_offsets(settings.trim_offsets.unwrap_or(true))
                .add_prefix_space(settings.space_before.unwrap_or(false));
            Ok(processor.into())
        }
        Ends::T5 => template(
            asset,
            &format!("$A:0 {eos}:0"),
            &format!("$A:0 {eos}:0 $B:0 {eos}:0"),
            vec![(eos.clone(), id(&eos)?)],
        ),
        Ends::Marian => template(
            asset,
            &format!("$A:0 {eos}:0"),
            &format!("$A:0 $B:0 {eos}:0"),
            vec![(eos.clone(), id(&eos)?)],
        ),
        Ends::Asked => asked(inner, asset, settings),
    }
}

/// What `add_bos_token` and `add_eos_token` ask for, around each text.
fn asked(inner: &Inner, asset: &Asset, settings: &Settings) -> Result<PostProcessorWrapper> {
    let token = |wanted: bool, key: &str| settings.name(key).filter(|_| wanted);
    let bos = token(settings.add_bos, "bos_token");
    let eos = token(settings.add_eos, "eos_token");
    let each = |text: &str, number: u8| {
        let part = |name: &str| format!("{name}:{number}");
        let parts = [bos.as_deref(), Some(text), eos.as_deref()].into_iter().flatten();
        parts.map(part).collect::<Vec<_>>().join(" ")
    };
    let special = [&bos, &eos].into_iter().flatten();
    let special = special.map(|name| required(inner, asset, name).map(|id| (name.clone(), id)));
    let (one, two) = (each("$A", 0), format!("{} {}", each("$A", 0), each("$B", 1)));
    template(asset, &one, &two, special.collect::<Result<_>>()?)
}

fn template(
    asset: &Asset,
    one: &str,
    two: &str,
    special: Vec<(String, u32)>,
) -> Result<PostProcessorWrapper> {
    let failed = |why: String| Error::checkpoint(asset.path(), why);
    TemplateProcessing::builder()
        .try_single(one)
        .and_then(|builder| builder.try_pair(two))
        .map_err(failed)?
        .special_tokens(special)
        .build()
        .map(Into::into)
        .map_err(|why| failed(why.to_string()))
}

/// The id of a special token that the vocabulary has to hold.
pub(super) fn required(inner: &Inner, asset: &Asset, name: &str) -> Result<u32> {
    inner.token_to_id(name).ok_or_else(|| {
        let pieces = inner.get_vocab_size(false);
        let why = format!("the special token `{name}` is not among its {pieces} pieces");
        Error::checkpoint(asset.path(), why)
    })
}
