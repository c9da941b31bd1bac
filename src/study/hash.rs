//! What a study depends on, by its content.

use std::io::Read;

use sha2::{Digest, Sha256};

use super::texts::Texts;
use crate::error::{Error, Result};
use crate::hub::{Asset, ModelFiles};
use crate::model::Model;
use crate::task::{Sample, Split};

fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of all the files that a model is made of, one after another.
pub(super) fn model_hash(files: &ModelFiles) -> Result<String> {
    let parts = &files.tokenizer;
    let tokenizer = [
        &parts.json,
        &parts.vocab,
        &parts.vocab_json,
        &parts.merges,
        &parts.pieces,
        &parts.source,
        &parts.target,
        &parts.target_vocab,
        &parts.config,
        &parts.special,
        &parts.added,
    ];
    let all = files.config.iter().chain(&files.weights);
    let mut hasher = Sha256::new();
    for file in all.chain(tokenizer.into_iter().flatten()) {
        match file {
            Asset::BuiltIn { bytes, .. } => hasher.update(bytes),
            Asset::Disk(path) => {
                let failed = || Error::io(path, "read it");
                let mut file = std::fs::File::open(path).map_err(failed())?;
                let mut part = vec![0; 1 << 20];
                loop {
                    match file.read(&mut part).map_err(failed())? {
                        0 => break,
                        count => hasher.update(&part[..count]),
                    }
                }
            }
        }
    }
    Ok(hex(hasher))
}

/// Of the tokens of all parts, and of the labels where there are any.
pub(super) fn texts_hash(texts: &Texts, train: &[Sample], model: &Model) -> Result<String> {
    let mut hasher = Sha256::new();
    let mut add = |samples: &[Sample]| {
        for sample in samples {
            let batches = std::iter::once(&sample.batch);
            for batch in batches.chain(sample.written.iter().map(|written| &written.batch)) {
                for (row, mask) in batch.ids.rows().into_iter().zip(batch.mask.rows()) {
                    let real = row.iter().zip(mask).filter(|(_, real)| **real != 0);
                    real.for_each(|(id, _)| hasher.update(id.to_le_bytes()));
                    hasher.update(u32::MAX.to_le_bytes()); // between texts
                }
            }
        }
    };
    add(train);
    match texts {
        Texts::Plain(plain) => {
            add(&plain.validation);
            add(&plain.test);
        }
        Texts::Labelled(set) => {
            add(&set.samples(model, Split::Validation)?);
            add(&set.samples(model, Split::Test)?);
            for item in &set.labelled().items {
                hasher.update(format!("{:?} {:?}\n", item.split, item.label));
            }
        }
    }
    Ok(hex(hasher))
}
