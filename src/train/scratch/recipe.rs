//! Everything that a new model is made by.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::{Corpus, Masking, NewModel, Vocabulary, WindowExamples, wordpiece};
use crate::config::Task;
use crate::error::{Error, Result};
use crate::hub::ModelFiles;
use crate::model::Model;
use crate::train::{Bench, sha256};

/// What a model is made of and how it reads its text.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Recipe {
    /// Its sizes.
    pub model: NewModel,
    /// Most tokens of its vocabulary.
    pub vocabulary: usize,
    /// Capitals become small letters.
    pub lowercase: bool,
    /// Tokens of a window.
    pub context: usize,
    /// What a masked language model is asked for.
    pub masking: Masking,
}

/// A text as examples.
pub struct Windows {
    /// To learn from.
    pub learnt: WindowExamples,
    /// For validation.
    pub held: WindowExamples,
    /// Tokens of the whole text, and how many of them are unknown.
    pub tokens: (usize, usize),
}

impl Recipe {
    /// Refuses a recipe that makes no model.
    ///
    /// # Errors
    /// [`Error::Usage`] with the flag of what does not fit.
    pub fn check(&self) -> Result<()> {
        self.model.check()?;
        let most = self.model.positions;
        if self.context < 2 || self.context > most {
            return Err(Error::Usage {
                flag: "--context".into(),
                want: format!("from 2 to {most}, the positions of the model"),
                found: self.context.to_string(),
            });
        }
        Ok(())
    }

    /// The checkpoint that training begins with, in the folder of a run: made of `text`, or, where
    /// the run goes on, what was made of it then.
    ///
    /// # Errors
    /// [`Error::Usage`] for a recipe that makes no model, and where the run that goes on is of
    /// another recipe or text; those of [`wordpiece`]; [`Error::Io`] where nothing can be written.
    pub fn start(&self, text: &str, bench: &Bench) -> Result<ModelFiles> {
        self.check()?;
        bench.about(&self.with(text))?;
        bench.start(|folder| self.write(text, folder))
    }

    /// The recipe with what it is made of.
    fn with(&self, text: &str) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["text_sha256"] = sha256(text.as_bytes()).into();
        value
    }

    /// Writes tokenizer, configuration and weights aside and renames them into place.
    fn write(&self, text: &str, folder: &Path) -> Result<()> {
        let parent = folder.parent().unwrap_or(Path::new("."));
        let aside = tempfile::Builder::new().prefix(".attnviz-").tempdir_in(parent);
        let aside = aside.map_err(Error::io(folder, "create it"))?;
        // a folder inside, since the outer one is its owner's alone
        let staged = aside.path().join("start");
        std::fs::create_dir(&staged).map_err(Error::io(folder, "create it"))?;
        let how = Vocabulary {
            size: self.vocabulary,
            lowercase: self.lowercase,
            closed: self.model.task != Task::CausalLm,
            positions: self.model.positions,
        };
        for (name, bytes) in wordpiece(text.lines(), &how)? {
            let path = staged.join(name);
            std::fs::write(&path, bytes).map_err(Error::io(&path, "write it"))?;
        }
        self.model.write(&staged)?;
        std::fs::rename(&staged, folder).map_err(Error::io(folder, "move it into place"))
    }

    /// The text as windows of tokens, in the words of `model`.
    ///
    /// # Errors
    /// [`Error::Input`] where it has too few tokens.
    pub fn windows(&self, text: &str, model: &Model) -> Result<Windows> {
        let corpus = Corpus::new(text.lines(), model.tokenizer()?)?;
        let (learnt, held) = corpus.split(self.context)?;
        let tokens = (corpus.ids.len(), corpus.unknown);
        let ids: Arc<[u32]> = corpus.ids.into();
        let masking = (self.model.task == Task::MaskedLm).then_some(self.masking);
        let of = |stretches: &[std::ops::Range<usize>], moved| {
            let size = model.config().vocab_size;
            WindowExamples::new(ids.clone(), stretches, self.context, masking, size, moved)
        };
        Ok(Windows { learnt: of(&learnt, true), held: of(&held, false), tokens })
    }
}
