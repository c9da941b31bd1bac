//! The arithmetic of a pass, which says what removing heads can save.

use crate::config::{Config, Task};

/// Floating-point operations of one pass over a text of `tokens` tokens, of an encoder-decoder over as
/// many on either side: two for each multiplication and addition of every matrix product, those of
/// heads that are left. Norms, soft-max and activations, a hundredth or so, are left out.
///
/// ```
/// # if cfg!(not(feature = "embedded")) { return }
/// let model = attnviz::Model::from_pretrained("built-in").unwrap();
/// // 6 layers of 2·(4·384² + 2·384·1536 + 2·16·384) for each of 16 tokens
/// assert_eq!(attnviz::prune::operations(model.config(), 16), 16.0 * 6.0 * 2.0 * 1781760.0);
/// ```
pub fn operations(config: &Config, tokens: usize) -> f64 {
    let words = match config.task {
        Task::MaskedLm | Task::CausalLm | Task::Seq2SeqLm => config.vocab_size,
        _ => 0,
    };
    let stacks = [Some(config), config.decoder.as_deref()];
    let layers: f64 = stacks.into_iter().flatten().map(|stack| of_layers(stack, tokens)).sum();
    layers + 2.0 * (tokens * words * config.embedding_size) as f64
}

fn of_layers(config: &Config, tokens: usize) -> f64 {
    let (width, k) = (config.hidden_size, config.head_dim);
    let maps = if config.gated { 3 } else { 2 };
    let mlp = maps * width * config.intermediate_size;
    let attention = |heads: &Vec<usize>| {
        let (own, shared) = (heads.len() * k, heads.len() / config.group_size.max(1) * k);
        // projections of query and output, of key and value; products with keys and with values
        2 * width * own + 2 * width * shared + 2 * tokens * own
    };
    let own: usize = config.heads.iter().map(|heads| attention(heads) + mlp).sum();
    let cross: usize = config.cross_heads.iter().map(attention).sum();
    2.0 * tokens as f64 * (own + cross) as f64
}
