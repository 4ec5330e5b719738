//! Language model of a dialogue.

mod answer;
mod dialogue;
mod files;
mod format;
mod settings;
mod template;
mod tool_json;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use afferent_graph::{
    Cx, Node, NodeError, OpenCx, OutputPath, Port, Timestamp, Weight, choices, params, ports,
};
use afferent_messages::{Played, Text, ToolMessage, Word};
use afferent_text::{SamplingOverrides, TextError};

use dialogue::{Dialogue, Generated};
pub use files::cache_of;
use settings::{Settings, Thinking};
pub use template::ChatParts;

use crate::heard_words::HeardWords;

choices! {
    /// Part of an interrupted answer that stays in the history.
    pub enum History {
        /// The text that the model has generated.
        Said = "said",
        /// The words that the user has heard; requires `words` and `played`.
        Heard = "heard",
    }
}

params! {
    /// Settings of [`Llm`].
    pub struct LlmParams {
        /// Path of the model package, or of a program (.pte) with a tokenizer and a chat template
        /// beside it.
        pub model: PathBuf;
        /// Backend of the variant of the package, such as `VulkanBackend`. Empty: the first that is
        /// available, or the fastest if `afferent model bench` has measured it.
        pub backend: String = "";
        /// Path of a smaller language model with the same tokenizer, whose drafts of the next tokens the
        /// model checks in one run (speculative decoding). The answers stay those of the model, which
        /// must return the logits of all tokens of a run.
        pub draft: Option<PathBuf>;
        /// Most tokens of a draft.
        pub draft_tokens: u32 = "4", range 1.0..=32.0, unit "tokens";
        /// File that keeps the state of the model after the system prompt and the tools, so that the
        /// next start need not read them. A state of another program or prompt is replaced; a file that is
        /// no state is not.
        pub prompt_cache: Option<OutputPath>;
        /// System prompt; default: that of the package.
        pub system: Option<String>;
        /// Longest answer, with its thinking block.
        pub max_new: u32 = "64", range 1.0..=4096.0, unit "tokens";
        /// Divisor of the logits; 0 is greedy decoding. Default: that of generation_config.json
        /// beside the tokenizer if it samples, else 0.
        pub temperature: Option<f32>, range 0.0..=100.0;
        /// Probability of the most probable tokens to sample from. Default: that of
        /// generation_config.json, else 1.
        pub top_p: Option<f32>, range 0.001..=1.0;
        /// Number of most probable tokens to sample from; 0 is all. Default: that of
        /// generation_config.json, else 0.
        pub top_k: Option<u32>, range 0.0..=1000000.0;
        /// Minimum probability relative to the most probable token. Default: that of
        /// generation_config.json, else 0.
        pub min_p: Option<f32>, range 0.0..=1.0;
        /// Penalty of the last 64 tokens; 1 is none. Default: that of generation_config.json, else 1.
        pub repetition_penalty: Option<f32>, range 0.1..=10.0;
        /// Seed of sampling.
        pub seed: u32 = "0";
        /// Text that ends an answer and is not part of it.
        pub stop: Option<String>;
        /// Use of the thinking block (`<think>…</think>`) of an answer.
        pub thinking: Thinking = "drop";
        /// Lets only tokens through, in a tool call, that continue valid JSON with a name of
        /// `chat.tools` and of its arguments. Not for the format of Mistral, and calls of Llama 3
        /// only after `<|python_tag|>`.
        pub constrain_calls: bool = "false";
        /// Part of an interrupted answer that stays in the history.
        pub history: History = "said";
        /// Longest time of a tool call, after which `apology` is the answer.
        pub tool_timeout: Duration = "10s", range 0.01..=600.0;
        /// Answer if a tool times out, a tool call is malformed, or a turn exceeds the context.
        pub apology: String = "sorry, i could not find that out.";
    }
}

/// Answers user text with a language model, token by token.
///
/// The dialogue stays in the history until another answer would exceed the context of the model;
/// then the oldest turns are dropped. As long as nothing is dropped, the KV cache is reused and
/// prefill covers only the new tokens. A second text of the same turn replaces the first: the user
/// has resumed the turn. The result of a tool call is ignored if user text has arrived since. The
/// answer is `apology` after eight consecutive tool calls, and if a single turn exceeds the
/// context. An interrupt ends the answer between two tokens; `history` says what stays of it.
///
/// Contract of the model: that of ExecuTorch's Llama exports or of optimum-executorch, with
/// `tokenizer` and `chat` in `model.yaml`, or with the files of the model's hub beside the program:
/// `tokenizer.json`, `tokenizer_config.json` or `chat_template.jinja`, and `generation_config.json`.
/// Answers end at the EOS tokens of all of these, and at the mark of the chat template.
///
/// A Jinja template gets the tools of `chat.tools`. Calls are read in the format of Hermes and Qwen,
/// Llama 3 or Mistral; of several calls in an answer, the first counts.
///
/// Latency: prefill of the new tokens for the first piece, one decode step for each other piece.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::Text;
/// use afferent_nodes_speech::{Llm, LlmParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/llm");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = LlmParams::from_values(&values).unwrap();
/// let models = afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS);
/// let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
/// let mut llm = NodeBench::new(Llm::open(params, &cx)?);
///
/// let text = Text::from("what is the capital of france");
/// let sent = llm.call(Llm::TEXT, Timestamp(0), text)?;
/// let pieces = sent.iter().filter_map(|(_, packet)| packet.get::<Text>());
/// let answer: String = pieces.map(|piece| piece.text.as_str()).collect();
/// assert_eq!(answer, "the capital of france is paris.");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Llm {
    params: LlmParams,
    dialogue: Dialogue,
    turn: u64,
    /// Deadline of the tool call in progress.
    tool_deadline: Option<Timestamp>,
    /// Earlier calls of the turn whose results are ignored when they arrive.
    stale_calls: u32,
    /// Consecutive tool calls of the turn.
    calls: u32,
    /// Words of the answer that were heard.
    heard: HeardWords,
    /// True if the last answer may be incomplete.
    was_interrupted: bool,
}

/// Most consecutive tool calls: more are taken for a loop.
const MAX_CALLS: u32 = 8;

ports! {
    impl Llm {
        /// User text of a turn.
        in TEXT: Text;
        /// Result of the last tool call.
        in RESULTS: ToolMessage, optional;
        /// Words of the answer, timestamped with their time in the synthesized audio.
        in WORDS: Word, optional;
        /// Playback position of that audio.
        in PLAYED: Played, optional;
        /// The answer, piece by piece; the last piece is marked.
        out ANSWER: Text;
        /// A tool call in place of an answer.
        out CALLS: ToolMessage, optional;
        /// The thinking block of the answer, piece by piece, if `thinking` is `send`.
        out THINKING: Text, optional;
    }
}

impl Llm {
    /// Begins the answer to a user text.
    fn on_text(&mut self, text: &Text) -> Result<(), TextError> {
        if std::mem::take(&mut self.was_interrupted) && self.params.history == History::Heard {
            self.dialogue.truncate_answer(self.turn, self.heard.count())?;
        }
        self.dialogue.push_user(text.turn, &text.text)?;
        let is_same = text.turn == self.turn;
        self.stale_calls =
            if is_same { self.stale_calls + u32::from(self.tool_deadline.is_some()) } else { 0 };
        (self.turn, self.heard) = (text.turn, HeardWords::for_turn(text.turn));
        (self.tool_deadline, self.calls) = (None, 0);
        self.dialogue.begin_answer()
    }

    /// Begins the answer to a tool result. Returns false if the result is not expected.
    fn on_result(&mut self, result: &ToolMessage) -> Result<bool, TextError> {
        if result.turn != self.turn {
            return Ok(false);
        }
        if self.stale_calls > 0 {
            self.stale_calls -= 1;
            return Ok(false);
        }
        if self.tool_deadline.take().is_none() {
            return Ok(false);
        }
        self.dialogue.push_result(&result.tool, &result.json)?;
        self.dialogue.begin_answer().map(|()| true)
    }

    /// Sends the first piece of an answer that was begun. A turn that exceeds the context is
    /// dropped.
    fn start_answer(
        &mut self,
        cx: &mut Cx<'_>,
        begun: Result<bool, TextError>,
    ) -> Result<(), NodeError> {
        match begun {
            Ok(true) => self.send_next(cx),
            Ok(false) => Ok(()),
            Err(error @ TextError::ContextFull { .. }) => {
                tracing::warn!("dropped turn {}: {error}", self.turn);
                self.dialogue.drop_last();
                self.apologize(cx);
                Ok(())
            }
            Err(error) => Err(self.model_error(&error)),
        }
    }

    /// Sends the next piece of the answer.
    fn send_next(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let cancel = cx.cancel_flag();
        let generated = cx.time_model(|| self.dialogue.next(cancel));
        match generated.map_err(|error| self.model_error(&error))? {
            Generated::Text(text, thought) => {
                let piece = |text| Text { turn: self.turn, text, is_last: false };
                if !thought.is_empty() && self.params.thinking == Thinking::Send {
                    cx.send(Self::THINKING, piece(thought));
                }
                if !text.is_empty() {
                    cx.send(Self::ANSWER, piece(text));
                }
                cx.resume();
            }
            Generated::Call(tool, _) if self.calls == MAX_CALLS => {
                tracing::warn!("the model called {tool} after {MAX_CALLS} consecutive calls");
                self.apologize(cx);
            }
            Generated::Call(tool, json) => {
                self.calls += 1;
                let until = cx.now() + self.params.tool_timeout;
                self.tool_deadline = Some(until);
                cx.wake_at(until);
                let json = json.to_string();
                cx.send(Self::CALLS, ToolMessage { turn: self.turn, tool, json });
            }
            Generated::MalformedCall(text) => {
                tracing::warn!("malformed tool call: {text}");
                self.apologize(cx);
            }
            Generated::End(text) => {
                cx.send(Self::ANSWER, Text { turn: self.turn, text, is_last: true });
            }
        }
        Ok(())
    }

    fn apologize(&mut self, cx: &mut Cx<'_>) {
        self.tool_deadline = None;
        let text = self.params.apology.clone();
        self.dialogue.push_apology(self.turn, &text);
        cx.send(Self::ANSWER, Text { turn: self.turn, text, is_last: true });
    }

    fn model_error(&self, error: &TextError) -> NodeError {
        NodeError::Model { path: self.params.model.clone(), reason: error.to_string() }
    }
}

impl Node for Llm {
    type Params = LlmParams;

    const NAME: &'static str = "llm";
    const SUMMARY: &'static str = "Answers user text with a language model, token by token.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const TIMED: bool = true;
    const LATENCY: &'static str = "prefill of the new tokens, then one decode step per token";

    fn check(params: &LlmParams, cx: &OpenCx) -> Result<(), NodeError> {
        // A check neither runs the model nor writes a file.
        Self::open(LlmParams { prompt_cache: None, ..params.clone() }, cx).map(|_| ())
    }

    fn open(params: LlmParams, cx: &OpenCx) -> Result<Self, NodeError> {
        if params.history == History::Heard {
            cx.needs("history", &[Self::WORDS.name()], "tts")?;
            cx.needs("history", &[Self::PLAYED.name()], "speaker")?;
        }
        let settings = Settings {
            backend: params.backend.clone(),
            system: params.system.clone(),
            draft: params.draft.clone(),
            prompt_cache: params.prompt_cache.as_deref().map(Path::to_owned),
            draft_tokens: usize::try_from(params.draft_tokens).unwrap_or(1),
            max_new: usize::try_from(params.max_new).unwrap_or(usize::MAX),
            sampling: SamplingOverrides {
                temperature: params.temperature,
                top_p: params.top_p,
                top_k: params.top_k,
                min_p: params.min_p,
                repetition_penalty: params.repetition_penalty,
                seed: u64::from(params.seed),
            },
            stop: params.stop.clone(),
            thinking: params.thinking,
            constrain_calls: params.constrain_calls,
        };
        let dialogue = Dialogue::open(&params.model, &settings, cx)?;
        Ok(Self {
            params,
            dialogue,
            turn: 0,
            tool_deadline: None,
            stale_calls: 0,
            calls: 0,
            heard: HeardWords::default(),
            was_interrupted: false,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(word) = cx.get(Self::WORDS) {
            self.heard.add_word(cx.at(), word);
        } else if let Some(played) = cx.get(Self::PLAYED) {
            self.heard.on_played(played);
        } else if let Some(result) = cx.get(Self::RESULTS) {
            let begun = self.on_result(result);
            return self.start_answer(cx, begun);
        } else if let Some(text) = cx.get(Self::TEXT) {
            let begun = self.on_text(text).map(|()| true);
            return self.start_answer(cx, begun);
        } else if let Some(until) = self.tool_deadline {
            match cx.now() >= until {
                true => self.apologize(cx),
                false => cx.wake_at(until),
            }
        } else if self.dialogue.is_answering() {
            return self.send_next(cx);
        }
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.dialogue.stop();
        (self.tool_deadline, self.stale_calls, self.was_interrupted) = (None, 0, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params};

    use super::*;

    /// A node with the model of `pipelines`.
    fn assistant(history: &str) -> NodeBench<Llm> {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/llm");
        let values: ParamValues = [
            ("model".to_owned(), ParamValue::Path(model.into())),
            ("history".to_owned(), ParamValue::Text(history.to_owned())),
        ]
        .into();
        let cx = OpenCx::with_service(
            afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS)
                .with_backend(afferent_backend_xnnpack::Xnnpack),
        );
        NodeBench::new(Llm::open(LlmParams::from_values(&values).unwrap(), &cx).unwrap())
    }

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    fn ask(turn: u64, text: &str) -> Text {
        Text { turn, ..Text::from(text) }
    }

    /// The answer and the tool calls that were sent.
    fn answer_and_calls(
        sent: &[(&'static str, afferent_graph::Packet)],
    ) -> (String, Vec<ToolMessage>) {
        let pieces = sent.iter().filter_map(|(_, packet)| packet.get::<Text>());
        let calls = sent.iter().filter_map(|(_, packet)| packet.get::<ToolMessage>());
        (pieces.map(|piece| piece.text.as_str()).collect(), calls.cloned().collect())
    }

    #[test]
    fn a_tool_timeout_is_answered_with_the_apology() {
        let mut llm = assistant("said");
        let sent = llm.call(Llm::TEXT, ms(5), ask(3, "what time is it")).unwrap();
        let (answer, calls) = answer_and_calls(&sent);
        assert_eq!((answer.as_str(), calls[0].tool.as_str(), calls[0].turn), ("", "get_time", 3));
        let late = llm.advance(ms(20_000)).unwrap();
        assert_eq!(late.len(), 1);
        assert_eq!(late[0].0, ms(10_005));
        let text = late[0].2.get::<Text>().unwrap();
        assert_eq!((text.turn, text.is_last), (3, true));
        assert!(text.text.starts_with("sorry"), "{text:?}");
        let result = ToolMessage { json: "{}".to_owned(), ..calls[0].clone() };
        assert!(llm.call(Llm::RESULTS, ms(20_001), result).unwrap().is_empty());
    }

    #[test]
    fn the_result_of_a_replaced_call_is_ignored() {
        let mut llm = assistant("said");
        for at in [5, 6] {
            let sent = llm.call(Llm::TEXT, ms(at), ask(3, "what time is it")).unwrap();
            assert_eq!(answer_and_calls(&sent).1.len(), 1);
        }
        let result = |time: &str| ToolMessage {
            turn: 3,
            tool: "get_time".to_owned(),
            json: format!("{{\"time\": \"{time}\", \"day\": \"monday\"}}"),
        };
        assert!(llm.call(Llm::RESULTS, ms(7), result("07:00")).unwrap().is_empty());
        let sent = llm.call(Llm::RESULTS, ms(8), result("16:00")).unwrap();
        assert!(answer_and_calls(&sent).0.starts_with("it is"), "{sent:?}");
    }

    #[test]
    fn a_turn_that_exceeds_the_context_is_answered_with_the_apology() {
        let mut llm = assistant("said");
        let long = "tell me more about that ".repeat(200);
        let sent = llm.call(Llm::TEXT, ms(0), ask(1, &long)).unwrap();
        assert!(answer_and_calls(&sent).0.starts_with("sorry"), "{sent:?}");
        let sent = llm.call(Llm::TEXT, ms(1), ask(2, "what is the capital of france")).unwrap();
        assert_eq!(answer_and_calls(&sent).0, "the capital of france is paris.");

        let sent = llm.call(Llm::TEXT, ms(2), ask(3, "where are my keys")).unwrap();
        let call = answer_and_calls(&sent).1.remove(0);
        let result = ToolMessage { json: format!("{{\"location\": \"{long}\"}}"), ..call };
        let sent = llm.call(Llm::RESULTS, ms(3), result).unwrap();
        assert!(answer_and_calls(&sent).0.starts_with("sorry"), "{sent:?}");
        let sent = llm.call(Llm::TEXT, ms(4), ask(4, "what is the capital of spain")).unwrap();
        assert_eq!(answer_and_calls(&sent).0, "the capital of spain is madrid.");
    }

    #[test]
    fn only_played_words_stay_in_the_history() {
        let mut llm = assistant("heard");
        llm.call(Llm::TEXT, ms(0), ask(1, "what is the capital of france")).unwrap();
        for (at, position) in [(100, 1), (200, 2), (300, 3)] {
            let word = Word { turn: 1, position, ..Word::default() };
            llm.call(Llm::WORDS, ms(at), word).unwrap();
        }
        let played = |until| Played { until: ms(until), is_playing: true };
        llm.call(Llm::PLAYED, ms(900), played(201)).unwrap();
        llm.cancel(ms(950)).unwrap();
        let node = llm.node_mut();
        assert_eq!(node.heard.count(), 2);
        node.on_text(&ask(2, "and of spain")).unwrap();
        assert_eq!(node.dialogue.last_answer(1), Some("the capital"));
    }

    #[test]
    fn an_interrupted_apology_does_not_truncate_the_answer_before_it() {
        let mut llm = assistant("heard");
        let sent = llm.call(Llm::TEXT, ms(0), ask(1, "what is the capital of france")).unwrap();
        let (answer, _) = answer_and_calls(&sent);
        let long = "tell me more about that ".repeat(200);
        llm.call(Llm::TEXT, ms(100), ask(2, &long)).unwrap();
        llm.cancel(ms(150)).unwrap();
        let node = llm.node_mut();
        node.on_text(&ask(3, "and of spain")).unwrap();
        assert_eq!(node.dialogue.last_answer(1), Some(answer.trim()));
    }

    #[test]
    fn a_call_marker_that_is_not_a_token_is_rejected() {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../runtime/text/tests/data");
        let folder = std::env::temp_dir().join(format!("afferent-llm-call-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for file in ["robot.pte", "robot.json"] {
            fs::copy(Path::new(data).join(file), folder.join(file)).unwrap();
        }
        let manifest = "afferent_model: 1\nname: robot\ntask: chat\ncontract: llama\n\
            tokenizer: robot.json\nlicense: none\nprovenance: runtime/text\n\
            variants: [{file: robot.pte, backend: portable, precision: fp32}]\n\
            chat: {user: '{text}', answer: 'A:', end: </s>, call: <call>}\n";
        fs::write(folder.join("model.yaml"), manifest).unwrap();
        let values = [("model".to_owned(), ParamValue::Path(folder.clone()))].into();
        let cx = OpenCx::with_service(
            afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS)
                .with_backend(afferent_backend_xnnpack::Xnnpack),
        );
        let opened = Llm::open(LlmParams::from_values(&values).unwrap(), &cx);
        fs::remove_dir_all(&folder).unwrap();
        let Err(error) = opened else { panic!("the package was accepted") };
        let expected = "robot.json: chat.call in model.yaml is \"<call>\", which is not a token of \
                        this tokenizer";
        assert!(error.to_string().ends_with(expected), "{error}");
    }
}
