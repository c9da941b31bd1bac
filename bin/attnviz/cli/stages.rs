//! The stages of a run, under the names that transformers uses.

use attnviz::export::{Stages, banded};
use attnviz::tokens::Batch;
use attnviz::{Keep, Model, Recorder, Result, Site, Stack, Trace};
use candle_core::{Device, Tensor};
use ndarray::Array2;
use serde_json::Map;

/// Stages that are written when asked for, by the name before the layer.
pub const FURTHER: [(&str, Site); 6] = [
    ("query", Site::Query),
    ("key", Site::Key),
    ("value", Site::Value),
    ("scores", Site::Scores),
    ("context", Site::Context),
    ("head_output", Site::HeadOutput),
];

/// Runs the model over `source`, and the decoder of an encoder-decoder over `target`. Without a
/// target such a model runs its encoder alone.
pub fn stages(
    model: &Model,
    source: &Batch,
    target: Option<&Batch>,
    include: &[String],
) -> Result<Stages> {
    let further = FURTHER.iter().filter(|(name, _)| include.iter().any(|one| one == name));
    let further: Vec<(&str, Site)> = further.copied().collect();
    let usual = [Site::Embedding, Site::Residual, Site::Probs];
    let sites = usual.into_iter().chain(further.iter().map(|&(_, site)| site));
    let mut recorder = sites.fold(Recorder::new(), |kept, site| kept.keep(site, Keep::All));
    let config = model.config();
    let mut tensors = vec![
        ("input_ids".to_owned(), whole(&source.ids)?),
        ("attention_mask".to_owned(), whole(&source.mask)?),
    ];
    let Some(decoder) = &config.decoder else {
        let last = model.forward(source, &mut recorder, &[])?;
        let outputs = model.head(&last, source)?;
        tensors.push(("token_type_ids".to_owned(), whole(&source.type_ids)?));
        if let Some(mark) = &model.global_queries(source)? {
            tensors.push(("global_attention_mask".into(), whole(mark)?));
        }
        let mut all = Gathered { trace: recorder.into_trace()?, further, tensors };
        let layers = config.layers();
        all.before("", config.stack(), layers);
        all.bands(model, source)?;
        all.last("", layers, &last);
        all.tensors.push(("last_hidden_state".into(), last));
        all.tensors.extend(outputs.pooler_output.map(|one| ("pooler_output".into(), one)));
        all.tensors.extend(outputs.logits.map(|one| ("logits".into(), one)));
        return Ok(all.stages());
    };
    let Some(target) = target else {
        let last = model.forward(source, &mut recorder, &[])?;
        let all = Gathered { trace: recorder.into_trace()?, further, tensors };
        return Ok(all.with_encoder(config.layers(), last).stages());
    };
    let memory = model.encode(source, &mut recorder, &[])?;
    let last = model.decode(target, Some(&memory), None, &mut recorder, &[])?;
    let outputs = model.head(&last, target)?;
    tensors.push(("decoder_input_ids".to_owned(), whole(&target.ids)?));
    tensors.push(("decoder_attention_mask".to_owned(), whole(&target.mask)?));
    let all = Gathered { trace: recorder.into_trace()?, further, tensors };
    let mut all = all.with_encoder(config.layers(), memory.hidden);
    all.before("decoder_", Stack::Decoder, decoder.layers());
    all.last("decoder_", decoder.layers(), &last);
    all.before("cross_", Stack::Cross, decoder.layers());
    all.tensors.push(("last_hidden_state".into(), last));
    all.tensors.extend(outputs.logits.map(|one| ("logits".into(), one)));
    Ok(all.stages())
}

/// What was kept, on its way to names.
struct Gathered {
    trace: Trace,
    further: Vec<(&'static str, Site)>,
    tensors: Vec<(String, Tensor)>,
}

impl Gathered {
    /// All of a stack but the output of its last layer, under names that begin with `prefix`.
    fn before(&mut self, prefix: &str, stack: Stack, layers: usize) {
        let (trace, tensors) = (&self.trace, &mut self.tensors);
        let mut add = |name: &str, number: usize, layer: usize, site: Site| {
            if let Some(kept) = trace.get(stack, layer, site) {
                tensors.push((format!("{prefix}{name}.{number}"), kept.tensor.clone()));
            }
        };
        if stack != Stack::Cross {
            add("hidden_states", 0, 0, Site::Embedding);
            (1..layers).for_each(|n| add("hidden_states", n, n - 1, Site::Residual));
        }
        (0..layers).for_each(|layer| add("attentions", layer, layer, Site::Probs));
        for &(name, site) in &self.further {
            (0..layers).for_each(|layer| add(name, layer, layer, site));
        }
    }

    /// The output of the last layer: behind the final norm, where there is one.
    fn last(&mut self, prefix: &str, layers: usize, last: &Tensor) {
        self.tensors.push((format!("{prefix}hidden_states.{layers}"), last.clone()));
    }

    /// The encoder of an encoder-decoder.
    fn with_encoder(mut self, layers: usize, last: Tensor) -> Self {
        self.before("encoder_", Stack::Encoder, layers);
        self.last("encoder_", layers, &last);
        self.tensors.push(("encoder_last_hidden_state".into(), last));
        self
    }

    /// Longformer's own layout beside the full one.
    fn bands(&mut self, model: &Model, batch: &Batch) -> Result<()> {
        let (config, global) = (model.config(), model.global_queries(batch)?);
        for (layer, radius) in config.windows.iter().enumerate().filter(|_| global.is_some()) {
            let kept = self.trace.get(Stack::Encoder, layer, Site::Probs);
            if let (Some(kept), Some(radius)) = (kept, radius) {
                let (native, columns) = banded(&kept.tensor, global.as_ref(), *radius)?;
                self.tensors.push((format!("attentions_native.{layer}"), native));
                let columns = columns.map(|t| (format!("global_attentions.{layer}"), t));
                self.tensors.extend(columns);
            }
        }
        Ok(())
    }

    fn stages(self) -> Stages {
        Stages { tensors: self.tensors, about: Map::new() }
    }
}

/// Whole numbers [B, T] as transformers has them: 64 bits wide.
fn whole(array: &Array2<u32>) -> Result<Tensor> {
    let wide: Vec<i64> = array.iter().map(|&n| i64::from(n)).collect();
    Ok(Tensor::from_vec(wide, array.dim(), &Device::Cpu)?)
}
