//! Names of tensors in llama.cpp and in transformers.

/// Tensors that stand by themselves.
const WHOLE: [(&str, &str); 3] =
    [("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("output", "lm_head")];

/// Parts of a layer.
const PARTS: [(&str, &str); 9] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// The layer's number, the part and whether it is its weight or bias.
fn parts(raw: &str) -> Option<(&str, &str, &str)> {
    let (layer, rest) = raw.strip_prefix("blk.")?.split_once('.')?;
    let (part, end) = rest.split_once('.')?;
    Some((layer, part, end))
}

/// The name of a tensor in transformers' Llama, which Qwen2's are named as; `None` for one that it does not have.
pub(super) fn transformers(raw: &str) -> Option<String> {
    if let Some((layer, part, end)) = parts(raw) {
        let (_, there) = PARTS.iter().find(|(here, _)| *here == part)?;
        return Some(format!("model.layers.{layer}.{there}.{end}"));
    }
    let (module, end) = raw.split_once('.')?;
    let (_, there) = WHOLE.iter().find(|(here, _)| *here == module)?;
    Some(format!("{there}.{end}"))
}

/// Whether it makes queries or keys.
pub(super) fn is_paired(raw: &str) -> bool {
    parts(raw).is_some_and(|(_, part, _)| matches!(part, "attn_q" | "attn_k"))
}
