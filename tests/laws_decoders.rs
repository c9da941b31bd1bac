//! Promises of decoders and encoder-decoders that need no reference.

mod common;

use std::path::PathBuf;

use attnviz::tokens::Batch;
use attnviz::{Change, Head, Intervention, Keep, Model, Recorder, Site, Stack, Trace};
use candle_core::Tensor;
use common::variant::Variant;
use common::{Golden, SITES, fixture, numbers, open};
use ndarray::{Array2, s};

const GOLDENS: [&str; 7] =
    ["bert_lmhead_decoder", "gpt2_lm", "llama_lm", "bart_lm", "marian_mt", "t5_lm", "t5_v11_lm"];

/// A model and what it reads: of an encoder-decoder two texts each.
struct Case {
    name: String,
    folder: PathBuf,
    model: Model,
    source: Batch,
    target: Option<Batch>,
}

impl Case {
    fn open(name: &str) -> Self {
        Self::at(name, Golden::open(name))
    }

    fn at(name: &str, golden: Golden) -> Self {
        let model = open(&golden.folder, None).expect("loads");
        let target = model.config().decoder.is_some().then(|| {
            let mask = golden.ids("decoder_attention_mask");
            Batch::from_ids(golden.ids("decoder_input_ids"), mask)
        });
        let source = golden.batch();
        Self { name: name.into(), folder: golden.folder, model, source, target }
    }

    fn all() -> impl Iterator<Item = Self> {
        GOLDENS.into_iter().map(Self::open)
    }

    /// The same without padding, so that every position counts.
    fn all_real(mut self) -> Self {
        for batch in std::iter::once(&mut self.source).chain(&mut self.target) {
            batch.mask.fill(1);
            batch.lengths.fill(batch.ids.ncols());
        }
        self
    }

    /// The attentions that it has.
    fn stacks(&self) -> &'static [Stack] {
        match self.target {
            Some(_) => &[Stack::Encoder, Stack::Decoder, Stack::Cross],
            None => &[Stack::Decoder],
        }
    }

    /// Runs it whole: the output of the last layer.
    fn run(&self, recorder: &mut Recorder, changes: &[Intervention]) -> Tensor {
        self.run_in(&[usize::MAX], recorder, changes)
    }

    /// Runs the decoder in steps of so many positions, with a cache if there are several.
    fn run_in(&self, steps: &[usize], recorder: &mut Recorder, changes: &[Intervention]) -> Tensor {
        let model = &self.model;
        let memory = self
            .target
            .as_ref()
            .map(|_| model.encode(&self.source, recorder, changes).expect("encodes"));
        let batch = self.target.as_ref().unwrap_or(&self.source);
        let mut cache = (steps.len() > 1).then(|| model.cache());
        let mut parts = Vec::new();
        let mut first = 0_usize;
        for &step in steps {
            let end = first.saturating_add(step).min(batch.ids.ncols());
            let new = |a: &Array2<u32>| a.slice(s![.., first..end]).to_owned();
            let part = Batch {
                type_ids: new(&batch.type_ids),
                ..Batch::from_ids(new(&batch.ids), new(&batch.mask))
            };
            let done = model.decode(&part, memory.as_ref(), cache.as_mut(), recorder, changes);
            parts.push(done.expect("decodes"));
            first = end;
        }
        Tensor::cat(&parts, 1).expect("rows")
    }

    fn everything(&self, changes: &[Intervention]) -> (Tensor, Trace) {
        let mut recorder = everything();
        let hidden = self.run(&mut recorder, changes);
        (hidden, recorder.into_trace().expect("trace"))
    }

    /// Example `b` without its padding.
    fn alone(&self, b: usize) -> Self {
        let one = |batch: &Batch| {
            let row = |a: &Array2<u32>| a.slice(s![b..b + 1, ..batch.lengths[b]]).to_owned();
            Batch {
                type_ids: row(&batch.type_ids),
                ..Batch::from_ids(row(&batch.ids), row(&batch.mask))
            }
        };
        let model = open(&self.folder, None).expect("loads");
        let target = self.target.as_ref().map(one);
        let (name, folder) = (self.name.clone(), self.folder.clone());
        Self { name, folder, model, source: one(&self.source), target }
    }
}

fn everything() -> Recorder {
    SITES.into_iter().fold(Recorder::new(), |recorder, site| recorder.keep(site, Keep::All))
}

fn largest_difference(a: &Tensor, b: &Tensor) -> f32 {
    assert_eq!(a.dims(), b.dims());
    let off = |(a, b): (f32, f32)| (a - b).abs() / a.abs().max(1.0);
    numbers(a).into_iter().zip(numbers(b)).map(off).fold(0.0, f32::max)
}

fn at(stack: Stack, site: Site, change: Change) -> Intervention {
    Intervention { stack, site, layers: None, heads: None, positions: None, change }
}

/// Whether an attention has a site: cross-attention adds to the decoder's own residual.
fn has(stack: Stack, site: Site) -> bool {
    stack != Stack::Cross || site.has_heads()
}

#[test]
fn rows_sum_to_1_also_under_padding() {
    for mut case in Case::all() {
        case.source.mask.row_mut(0).fill(0); // every key of one example hidden
        let (_, trace) = case.everything(&[]);
        for (stack, layer, _, kept) in trace.iter().filter(|(_, _, site, _)| *site == Site::Probs) {
            for sum in numbers(&kept.tensor.sum(3).expect("sums")) {
                assert!((sum - 1.0).abs() <= 1e-5, "{}, {stack:?} {layer}: {sum}", case.name);
            }
        }
    }
}

#[test]
fn a_batch_equals_its_members_alone_and_padding_changes_nothing() {
    for case in Case::all() {
        let (hidden, trace) = case.everything(&[]);
        for b in 0..case.source.lengths.len() {
            let alone = case.alone(b);
            let (single, parts) = alone.everything(&[]);
            let read = alone.source.ids.ncols();
            let written = alone.target.as_ref().map_or(read, |target| target.ids.ncols());
            let cut = |t: &Tensor, axes: &[(usize, usize)]| {
                let one = t.narrow(0, b, 1).expect("example");
                axes.iter().try_fold(one, |t, &(axis, n)| t.narrow(axis, 0, n)).expect("cut")
            };
            let off = largest_difference(&cut(&hidden, &[(1, written)]), &single);
            assert!(off <= 1e-5, "{}: {off:.1e}", case.name);
            for (stack, layer, site, kept) in parts.iter() {
                let all = &trace.get(stack, layer, site).expect("kept").tensor;
                let (queries, keys) = match stack {
                    Stack::Encoder => (read, read),
                    Stack::Decoder => (written, written),
                    Stack::Cross => (written, read),
                };
                let axes: &[(usize, usize)] = match site {
                    Site::Embedding | Site::Residual => &[(1, queries)],
                    Site::Scores | Site::Probs => &[(2, queries), (3, keys)],
                    Site::Key | Site::Value => &[(2, keys)],
                    _ => &[(2, queries)],
                };
                let off = largest_difference(&cut(all, axes), &kept.tensor);
                assert!(off <= 1e-5, "{}, {stack:?} {layer} {site:?}: {off:.1e}", case.name);
            }
        }
    }
}

#[test]
fn recording_changes_no_output() {
    for case in Case::all() {
        let plain = case.run(&mut Recorder::new(), &[]);
        for site in SITES {
            let hidden = case.run(&mut Recorder::new().keep(site, Keep::All), &[]);
            assert!(largest_difference(&plain, &hidden) <= 1e-6, "{}, {site:?}", case.name);
        }
        assert!(largest_difference(&plain, &case.everything(&[]).0) <= 1e-6, "{}", case.name);
    }
}

#[test]
fn changes_that_change_nothing() {
    for case in Case::all() {
        let (plain, trace) = case.everything(&[]);
        for (&stack, site) in case.stacks().iter().flat_map(|stack| SITES.map(|site| (stack, site)))
        {
            if !has(stack, site) {
                assert!(trace.get(stack, 0, site).is_none());
                continue;
            }
            let place = format!("{}, {stack:?} {site:?}", case.name);
            let scaled = case.everything(&[at(stack, site, Change::Scale(1.0))]).0;
            assert!(largest_difference(&plain, &scaled) <= 1e-5, "{place} times 1");
            // patching in what the same run kept
            let kept = trace.iter().filter(|&(one, _, s, _)| one == stack && s == site);
            let patches = kept.map(|(_, layer, _, kept)| Intervention {
                layers: Some(vec![layer]),
                ..at(stack, site, Change::Replace(kept.tensor.clone()))
            });
            let patches: Vec<Intervention> = patches.collect();
            assert!(!patches.is_empty(), "{place}");
            // keys and values that heads share cannot be patched by what is kept for each of them
            let groups = case.model.config().of(stack).group_size;
            if groups > 1 && matches!(site, Site::Key | Site::Value) {
                continue;
            }
            let patched = case.everything(&patches).0;
            assert!(largest_difference(&plain, &patched) <= 1e-5, "{place} patched by itself");
        }
    }
}

#[test]
fn changes_have_an_effect_in_every_stack() {
    for case in Case::all() {
        let plain = case.run(&mut Recorder::new(), &[]);
        for (&stack, site) in case.stacks().iter().flat_map(|stack| SITES.map(|site| (stack, site)))
        {
            if has(stack, site) {
                let change =
                    Intervention { layers: Some(vec![0]), ..at(stack, site, Change::Zero) };
                let changed = case.run(&mut Recorder::new(), &[change]);
                let off = largest_difference(&plain, &changed);
                assert!(off > 1e-4, "{}, {stack:?} {site:?}: {off:.1e}", case.name);
            }
        }
    }
}

/// What a change of some positions does is the same in one pass and step by step with a cache.
#[test]
fn positions_are_counted_from_the_first_that_a_cache_holds() {
    let steps = [3, 1, 2, usize::MAX];
    for case in Case::all() {
        let case = case.all_real();
        for (&stack, site) in case.stacks().iter().flat_map(|stack| SITES.map(|site| (stack, site)))
        {
            if !has(stack, site) {
                continue;
            }
            for positions in [vec![0, 4], vec![3], vec![5, 6]] {
                let change = Intervention {
                    layers: Some(vec![1]),
                    heads: Some(vec![2]),
                    positions: Some(positions.clone()),
                    ..at(stack, site, Change::Scale(-0.5))
                };
                let layer_0 = Intervention { layers: Some(vec![0]), ..change.clone() };
                let change = if site == Site::Embedding { layer_0 } else { change };
                let changes = [change];
                let mut recorders = [everything(), everything()];
                let [whole, stepwise] = &mut recorders;
                let one = case.run(whole, &changes);
                let other = case.run_in(&steps, stepwise, &changes);
                let place = format!("{}, {stack:?} {site:?} at {positions:?}", case.name);
                let off = largest_difference(&one, &other);
                assert!(off <= 2e-5, "{place}: {off:.1e}");
                let [whole, stepwise] = recorders.map(|one| one.into_trace().expect("trace"));
                for (stack, layer, kept, tensor) in whole.iter() {
                    // behind the query a full pass has scores that no step computes
                    if kept == Site::Scores {
                        continue;
                    }
                    let stitched = &stepwise.get(stack, layer, kept).expect("kept").tensor;
                    let off = largest_difference(&tensor.tensor, stitched);
                    assert!(off <= 2e-5, "{place}, {stack:?} {layer} {kept:?}: {off:.1e}");
                }
            }
        }
    }
}

/// Cached = uncached whatever the config says: windows, distances, groups, sizes.
#[test]
fn a_cache_changes_nothing_whatever_the_options() {
    let folders = std::fs::read_dir(fixture("options")).expect("fixtures").flatten();
    let mut decoders = 0;
    for folder in folders.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let name = folder.file_name().expect("name").to_string_lossy().into_owned();
        let config = open(&folder, None).expect("loads").config().clone();
        if !config.causal && config.decoder.is_none() {
            continue;
        }
        let case = Case::at(&name, Golden::at(folder)).all_real();
        let mut recorders = [everything(), everything()];
        let [whole, stepwise] = &mut recorders;
        let one = case.run(whole, &[]);
        let other = case.run_in(&[2, 1, 1, usize::MAX], stepwise, &[]);
        assert!(largest_difference(&one, &other) <= 2e-5, "{name}");
        let [whole, stepwise] = recorders.map(|one| one.into_trace().expect("trace"));
        for (stack, layer, site, kept) in whole.iter().filter(|(_, _, s, _)| *s == Site::Probs) {
            let stitched = &stepwise.get(stack, layer, site).expect("kept").tensor;
            let off = largest_difference(&kept.tensor, stitched);
            assert!(off <= 1e-5, "{name}, {stack:?} {layer}: {off:.1e}");
        }
        decoders += 1;
    }
    assert!(decoders > 25, "{decoders} decoders");
}

/// A gate of 0 = the columns of the output projection that a head writes through set to 0.
#[test]
fn gate_0_equals_a_head_cut_out_of_the_weights() {
    let o = "model.decoder.layers.1.encoder_attn.out_proj.weight";
    let cases = [
        (
            "bert_lmhead_decoder",
            Stack::Decoder,
            "bert.encoder.layer.1.attention.output.dense.weight",
        ),
        ("gpt2_lm", Stack::Decoder, "transformer.h.1.attn.c_proj.weight"),
        ("llama_lm", Stack::Decoder, "model.layers.1.self_attn.o_proj.weight"),
        ("bart_lm", Stack::Encoder, "model.encoder.layers.1.self_attn.out_proj.weight"),
        ("bart_lm", Stack::Decoder, "model.decoder.layers.1.self_attn.out_proj.weight"),
        ("bart_lm", Stack::Cross, o),
        ("marian_mt", Stack::Cross, o),
        ("t5_lm", Stack::Decoder, "decoder.block.1.layer.0.SelfAttention.o.weight"),
        ("t5_lm", Stack::Cross, "decoder.block.1.layer.1.EncDecAttention.o.weight"),
        ("t5_v11_lm", Stack::Cross, "decoder.block.1.layer.1.EncDecAttention.o.weight"),
    ];
    for (name, stack, tensor) in cases {
        let case = Case::open(name);
        let (width, head) = (case.model.config().of(stack).head_dim, 2);
        let variant = Variant::of(name);
        let axis = if name.starts_with("gpt2") { 0 } else { 1 }; // stored as [in, out]
        let whole = &variant.tensors[tensor];
        let all = whole.dim(axis).expect("axis");
        let part = |first: usize, count: usize| whole.narrow(axis, first, count).expect("part");
        let gone = part(head * width, width).zeros_like().expect("zeros");
        let rest = part((head + 1) * width, all - (head + 1) * width);
        let cut = Tensor::cat(&[&part(0, head * width), &gone, &rest], axis).expect("cut");
        let cut =
            Case { model: variant.with(tensor, cut).open().expect("loads"), ..Case::open(name) };
        let cut = cut.run(&mut Recorder::new(), &[]);
        let plain = case.run(&mut Recorder::new(), &[]);
        let gate = Intervention::gate(stack, Head { layer: 1, head }, 0.0);
        let gated = case.run(&mut Recorder::new(), std::slice::from_ref(&gate));
        let off = largest_difference(&cut, &gated);
        assert!(off <= 1e-5, "{name}, {stack:?}: {off:.1e}");
        assert!(largest_difference(&plain, &gated) > 1e-4, "{name}, {stack:?}: has an effect");
        // and step by step
        let stepwise = case.run_in(&[2, 1, usize::MAX], &mut Recorder::new(), &[gate]);
        assert!(largest_difference(&gated, &stepwise) <= 2e-5, "{name}, {stack:?}, cached");
    }
}
