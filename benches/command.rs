//! The everyday call as a whole process: start, load, tokenize, run, draw 72 heads, write.

use std::process::{Command, Stdio};

use criterion::{Criterion, criterion_group, criterion_main};

const TEXT: &str = "The animal didn't cross the street because it was too tired";

fn command(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |text: &str, more: &[&str]| {
        let status = Command::new(env!("CARGO_BIN_EXE_attnviz"))
            .args([text, "--out"])
            .arg(folder.path())
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("starts");
        assert!(status.success());
    };
    let mut group = criterion.benchmark_group("command");
    group.sample_size(20);
    group.bench_function("72-heads-15-tokens", |bench| bench.iter(|| run(TEXT, &[])));
    let long = "word ".repeat(510);
    group.bench_function("1-head-512-tokens", |bench| {
        bench.iter(|| run(&long, &["--heads", "L3H1"]))
    });
    group.finish();
}

criterion_group!(benches, command);
criterion_main!(benches);
