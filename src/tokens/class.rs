//! The tokenizer classes of transformers, as data: what their files do not say.

use super::ends::Ends;

/// Names of the special tokens in `tokenizer_config.json`, in the order in which transformers adds
/// those that a vocabulary lacks.
pub(super) const SPECIAL: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The default of each of [`SPECIAL`]; empty where there is none.
pub(super) type Names = [&'static str; 7];

const BERT_NAMES: Names = ["", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"];
const ROBERTA_NAMES: Names = ["<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"];

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
