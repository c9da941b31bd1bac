//! The tokenizer classes of transformers, as data: what their files do not say.

use tokenizers::PostProcessorWrapper;
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::processors::template::TemplateProcessing;

use super::load::Inner;
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::hub::Asset;

/// Names of the special tokens in `tokenizer_config.json`, in the order in which transformers adds
/// those that a vocabulary lacks.
pub(super) const SPECIAL: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The default of each of [`SPECIAL`]; empty where there is none.
pub(super) type Names = [&'static str; 7];

const BERT_NAMES: Names = ["", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"];
const ROBERTA_NAMES: Names = ["<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"];

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

/// How the pieces of a SentencePiece model become a vocabulary, and how text is made ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pieces {
    XlmRoberta,
    Camembert,
    Albert,
    DebertaV2,
    T5,
    /// As the model file itself says.
    Own,
}

/// What the vocabulary is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vocabulary {
    /// `vocab.txt`
    WordPiece,
    /// `vocab.json` and `merges.txt`
    ByteLevel,
    /// A SentencePiece model.
    Pieces(Pieces),
    /// `source.spm`, `target.spm` and `vocab.json`.
    Sides,
}

/// One class, and the models that use it when they do not say.
#[derive(Debug)]
pub(super) struct Class {
    /// As in "RoBERTa's tokenizer".
    pub owner: &'static str,
    classes: &'static [&'static str],
    model_types: &'static [&'static str],
    pub vocabulary: Vocabulary,
    pub ends: Ends,
    pub names: Names,
    /// The mask token takes the space before it.
    pub mask_strips: bool,
}

pub(super) static BERT: Class = Class {
    owner: "BERT",
    classes: &[
        "BertTokenizer",
        "DistilBertTokenizer",
        "ElectraTokenizer",
        "MobileBertTokenizer",
        "ConvBertTokenizer",
        "SqueezeBertTokenizer",
        "LayoutLMTokenizer",
    ],
    model_types: &[
        "bert",
        "distilbert",
        "electra",
        "mobilebert",
        "convbert",
        "squeezebert",
        "ernie",
        "layoutlm",
    ],
    vocabulary: Vocabulary::WordPiece,
    ends: Ends::Bert,
    names: BERT_NAMES,
    mask_strips: false,
};

pub(super) static ROBERTA: Class = Class {
    owner: "RoBERTa",
    classes: &["RobertaTokenizer", "LongformerTokenizer", "BartTokenizer", "LEDTokenizer"],
    model_types: &["roberta", "longformer", "bart", "led", "data2vec-text", "roberta-prelayernorm"],
    vocabulary: Vocabulary::ByteLevel,
    ends: Ends::RobertaTrimmed,
    names: ROBERTA_NAMES,
    mask_strips: false,
};

/// For a SentencePiece model that nothing else is known of.
pub(super) static OWN: Class = Class {
    owner: "the SentencePiece model",
    classes: &["LlamaTokenizer"],
    model_types: &["llama", "mistral"],
    vocabulary: Vocabulary::Pieces(Pieces::Own),
    ends: Ends::Asked,
    names: [""; 7],
    mask_strips: false,
};

pub(super) static MARIAN: Class = Class {
    owner: "Marian",
    classes: &["MarianTokenizer"],
    model_types: &["marian"],
    vocabulary: Vocabulary::Sides,
    ends: Ends::Marian,
    names: ["", "</s>", "<unk>", "", "<pad>", "", ""],
    mask_strips: false,
};

static OTHERS: [Class; 7] = [
    Class {
        owner: "MPNet",
        classes: &["MPNetTokenizer"],
        model_types: &["mpnet"],
        vocabulary: Vocabulary::WordPiece,
        ends: Ends::RobertaTrimmed,
        names: ["<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"],
        mask_strips: true,
    },
    Class {
        owner: "GPT-2",
        classes: &["GPT2Tokenizer"],
        model_types: &["gpt2", "gpt_neo"],
        vocabulary: Vocabulary::ByteLevel,
        ends: Ends::Asked,
        names: ["<|endoftext|>", "<|endoftext|>", "<|endoftext|>", "", "", "", ""],
        mask_strips: false,
    },
    Class {
        owner: "XLM-RoBERTa",
        classes: &["XLMRobertaTokenizer"],
        model_types: &["xlm-roberta", "xlm-roberta-xl", "xmod"],
        vocabulary: Vocabulary::Pieces(Pieces::XlmRoberta),
        ends: Ends::Roberta,
        names: ROBERTA_NAMES,
        mask_strips: false,
    },
    Class {
        owner: "CamemBERT",
        classes: &["CamembertTokenizer"],
        model_types: &["camembert"],
        vocabulary: Vocabulary::Pieces(Pieces::Camembert),
        ends: Ends::Roberta,
        names: ROBERTA_NAMES,
        mask_strips: true,
    },
    Class {
        owner: "ALBERT",
        classes: &["AlbertTokenizer"],
        model_types: &["albert"],
        vocabulary: Vocabulary::Pieces(Pieces::Albert),
        ends: Ends::Bert,
        names: ["[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"],
        mask_strips: false,
    },
    Class {
        owner: "DeBERTa-v2",
        classes: &["DebertaV2Tokenizer"],
        model_types: &["deberta-v2"],
        vocabulary: Vocabulary::Pieces(Pieces::DebertaV2),
        ends: Ends::Bert,
        names: ["[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"],
        mask_strips: false,
    },
    Class {
        owner: "T5",
        classes: &["T5Tokenizer"],
        model_types: &["t5", "mt5"],
        vocabulary: Vocabulary::Pieces(Pieces::T5),
        ends: Ends::T5,
        names: ["", "</s>", "<unk>", "", "<pad>", "", ""],
        mask_strips: false,
    },
];

fn all() -> impl Iterator<Item = &'static Class> {
    [&BERT, &ROBERTA, &OWN, &MARIAN].into_iter().chain(&OTHERS)
}

/// The class of this name, with or without the `Fast` of older files.
pub(super) fn named(class: &str) -> Option<&'static Class> {
    let class = class.strip_suffix("Fast").unwrap_or(class);
    all().find(|one| one.classes.contains(&class))
}

/// The class that models of this type use.
pub(super) fn of_model(model_type: &str) -> Option<&'static Class> {
    all().find(|one| one.model_types.contains(&model_type))
}

/// The special tokens around texts, under the names that the settings give them.
pub(super) fn ends(
    class: &Class,
    inner: &Inner,
    asset: &Asset,
    settings: &Settings,
) -> Result<PostProcessorWrapper> {
    let name = |key: &str| settings.name(key).unwrap_or_default();
    let id = |name: &str| required(inner, asset, name);
    let (cls, sep) = (name("cls_token"), name("sep_token"));
    // Where a class has both, its sequences begin and end with bos and eos.
    let (bos, eos) = (name("bos_token"), name("eos_token"));
    match class.ends {
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
    let around = |text: &str, number: u8| {
        let part = |name: &str| format!("{name}:{number}");
        let parts = [bos.as_deref(), Some(text), eos.as_deref()].into_iter().flatten();
        parts.map(part).collect::<Vec<_>>().join(" ")
    };
    let special = [&bos, &eos].into_iter().flatten();
    let special = special.map(|name| required(inner, asset, name).map(|id| (name.clone(), id)));
    let (one, two) = (around("$A", 0), format!("{} {}", around("$A", 0), around("$B", 1)));
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
