//! How ggml stores numbers.

use candle_core::quantized::GgmlDType;
use safetensors::Dtype;

use crate::weights::convert::Storage;

/// What can be read: ggml's number, its name there, and what it is here.
const KNOWN: [(u32, &str, Storage); 16] = [
    (0, "F32", Storage::Plain(Dtype::F32)),
    (1, "F16", Storage::Plain(Dtype::F16)),
    (30, "BF16", Storage::Plain(Dtype::BF16)),
    (28, "F64", Storage::Plain(Dtype::F64)),
    (2, "Q4_0", Storage::Blocks(GgmlDType::Q4_0)),
    (3, "Q4_1", Storage::Blocks(GgmlDType::Q4_1)),
    (6, "Q5_0", Storage::Blocks(GgmlDType::Q5_0)),
    (7, "Q5_1", Storage::Blocks(GgmlDType::Q5_1)),
    (8, "Q8_0", Storage::Blocks(GgmlDType::Q8_0)),
    (9, "Q8_1", Storage::Blocks(GgmlDType::Q8_1)),
    (10, "Q2_K", Storage::Blocks(GgmlDType::Q2K)),
    (11, "Q3_K", Storage::Blocks(GgmlDType::Q3K)),
    (12, "Q4_K", Storage::Blocks(GgmlDType::Q4K)),
    (13, "Q5_K", Storage::Blocks(GgmlDType::Q5K)),
    (14, "Q6_K", Storage::Blocks(GgmlDType::Q6K)),
    (15, "Q8_K", Storage::Blocks(GgmlDType::Q8K)),
];

/// What cannot, by its name in ggml.
const OTHERS: [(u32, &str); 17] = [
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
];

/// The storage that ggml gives this number, or what to call one that cannot be read.
pub(super) fn storage(kind: u32) -> Result<Storage, String> {
    if let Some((_, _, storage)) = KNOWN.iter().find(|(number, ..)| *number == kind) {
        return Ok(*storage);
    }
    let other = OTHERS.iter().find(|(number, _)| *number == kind);
    Err(other.map_or(format!("type {kind}"), |(_, name)| (*name).to_owned()))
}

/// The names of all that can be read.
pub(super) fn known() -> String {
    KNOWN.map(|(_, name, _)| name).join(", ")
}

/// A storage by its name.
pub(in crate::weights) fn name(storage: Storage) -> String {
    match (KNOWN.iter().find(|(_, _, one)| *one == storage), storage) {
        (Some((_, name, _)), _) => (*name).to_owned(),
        (None, Storage::Plain(dtype)) => format!("{dtype:?}"),
        (None, Storage::Blocks(kind)) => format!("{kind:?}"),
    }
}

/// Numbers in a block, and its bytes.
pub(super) fn block(storage: Storage) -> (usize, usize) {
    match storage {
        Storage::Plain(dtype) => (1, dtype.bitsize() / 8),
        Storage::Blocks(kind) => (kind.block_size(), kind.type_size()),
    }
}
