//! Drawing: one heatmap at 16, 128 and 512 tokens, the grid, and everything for one sentence.

use std::hint::black_box;

use attnviz::picture::{Format, Style, TextEngine, View, grid, heatmap};
use attnviz::{Attention, Head, HeadWeights, Token};
use criterion::{Criterion, criterion_group, criterion_main};
use ndarray::Array2;
use rayon::prelude::*;

const TEXT: &str = "the animal did not cross the street because it was too tired , they said .";

/// Rows that sum to 1, with a strong first column and a diagonal, as trained heads have.
fn weights(count: usize, seed: usize) -> Array2<f32> {
    let mut weights = Array2::from_shape_fn((count, count), |(i, j)| {
        let noise = ((i * 7919 + j * 104_729 + seed * 31) % 1009) as f32 / 1009.0;
        noise.powi(4) + if j == 0 { 3.0 * noise } else { 0.0 } + if i == j { 2.0 } else { 0.0 }
    });
    for mut row in weights.rows_mut() {
        row /= row.sum();
    }
    weights
}

fn attention(layers: usize, heads: usize, count: usize) -> Attention {
    let words = TEXT.split(' ').cycle().take(count);
    let tokens: Vec<Token> =
        words.map(|text| Token { text: text.into(), ..Token::default() }).collect();
    let all = (0..layers).flat_map(|layer| (0..heads).map(move |head| Head { layer, head }));
    let heads_here = all
        .map(|head| HeadWeights { head, weights: weights(count, head.layer * 31 + head.head) })
        .collect();
    Attention::new(tokens.clone(), tokens, heads_here, vec![heads; layers]).expect("a fine shape")
}

fn one_heatmap(c: &mut Criterion) {
    let style = Style::default();
    for count in [16, 128, 512] {
        let all = attention(1, 1, count);
        let ranges = style.scale.resolve(&all);
        let engine = TextEngine::new();
        c.bench_function(&format!("heatmap, {count} tokens"), |b| {
            b.iter(|| {
                let view = View::head(&all, Head { layer: 0, head: 0 }, "model", &ranges);
                let view = view.expect("a head");
                black_box(heatmap(&view, &style, Format::Png, &engine).expect("a picture"))
            });
        });
    }
}

fn whole_grid(c: &mut Criterion) {
    let (all, style, engine) = (attention(12, 12, 16), Style::default(), TextEngine::new());
    c.bench_function("grid, 12 x 12 heads, 16 tokens", |b| {
        b.iter(|| black_box(grid(&all, "model", &[], &style, Format::Png, &engine)));
    });
}

/// Fonts opened and labels drawn anew each time, as in one run of the program.
fn everything(c: &mut Criterion) {
    let (all, style) = (attention(6, 12, 15), Style::default());
    c.bench_function("72 heatmaps, 6 means, grid, 15 tokens", |b| {
        b.iter(|| {
            let engine = TextEngine::new();
            let ranges = style.scale.resolve(&all);
            let heads = all.heads.par_iter().map(|one| View::head(&all, one.head, "m", &ranges));
            let means = (0..6).into_par_iter().map(|layer| View::mean(&all, layer, "m", &ranges));
            let draw = |view: attnviz::Result<View>| {
                heatmap(&view.expect("a view"), &style, Format::Png, &engine).expect("a picture")
            };
            let overview = || grid(&all, "m", &[], &style, Format::Png, &engine);
            let files = || heads.chain(means).map(draw).map(|file| file.len()).sum::<usize>();
            black_box(rayon::join(files, overview))
        });
    });
}

criterion_group!(benches, one_heatmap, whole_grid, everything);
criterion_main!(benches);
