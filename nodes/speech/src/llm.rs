//! Answers what a user says.

mod dialogue;

use std::path::PathBuf;

use afferent_graph::{
    Cx, In, Node, NodeError, OpenCx, Out, Port, Text, TextPiece, ToolMessage, Weight, params,
};
use afferent_text::TextError;

use dialogue::{Dialogue, Said};

params! {
    /// Settings of [`Llm`].
    pub struct LlmParams {
        /// Model package with a tokenizer and a chat template.
        pub model: PathBuf;
        /// What the model is told first; without it, what the package says.
        pub system: Option<String>;
        /// Most tokens of an answer.
        pub max_new: u32 = "64", range 1.0..=4096.0;
    }
}

/// Answers what a user says with a language model, token by token.
///
/// | port      | payload      | what                                                         |
/// |-----------|--------------|--------------------------------------------------------------|
/// | `text`    | `text/Text`  | in: what the user says                                       |
/// | `results` | `text/Tool`  | in: what a tool gave, for the call that came last            |
/// | `answer`  | `text/Piece` | out: the answer, piece by piece, the last one marked         |
/// | `calls`   | `text/Tool`  | out: a call of a tool, instead of an answer                  |
///
/// What was said stays in mind until the model's context has no room for another answer; then the
/// oldest turns are forgotten. The model reads only what is new, as long as nothing was forgotten.
/// The result of a call that something was said after is dropped. An interrupt ends an answer
/// between two tokens; what was said of it stays in mind.
///
/// Contract of the model: that of ExecuTorch's Llama exports, with `tokenizer` and `chat` in
/// `model.yaml`. Tokens are the likeliest ones.
///
/// Latency: for the first piece, one run of the model on what is new; for each other, one on a token.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Text, TextPiece, Timestamp};
/// use afferent_nodes_speech::{Llm, LlmParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/llm");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = LlmParams::from_values(&values).unwrap();
/// let cx = OpenCx { kernels: afferent_kernels::KERNELS, ..OpenCx::default() };
/// let mut llm = NodeBench::new(Llm::open(params, &cx)?);
///
/// let text = Text { text: "what is the capital of france".to_owned() };
/// let sent = llm.call(Llm::TEXT, Timestamp(0), text)?;
/// let pieces = sent.iter().filter_map(|(_, packet)| packet.get::<TextPiece>());
/// let answer: String = pieces.map(|piece| piece.text.as_str()).collect();
/// assert_eq!(answer, "the capital of france is paris.");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Llm {
    path: PathBuf,
    dialogue: Dialogue,
    /// Number of the next answer.
    next: u64,
    /// The answer that called a tool, and waits for what it gives.
    waiting: Option<u64>,
}

impl Llm {
    /// What the user says.
    pub const TEXT: In<Text> = In::new("text");
    /// What tools gave.
    pub const RESULTS: In<ToolMessage> = In::new("results");
    /// The answer, piece by piece.
    pub const ANSWER: Out<TextPiece> = Out::new("answer");
    /// Calls of tools.
    pub const CALLS: Out<ToolMessage> = Out::new("calls");

    fn answer(&mut self, cx: &mut Cx<'_>, answer: u64) -> Result<(), NodeError> {
        let Self { dialogue, waiting, .. } = self;
        let mut fault = None;
        let said = dialogue.answer(|said| {
            match said {
                Said::Text(text) if text.is_empty() => {}
                Said::Text(text) => {
                    cx.send(Self::ANSWER, TextPiece { answer, text, is_last: false })
                }
                Said::Call(tool, json) => {
                    *waiting = Some(answer);
                    let json = json.to_string();
                    cx.send(Self::CALLS, ToolMessage { answer, tool, json });
                }
                Said::Unreadable(text) => fault = Some(text),
                Said::End if waiting.is_some() => {}
                Said::End => {
                    cx.send(Self::ANSWER, TextPiece { answer, text: String::new(), is_last: true });
                }
            }
            !cx.cancelled()
        });
        said.map_err(|error| self.fault(&error))?;
        match fault {
            Some(text) => {
                let reason = format!("it called a tool by what is no call: {text}");
                Err(NodeError::Model { path: self.path.clone(), reason })
            }
            None => Ok(()),
        }
    }

    fn fault(&self, error: &TextError) -> NodeError {
        NodeError::Model { path: self.path.clone(), reason: error.to_string() }
    }
}

impl Node for Llm {
    type Params = LlmParams;

    const NAME: &'static str = "llm";
    const SUMMARY: &'static str = "Answers what a user says.";
    const PORTS: &'static [Port] = &[
        Self::TEXT.port().help("what the user says"),
        Self::RESULTS.port().optional().help("what a tool gave, for the call that came last"),
        Self::ANSWER.port().help("the answer, piece by piece, the last one marked"),
        Self::CALLS.port().help("a call of a tool, instead of an answer"),
    ];
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "one run of the model on what is new, then one for each token";

    fn check(params: &LlmParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: LlmParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let max_new = usize::try_from(params.max_new).unwrap_or(usize::MAX);
        let dialogue = Dialogue::open(&params.model, params.system.as_deref(), max_new, cx)?;
        Ok(Self { path: params.model, dialogue, next: 0, waiting: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if cx.port() == Some(Self::RESULTS.name()) {
            let Some(result) = cx.get(Self::RESULTS) else { return Ok(()) };
            if self.waiting != Some(result.answer) {
                return Ok(());
            }
            let given = self.dialogue.give(&result.json);
            let answer = result.answer;
            given.map_err(|error| self.fault(&error))?;
            self.waiting = None;
            return self.answer(cx, answer);
        }
        let Some(text) = cx.get(Self::TEXT) else { return Ok(()) };
        let asked = self.dialogue.ask(&text.text);
        asked.map_err(|error| self.fault(&error))?;
        (self.waiting, self.next) = (None, self.next + 1);
        self.answer(cx, self.next - 1)
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.waiting = None;
        Ok(())
    }
}
