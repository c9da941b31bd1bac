//! Models from nothing: vocabulary, first weights, windows, and that they learn.

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use attnviz::config::Task;
use attnviz::hub::{Asset, HubEnv, ModelFiles, ModelRequest, TokenizerFiles, resolve};
use attnviz::model::Trainable;
use attnviz::task::{Sample, Target};
use attnviz::tokens::{Batch, Input, Limit, Tokenizer};
use attnviz::train::{
    Bench, Check, Corpus, Dropout, Examples, Init, Masking, NewModel, Plan, Recipe, Schedule,
    Shape, Tune, Vocabulary, WindowExamples, mean_loss, wordpiece,
};
use attnviz::{Error, Keep, LoadOptions, Model, Recorder, Site};
use candle_core::D;
use common::{Golden, numbers};
use ndarray::Array2;
use tempfile::TempDir;

/// Lines of a small grammar: what comes next is partly told by what was there.
fn text(lines: usize) -> String {
    let subjects = ["the cat", "a dog", "Pharaoh's bird", "the old man", "my friend"];
    let verbs = ["sat on", "looked at", "ran from", "walked to"];
    let places = ["the mat", "Beth-el", "a house", "the water", "the tree"];
    let mut state = 7u64;
    let mut next = |count: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % count
    };
    let line = |_| {
        let (subject, verb) = (subjects[next(5)], verbs[next(4)]);
        format!(
            "And {subject} {verb} {}; and it was {}.\n",
            places[next(5)],
            ["so", "good"][next(2)]
        )
    };
    (0..lines).map(line).collect()
}

fn vocabulary(size: usize) -> Vocabulary {
    Vocabulary { size, lowercase: false, closed: false, positions: 32 }
}

fn tokenizer(text: &str, how: &Vocabulary) -> Tokenizer {
    let folder = TempDir::new().expect("folder");
    for (name, bytes) in wordpiece(text.lines(), how).expect("a vocabulary") {
        std::fs::write(folder.path().join(name), bytes).expect("written");
    }
    let asset = |name: &str| Some(Asset::Disk(folder.path().join(name)));
    let (json, config) = (asset("tokenizer.json"), asset("tokenizer_config.json"));
    Tokenizer::open(&TokenizerFiles { json, config, ..TokenizerFiles::default() }).expect("opens")
}

fn recipe(task: Task) -> Recipe {
    Recipe {
        model: NewModel {
            task,
            layers: 2,
            heads: 2,
            width: 16,
            inner: 32,
            positions: 32,
            init: Init::Xavier,
            seed: 5,
        },
        vocabulary: 120,
        lowercase: false,
        context: 24,
        masking: Masking { share: 0.15, mixed: true },
    }
}

/// The files of a recipe's first weights.
fn start(recipe: &Recipe, text: &str, at: &Path) -> ModelFiles {
    let bench = Bench::claim(at, false, false).expect("claimed");
    recipe.start(text, &bench).expect("a start")
}

#[test]
fn the_same_words_give_the_same_vocabulary_whatever_their_order() {
    let text = text(300);
    let how = vocabulary(150);
    let first = wordpiece(text.lines(), &how).expect("a vocabulary");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.reverse();
    for _ in 0..3 {
        assert_eq!(wordpiece(lines.iter().copied(), &how).expect("a vocabulary"), first);
    }
    let tokenizer = tokenizer(&text, &how);
    assert!(tokenizer.vocab_size() <= 150, "{}", tokenizer.vocab_size());
    let special: Vec<String> = (0..5).filter_map(|id| tokenizer.piece(id)).collect();
    assert_eq!(special, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]);
    // a frequent word is one piece, and a letter that never begins a word has no piece for that
    let ids = |text: &str| {
        let encoding = tokenizer.encode(&Input::Text(text.into()), &Limit::default());
        encoding.expect("tokens").tokens.iter().filter_map(|token| token.id).collect::<Vec<u32>>()
    };
    assert_eq!(ids("looked").len(), 2, "[CLS] and one piece");
    assert_eq!(tokenizer.piece(ids("looked")[1]).as_deref(), Some("looked"));
}

#[test]
fn written_text_has_the_spaces_of_english() {
    let said = "And Pharaoh's bird (the old one) sat on Beth-el; it didn't: so, was it good? Yes!";
    let text = format!("{said}\n{said}\n");
    let tokenizer = tokenizer(&text, &vocabulary(300));
    let encoding = tokenizer.encode(&Input::Text(said.into()), &Limit::default()).expect("tokens");
    let ids: Vec<u32> = encoding.tokens.iter().filter_map(|token| token.id).collect();
    assert_eq!(tokenizer.decode(&ids), said);
    let mut stream = tokenizer.decode_stream();
    let mut told: String = ids.iter().map(|&id| stream.push(id)).collect();
    told += &stream.finish();
    assert_eq!(told, said, "token by token");
}

#[test]
fn lowercase_and_closed_texts() {
    let how = Vocabulary { lowercase: true, closed: true, ..vocabulary(120) };
    let tokenizer = tokenizer(&text(50), &how);
    let encoding = tokenizer.encode(&Input::Text("THE CAT".into()), &Limit::default());
    let pieces: Vec<String> =
        encoding.expect("tokens").tokens.into_iter().map(|t| t.text).collect();
    assert_eq!(pieces, ["[CLS]", "the", "cat", "[SEP]"]);
}

#[test]
fn refuses_what_makes_no_vocabulary() {
    let error = wordpiece("\n \n".lines(), &vocabulary(100)).expect_err("no words");
    assert_eq!(error.to_string(), "vocabulary: the text has no words");
    assert_eq!(error.exit_code(), 5);
    let error = wordpiece("abcdefghij klmnop".lines(), &vocabulary(12)).expect_err("no room");
    assert!(matches!(&error, Error::Usage { flag, .. } if flag == "--vocab"), "{error}");
}

#[test]
fn first_weights_are_what_their_names_say() {
    let folder = TempDir::new().expect("folder");
    let mut wide = recipe(Task::CausalLm);
    wide.model = NewModel { width: 64, inner: 128, layers: 3, ..wide.model };
    let text = text(100);
    let files = start(&wide, &text, &folder.path().join("a"));
    let trainable = Trainable::open(&files, &LoadOptions::default()).expect("loads");
    let of = |name: &str| numbers(trainable.variables()[name].as_tensor());
    let most = |values: &[f32]| values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let deviation =
        |values: &[f32]| (values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32).sqrt();
    // Glorot and Bengio 2010, equation 16
    let range = (6.0f32 / 128.0).sqrt();
    for (name, range) in [("query", range), ("key", range), ("value", range / 2.0)] {
        let found = of(&format!("layers.1.attention.{name}.weight"));
        assert!(most(&found) <= range && most(&found) > 0.98 * range, "{name}: {}", most(&found));
        let want = range / 3f32.sqrt();
        assert!((deviation(&found) / want - 1.0).abs() < 0.03, "{name}: {}", deviation(&found));
    }
    let last = 0.02 / 6f32.sqrt();
    for (name, want) in [
        ("embeddings.word.weight", 0.02),
        ("layers.2.mlp.up.weight", 0.02),
        ("layers.2.mlp.down.weight", last),
        ("layers.0.attention.output.weight", last),
    ] {
        assert!((deviation(&of(name)) / want - 1.0).abs() < 0.05, "{name}");
    }
    assert!(of("layers.0.attention.norm.weight").iter().all(|&x| x == 1.0));
    assert!(of("layers.0.mlp.up.bias").iter().all(|&x| x == 0.0));
    // the same seed the same bytes, another seed others; normal is narrower
    let again = start(&wide, &text, &folder.path().join("b"));
    let bytes = |files: &ModelFiles| files.weights[0].bytes().expect("read").into_owned();
    assert_eq!(bytes(&files), bytes(&again));
    wide.model.seed = 6;
    assert_ne!(bytes(&files), bytes(&start(&wide, &text, &folder.path().join("c"))));
    wide.model.init = Init::Normal;
    let normal = start(&wide, &text, &folder.path().join("d"));
    let normal = Trainable::open(&normal, &LoadOptions::default()).expect("loads");
    let query = numbers(normal.variables()["layers.1.attention.query.weight"].as_tensor());
    assert!((deviation(&query) / 0.02 - 1.0).abs() < 0.05, "{}", deviation(&query));
}

#[test]
fn refuses_sizes_that_make_no_model() {
    let good = recipe(Task::CausalLm);
    good.check().expect("fine");
    type Spoil = fn(&mut Recipe);
    let cases: [(&str, Spoil); 5] = [
        ("--width", |r| r.model.width = 17),
        ("--layers", |r| r.model.layers = 0),
        ("--heads", |r| r.model.heads = 0),
        ("--positions", |r| r.model.positions = 1),
        ("--context", |r| r.context = 33),
    ];
    for (flag, spoil) in cases {
        let mut bad = good.clone();
        spoil(&mut bad);
        let error = bad.check().expect_err(flag);
        assert!(error.to_string().starts_with(flag), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn a_run_that_goes_on_is_of_the_same_recipe_and_text() {
    let folder = TempDir::new().expect("folder");
    let (recipe, text) = (recipe(Task::CausalLm), text(60));
    let out = folder.path().join("out");
    start(&recipe, &text, &out);
    let go_on = |recipe: &Recipe, text: &str| {
        recipe.start(text, &Bench::claim(&out, false, true).expect("goes on"))
    };
    go_on(&recipe, &text).expect("the same");
    let error = go_on(&recipe, &(text.clone() + "more\n")).expect_err("another text");
    assert!(error.to_string().contains("another text"), "{error}");
    let mut other = recipe.clone();
    other.model.width = 32;
    let error = go_on(&other, &text).expect_err("another width");
    assert!(error.to_string().contains("width: 16, now 32"), "{error}");
}

#[test]
fn windows_stay_in_their_stretches() {
    let text = text(900);
    let tokenizer = tokenizer(&text, &vocabulary(120));
    let corpus = Corpus::new(text.lines(), &tokenizer).expect("tokens");
    assert_eq!(corpus.unknown, 0);
    let (learnt, held) = corpus.split(24).expect("enough");
    let all: usize = learnt.iter().chain(&held).map(ExactSizeIterator::len).sum();
    assert_eq!(all, corpus.ids.len(), "every token is in one stretch");
    let share = held.iter().map(ExactSizeIterator::len).sum::<usize>() as f64 / all as f64;
    assert!((share - 0.05).abs() < 0.01, "{share}");
    // numbers in place of ids tell where a window is from
    let places: Vec<u32> = (0..corpus.ids.len() as u32).collect();
    let of = |stretches: &[std::ops::Range<usize>], moved| {
        WindowExamples::new(places.clone().into(), stretches, 24, None, 120, moved)
    };
    let windows = |examples: &WindowExamples, seed| {
        let all: Vec<usize> = (0..examples.count()).collect();
        examples.sample(&all, seed).expect("windows").batch.ids
    };
    let (moved, still) = (of(&learnt, true), of(&held, false));
    let inside = |ids: &Array2<u32>, stretches: &[std::ops::Range<usize>]| {
        ids.rows().into_iter().all(|row| {
            let (first, last) = (row[0] as usize, row[row.len() - 1] as usize);
            last == first + 23 && stretches.iter().any(|s| s.contains(&first) && s.contains(&last))
        })
    };
    for seed in 0..20 {
        assert!(inside(&windows(&moved, seed), &learnt));
        assert_eq!(windows(&still, seed), windows(&still, 0), "validation is the same each time");
    }
    assert!(inside(&windows(&still, 0), &held));
    assert_ne!(windows(&moved, 1), windows(&moved, 2));
    assert_eq!(windows(&moved, 1), windows(&moved, 1));
    let short = Corpus { ids: vec![7; 40], unknown: 0 };
    let error = short.split(24).expect_err("too short");
    assert!(error.to_string().contains("40 tokens, expected 48 at least"), "{error}");
}

#[test]
fn a_causal_window_is_asked_for_each_next_token() {
    let ids: Vec<u32> = (10..70).collect();
    let examples =
        WindowExamples::new(ids.into(), std::slice::from_ref(&(0..60)), 20, None, 100, false);
    let sample = examples.sample(&[1], 0).expect("a window");
    let Some(Target::Tokens(labels)) = &sample.target else { panic!("tokens") };
    for t in 0..20 {
        assert_eq!(sample.batch.ids[(0, t)], 30 + t as u32);
        assert_eq!(labels[(0, t)], (t < 19).then_some(31 + t as u32));
    }
}

#[test]
fn masks_as_bert_does() {
    let ids: Vec<u32> = (0..40_000).map(|i| if i % 10 == 0 { 2 } else { 5 + i % 95 }).collect();
    let masked = |mixed| {
        let how = Masking { share: 0.15, mixed };
        let stretches = 0..40_000;
        WindowExamples::new(
            ids.clone().into(),
            std::slice::from_ref(&stretches),
            100,
            Some(how),
            100,
            false,
        )
    };
    for (mixed, shares) in [(true, [0.8, 0.1, 0.1]), (false, [1.0, 0.0, 0.0])] {
        let examples = masked(mixed);
        let all: Vec<usize> = (0..examples.count()).collect();
        let sample = examples.sample(&all, 3).expect("windows");
        let Some(Target::Tokens(labels)) = &sample.target else { panic!("tokens") };
        let (mut counts, mut asked) = ([0.0; 3], 0.0);
        for ((b, t), label) in labels.indexed_iter() {
            let (before, now) = (ids[b * 100 + t], sample.batch.ids[(b, t)]);
            let Some(label) = label else {
                assert_eq!(before, now);
                continue;
            };
            assert_eq!(*label, before);
            assert!(before >= 5, "no special token is asked for");
            asked += 1.0;
            counts[if now == 4 {
                0
            } else if now == before {
                2
            } else {
                1
            }] += 1.0;
        }
        // of the 90 tokens of each window that are not special
        assert_eq!(asked, examples.count() as f64 * (0.15f64 * 90.0).round());
        for (count, share) in counts.into_iter().zip(shares) {
            assert!((count / asked - share).abs() < 0.02, "{counts:?} of {asked}");
        }
    }
}

/// One operation from scores to losses, and one for attention, against the steps that they stand for.
#[test]
fn losses_and_attention_in_one_operation_are_those_step_by_step() {
    for name in ["bert_lmhead_decoder", "gpt2_lm", "bert_mlm", "roberta_mlm"] {
        let golden = Golden::open(name);
        let model = Some(golden.folder.display().to_string());
        let request = ModelRequest { model, ..ModelRequest::default() };
        let files = resolve(&request, &HubEnv::from_env(), &()).expect("found");
        let trainable = Trainable::open(&files, &LoadOptions::default()).expect("loads");
        let (live, frozen) =
            (trainable.model().expect("live"), trainable.frozen().expect("frozen"));
        let batch = golden.batch();
        let run = |model: &Model, recorder: &mut Recorder| {
            model.forward(&batch, recorder, &[]).expect("runs")
        };
        let one = run(&live, &mut Recorder::new());
        // whoever looks inside gets every step
        let mut looking = Recorder::new().keep(Site::Scores, Keep::All);
        for other in [run(&live, &mut looking), run(&frozen, &mut Recorder::new())] {
            let pairs = numbers(&one).into_iter().zip(numbers(&other));
            let off = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-5, "{name}: {off:e}");
        }
        let target = Target::next_tokens(&batch);
        let fused = target.losses(&live, &one, &batch).expect("losses");
        let hidden = run(&frozen, &mut Recorder::new());
        let plain = target.losses(&frozen, &hidden, &batch).expect("losses");
        for (a, b) in numbers(&fused).into_iter().zip(numbers(&plain)) {
            assert!((a - b).abs() < 1e-5 * b.abs().max(1.0), "{name}: {a} for {b}");
        }
    }
}

#[test]
fn the_gradient_of_the_loss_of_tokens() {
    let golden = Golden::open("bert_lmhead_decoder");
    let model = Some(golden.folder.display().to_string());
    let request = ModelRequest { model, ..ModelRequest::default() };
    let files = resolve(&request, &HubEnv::from_env(), &()).expect("found");
    let trainable = Trainable::open(&files, &LoadOptions::default()).expect("loads");
    let batch = golden.batch();
    let target = Target::next_tokens(&batch);
    let loss = |model: &Model| {
        let hidden = model.forward(&batch, &mut Recorder::new(), &[])?;
        target.losses(model, &hidden, &batch)
    };
    let checked = Check::default().weights(&trainable, loss).expect("checked");
    let names: BTreeSet<&str> = checked.iter().map(|one| one.name.as_str()).collect();
    assert!(names.contains("lm.bias") && names.contains("embeddings.word.weight"));
    for one in &checked {
        assert!(one.error() < 1e-2, "{one:?}");
    }
}

/// Both tasks learn the grammar, and the run's weights are a model that loads.
#[test]
fn new_models_learn() {
    // a masked model is asked for fewer tokens in a step
    for (task, steps, bound) in [(Task::CausalLm, 400, 1.5), (Task::MaskedLm, 1600, 1.7)] {
        let folder = TempDir::new().expect("folder");
        let (recipe, text, out) = (recipe(task), text(400), folder.path().join("out"));
        let bench = Bench::claim(&out, false, false).expect("claimed");
        let files = recipe.start(&text, &bench).expect("a start");
        let model = Model::open(&files, &LoadOptions::default()).expect("opens");
        assert_eq!(model.config().task, task);
        let windows = recipe.windows(&text, &model).expect("windows");
        let before = mean_loss(&model, &windows.held, 8, 0, &[]).expect("a loss");
        let uniform = (model.config().vocab_size as f64).ln();
        assert!((before - uniform).abs() < 0.1, "{before} at first, {uniform} for knowing nothing");
        let plan = Plan {
            schedule: Schedule { rate: 5e-3, warmup: 20, steps, shape: Shape::Cosine },
            batch_size: 8,
            weight_decay: 0.01,
            clip: Some(1.0),
            dropout: Dropout { hidden: 0.0, attention: 0.0 },
            seed: 1,
            gating: None,
            gate_rate: 1.0,
            every: 200,
            patience: None,
        };
        let tune = Tune {
            plan,
            then: None,
            examples: &windows.learnt,
            worth: &|model, changes| Ok(-mean_loss(model, &windows.held, 8, 0, changes)?),
            options: LoadOptions::default(),
            progress: &|_, _| (),
            enough: &|_| false,
        };
        let tuned = bench.run(&tune, &files).expect("trained");
        let last = -tuned.points[0].iter().map(|point| point.worth).fold(f64::MIN, f64::max);
        assert!(last < bound, "{task:?}: {before} to {last}");
        let model = Model::from_pretrained(&out.display().to_string()).expect("loads");
        let again = mean_loss(&model, &windows.held, 8, 0, &[]).expect("a loss");
        assert!((again - last).abs() < 1e-4, "{again} for {last}");
    }
}

/// What is masked beside padding, and a text of its own length: nothing of this needs whole windows.
#[test]
fn a_new_model_reads_as_any_other() {
    let folder = TempDir::new().expect("folder");
    let files = start(&recipe(Task::CausalLm), &text(60), &folder.path().join("out"));
    let model = Model::open(&files, &LoadOptions::default()).expect("opens");
    let tokenizer = model.tokenizer().expect("a tokenizer");
    assert!(tokenizer.notes().is_empty() && model.report().notes.is_empty(), "nothing assumed");
    assert!(model.report().unused.is_empty());
    let encode = |text: &str| {
        tokenizer.encode(&Input::Text(text.into()), &Limit::default()).expect("tokens")
    };
    let both = [encode("the cat sat"), encode("And the old man ran from the water")];
    let sample = Sample::new(&both, tokenizer.pad_id(), None);
    let hidden = model.forward(&sample.batch, &mut Recorder::new(), &[]).expect("runs");
    let alone = Batch::new(&both[..1], tokenizer.pad_id());
    let alone = model.forward(&alone, &mut Recorder::new(), &[]).expect("runs");
    let part = hidden.narrow(0, 0, 1).and_then(|x| x.narrow(1, 0, alone.dim(1)?)).expect("part");
    let off = (part - alone).and_then(|x| x.abs()?.max(D::Minus1)?.flatten_all()?.max(0));
    assert!(off.and_then(|x| x.to_scalar::<f32>()).expect("a number") < 1e-5);
}
