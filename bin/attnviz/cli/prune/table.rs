//! Numbers of heads, layers down and heads across, in 80 columns.

use attnviz::prune::{HeadScore, StackHead};
use attnviz::{Config, Stack};
use serde_json::{Value, json};

/// Heads side by side; more of them stand in several blocks.
const ACROSS: usize = 12;

/// Stacks that scores are of, in order.
fn stacks(scores: &[HeadScore]) -> Vec<Stack> {
    let mut stacks: Vec<Stack> = scores.iter().map(|one| one.head.stack).collect();
    stacks.sort();
    stacks.dedup();
    stacks
}

/// The name of a stack for people.
pub fn stack_name(stack: Stack) -> &'static str {
    match stack {
        Stack::Encoder => "encoder",
        Stack::Decoder => "decoder",
        Stack::Cross => "cross-attention",
    }
}

/// `L3H1`, of a model with several stacks `decoder:L3H1`.
pub fn label(config: &Config, head: StackHead) -> String {
    match config.decoder {
        Some(_) => head.to_string(),
        None => head.head.to_string(),
    }
}

/// What JSON says of which head it is.
pub fn place(config: &Config, one: StackHead) -> serde_json::Map<String, Value> {
    let mut keys = serde_json::Map::new();
    keys.insert("head".into(), label(config, one).into());
    if config.decoder.is_some() {
        keys.insert("stack".into(), json!(one.stack));
    }
    keys.insert("layer".into(), one.head.layer.into());
    keys.insert("number".into(), one.head.head.into());
    keys
}

/// Layers down, heads across, stack by stack; heads that are gone are dots, and `mark` follows a
/// number. All numbers are divided by one power of ten, named above them, so that three digits of
/// the largest show.
pub fn table(scores: &[HeadScore], config: &Config, mark: impl Fn(usize) -> bool) -> String {
    let largest = scores.iter().map(|one| one.score.abs()).filter(|x| x.is_finite());
    let largest = largest.fold(0.0, f64::max);
    // 99.95 would be shown as 100.0
    let power = match largest > 0.0 {
        true => (largest / 9.995).log10().floor() as i32,
        false => 0,
    };
    let unit = 10f64.powi(power);
    let mut text = String::new();
    if power != 0 {
        text += &format!("in units of 1e{power}\n");
    }
    let several = config.decoder.is_some();
    for stack in stacks(scores) {
        if several {
            text += &format!("{}\n", stack_name(stack));
        }
        let of = config.of(stack);
        let layers = if stack == Stack::Cross { &of.cross_heads } else { &of.heads };
        let heads = of.head_counts.iter().max().copied().unwrap_or(0);
        let blocks = heads.div_ceil(ACROSS).max(1);
        let across = heads.div_ceil(blocks).max(1);
        for first in (0..heads).step_by(across) {
            let numbers = first..(first + across).min(heads);
            text += &format!("{:>3}", "");
            text.extend(numbers.clone().map(|head| format!("{:>5} ", format!("H{head}"))));
            text = text.trim_end().to_owned() + "\n";
            for layer in 0..layers.len() {
                let cell = |head: usize| {
                    let is = |one: &HeadScore| {
                        one.head.stack == stack
                            && (one.head.head.layer, one.head.head.head) == (layer, head)
                    };
                    let Some(i) = scores.iter().position(is) else { return "    . ".into() };
                    let mark = if mark(i) { '*' } else { ' ' };
                    format!("{:>5}{mark}", short(scores[i].score / unit))
                };
                let row: String = numbers.clone().map(cell).collect();
                text += format!("{:>3}{row}", format!("L{layer}")).trim_end();
                text.push('\n');
            }
        }
    }
    text
}

/// A number below 100 in at most five columns.
fn short(x: f64) -> String {
    match x {
        x if !x.is_finite() => "-".into(),
        0.0 => "0".into(),
        x if x.abs() < 9.995 => format!("{x:.2}"),
        x => format!("{x:.1}"),
    }
}

/// Three digits or so.
pub fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        size if (1e-3..1e4).contains(&size) => {
            format!("{x:.*}", (2 - size.log10().floor() as i32).clamp(0, 5) as usize)
        }
        _ => format!("{x:.1e}"),
    }
}
