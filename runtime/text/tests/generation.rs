//! Tokens as PyTorch gives them, from programs in every form that exports have.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use afferent_runtime::{Model, ModelOptions};
use afferent_text::{AnswerOptions, Finish, Generator, Positions, Sampling, TextError, Tokenizer};
use serde_json::Value;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn json(name: &str) -> Value {
    let text = std::fs::read(data(name)).expect("the file is there");
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

/// The likeliest token after the context.
fn likeliest(generator: &mut Generator) -> u32 {
    let logits = generator.logits(None).expect("logits");
    let (token, _) = logits.iter().enumerate().fold((0, f32::MIN), |best, (token, &logit)| {
        if logit > best.1 { (token, logit) } else { best }
    });
    token.try_into().expect("small")
}

/// Every form gives the tokens that PyTorch gives, from prompts of several lengths until the
/// context is full, without a reset between them.
fn check_form(name: &str, dtype: &str, positions: Positions, chunk: usize) {
    let mut generator = generator(&format!("contract_{name}.pte"));
    let contract = generator.contract().clone();
    assert_eq!((contract.positions, contract.chunk), (positions, chunk), "{name}");
    assert_eq!(
        (contract.vocabulary, contract.begin, contract.end.as_slice()),
        (48, Some(1), &[2][..])
    );
    for case in json("contracts.json")[dtype].as_array().expect("a list") {
        generator.rewind(0).expect("the start");
        generator.push(&tokens(&case["prompt"])).expect("room");
        let mut expected = tokens(&case["tokens"]);
        expected.truncate(contract.context - generator.tokens().len());
        let mut found = Vec::new();
        while found.len() < expected.len() {
            let token = likeliest(&mut generator);
            generator.push(&[token]).expect("room");
            found.push(token);
        }
        assert_eq!(found, expected, "{name}");
        let room = contract.context - generator.tokens().len();
        assert!(room == 0 || dtype != "fp32", "{name}: {room}");
        generator.push(&vec![1; room]).expect("room");
        let (needed, limit) = (contract.context + 1, contract.context);
        assert_eq!(generator.push(&[1]), Err(TextError::ContextFull { needed, limit }));
    }
}

#[test]
fn a_cache_in_aten_operators() {
    check_form("aten", "fp32", Positions::First, 23);
}

#[test]
fn a_cache_in_custom_operators() {
    check_form("custom", "fp32", Positions::First, 23);
}

#[test]
fn one_token_at_a_time() {
    check_form("static", "fp32", Positions::First, 1);
}

#[test]
fn no_cache() {
    check_form("no_cache", "fp32", Positions::None, 23);
}

#[test]
fn logits_of_all_tokens() {
    check_form("all_logits", "fp32", Positions::First, 23);
}

#[test]
fn a_position_for_each_token() {
    check_form("positions", "fp32", Positions::Each, 23);
}

#[test]
fn logits_in_half_precision() {
    check_form("f16", "fp16", Positions::First, 23);
    check_form("bf16", "bf16", Positions::First, 23);
}

#[test]
fn conversations_go_on_over_turns() {
    let (mut generator, tokenizer) = robot();
    for turns in json("robot_cases.json").as_array().expect("a list") {
        generator.reset();
        for turn in turns.as_array().expect("a list") {
            let prompt = turn["prompt"].as_str().expect("a text");
            let prompt = generator.encode(&tokenizer, prompt).expect("tokens");
            let start = generator.tokens().len() + prompt.len();
            let options = AnswerOptions::default();
            let mut answer = generator.answer(&tokenizer, &prompt, &options).expect("room");
            let mut text = String::new();
            for piece in &mut answer {
                text.push_str(&piece.expect("a token").text);
            }
            assert_eq!(answer.finish(), Some(Finish::EndToken(2)));
            assert_eq!(Some(text.as_str()), turn["text"].as_str());
            assert_eq!(generator.tokens()[start..], tokens(&turn["tokens"]));
        }
    }
}

fn ask(
    generator: &mut Generator,
    tokenizer: &Tokenizer,
    prompt: &str,
    options: &AnswerOptions,
) -> (String, Option<Finish>) {
    let prompt = generator.encode(tokenizer, prompt).expect("tokens");
    let mut answer = generator.answer(tokenizer, &prompt, options).expect("room");
    let text = (&mut answer).map(|piece| piece.expect("a token").text).collect();
    (text, answer.finish())
}

const MARCH: &str = "Q: go on from march\nA:";
const NEXT: &str = "Q: what next?\nA:";

#[test]
fn going_back_forgets_what_was_not_heard() {
    let (mut generator, tokenizer) = robot();
    let prompt = generator.encode(&tokenizer, MARCH).expect("tokens");
    let options = AnswerOptions::default();
    let mut heard = None;
    let mut text = String::new();
    for piece in generator.answer(&tokenizer, &prompt, &options).expect("room") {
        let piece = piece.expect("a token");
        text.push_str(&piece.text);
        if text == " april" {
            heard = Some(piece.position);
        }
    }
    assert_eq!(text, " april, may, june");
    // The listener spoke after the first word.
    generator.rewind(heard.expect("the first word")).expect("within the context");
    generator.push(&[2]).expect("room");
    let next = ask(&mut generator, &tokenizer, NEXT, &options);
    assert_eq!(next, (" may".to_owned(), Some(Finish::EndToken(2))));
    let len = generator.tokens().len();
    let error = TextError::Position { position: len + 1, len };
    assert_eq!(generator.rewind(len + 1), Err(error));
    assert_eq!(generator.rewind(len), Ok(()));
}

#[test]
fn answers_end_as_they_are_told() {
    let check = |options: AnswerOptions, text: &str, finish: Finish| {
        let (mut generator, tokenizer) = robot();
        let found = ask(&mut generator, &tokenizer, MARCH, &options);
        assert_eq!(found, (text.to_owned(), Some(finish)));
        let next = AnswerOptions { max_new: 1, ..AnswerOptions::default() };
        assert!(ask(&mut generator, &tokenizer, "", &next).1.is_some());
    };
    let usual = AnswerOptions::default();
    check(usual.clone(), " april, may, june", Finish::EndToken(2));
    check(AnswerOptions { max_new: 2, ..usual.clone() }, " april", Finish::Length);
    check(AnswerOptions { max_new: 0, ..usual.clone() }, "", Finish::Length);
    let stop = |texts: &[&str]| {
        let stop = texts.iter().map(|&text| text.to_owned()).collect();
        AnswerOptions { stop, ..AnswerOptions::default() }
    };
    check(stop(&["il, m"]), " apr", Finish::StopText(0));
    check(stop(&["never", ","]), " april", Finish::StopText(1));
    check(stop(&["june!"]), " april, may, june", Finish::EndToken(2));
}

#[test]
fn a_full_context_ends_an_answer() {
    let (mut generator, tokenizer) = robot();
    let options = AnswerOptions { ignore_end: true, ..AnswerOptions::default() };
    let (_, finish) = ask(&mut generator, &tokenizer, MARCH, &options);
    assert_eq!((finish, generator.tokens().len()), (Some(Finish::ContextFull), 128));
    let before = generator.tokens().to_vec();
    let error = generator.answer(&tokenizer, &[5], &options).err();
    assert_eq!(error, Some(TextError::ContextFull { needed: 129, limit: 128 }));
    assert_eq!(generator.tokens(), before);
}

#[test]
fn an_answer_can_be_cancelled_and_gone_on_with() {
    let (mut generator, tokenizer) = robot();
    let cancelled = Arc::new(AtomicBool::new(false));
    let options =
        AnswerOptions { cancelled: Some(Arc::clone(&cancelled)), ..AnswerOptions::default() };
    let prompt = generator.encode(&tokenizer, MARCH).expect("tokens");
    let mut answer = generator.answer(&tokenizer, &prompt, &options).expect("room");
    let first = answer.next().expect("a piece").expect("a token");
    cancelled.store(true, Ordering::Relaxed);
    assert!(answer.next().is_none());
    assert_eq!(answer.finish(), Some(Finish::Cancelled));
    // Cancelled before the first run.
    let answer = generator.answer(&tokenizer, &[], &options).expect("room");
    assert_eq!(answer.finish(), Some(Finish::Cancelled));
    let (rest, _) = ask(&mut generator, &tokenizer, "", &AnswerOptions::default());
    assert_eq!(first.text + &rest, " april, may, june");
    generator.reset();
    let answer = generator.answer(&tokenizer, &prompt, &options).expect("room");
    assert_eq!(answer.finish(), Some(Finish::Cancelled));
    let (text, _) = ask(&mut generator, &tokenizer, "", &AnswerOptions::default());
    assert_eq!(text, " april, may, june");
}

#[test]
fn a_seed_decides() {
    let (mut generator, tokenizer) = robot();
    let mut text = |seed| {
        generator.rewind(0).expect("the start");
        let sampling = Sampling { temperature: 8.0, seed, ..Sampling::default() };
        let options =
            AnswerOptions { max_new: 20, sampling, ignore_end: true, ..AnswerOptions::default() };
        ask(&mut generator, &tokenizer, MARCH, &options).0
    };
    let (first, again, other) = (text(1), text(1), text(2));
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn mistakes_are_errors() {
    let (mut generator, tokenizer) = robot();
    assert_eq!(generator.logits(None).err(), Some(TextError::Empty));
    let no_token = TextError::NoToken { token: 384, vocabulary: 384 };
    assert_eq!(generator.push(&[1, 384]), Err(no_token));
    assert!(generator.tokens().is_empty());
    let sampling = Sampling { temperature: -1.0, ..Sampling::default() };
    let options = AnswerOptions { sampling, ..AnswerOptions::default() };
    let error = generator.answer(&tokenizer, &[1], &options).err().expect("an error");
    assert_eq!(error.to_string(), "temperature is -1, but must be 0 or more");
    assert!(generator.tokens().is_empty());
    let other = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/conformance/data/programs/add/model.pte");
    let model =
        Model::open(other, ModelOptions::new(afferent_kernels::KERNELS)).expect("a program");
    let error = Generator::new(model).err().expect("an error").to_string();
    assert!(error.contains("add/model.pte: no language model"), "{error}");
}
