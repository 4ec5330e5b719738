//! Compares generated tokens with PyTorch, for programs of every supported interface.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use afferent_runtime::{Model, ModelOptions};
use afferent_text::{
    CallConstraint, FinishReason, GenerationOptions, GenerationState, Generator, Positions,
    Sampling, TextError, Tokenizer, ToolNames,
};
use serde_json::Value;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn json(name: &str) -> Value {
    let text = std::fs::read(data(name)).expect("the file exists");
    serde_json::from_slice(&text).expect("valid JSON")
}

fn tokens(value: &Value) -> Vec<u32> {
    let list = value.as_array().expect("a list").iter();
    list.map(|token| token.as_u64().expect("a token").try_into().expect("small")).collect()
}

fn generator(name: &str) -> Generator {
    let options = ModelOptions::new(afferent_kernels::KERNELS);
    let model = Model::open(data(name), options).expect("a program");
    Generator::new(model).expect("a language model")
}

fn robot() -> (Generator, Tokenizer) {
    (generator("robot.pte"), Tokenizer::open(data("robot.json")).expect("a tokenizer"))
}

/// Most probable next token.
fn greedy_token(generator: &mut Generator) -> u32 {
    let logits = generator.logits(None).expect("logits");
    let (token, _) = logits.iter().enumerate().fold((0, f32::MIN), |best, (token, &logit)| {
        if logit > best.1 { (token, logit) } else { best }
    });
    token.try_into().expect("small")
}

/// Checks greedy decoding from prompts of several lengths until the context is full, without a reset
/// between them.
fn check_contract(name: &str, dtype: &str, positions: Positions, chunk: usize) {
    let mut generator = generator(&format!("contract_{name}.pte"));
    let contract = generator.contract().clone();
    assert_eq!((contract.positions, contract.max_prefill_chunk), (positions, chunk), "{name}");
    assert_eq!(
        (contract.vocab_size, contract.bos, contract.eos.as_slice()),
        (48, Some(1), &[2][..])
    );
    for case in json("contracts.json")[dtype].as_array().expect("a list") {
        generator.rewind(0).expect("the start");
        generator.push(&tokens(&case["prompt"])).expect("the prompt fits");
        let mut expected = tokens(&case["tokens"]);
        expected.truncate(contract.max_context_len - generator.tokens().len());
        let mut found = Vec::new();
        while found.len() < expected.len() {
            let token = greedy_token(&mut generator);
            generator.push(&[token]).expect("the token fits");
            found.push(token);
        }
        assert_eq!(found, expected, "{name}");
        let free = contract.max_context_len - generator.tokens().len();
        assert!(free == 0 || dtype != "fp32", "{name}: {free}");
        generator.push(&vec![1; free]).expect("the tokens fit");
        let (needed, limit) = (contract.max_context_len + 1, contract.max_context_len);
        assert_eq!(generator.push(&[1]), Err(TextError::ContextFull { needed, limit }));
    }
}

#[test]
fn kv_cache_in_aten_operators() {
    check_contract("aten", "fp32", Positions::First, 23);
}

#[test]
fn kv_cache_in_custom_operators() {
    check_contract("custom", "fp32", Positions::First, 23);
}

#[test]
fn static_shape_of_one_token() {
    check_contract("static", "fp32", Positions::First, 1);
}

#[test]
fn no_kv_cache() {
    check_contract("no_cache", "fp32", Positions::None, 23);
}

#[test]
fn logits_of_all_tokens() {
    check_contract("all_logits", "fp32", Positions::First, 23);
}

#[test]
fn position_of_each_token() {
    check_contract("positions", "fp32", Positions::PerToken, 23);
}

#[test]
fn logits_in_half_precision() {
    check_contract("f16", "fp16", Positions::First, 23);
    check_contract("bf16", "bf16", Positions::First, 23);
}

/// Greedy tokens from several prompts, with rewinds between them, and the number of runs of the model.
fn decoded(generator: &mut Generator) -> Vec<Vec<u32>> {
    let mut all = Vec::new();
    for case in json("contracts.json")["fp32"].as_array().expect("a list") {
        let prompt = tokens(&case["prompt"]);
        generator.rewind(0).expect("the start");
        generator.push(&prompt).expect("the prompt fits");
        let (mut found, mut was_cut) = (Vec::new(), false);
        while generator.tokens().len() < generator.contract().max_context_len {
            let token = greedy_token(generator);
            generator.push(&[token]).expect("the token fits");
            found.push(token);
            // An interrupted answer is cut within the tokens that the draft model expected.
            if found.len() == 5 && !was_cut {
                was_cut = true;
                generator.rewind(prompt.len() + 3).expect("within the context");
                found.truncate(3);
                generator.push(&[7]).expect("the token fits");
                found.push(7);
            }
        }
        all.push(found);
    }
    all
}

#[test]
fn a_draft_changes_no_token() {
    let expected = decoded(&mut generator("contract_all_logits.pte"));
    assert!(expected.iter().all(|tokens| tokens.len() > 5));
    // The same weights, whose drafts are all right, and others whose drafts are mostly wrong.
    for (draft, counts) in [("contract_custom.pte", 1..6), ("contract_bf16.pte", 3..5)] {
        for count in counts {
            let mut drafted = generator("contract_all_logits.pte");
            drafted.set_draft(generator(draft), count).expect("a draft model");
            assert_eq!(decoded(&mut drafted), expected, "{draft} {count}");
            let tokens = expected.iter().map(Vec::len).sum::<usize>() as u64;
            let accepted = drafted.accepted_drafts();
            assert!(accepted < tokens, "{draft} {count}: {accepted} of {tokens}");
            assert!(
                draft.contains("bf16") || 3 * accepted > tokens,
                "{count}: {accepted} of {tokens}"
            );
            drafted.reset();
            assert_eq!(decoded(&mut drafted), expected, "{draft} {count}, after a reset");
        }
    }
}

#[test]
fn drafts_that_do_not_fit_are_refused() {
    let check = |model: &str, draft: &str, expected: &str| {
        let error = generator(model).set_draft(generator(draft), 4).expect_err("it does not fit");
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("contract_custom.pte", "contract_aten.pte", "the logits of the last token alone");
    check("contract_no_cache.pte", "contract_aten.pte", "last token alone");
    check("contract_all_logits.pte", "robot.pte", "this one has 48");
}

#[test]
fn conversation_of_several_turns() {
    let (mut generator, tokenizer) = robot();
    for turns in json("robot_cases.json").as_array().expect("a list") {
        generator.reset();
        for turn in turns.as_array().expect("a list") {
            let prompt = turn["prompt"].as_str().expect("a text");
            let prompt = generator.encode(&tokenizer, prompt).expect("tokens");
            let start = generator.tokens().len() + prompt.len();
            let options = GenerationOptions::default();
            let mut answer = generator.generate(&tokenizer, &prompt, &options).expect("it fits");
            let mut text = String::new();
            for token in &mut answer {
                text.push_str(&token.expect("a token").text);
            }
            assert_eq!(answer.finish_reason(), Some(FinishReason::Eos(2)));
            assert_eq!(Some(text.as_str()), turn["text"].as_str());
            assert_eq!(generator.tokens()[start..], tokens(&turn["tokens"]));
        }
    }
}

fn ask(
    generator: &mut Generator,
    tokenizer: &Tokenizer,
    prompt: &str,
    options: &GenerationOptions,
) -> (String, Option<FinishReason>) {
    let prompt = generator.encode(tokenizer, prompt).expect("tokens");
    let mut answer = generator.generate(tokenizer, &prompt, options).expect("it fits");
    let text = (&mut answer).map(|token| token.expect("a token").text).collect();
    (text, answer.finish_reason())
}

const MARCH: &str = "Q: go on from march\nA:";
const NEXT: &str = "Q: what next?\nA:";

#[test]
fn rewind_removes_the_rest_of_an_answer() {
    let (mut generator, tokenizer) = robot();
    let prompt = generator.encode(&tokenizer, MARCH).expect("tokens");
    let options = GenerationOptions::default();
    let mut first_word = None;
    let mut text = String::new();
    for token in generator.generate(&tokenizer, &prompt, &options).expect("it fits") {
        let token = token.expect("a token");
        text.push_str(&token.text);
        if text == " april" {
            first_word = Some(token.position);
        }
    }
    assert_eq!(text, " april, may, june");
    // Interrupt the answer after the first word.
    generator.rewind(first_word.expect("the first word")).expect("within the context");
    generator.push(&[2]).expect("the token fits");
    let next = ask(&mut generator, &tokenizer, NEXT, &options);
    assert_eq!(next, (" may".to_owned(), Some(FinishReason::Eos(2))));
    let len = generator.tokens().len();
    let error = TextError::PositionOutOfRange { position: len + 1, len };
    assert_eq!(generator.rewind(len + 1), Err(error));
    assert_eq!(generator.rewind(len), Ok(()));
}

#[test]
fn finish_reasons() {
    let check = |options: GenerationOptions, text: &str, reason: FinishReason| {
        let (mut generator, tokenizer) = robot();
        let found = ask(&mut generator, &tokenizer, MARCH, &options);
        assert_eq!(found, (text.to_owned(), Some(reason)));
        let next = GenerationOptions { max_new_tokens: 1, ..GenerationOptions::default() };
        assert!(ask(&mut generator, &tokenizer, "", &next).1.is_some());
    };
    let default = GenerationOptions::default();
    check(default.clone(), " april, may, june", FinishReason::Eos(2));
    let limited = |max_new_tokens| GenerationOptions { max_new_tokens, ..default.clone() };
    check(limited(2), " april", FinishReason::Length);
    check(limited(0), "", FinishReason::Length);
    let stop = |strings: &[&str]| {
        let stop = strings.iter().map(|&text| text.to_owned()).collect();
        GenerationOptions { stop, ..GenerationOptions::default() }
    };
    check(stop(&["il, m"]), " apr", FinishReason::StopString(0));
    check(stop(&["never", ","]), " april", FinishReason::StopString(1));
    check(stop(&["june!"]), " april, may, june", FinishReason::Eos(2));
}

#[test]
fn full_context_ends_an_answer() {
    let (mut generator, tokenizer) = robot();
    let options = GenerationOptions { ignore_eos: true, ..GenerationOptions::default() };
    let (_, reason) = ask(&mut generator, &tokenizer, MARCH, &options);
    assert_eq!((reason, generator.tokens().len()), (Some(FinishReason::ContextFull), 128));
    let before = generator.tokens().to_vec();
    let error = generator.generate(&tokenizer, &[5], &options).err();
    assert_eq!(error, Some(TextError::ContextFull { needed: 129, limit: 128 }));
    assert_eq!(generator.tokens(), before);
}

#[test]
fn canceled_answer_can_be_continued() {
    let (mut generator, tokenizer) = robot();
    let canceled = Arc::new(AtomicBool::new(false));
    let options =
        GenerationOptions { canceled: Some(Arc::clone(&canceled)), ..GenerationOptions::default() };
    let prompt = generator.encode(&tokenizer, MARCH).expect("tokens");
    let mut answer = generator.generate(&tokenizer, &prompt, &options).expect("it fits");
    let first = answer.next().expect("an item").expect("a token");
    canceled.store(true, Ordering::Relaxed);
    assert!(answer.next().is_none());
    assert_eq!(answer.finish_reason(), Some(FinishReason::Canceled));
    // Canceled before the first run.
    let answer = generator.generate(&tokenizer, &[], &options).expect("it fits");
    assert_eq!(answer.finish_reason(), Some(FinishReason::Canceled));
    let (rest, _) = ask(&mut generator, &tokenizer, "", &GenerationOptions::default());
    assert_eq!(first.text + &rest, " april, may, june");
    generator.reset();
    let answer = generator.generate(&tokenizer, &prompt, &options).expect("it fits");
    assert_eq!(answer.finish_reason(), Some(FinishReason::Canceled));
    let (text, _) = ask(&mut generator, &tokenizer, "", &GenerationOptions::default());
    assert_eq!(text, " april, may, june");
}

/// The model was trained on no JSON at all.
#[test]
fn constraint_makes_a_valid_call() {
    let (mut generator, tokenizer) = robot();
    let tool = |name: &str, arguments: &[&str]| ToolNames {
        name: name.to_owned(),
        arguments: arguments.iter().map(|&name| name.to_owned()).collect(),
    };
    let tools = vec![tool("next_month", &["after"]), tool("hello", &[])];
    let prompt = generator.encode(&tokenizer, MARCH).expect("tokens");
    let options = GenerationOptions { ignore_eos: true, ..GenerationOptions::default() };
    for seed in 0..4 {
        generator.rewind(0).expect("the start");
        let sampling = Sampling { temperature: seed as f32, seed, ..Sampling::default() };
        let options = GenerationOptions { sampling, ..options.clone() };
        let state = GenerationState::start(&mut generator, &tokenizer, &prompt, &options);
        let mut state = state.expect("it fits");
        let constraint = CallConstraint::new(tools.clone(), "arguments").expect("few tools");
        state.constrain(constraint.clone());
        let (mut text, mut read) = (String::new(), constraint);
        while !read.is_complete() {
            let Some(token) = state.next(&mut generator, &tokenizer, None).expect("a token") else {
                break;
            };
            assert!(read.push(token.text.as_bytes()), "{text:?} {:?}", token.text);
            text.push_str(&token.text);
        }
        // The context may end in a string, but never with anything else than the start of a call.
        if read.is_complete() {
            let call: Value = serde_json::from_str(&text).expect("valid JSON");
            assert!(call["arguments"].is_object(), "{text}");
        }
        assert!(text.trim_start().starts_with('{') && text.contains("\"name\""), "{text}");
    }
}

#[test]
fn seed_determines_the_answer() {
    let (mut generator, tokenizer) = robot();
    let mut text = |seed| {
        generator.rewind(0).expect("the start");
        let sampling = Sampling { temperature: 8.0, seed, ..Sampling::default() };
        let options = GenerationOptions {
            max_new_tokens: 20,
            sampling,
            ignore_eos: true,
            ..GenerationOptions::default()
        };
        ask(&mut generator, &tokenizer, MARCH, &options).0
    };
    let (first, again, other) = (text(1), text(1), text(2));
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn invalid_calls_are_errors() {
    let (mut generator, tokenizer) = robot();
    assert_eq!(generator.logits(None).err(), Some(TextError::EmptyContext));
    let unknown = TextError::UnknownToken { token: 384, vocab_size: 384 };
    assert_eq!(generator.push(&[1, 384]), Err(unknown));
    assert!(generator.tokens().is_empty());
    let sampling = Sampling { temperature: -1.0, ..Sampling::default() };
    let options = GenerationOptions { sampling, ..GenerationOptions::default() };
    let error = generator.generate(&tokenizer, &[1], &options).err().expect("an error");
    assert_eq!(error.to_string(), "temperature is -1, but must be 0 or more");
    assert!(generator.tokens().is_empty());
    let other = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/conformance/data/programs/add/model.pte");
    let model =
        Model::open(other, ModelOptions::new(afferent_kernels::KERNELS)).expect("a program");
    let error = Generator::new(model).err().expect("an error").to_string();
    assert!(error.contains("add/model.pte: not a supported language model"), "{error}");
}
