//! Activation patching against transformers with hooks, and what must hold of it without a reference.

mod common;

use std::collections::BTreeMap;

use attnviz::patch::{
    By, Direction, Metric, Patching, Place, Point, Prompt, next_token, token_in_place,
};
use attnviz::tokens::{Batch, Input, Limit};
use attnviz::{Error, Model, Stack};
use common::kinds::checkpoint;
use common::variant::Variant;
use common::{Golden, fixture, open};
use ndarray::Array2;
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    model: String,
    clean: Ids,
    corrupted: Ids,
    at: usize,
    answer: u32,
    wrong: u32,
    measured: BTreeMap<String, BTreeMap<String, f64>>,
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Ids {
    input_ids: Vec<u32>,
    decoder_input_ids: Option<Vec<u32>>,
}

/// Direction, stack, site, layer, heads, position; logit difference, probability, divergence.
type Cell = (String, String, String, usize, Option<Vec<usize>>, Option<usize>, f64, f64, f64);

fn cases() -> Vec<Case> {
    let text = std::fs::read(fixture("patch/expected.json")).expect("fixture");
    serde_json::from_slice::<Expected>(&text).expect("JSON").cases
}

fn case(name: &str) -> (Case, Model) {
    let case = cases().into_iter().find(|case| case.model == name).expect(name);
    let model = open(&Golden::open(name).folder, None).expect("loads");
    (case, model)
}

fn batch(ids: &[u32]) -> Batch {
    let ids = Array2::from_shape_vec((1, ids.len()), ids.to_vec()).expect("a row");
    Batch::from_ids(ids.clone(), Array2::ones(ids.dim()))
}

fn prompt(ids: &Ids) -> Prompt {
    Prompt { read: batch(&ids.input_ids), written: ids.decoder_input_ids.as_deref().map(batch) }
}

fn stack(name: &str) -> Stack {
    match name {
        "encoder" => Stack::Encoder,
        "decoder" => Stack::Decoder,
        _ => Stack::Cross,
    }
}

fn named<T: Copy>(names: &[(&str, T)], name: &str) -> T {
    names.iter().find(|(one, _)| *one == name).expect(name).1
}

impl Case {
    fn metric(&self) -> Metric {
        Metric::LogitDifference { at: Some(self.at), answer: self.answer, wrong: self.wrong }
    }

    fn patching<'m>(
        &self,
        model: &'m Model,
        (stack, point): (Stack, Point),
        metric: Metric,
        direction: Direction,
    ) -> Result<Patching<'m>, Error> {
        let prompts = (&prompt(&self.clean), &prompt(&self.corrupted));
        Patching::new(model, stack, prompts, &[point], metric, direction)
    }
}

fn everywhere(layer: usize) -> Place {
    Place { layer, heads: None, position: None }
}

fn all_heads(model: &Model, stack: Stack) -> BTreeMap<usize, Vec<usize>> {
    model.config().of(stack).heads.iter().cloned().enumerate().collect()
}

/// Every site of every stack, by head, by position and at one of each, both ways.
#[test]
fn every_place_gives_what_hooks_give_in_transformers() {
    for case in cases() {
        let model = open(&Golden::open(&case.model).folder, None).expect("loads");
        let at = Some(case.at);
        let metrics = [
            case.metric(),
            Metric::Probability { at, answer: case.answer },
            Metric::Divergence { at },
        ];
        for (number, metric) in metrics.into_iter().enumerate() {
            let mut open: BTreeMap<(&str, &str, &str), Patching<'_>> = BTreeMap::new();
            for (
                way,
                stack_name,
                site,
                layer,
                heads,
                position,
                difference,
                probability,
                divergence,
            ) in &case.cells
            {
                let patching = open.entry((way, stack_name, site)).or_insert_with(|| {
                    let place = (stack(stack_name), named(&Point::NAMES, site));
                    case.patching(&model, place, metric, named(&Direction::NAMES, way))
                        .expect("runs")
                });
                let place = Place { layer: *layer, heads: heads.clone(), position: *position };
                let got = patching.value(named(&Point::NAMES, site), &[place]).expect("patched");
                let want = [*difference, *probability, *divergence][number];
                let far = (got - want).abs() / want.abs().max(1.0);
                assert!(
                    far <= 1e-5,
                    "{}, {way} {stack_name} {site} L{layer} {heads:?} at {position:?}, {}: {got}, not {want}",
                    case.model,
                    metric.name()
                );
            }
            let patching = open.values().next().expect("one");
            let name = metric.name();
            for (side, got) in [("clean", patching.clean()), ("corrupted", patching.corrupted())] {
                let want = case.measured[side][name];
                assert!((got - want).abs() <= 1e-5 * want.abs().max(1.0), "{side} {name}: {got}");
            }
        }
    }
}

/// What every later layer reads is then the clean run's, to the last bit.
#[test]
fn the_whole_first_residual_restores_the_clean_run_and_nothing_restores_nothing() {
    for name in ["bert_mlm", "gpt2_lm", "llama_lm", "bart_lm"] {
        let (case, model) = case(name);
        let stack = model.config().stack();
        for (direction, whole) in [(Direction::Denoising, 1.0), (Direction::Noising, 0.0)] {
            let place = (stack, Point::Residual);
            let patching = case.patching(&model, place, case.metric(), direction).expect("runs");
            let value =
                |places: &[Place]| patching.value(Point::Residual, places).expect("patched");
            assert_eq!(patching.restored(value(&[everywhere(0)])), whole, "{name}");
            assert_eq!(patching.restored(value(&[])), direction.start(), "{name}");
            // position after position it is the same
            let all = (0..patching.positions(Point::Residual)).map(|at| Place {
                layer: 0,
                heads: None,
                position: Some(at),
            });
            assert_eq!(patching.restored(value(&all.collect::<Vec<_>>())), whole, "{name}");
        }
    }
}

/// A head is one place, and all heads of a layer at once are the layer.
#[test]
fn a_sweep_goes_through_heads_positions_and_both() {
    let (case, model) = case("bert_mlm");
    let place = (Stack::Encoder, Point::Output);
    let patching = case.patching(&model, place, case.metric(), Direction::Denoising).expect("runs");
    let (mut heads, mut runs) = (all_heads(&model, Stack::Encoder), 0);
    let cells = patching.sweep(Point::Output, By::Head, &heads, || runs += 1).expect("swept");
    assert_eq!((cells.len(), runs), (12, 12));
    let one = &cells[5];
    assert_eq!(one.place, Place { layer: 1, heads: Some(vec![1]), position: None });
    // side by side or alone
    for cell in &cells {
        let alone = patching.value(Point::Output, std::slice::from_ref(&cell.place));
        assert!((cell.value - alone.expect("patched")).abs() < 1e-5, "{cell:?}");
    }
    assert_eq!(one.restored, patching.restored(one.value));
    let together: Vec<Place> = cells[4..8].iter().map(|cell| cell.place.clone()).collect();
    let (together, layer) = (
        patching.value(Point::Output, &together).expect("patched"),
        patching.value(Point::Output, &[everywhere(1)]).expect("patched"),
    );
    assert!((together - layer).abs() < 1e-5);
    assert_eq!(patching.places(Point::Output, By::Position, &heads).len(), 3 * 7);
    heads.retain(|&layer, _| layer == 2);
    heads.insert(2, vec![0, 3]);
    let both = patching.places(Point::Output, By::HeadPosition, &heads);
    assert_eq!(both.len(), 2 * 7);
    assert_eq!(both[8], Place { layer: 2, heads: Some(vec![3]), position: Some(1) });
}

/// Every sweep over a point, place by place side by side as alone.
fn hold_sweeps(what: &str, patching: &Patching<'_>, (model, stack): (&Model, Stack), point: Point) {
    let heads = all_heads(model, stack);
    for (_, by) in By::NAMES {
        let cells = patching.sweep(point, by, &heads, || {}).expect("swept");
        assert_eq!(cells.len(), patching.places(point, by, &heads).len());
        for cell in cells {
            let alone = patching.value(point, std::slice::from_ref(&cell.place)).expect("patched");
            let off = (cell.value - alone).abs();
            assert!(off < 1e-5, "{what} {point:?} {by:?}: {cell:?}, not {alone}");
        }
    }
}

/// Every point, in groups and without, with and without heads.
#[test]
fn a_sweep_gives_what_its_places_give_alone() {
    for name in ["bert_mlm", "llama_lm", "bart_lm"] {
        let (case, model) = case(name);
        let stack = model.config().stack();
        let at = Some(case.at);
        for (_, point) in Point::NAMES {
            for direction in [Direction::Denoising, Direction::Noising] {
                for metric in [case.metric(), Metric::Divergence { at }, Metric::Cosine] {
                    let patching = case.patching(&model, (stack, point), metric, direction);
                    let patching = patching.expect("runs");
                    hold_sweeps(name, &patching, (&model, stack), point);
                }
            }
        }
    }
}

/// Layers that share a block, distances, windows, and a head that reads the whole text.
#[test]
fn sweeps_of_other_families_give_what_their_places_give_alone() {
    let whole = Metric::LogitDifference { at: None, answer: 0, wrong: 1 };
    for (name, metric) in [
        ("albert_mlm", Metric::Cosine),
        ("deberta_v2_model", Metric::Cosine),
        ("longformer_mlm", Metric::Cosine),
        ("modernbert_mlm", Metric::Cosine),
        ("mpnet_model", Metric::Cosine),
        ("gpt2_lm", Metric::Cosine),
        ("bert_seqcls", whole),
    ] {
        let model = open(&Golden::open(name).folder, None).expect("loads");
        let stack = model.config().stack();
        let prompts = [[2, 31, 17, 44, 3], [2, 31, 39, 44, 3]]
            .map(|ids| Prompt { read: batch(&ids), written: None });
        for (_, point) in Point::NAMES {
            let both = (&prompts[0], &prompts[1]);
            let patching =
                Patching::new(&model, stack, both, &[point], metric, Direction::Denoising);
            hold_sweeps(name, &patching.expect("runs"), (&model, stack), point);
        }
    }
}

#[test]
fn heads_that_share_keys_are_one_place_there_and_several_elsewhere() {
    let (case, model) = case("llama_lm");
    assert_eq!(model.config().group_size, 2);
    let heads = all_heads(&model, Stack::Decoder);
    for (point, want) in
        [(Point::Key, 4), (Point::Value, 4), (Point::Query, 8), (Point::Pattern, 8)]
    {
        let patching = case
            .patching(&model, (Stack::Decoder, point), case.metric(), Direction::Denoising)
            .expect("runs");
        let places = patching.places(point, By::Head, &heads);
        assert_eq!(places.len(), want, "{point:?}");
        let second = if want == 4 { vec![2, 3] } else { vec![1] };
        assert_eq!(places[1].heads, Some(second), "{point:?}");
    }
    // a head that stands for its group
    let one = BTreeMap::from([(1, vec![3])]);
    let patching = case
        .patching(&model, (Stack::Decoder, Point::Value), case.metric(), Direction::Denoising)
        .expect("runs");
    assert_eq!(patching.places(Point::Value, By::Head, &one)[0].heads, Some(vec![2, 3]));
}

#[test]
fn positions_are_those_of_keys_where_keys_are_patched() {
    let (case, model) = case("bart_lm");
    let place = (Stack::Cross, Point::Key);
    let patching = case.patching(&model, place, case.metric(), Direction::Denoising).expect("runs");
    assert_eq!((patching.positions(Point::Key), patching.positions(Point::Query)), (5, 4));
}

#[test]
fn a_text_without_a_head_is_measured_by_its_embedding() {
    let folder = Golden::open("bert_model").folder;
    let model = open(&folder, None).expect("loads");
    let (clean, corrupted) = ([2, 31, 17, 44, 3], [2, 31, 39, 44, 3]);
    let prompts = [clean, corrupted].map(|ids| Prompt { read: batch(&ids), written: None });
    let new = |metric| {
        let both = (&prompts[0], &prompts[1]);
        let (points, way) = ([Point::Value, Point::Residual], Direction::Denoising);
        Patching::new(&model, Stack::Encoder, both, &points, metric, way)
    };
    let patching = new(Metric::Cosine).expect("runs");
    assert!((patching.clean() - 1.0).abs() < 1e-12 && patching.corrupted() < 1.0);
    let whole = patching.value(Point::Residual, &[everywhere(0)]).expect("patched");
    assert_eq!(whole, patching.clean());
    let error = new(Metric::Divergence { at: Some(1) }).err().expect("no head");
    assert!(error.exit_code() == 4 && error.to_string().contains("cosine"), "{error}");
}

#[test]
fn classes_of_a_text_are_answers_too() {
    let model = open(&Golden::open("bert_seqcls").folder, None).expect("loads");
    let prompts = [[2, 31, 17, 44, 3], [2, 31, 39, 44, 3]]
        .map(|ids| Prompt { read: batch(&ids), written: None });
    let metric = Metric::LogitDifference { at: None, answer: 0, wrong: 1 };
    let patching = Patching::new(
        &model,
        Stack::Encoder,
        (&prompts[0], &prompts[1]),
        &[Point::Residual],
        metric,
        Direction::Denoising,
    )
    .expect("runs");
    let value = patching.value(Point::Residual, &[everywhere(0)]).expect("patched");
    assert_eq!(patching.restored(value), 1.0);
}

#[test]
fn what_cannot_be_patched_is_refused() {
    let (case, model) = case("gpt2_lm");
    let new = |stack, clean: &[u32], corrupted: &[u32], metric| {
        let prompts = [clean, corrupted].map(|ids| Prompt { read: batch(ids), written: None });
        let both = (&prompts[0], &prompts[1]);
        Patching::new(&model, stack, both, &[Point::Query], metric, Direction::Denoising)
    };
    let refused = |made: Result<Patching<'_>, Error>, code: u8, want: &str| {
        let error = made.err().expect("refused");
        let line = error.to_string();
        assert!(error.exit_code() == code && line.contains(want), "{line}");
        assert!(!line.contains('\n'));
    };
    let (stack, metric) = (Stack::Decoder, case.metric());
    refused(new(stack, &[1, 2, 3], &[1, 2], metric), 5, "found 3 and 2");
    let at_start = Metric::Probability { at: Some(0), answer: 5 };
    refused(new(stack, &[1, 2, 3], &[1, 2, 4], at_start), 5, "nothing to restore");
    refused(new(stack, &[1, 2, 3], &[1, 2, 3], Metric::Cosine), 5, "nothing to restore");
    refused(new(Stack::Encoder, &[1, 2, 3], &[1, 2, 4], metric), 2, "--stack");
    let beyond = Metric::Probability { at: Some(3), answer: 5 };
    refused(new(stack, &[1, 2, 3], &[1, 2, 4], beyond), 1, "position");
    let no_word = Metric::Probability { at: Some(2), answer: 120 };
    refused(new(stack, &[1, 2, 3], &[1, 2, 4], no_word), 1, "below 120");
    let at = Some(2);
    let patching = new(stack, &[1, 2, 3], &[1, 2, 4], Metric::Divergence { at }).expect("runs");
    let value = |place| patching.value(Point::Query, &[place]).expect_err("refused").to_string();
    assert!(value(everywhere(2)).contains("a layer with query"));
    assert!(value(Place { position: Some(3), ..everywhere(0) }).contains("below 3"));
    assert!(patching.value(Point::Key, &[everywhere(0)]).is_err(), "not kept");
}

#[test]
fn a_stack_that_does_not_run_is_refused() {
    let (case, model) = case("bart_lm");
    let (clean, corrupted) = (prompt(&case.clean), prompt(&case.corrupted));
    let alone = |prompt: &Prompt| Prompt { written: None, ..prompt.clone() };
    let way = Direction::Denoising;
    let points = [Point::Residual];
    let both = (&clean, &corrupted);
    let cross = Patching::new(&model, Stack::Cross, both, &points, case.metric(), way);
    assert!(cross.err().expect("refused").to_string().contains("decoder, whose residual"));
    let (clean, corrupted) = (alone(&clean), alone(&corrupted));
    let both = (&clean, &corrupted);
    let metric = case.metric();
    let headless = Patching::new(&model, Stack::Encoder, both, &points, metric, way);
    assert!(headless.err().expect("refused").to_string().contains("its decoder's"));
    let decoder = Patching::new(&model, Stack::Decoder, both, &points, Metric::Cosine, way);
    assert!(decoder.err().expect("refused").to_string().contains("--stack"));
    assert!(Patching::new(&model, Stack::Encoder, both, &points, Metric::Cosine, way).is_ok());
}

/// A layer that has lost all its heads is passed over.
#[test]
fn heads_that_are_pruned_are_no_places() {
    let variant = Variant::of("bert_mlm").prune("bert.", 8, &[(0, vec![0, 1, 2, 3]), (1, vec![1])]);
    let model = variant.open().expect("loads");
    let (case, _) = case("bert_mlm");
    let place = (Stack::Encoder, Point::Output);
    let patching = case.patching(&model, place, case.metric(), Direction::Denoising).expect("runs");
    let places = patching.places(Point::Output, By::Head, &all_heads(&model, Stack::Encoder));
    let heads: Vec<(usize, usize)> =
        places.iter().map(|one| (one.layer, one.heads.as_ref().expect("a head")[0])).collect();
    assert_eq!(heads, [(1, 0), (1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3)]);
    patching.value(Point::Output, &[places[1].clone()]).expect("patched");
}

#[test]
fn words_become_the_tokens_that_they_are_there() {
    let bert = open(&fixture("fill").join("bert"), None).expect("loads");
    let tokenizer = bert.tokenizer().expect("one");
    let text = Input::Text("The [MASK] sat on the mat.".into());
    let encoding = tokenizer.encode(&text, &Limit::default()).expect("tokens");
    let piece = |id: Option<u32>| id.and_then(|id| tokenizer.piece(id));
    for word in ["cat", "Cat", " cat "] {
        assert_eq!(piece(token_in_place(tokenizer, &encoding, 2, word)).as_deref(), Some("cat"));
    }
    assert_eq!(token_in_place(tokenizer, &encoding, 2, "cat sat"), None);
    assert_eq!(piece(token_in_place(tokenizer, &encoding, 2, "[SEP]")).as_deref(), Some("[SEP]"));

    let folder = checkpoint("gpt2_lm", "gpt2");
    let gpt2 = open(folder.path(), None).expect("loads");
    let tokenizer = gpt2.tokenizer().expect("one");
    let one = |word: &str| {
        let text = Input::Text(word.into());
        let ids = tokenizer.encode(&text, &Limit::default()).expect("tokens").tokens;
        ids.iter().filter_map(|token| token.id).collect::<Vec<u32>>()
    };
    let (spaced, bare) = (one(" the"), one("the"));
    assert_eq!(spaced.len(), 1, "the fixture knows it");
    assert_eq!(next_token(tokenizer, "over", "the"), Some(spaced[0]));
    assert_eq!(next_token(tokenizer, "over", " the"), Some(spaced[0]));
    // a space that is typed already is a token of its own, and what follows it here two more
    assert_eq!(bare.len(), 2);
    assert_eq!(next_token(tokenizer, "over ", "the"), None);
    assert_eq!(next_token(tokenizer, "over", "the cat sat"), None);
}
