//! Contexts of tokens and images, against PyTorch and against a fresh run.

use std::{
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use afferent_core::{ScalarType, Tensor};
use afferent_runtime::{Model, ModelFile, ModelOptions};
use afferent_text::{EmbeddingRows, Generator, Segment, TextError};
use serde_json::Value;

const PROGRAMS: [&str; 3] =
    ["embeddings_each.pte", "embeddings_first.pte", "embeddings_layers.pte"];

/// The placeholder of images; not in the vocabulary of 40 tokens.
const PLACEHOLDER: u32 = 151_655;

/// Largest difference from the logits of PyTorch.
const TOLERANCE: f32 = 2e-5;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn generator(name: &str) -> Generator {
    let file = ModelFile::open(data(name), &[]).expect("a program");
    let model = Model::new(file, ModelOptions::new(afferent_kernels::KERNELS));
    Generator::new(model).expect("a language model")
}

/// Rows of an image of 8 x 8 pixels.
fn see(generator: &mut Generator, pixels: &[u8]) -> EmbeddingRows {
    let signature = generator.file().signature("vision_encoder").expect("an encoder");
    let input = signature.tensor_inputs().expect("an image")[0].clone();
    let floats: Vec<f32> = pixels.iter().copied().map(f32::from).collect();
    let image = match input.dtype {
        ScalarType::Byte => Tensor::new(&input.sizes, pixels),
        _ => Tensor::new(&input.sizes, &floats),
    };
    let image = image.expect("the pixels of the image");
    generator.run_encoder("vision_encoder", &[image.view()], None).expect("rows")
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

/// Prompts of the file with the logits of PyTorch.
fn cases(name: &str, generator: &mut Generator) -> Vec<(Vec<Segment>, Vec<f32>)> {
    let text = std::fs::read(data("embeddings.json")).expect("the file exists");
    let cases: Value = serde_json::from_slice(&text).expect("valid JSON");
    let mut segment = |value: &Value| match value.get("image") {
        Some(image) => {
            let pixels: Vec<u8> = numbers(image).iter().map(|&x| x as u8).collect();
            Segment::Rows { placeholder: PLACEHOLDER, rows: see(generator, &pixels) }
        }
        None => Segment::Tokens(numbers(&value["tokens"]).iter().map(|&x| x as u32).collect()),
    };
    let cases = cases[name].as_array().expect("a list").iter().map(|case| {
        let segments = case["segments"].as_array().expect("a list").iter().map(&mut segment);
        (segments.collect(), numbers(&case["logits"]).iter().map(|&x| x as f32).collect())
    });
    cases.collect()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Random number below `limit`.
fn below(state: &mut u64, limit: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % limit
}

#[test]
fn logits_are_those_of_pytorch() {
    for name in PROGRAMS {
        let mut generator = generator(name);
        for (at, (segments, expected)) in cases(name, &mut generator).iter().enumerate() {
            // The context of the case before is replaced.
            generator.set_context(segments).expect("it fits");
            let found = generator.logits(None).expect("logits");
            let difference = largest_difference(found, expected);
            assert!(difference < TOLERANCE, "{name}: case {at}: {difference}");
        }
    }
}

#[test]
fn the_answer_depends_on_the_image() {
    let mut generator = generator("embeddings_each.pte");
    let mut logits = |level: u8| {
        let rows = see(&mut generator, &[level; 192]);
        generator.rewind(0).expect("the start");
        generator.push(&[3]).expect("it fits");
        generator.push_rows(PLACEHOLDER, &rows).expect("it fits");
        generator.push(&[5, 6]).expect("it fits");
        generator.logits(None).expect("logits").to_vec()
    };
    let difference = largest_difference(&logits(0), &logits(200));
    // The tolerance of the comparison with PyTorch is far below.
    assert!(difference > 20.0 * TOLERANCE, "{difference}");
    assert_eq!(largest_difference(&logits(200), &logits(200)), 0.0);
}

/// 100 prompts with common beginnings, rewinds within an image, and canceled runs.
#[test]
fn conversations_equal_fresh_runs() {
    for name in PROGRAMS {
        let (mut generator, mut fresh) = (generator(name), generator(name));
        let images: Vec<EmbeddingRows> =
            (1..4_u8).map(|image| see(&mut generator, &[image * 60; 192])).collect();
        let (mut random, mut segments): (_, Vec<Segment>) = (5_u64, Vec::new());
        for turn in 0..100 {
            segments.truncate(below(&mut random, segments.len() + 1));
            for _ in 0..below(&mut random, 3) {
                let count = below(&mut random, 6);
                segments.push(Segment::Tokens(
                    (0..count).map(|_| below(&mut random, 40) as u32).collect(),
                ));
                let rows = images[below(&mut random, 3)].clone();
                segments.push(Segment::Rows { placeholder: PLACEHOLDER, rows });
            }
            segments.push(Segment::Tokens(vec![below(&mut random, 40) as u32]));
            if let Err(TextError::ContextFull { .. }) = generator.set_context(&segments) {
                segments.clear();
                continue;
            }
            if below(&mut random, 4) == 0 {
                let canceled = AtomicBool::new(true);
                let error = generator.logits(Some(&canceled));
                assert!(error.is_err_and(|error| error.is_canceled()));
            }
            let found = generator.logits(None).expect("logits").to_vec();
            fresh.reset();
            fresh.set_context(&segments).expect("it fits");
            let expected = fresh.logits(None).expect("logits");
            let difference = largest_difference(&found, expected);
            assert!(difference < 1e-5, "{name}: turn {turn}: {difference}");
            assert_eq!(generator.tokens(), fresh.tokens());
            if below(&mut random, 3) == 0 {
                let position = below(&mut random, generator.tokens().len() + 1);
                generator.rewind(position).expect("in range");
            }
        }
    }
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let mut generator = generator("embeddings_each.pte");
    let contract = generator.contract();
    let embedding = contract.embedding.as_ref().expect("an embedding");
    let found = (contract.method.as_str(), contract.max_context_len, contract.max_prefill_chunk);
    assert_eq!(
        (found, embedding.width, contract.eos.as_slice()),
        (("text_decoder", 64, 16), 16, &[2][..])
    );
    let error = |result: Result<(), TextError>| result.expect_err("an error").to_string();
    let narrow = EmbeddingRows::new(&[0.0; 24], 8).expect("rows");
    let told = error(generator.push_rows(0, &narrow));
    assert_eq!(told, "embeddings: the encoder gives rows of 8 values, but the model takes 16");
    let many = EmbeddingRows::new(&[0.0; 16 * 65], 16).expect("rows");
    let told = error(generator.push_rows(0, &many));
    assert_eq!(told, "65 tokens exceed the model's context of 64 tokens");
    let told = error(EmbeddingRows::new(&[0.0; 7], 2).map(|_| ()));
    assert_eq!(told, "embeddings: 7 values are not rows of 2 values");
    assert!(generator.tokens().is_empty());
    let mut text = self::generator("methods_pair.pte");
    let told = error(text.push_rows(0, &narrow));
    assert!(told.contains("takes tokens alone"), "{told}");
}
