//! Tests of dialogues with a small trained model.

use std::{fs, path::PathBuf};

use afferent_text::SamplingOverrides;

use super::*;
use crate::llm::settings::Thinking;

/// A dialogue with the toy model of `runtime/text`, with a context of 128 tokens.
fn robot(max_new: usize) -> Result<Dialogue, NodeError> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/text/tests/data");
    let thread = std::thread::current().id();
    let name = format!("afferent-robot-{}-{thread:?}", std::process::id());
    let folder: PathBuf = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    for file in ["robot.pte", "robot.json"] {
        fs::copy(data.join(file), folder.join(file)).unwrap();
    }
    let manifest = "afferent_model: 1\nname: robot\ntask: chat\ncontract: llama\n\
        tokenizer: robot.json\nlicense: none\nprovenance: runtime/text\n\
        variants: [{file: robot.pte, backend: portable, precision: fp32}]\n\
        chat: {begin: <s>, user: \"Q: {text}\\n\", answer: 'A:', end: </s>}\n";
    fs::write(folder.join("model.yaml"), manifest).unwrap();
    let dialogue = open(&folder, max_new);
    fs::remove_dir_all(&folder).unwrap();
    dialogue
}

fn open(path: &Path, max_new: usize) -> Result<Dialogue, NodeError> {
    open_with_draft(path, max_new, None)
}

fn open_with_draft(
    path: &Path,
    max_new: usize,
    draft: Option<PathBuf>,
) -> Result<Dialogue, NodeError> {
    open_with(path, Settings { draft, ..settings(max_new) })
}

fn open_with(path: &Path, settings: Settings) -> Result<Dialogue, NodeError> {
    let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
    Dialogue::open(path, &settings, &cx)
}

fn settings(max_new: usize) -> Settings {
    Settings {
        backend: String::new(),
        system: None,
        draft: None,
        draft_tokens: 4,
        prompt_cache: None,
        max_new,
        sampling: SamplingOverrides::default(),
        stop: None,
        thinking: Thinking::Drop,
        constrain_calls: false,
    }
}

/// The same model as a package with `fields`, and `own.jinja`.
fn packaged_robot(fields: &str, template: &str) -> Result<Dialogue, NodeError> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/text/tests/data");
    let thread = std::thread::current().id();
    let name = format!("afferent-packaged-robot-{}-{thread:?}", std::process::id());
    let folder: PathBuf = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::copy(data.join("robot.pte"), folder.join("robot.pte")).unwrap();
    fs::copy(data.join("robot.json"), folder.join("tokenizer.json")).unwrap();
    fs::write(folder.join("own.jinja"), template).unwrap();
    let manifest = "afferent_model: 1\nname: robot\ntask: chat\ncontract: llama\n\
        license: none\nprovenance: runtime/text\n";
    fs::write(folder.join("model.yaml"), format!("{manifest}{fields}")).unwrap();
    let dialogue = open(&folder, 24);
    fs::remove_dir_all(&folder).unwrap();
    dialogue
}

/// The same model as a bare program, with the files of a hub beside it but for `without`.
fn bare_robot(without: &str) -> Result<Dialogue, NodeError> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/text/tests/data");
    let thread = std::thread::current().id();
    let name = format!("afferent-bare-robot-{}-{thread:?}", std::process::id());
    let folder: PathBuf = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::copy(data.join("robot.pte"), folder.join("robot.pte")).unwrap();
    fs::copy(data.join("robot.json"), folder.join("tokenizer.json")).unwrap();
    let template = "{{ bos_token }}{% for message in messages %}{% if message.role == 'user' %}\
        {{ 'Q: ' + message.content + '\nA:' }}{% else %}{{ message.content + eos_token }}\
        {% endif %}{% endfor %}";
    let config = serde_json::json!({"bos_token": "<s>", "eos_token": "</s>",
        "chat_template": template});
    fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
    if !without.is_empty() {
        fs::remove_file(folder.join(without)).unwrap();
    }
    let dialogue = open(&folder.join("robot.pte"), 24);
    fs::remove_dir_all(&folder).unwrap();
    dialogue
}

/// The first `max_pieces` pieces of the answer to `text`, and whether it has ended.
fn answer_to(dialogue: &mut Dialogue, text: &str, max_pieces: usize) -> (String, bool) {
    let (mut answer, mut ended) = (String::new(), false);
    let number = dialogue.turns.last().map_or(0, |turn| turn.number + 1);
    dialogue.push_user(number, text).unwrap();
    dialogue.begin_answer().unwrap();
    let never = AtomicBool::new(false);
    for _ in 0..max_pieces {
        match dialogue.next(&never).unwrap() {
            Generated::Text(text, _) => answer.push_str(&text),
            Generated::End(text) => {
                answer.push_str(&text);
                ended = true;
                break;
            }
            _ => break,
        }
    }
    dialogue.stop();
    (answer, ended)
}

fn check(dialogue: &mut Dialogue, text: &str, expected: &str) {
    assert_eq!(answer_to(dialogue, text, usize::MAX), (expected.to_owned(), true), "{text}");
}

#[test]
fn turns_stay_in_the_history_and_in_the_cache() {
    let mut dialogue = robot(24).unwrap();
    check(&mut dialogue, "what comes after monday?", "tuesday");
    let before = dialogue.generator.tokens().to_vec();
    check(&mut dialogue, "what next?", "wednesday");
    assert!(dialogue.generator.tokens().starts_with(&before));
    check(&mut dialogue, "what next?", "thursday");
    dialogue.turns.clear();
    check(&mut dialogue, "go on from march", "april, may, june");
}

#[test]
fn a_bare_program_answers_with_the_files_beside_it() {
    let mut dialogue = bare_robot("").unwrap();
    check(&mut dialogue, "what comes after monday?", "tuesday");
    let before = dialogue.generator.tokens().to_vec();
    check(&mut dialogue, "what next?", "wednesday");
    assert!(dialogue.generator.tokens().starts_with(&before));
    for day in ["thursday", "friday", "saturday", "sunday", "monday"].repeat(2) {
        if day == "thursday" && dialogue.turns.len() > 4 {
            check(&mut dialogue, "what comes after wednesday?", day);
        } else {
            check(&mut dialogue, "what next?", day);
        }
    }
    assert!(dialogue.turns.len() < 12 && dialogue.generator.tokens().len() <= 128);
    dialogue.push_user(99, "</s><s>").unwrap();
    dialogue.begin_answer().unwrap();
    let tokens = dialogue.generator.tokens();
    assert_eq!(tokens.iter().filter(|&&token| token == 1).count(), 1, "{tokens:?}");
    dialogue.drop_last();
    check(&mut dialogue, "go on from march", "april, may, june");
    let number = dialogue.turns.last().unwrap().number;
    dialogue.truncate_answer(number, 2).unwrap();
    assert_eq!(dialogue.last_answer(number), Some("april, may,"));
    check(&mut dialogue, "what comes after monday?", "tuesday");
}

/// Adds `text` to the answer in progress, as if the model had generated it.
fn generate(dialogue: &mut Dialogue, text: &str) {
    let tokenizer = dialogue.format.tokenizer();
    let mut stream = afferent_text::DecodeStream::continuing();
    let tokens = tokenizer.encode(text).unwrap();
    let pieces: Vec<_> =
        tokens.iter().map(|&token| (token, stream.push(tokenizer, token).unwrap())).collect();
    let answer = dialogue.answer.as_mut().unwrap();
    for (token, text) in pieces {
        answer.add(&GeneratedToken { token, text, position: 0 }, &dialogue.format);
    }
}

#[test]
fn calls_and_results_are_messages_of_the_template() {
    let files = "variants: [{file: robot.pte, backend: portable, precision: fp32}]\n\
        chat: {template: own.jinja, tools: [{name: f, about: finds}]}\n";
    let template = "{% for m in messages %}[{{ m.role }}|{{ m.content }}|\
        {% for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}{% endfor %}]\
        {% endfor %}{{ tools | length }}";
    let mut dialogue = packaged_robot(files, template).unwrap();
    let text = |dialogue: &Dialogue| match dialogue.prompt(&dialogue.turns).unwrap() {
        Prompt::Jinja(prompt) => prompt.text(),
        Prompt::Parts(_) => panic!("a template"),
    };
    dialogue.push_user(1, "w").unwrap();
    dialogue.begin_answer().unwrap();
    generate(&mut dialogue, "<tool_call>{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": 2}}");
    let answer = dialogue.answer.take().unwrap();
    let arguments = serde_json::json!({"b": 1, "a": 2});
    assert_eq!(dialogue.finish(answer), Generated::Call("f".to_owned(), arguments));
    dialogue.push_result("f", "{\"at\":[1,2]}").unwrap();
    let call = r#"<tool_call>{"name": "f", "arguments": {"b": 1, "a": 2}}"#;
    let result = r#"[tool|{"at": [1, 2]}|]"#;
    assert_eq!(text(&dialogue), format!("[user|w|][assistant||{call}]{result}1"));
    // A call without a result gets one, and an answer.
    dialogue.turns[0].messages.pop();
    dialogue.push_user(2, "x").unwrap();
    let none = r#"[tool|{"error": "no result"}|][assistant||]"#;
    assert_eq!(text(&dialogue), format!("[user|w|][assistant||{call}]{none}[user|x|]1"));
    dialogue.push_apology(1, "never");
    dialogue.push_apology(2, "sorry");
    dialogue.turns.remove(0);
    assert_eq!(text(&dialogue), "[user|x|][assistant|sorry|]1");
}

#[test]
fn missing_files_of_a_bare_program_are_named() {
    let check = |without: &str, expected: &str| {
        let error = bare_robot(without).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("tokenizer.json", "no tokenizer beside the program");
    check("tokenizer_config.json", "no chat template; copy tokenizer_config.json");
}

#[test]
fn the_oldest_turns_are_dropped_when_the_context_is_full() {
    let mut dialogue = robot(24).unwrap();
    check(&mut dialogue, "what comes after monday?", "tuesday");
    for day in
        ["wednesday", "thursday", "friday", "saturday", "sunday", "monday", "tuesday"].repeat(2)
    {
        check(&mut dialogue, "what next?", day);
    }
    assert!(dialogue.turns.len() < 15 && dialogue.generator.tokens().len() <= 128);
    assert!(matches!(robot(120), Err(NodeError::InvalidParam { name, .. }) if name == "max_new"));
}

#[test]
fn an_answer_begins_only_if_one_token_fits() {
    let mut dialogue = robot(24).unwrap();
    let context = dialogue.generator.contract().max_context_len;
    let longest = (1..).find_map(|count| {
        dialogue.push_user(count, &"a ".repeat(count as usize)).unwrap();
        let begun = dialogue.begin_answer();
        dialogue.drop_last();
        match begun {
            Ok(()) => None,
            Err(TextError::ContextFull { needed, .. }) => Some(needed),
            Err(error) => panic!("{error}"),
        }
    });
    assert_eq!(longest, Some(context + 1), "one token more than the longest prompt that fits");
}

#[test]
fn a_turn_that_exceeds_the_context_drops_no_other_turn() {
    let mut dialogue = robot(24).unwrap();
    check(&mut dialogue, "what comes after monday?", "tuesday");
    dialogue.push_user(1, &"what next? ".repeat(50)).unwrap();
    assert!(matches!(dialogue.begin_answer(), Err(TextError::ContextFull { .. })));
    dialogue.drop_last();
    check(&mut dialogue, "what next?", "wednesday");
}

#[test]
fn the_generated_part_of_a_stopped_answer_stays() {
    let mut dialogue = robot(24).unwrap();
    let (answer, ended) = answer_to(&mut dialogue, "go on from march", 2);
    assert!("april, may, june".starts_with(&answer) && !answer.is_empty() && !ended, "{answer}");
    check(&mut dialogue, "what comes after monday?", "tuesday");
}

#[test]
fn a_truncated_answer_keeps_its_first_words() {
    let mut dialogue = robot(24).unwrap();
    check(&mut dialogue, "go on from march", "april, may, june");
    let whole = dialogue.turns[0].tokens.clone();
    dialogue.truncate_answer(0, 3).unwrap();
    dialogue.truncate_answer(1, 2).unwrap();
    assert_eq!(dialogue.turns[0].tokens, whole);
    dialogue.truncate_answer(0, 2).unwrap();
    assert_eq!(dialogue.turns[0].answer.trim(), "april, may,");
    assert!(dialogue.turns[0].tokens.len() < whole.len());
    dialogue.truncate_answer(0, 0).unwrap();
    assert_eq!(dialogue.turns[0].answer, "");
    check(&mut dialogue, "what comes after monday?", "tuesday");
}

#[test]
fn a_resumed_turn_replaces_its_text() {
    let mut dialogue = robot(24).unwrap();
    check(&mut dialogue, "what comes after monday?", "tuesday");
    let first = dialogue.turns[0].tokens.clone();
    dialogue.push_user(1, "what").unwrap();
    dialogue.begin_answer().unwrap();
    dialogue.next(&AtomicBool::new(false)).unwrap();
    dialogue.turns[0].number = 0;
    dialogue.push_user(1, "what next?").unwrap();
    assert_eq!((dialogue.turns.len(), &dialogue.turns[0].tokens), (2, &first));
}

#[test]
fn first_words_are_counted_by_whitespace() {
    let cases = [(0, ""), (1, " a"), (2, " a  b,"), (3, " a  b, c "), (9, " a  b, c ")];
    for (count, expected) in cases {
        assert_eq!(first_words(" a  b, c ", count).trim_end(), expected.trim_end(), "{count}");
    }
}

#[test]
fn user_text_contains_no_special_tokens() {
    let mut dialogue = robot(24).unwrap();
    dialogue.push_user(0, "</s>").unwrap();
    assert!(!dialogue.turns[0].tokens.contains(&2), "{:?}", dialogue.turns[0].tokens);
}

#[test]
fn draft_models_are_checked() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/text/tests/data");
    let folder = std::env::temp_dir().join(format!("afferent-draft-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::copy(data.join("robot.pte"), folder.join("robot.pte")).unwrap();
    fs::copy(data.join("robot.json"), folder.join("tokenizer.json")).unwrap();
    fs::write(folder.join("chat_template.jinja"), "{{ messages[0].content }}").unwrap();
    let other = folder.join("other");
    fs::create_dir_all(&other).unwrap();
    fs::copy(data.join("robot.pte"), other.join("robot.pte")).unwrap();
    fs::copy(data.join("bytes.json"), other.join("tokenizer.json")).unwrap();
    let check = |draft: &Path, expected: &str| {
        let told = open_with_draft(&folder, 24, Some(draft.to_owned())).err().unwrap().to_string();
        assert!(told.contains(expected), "{told}");
    };
    check(&folder, "draft model: this model returns the logits of the last token alone");
    check(&other, "other: its tokens are not those of");
    check(&folder.join("missing"), "missing");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_prompt_cache_keeps_the_state_after_the_system_prompt() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/text/tests/data");
    let folder = std::env::temp_dir().join(format!("afferent-prompt-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::copy(data.join("robot.pte"), folder.join("robot.pte")).unwrap();
    fs::copy(data.join("robot.json"), folder.join("tokenizer.json")).unwrap();
    let template = "{{ bos_token }}{% for message in messages %}{% if message.role == 'user' %}\
        {{ 'Q: ' + message.content + '\nA:' }}{% else %}{{ message.content + eos_token }}\
        {% endif %}{% endfor %}";
    fs::write(folder.join("chat_template.jinja"), template).unwrap();
    let config = r#"{"bos_token": "<s>", "eos_token": "</s>"}"#;
    fs::write(folder.join("tokenizer_config.json"), config).unwrap();
    let file = folder.join("prompt.state");
    let open = |system: &str, cache: bool| {
        let prompt_cache = cache.then(|| file.clone());
        let system = Some(system.to_owned());
        open_with(&folder, Settings { system, prompt_cache, ..settings(12) }).unwrap()
    };
    let days = "Q: what comes after monday?\nA: tuesday";
    let months = "Q: go on from march\nA: april";
    let expected = |system: &str| answer_to(&mut open(system, false), "what next?", 12);
    assert_ne!(expected(days), expected(months));
    let check = |system: &str| {
        let mut dialogue = open(system, true);
        assert!(dialogue.generator.tokens().len() > 5, "{:?}", dialogue.generator.tokens());
        assert_eq!(answer_to(&mut dialogue, "what next?", 12), expected(system));
    };
    check(days); // written
    let written = fs::read(&file).unwrap();
    check(days); // read
    assert_eq!(fs::read(&file).unwrap(), written);
    check(months); // replaced: another prompt
    check(months);
    let mut damaged = fs::read(&file).unwrap();
    damaged[100] ^= 1;
    fs::write(&file, &damaged).unwrap();
    check(months); // replaced: damaged
    assert_ne!(fs::read(&file).unwrap(), damaged);
    let letter = b"a file of the user, which must not be lost";
    fs::write(&file, letter).unwrap();
    let prompt_cache = Some(file.clone());
    let told = open_with(&folder, Settings { prompt_cache, ..settings(12) }).err().unwrap();
    assert!(told.to_string().contains("it is not a state file of this version"), "{told}");
    assert_eq!(fs::read(&file).unwrap(), letter);
    fs::remove_dir_all(&folder).unwrap();
}
