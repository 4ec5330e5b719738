//! Answers what a user says.

mod dialogue;

use std::{path::PathBuf, time::Duration};

use afferent_graph::{
    Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, choices, params, ports,
};
use afferent_messages::{Played, Text, ToolMessage, Word};
use afferent_text::TextError;

use dialogue::{Dialogue, Said};

use crate::heard::Heard;

choices! {
    /// What stays in mind of an answer that was interrupted.
    pub enum Remembered {
        /// What the model had said.
        Said = "said",
        /// What the user has heard of it, as `words` and `played` tell.
        Heard = "heard",
    }
}

params! {
    /// Settings of [`Llm`].
    pub struct LlmParams {
        /// Model package with a tokenizer and a chat template.
        pub model: PathBuf;
        /// What the model is told first; without it, what the package says.
        pub system: Option<String>;
        /// Most tokens of an answer.
        pub max_new: u32 = "64", range 1.0..=4096.0;
        /// What stays in mind of an answer that was interrupted.
        pub history: Remembered = "said";
        /// How long a tool may take; after that, `apology` is the answer.
        pub tool_timeout: Duration = "10s", range 0.01..=600.0;
        /// What is said when a tool gives nothing, or is called by what is no call.
        pub apology: String = "sorry, i could not find that out.";
    }
}

/// Answers what a user says with a language model, token by token.
///
/// What was said stays in mind until the model's context has no room for another answer; then the
/// oldest turns are forgotten. The model reads only what is new, as long as nothing was forgotten.
/// A text of the same turn as the last one takes its place: the user went on. The result of a call
/// that something was said after is dropped. After eight calls in a row, and where a turn does not
/// fit the context by itself, `apology` is the answer. An interrupt ends an answer between two
/// tokens; what `history` says of it stays in mind.
///
/// Contract of the model: that of ExecuTorch's Llama exports, with `tokenizer` and `chat` in
/// `model.yaml`. Tokens are the likeliest ones.
///
/// Latency: for the first piece, one run of the model on what is new; for each other, one on a
/// token.
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
    /// A tool was called, and its result is waited for until then.
    waiting: Option<Timestamp>,
    /// Calls of the turn whose results may still come, though nobody waits for them.
    stale: u32,
    /// Calls in a row of the turn.
    calls: u32,
    /// How much of the answer was heard.
    heard: Heard,
    /// The last answer may have been cut short.
    interrupted: bool,
}

/// Most calls in a row: a model that goes on then is told nothing by what it gets.
const MOST_CALLS: u32 = 8;

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
    }
}

impl Llm {
    /// Takes in what the user says.
    fn ask(&mut self, text: &Text) -> Result<(), TextError> {
        if std::mem::take(&mut self.interrupted) && self.params.history == Remembered::Heard {
            self.dialogue.keep_heard(self.turn, self.heard.words())?;
        }
        self.dialogue.ask(text.turn, &text.text)?;
        let is_same = text.turn == self.turn;
        self.stale = if is_same { self.stale + u32::from(self.waiting.is_some()) } else { 0 };
        (self.turn, self.heard) = (text.turn, Heard::of(text.turn));
        (self.waiting, self.calls) = (None, 0);
        self.dialogue.begin()
    }

    /// Takes in what a tool gave; whether somebody waited for it.
    fn give(&mut self, result: &ToolMessage) -> Result<bool, TextError> {
        if result.turn != self.turn {
            return Ok(false);
        }
        if self.stale > 0 {
            self.stale -= 1;
            return Ok(false);
        }
        if self.waiting.take().is_none() {
            return Ok(false);
        }
        self.dialogue.give(&result.tool, &result.json)?;
        self.dialogue.begin().map(|()| true)
    }

    /// Goes on with what was begun; a turn that the model's context cannot hold is forgotten.
    fn begun(&mut self, cx: &mut Cx<'_>, begun: Result<bool, TextError>) -> Result<(), NodeError> {
        match begun {
            Ok(true) => self.go_on(cx),
            Ok(false) => Ok(()),
            Err(error @ TextError::ContextFull { .. }) => {
                tracing::warn!("turn {} is forgotten: {error}", self.turn);
                self.dialogue.forget_last();
                self.apologise(cx);
                Ok(())
            }
            Err(error) => Err(self.fault(&error)),
        }
    }

    /// Sends the next piece of the answer.
    fn go_on(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let canceled = cx.cancel_flag();
        let said = cx.time_model(|| self.dialogue.next(canceled));
        match said.map_err(|error| self.fault(&error))? {
            Said::Text(text) => {
                if !text.is_empty() {
                    cx.send(Self::ANSWER, Text { turn: self.turn, text, is_last: false });
                }
                cx.resume();
            }
            Said::Call(tool, _) if self.calls == MOST_CALLS => {
                tracing::warn!("the model called {tool} after {MOST_CALLS} other calls");
                self.apologise(cx);
            }
            Said::Call(tool, json) => {
                self.calls += 1;
                let until = cx.now() + self.params.tool_timeout;
                self.waiting = Some(until);
                cx.wake_at(until);
                let json = json.to_string();
                cx.send(Self::CALLS, ToolMessage { turn: self.turn, tool, json });
            }
            Said::Unreadable(text) => {
                tracing::warn!("the model called a tool by what is no call: {text}");
                self.apologise(cx);
            }
            Said::End => {
                let (text, is_last) = (String::new(), true);
                cx.send(Self::ANSWER, Text { turn: self.turn, text, is_last });
            }
        }
        Ok(())
    }

    fn apologise(&mut self, cx: &mut Cx<'_>) {
        self.waiting = None;
        let text = self.params.apology.clone();
        cx.send(Self::ANSWER, Text { turn: self.turn, text, is_last: true });
    }

    fn fault(&self, error: &TextError) -> NodeError {
        NodeError::Model { path: self.params.model.clone(), reason: error.to_string() }
    }
}

impl Node for Llm {
    type Params = LlmParams;

    const NAME: &'static str = "llm";
    const SUMMARY: &'static str = "Answers what a user says.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const TIMED: bool = true;
    const LATENCY: &'static str = "one run of the model on what is new, then one for each token";

    fn check(params: &LlmParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: LlmParams, cx: &OpenCx) -> Result<Self, NodeError> {
        if params.history == Remembered::Heard {
            cx.needs("history", &[Self::WORDS.name()], "tts")?;
            cx.needs("history", &[Self::PLAYED.name()], "speaker")?;
        }
        let max_new = usize::try_from(params.max_new).unwrap_or(usize::MAX);
        let dialogue = Dialogue::open(&params.model, params.system.as_deref(), max_new, cx)?;
        Ok(Self {
            params,
            dialogue,
            turn: 0,
            waiting: None,
            stale: 0,
            calls: 0,
            heard: Heard::default(),
            interrupted: false,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(word) = cx.get(Self::WORDS) {
            self.heard.said_at(cx.at(), word);
        } else if let Some(played) = cx.get(Self::PLAYED) {
            self.heard.played(played);
        } else if let Some(result) = cx.get(Self::RESULTS) {
            let given = self.give(result);
            return self.begun(cx, given);
        } else if let Some(text) = cx.get(Self::TEXT) {
            let asked = self.ask(text).map(|()| true);
            return self.begun(cx, asked);
        } else if let Some(until) = self.waiting {
            match cx.now() >= until {
                true => self.apologise(cx),
                false => cx.wake_at(until),
            }
        } else if self.dialogue.is_answering() {
            return self.go_on(cx);
        }
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.dialogue.stop();
        (self.waiting, self.stale, self.interrupted) = (None, 0, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params};

    use super::*;

    /// The shipped model.
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

    /// What was sent as an answer, and as calls.
    fn told(sent: &[(&'static str, afferent_graph::Packet)]) -> (String, Vec<ToolMessage>) {
        let pieces = sent.iter().filter_map(|(_, packet)| packet.get::<Text>());
        let calls = sent.iter().filter_map(|(_, packet)| packet.get::<ToolMessage>());
        (pieces.map(|piece| piece.text.as_str()).collect(), calls.cloned().collect())
    }

    #[test]
    fn a_tool_that_gives_nothing_is_apologised_for() {
        let mut llm = assistant("said");
        let sent = llm.call(Llm::TEXT, ms(5), ask(3, "what time is it")).unwrap();
        let (answer, calls) = told(&sent);
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
    fn a_result_of_a_call_that_was_replaced_is_dropped() {
        let mut llm = assistant("said");
        for at in [5, 6] {
            let sent = llm.call(Llm::TEXT, ms(at), ask(3, "what time is it")).unwrap();
            assert_eq!(told(&sent).1.len(), 1);
        }
        let result = |time: &str| ToolMessage {
            turn: 3,
            tool: "get_time".to_owned(),
            json: format!("{{\"time\": \"{time}\", \"day\": \"monday\"}}"),
        };
        assert!(llm.call(Llm::RESULTS, ms(7), result("07:00")).unwrap().is_empty());
        let sent = llm.call(Llm::RESULTS, ms(8), result("16:00")).unwrap();
        assert!(told(&sent).0.starts_with("it is"), "{sent:?}");
    }

    #[test]
    fn what_does_not_fit_the_context_is_apologised_for() {
        let mut llm = assistant("said");
        let long = "tell me more about that ".repeat(200);
        let sent = llm.call(Llm::TEXT, ms(0), ask(1, &long)).unwrap();
        assert!(told(&sent).0.starts_with("sorry"), "{sent:?}");
        let sent = llm.call(Llm::TEXT, ms(1), ask(2, "what is the capital of france")).unwrap();
        assert_eq!(told(&sent).0, "the capital of france is paris.");

        let sent = llm.call(Llm::TEXT, ms(2), ask(3, "where are my keys")).unwrap();
        let call = told(&sent).1.remove(0);
        let result = ToolMessage { json: format!("{{\"place\": \"{long}\"}}"), ..call };
        let sent = llm.call(Llm::RESULTS, ms(3), result).unwrap();
        assert!(told(&sent).0.starts_with("sorry"), "{sent:?}");
        let sent = llm.call(Llm::TEXT, ms(4), ask(4, "what is the capital of spain")).unwrap();
        assert_eq!(told(&sent).0, "the capital of spain is madrid.");
    }

    #[test]
    fn words_that_were_played_are_heard() {
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
        assert_eq!(node.heard.words(), 2);
        node.ask(&ask(2, "and of spain")).unwrap();
        assert_eq!(node.dialogue.last_answer(1), Some("the capital"));
    }

    #[test]
    fn an_apology_that_is_interrupted_cuts_no_answer_before_it() {
        let mut llm = assistant("heard");
        let sent = llm.call(Llm::TEXT, ms(0), ask(1, "what is the capital of france")).unwrap();
        let (answer, _) = told(&sent);
        let long = "tell me more about that ".repeat(200);
        llm.call(Llm::TEXT, ms(100), ask(2, &long)).unwrap();
        llm.cancel(ms(150)).unwrap();
        let node = llm.node_mut();
        node.ask(&ask(3, "and of spain")).unwrap();
        assert_eq!(node.dialogue.last_answer(1), Some(answer.trim()));
    }

    #[test]
    fn a_call_that_is_no_token_is_refused() {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../runtime/text/tests/data");
        let folder = std::env::temp_dir().join(format!("afferent-llm-call-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for file in ["robot.pte", "robot.json"] {
            fs::copy(Path::new(data).join(file), folder.join(file)).unwrap();
        }
        let manifest = "afferent_model: 1\nname: robot\ntask: chat\ncontract: llama\n\
            tokenizer: robot.json\nlicence: none\nprovenance: runtime/text\n\
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
        let Err(error) = opened else { panic!("it was accepted") };
        let expected = "robot.json: chat.call in model.yaml is \"<call>\", which is no token of it";
        assert!(error.to_string().ends_with(expected), "{error}");
    }
}
