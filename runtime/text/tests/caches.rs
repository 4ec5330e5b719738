//! Rewinds, truncations and interruptions with every kind of cache, against a fresh run.

use std::{
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use afferent_runtime::{Input, Model, ModelFile, ModelOptions};
use afferent_text::{Cache, ContractOptions, Generator};
use serde_json::Value;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn model(name: &str) -> Model {
    let file = ModelFile::open(data(name), &[]).expect("a program");
    Model::new(file, ModelOptions::new(afferent_kernels::KERNELS))
}

fn generator(name: &str, cache: Option<Cache>, method: Option<&str>) -> Generator {
    let options = ContractOptions { cache, method: method.map(str::to_owned) };
    Generator::with_options(model(name), &options).expect("a language model")
}

fn logits(generator: &mut Generator) -> Vec<f32> {
    generator.logits(None).expect("logits").to_vec()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Tokens with the logits of PyTorch.
fn cases(name: &str) -> Vec<(Vec<u32>, Vec<f32>)> {
    let text = std::fs::read(data("caches.json")).expect("the file exists");
    let cases: Value = serde_json::from_slice(&text).expect("valid JSON");
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
    };
    let cases = cases[name].as_array().expect("a list").iter().map(|case| {
        let tokens = numbers(&case["tokens"]).iter().map(|&x| x as u32).collect();
        (tokens, numbers(&case["logits"]).iter().map(|&x| x as f32).collect())
    });
    cases.collect()
}

/// Random number below `limit`.
fn below(state: &mut u64, limit: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % limit
}

/// Checks a conversation of 100 turns with rewinds, canceled runs and new beginnings. Returns the
/// largest difference from the logits of a fresh run over the same tokens.
fn converse(name: &str, cache: Option<Cache>, method: Option<&str>) -> f32 {
    let mut generator = generator(name, cache, method);
    let mut fresh = Generator::with_options(
        model(name),
        &ContractOptions { cache, method: method.map(str::to_owned) },
    )
    .expect("a language model");
    let (limit, mut random, mut worst) = (generator.contract().max_context_len, 5_u64, 0.0_f32);
    for turn in 0..100 {
        let len = generator.tokens().len();
        match below(&mut random, 4) {
            _ if len + 16 > limit => generator.rewind(below(&mut random, 8)).expect("in range"),
            0 if len > 0 => generator.rewind(below(&mut random, len)).expect("in range"),
            1 if len > 2 => generator.rewind(len - 1).expect("in range"),
            _ => {}
        }
        for _ in 0..=below(&mut random, 12) {
            generator.push(&[below(&mut random, 40) as u32]).expect("it fits");
        }
        if below(&mut random, 5) == 0 {
            let canceled = AtomicBool::new(true);
            assert!(generator.logits(Some(&canceled)).is_err_and(|error| error.is_canceled()));
        }
        // Some decode steps, as in an answer.
        for _ in 0..below(&mut random, 4) {
            logits(&mut generator);
            generator.push(&[below(&mut random, 40) as u32]).expect("it fits");
        }
        fresh.reset();
        fresh.push(generator.tokens()).expect("it fits");
        let difference = largest_difference(&logits(&mut generator), &logits(&mut fresh));
        assert!(difference.is_finite(), "{name}: turn {turn}");
        worst = worst.max(difference);
    }
    worst
}

#[test]
fn logits_are_those_of_pytorch() {
    let check = |name: &str, cache: Option<Cache>, method: Option<&str>| {
        let mut generator = generator(name, cache, method);
        for (tokens, expected) in cases(name) {
            generator.rewind(0).expect("the start");
            generator.push(&tokens).expect("it fits");
            let difference = largest_difference(&logits(&mut generator), &expected);
            assert!(difference < 2e-5, "{name}: {} tokens: {difference}", tokens.len());
        }
    };
    check("cache_recurrent.pte", None, None);
    check("cache_hybrid.pte", Some(Cache::Recurrent), None);
    check("cache_ring.pte", None, None);
    check("methods_pair.pte", None, None);
    check("methods_lora.pte", None, Some("lora_forward"));
}

#[test]
fn kinds_are_told_from_the_program() {
    let check = |name: &str, method: Option<&str>, expected: Cache| {
        let generator = generator(name, None, method);
        assert_eq!(generator.contract().cache, expected, "{name}");
    };
    check("cache_recurrent.pte", None, Cache::Recurrent);
    check("cache_ring.pte", None, Cache::Ring { window: 8, slots: 8 });
    check("contract_positions.pte", None, Cache::Positional);
    check("methods_pair.pte", None, Cache::Positional);
    // The position is an input of an embedding, so nothing tells that the state is recurrent.
    check("cache_hybrid.pte", None, Cache::Positional);
}

#[test]
fn conversations_equal_fresh_runs() {
    let check = |name: &str, cache: Option<Cache>, method: Option<&str>| {
        let difference = converse(name, cache, method);
        assert!(difference < 1e-5, "{name} {cache:?}: {difference}");
    };
    check("cache_recurrent.pte", None, None);
    check("cache_hybrid.pte", Some(Cache::Recurrent), None);
    check("cache_ring.pte", None, None);
    check("cache_ring.pte", Some(Cache::Ring { window: 8, slots: 12 }), None);
    check("methods_pair.pte", None, None);
    check("methods_lora.pte", None, Some("base_forward"));
}

/// The conversation is able to fail: with a wrong kind of cache, logits differ.
#[test]
fn wrong_kinds_give_wrong_logits() {
    let check = |name: &str, cache: Cache| {
        let difference = converse(name, Some(cache), None);
        assert!(difference > 1e-3, "{name} {cache:?}: {difference}");
    };
    check("cache_recurrent.pte", Cache::Positional);
    check("cache_hybrid.pte", Cache::Positional);
    check("cache_ring.pte", Cache::Positional);
    check("cache_ring.pte", Cache::Ring { window: 8, slots: 64 });
}

#[test]
fn methods_of_a_pair_share_their_cache() {
    let generator = generator("methods_pair.pte", None, None);
    let contract = generator.contract();
    assert_eq!((contract.method.as_str(), contract.max_prefill_chunk), ("prefill", 10));
    assert_eq!(contract.decode.as_ref().map(|decode| decode.method.as_str()), Some("decode"));
}

#[test]
fn adapters_share_the_cache_of_the_base() {
    let mut model = model("methods_lora.pte");
    let (tokens, expected) = cases("methods_lora.pte").pop().expect("a case");
    let last = tokens.len() - 1;
    for (at, &token) in tokens.iter().enumerate() {
        // The adapter changes the logits and not the cache.
        let method = if at == last { "lora_forward" } else { "base_forward" };
        let (token, at) = ([i64::from(token)], [at as i64]);
        let view =
            |data, sizes| Input::Tensor(afferent_core::TensorView::new(sizes, data).unwrap());
        let outputs = model.run(method, &[view(&token, &[1, 1]), view(&at, &[1])]).expect("a run");
        if method == "lora_forward" {
            let found = outputs.tensor(0).expect("logits").data::<f32>().expect("f32").to_vec();
            assert!(largest_difference(&found, &expected) < 2e-5);
        }
    }
}

#[test]
fn candidates_are_listed() {
    let error = |method: Option<&str>| {
        let options = ContractOptions { method: method.map(str::to_owned), cache: None };
        let made = Generator::with_options(model("methods_lora.pte"), &options);
        made.err().expect("an error").to_string()
    };
    let told = error(None);
    assert!(told.contains("choose one with `method`: base_forward, lora_forward"), "{told}");
    let told = error(Some("forwards"));
    assert!(told.contains("no method \"forwards\"; the program has base_forward, lora"), "{told}");
}
