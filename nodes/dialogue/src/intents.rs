//! Questions that a grammar answers with tools.

mod file;
mod grammar;

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Loan, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{Text, ToolMessage};
use serde_json::{Map, Value};

use self::file::Intents as IntentFile;

params! {
    /// Settings of [`Intents`].
    pub struct IntentsParams {
        /// Path of the YAML file with the intents.
        pub intents: PathBuf;
        /// Answer if a tool fails, or does not answer.
        pub failed: String = "sorry, that did not work.";
        /// Time after which a tool has not answered.
        pub timeout: Duration = "5s", range 0.01..=600.0;
    }
}

/// Recognizes questions by a grammar, and answers them with tools. It needs no model. Other texts are sent on
/// `other`, for a language model.
///
/// The file has the sentences of each intent, and what to do:
///
/// ```yaml
/// slots:
///   object: [ball, book, dining table]         # values of {object}; other slots take any words
/// intents:
///   where_is:                                  # calls the tool where_is with {"thing": "my mug"}
///     phrases:
///       - where (is|are|did i (leave|put)) {thing}
///       - do you know where {thing} is
///   where_is_known:
///     phrases: ["... (where|find) ... {object} ..."]
///     tool: where_is                           # default: the name of the intent
///     rename: {object: thing}                  # name of the argument; default: that of the slot
///   steps:
///     phrases: ["how many steps [have i taken]"]
///     tool: how_many_steps
///     arguments: {since: start}                # sent with every call; default: none
///     say: "You have taken {steps} steps."      # default: the field `phrase` of the result
/// ```
///
/// In a sentence, `(a|b)` are alternatives, `[a]` is optional, `{slot}` is an argument of the call, of one
/// to six words, and `...` stands for up to ten words. Case and punctuation do not matter, and neither do words
/// like "please" and "can you tell me" at the beginning and "now" at the end. If several sentences
/// match, the one wins in which the fewest words stand for `...` or a slot without values; those of a slot count
/// twice.
///
/// Latency: that of the tool.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{Text, ToolMessage};
/// use afferent_nodes_dialogue::{Intents, IntentsParams};
///
/// let path = std::env::temp_dir().join(format!("afferent-intents-{}.yaml", std::process::id()));
/// std::fs::write(&path, "intents: {where_is: {phrases: ['where is {thing}']}}").unwrap();
/// let values = [("intents".to_owned(), ParamValue::Path(path.clone()))].into();
/// let params = IntentsParams::from_values(&values)?;
/// let mut bench = NodeBench::new(Intents::open(params, &OpenCx::default())?);
/// let sent = bench.call(Intents::TEXT, Timestamp(0), Text::from("Where is my mug?"))?;
/// let call = sent[0].1.get::<ToolMessage>().unwrap();
/// assert_eq!((call.tool.as_str(), call.json.as_str()), ("where_is", "{\"thing\":\"my mug\"}"));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Intents {
    intents: IntentFile,
    params: IntentsParams,
    /// Calls whose results are awaited, in the order of time.
    asked: Vec<Asked>,
}

/// A call whose result is awaited.
struct Asked {
    turn: u64,
    /// Index of the intent.
    intent: usize,
    until: Timestamp,
}

ports! {
    impl Intents {
        /// Questions, complete.
        in TEXT: Text;
        /// Results of the tools that were called; others are ignored.
        in RESULTS: ToolMessage, many;
        /// Tool calls: the name of a tool and its arguments, a JSON object.
        out CALLS: ToolMessage;
        /// Answers, in the turn of their question.
        out ANSWER: Text;
        /// Texts that no intent matches.
        out OTHER: Text, optional;
    }
}

impl Intents {
    /// Calls the tool of a question, or sends it on.
    fn ask(&mut self, cx: &mut Cx<'_>, question: Loan<Text>) {
        match self.intents.call(&question.text) {
            Some((intent, arguments)) => {
                let (turn, tool) = (question.turn, self.intents.tool(intent).to_owned());
                let until = cx.now() + self.params.timeout;
                self.asked.push(Asked { turn, intent, until });
                let json = Value::Object(arguments).to_string();
                cx.send(Self::CALLS, ToolMessage { turn, tool, json });
            }
            None => cx.send(Self::OTHER, question),
        }
    }

    fn answer(&self, cx: &mut Cx<'_>, asked: Asked, said: Result<String, String>) {
        let Asked { turn, intent, .. } = asked;
        let text = said.unwrap_or_else(|reason| {
            tracing::warn!("tool {}: {reason}", self.intents.tool(intent));
            self.params.failed.clone()
        });
        let now = cx.now();
        cx.send_at(Self::ANSWER, now, Text { turn, text, is_last: true });
    }
}

impl Node for Intents {
    type Params = IntentsParams;

    const NAME: &'static str = "intents";
    const SUMMARY: &'static str = "Recognizes questions by a grammar, and answers them with tools.";
    const PORTS: &'static [Port] = Self::PORTS;
    const TIMED: bool = true;
    const LATENCY: &'static str = "that of the tool";

    fn check(params: &IntentsParams, _: &OpenCx) -> Result<(), NodeError> {
        IntentFile::open(&params.intents).map(drop)
    }

    fn open(params: IntentsParams, _: &OpenCx) -> Result<Self, NodeError> {
        let intents = IntentFile::open(&params.intents)?;
        Ok(Self { intents, params, asked: Vec::new() })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(result) = cx.get(Self::RESULTS).cloned() {
            let is_asked = |asked: &Asked| {
                asked.turn == result.turn && self.intents.tool(asked.intent) == result.tool
            };
            if let Some(index) = self.asked.iter().position(is_asked) {
                let asked = self.asked.remove(index);
                let fields: Result<Map<String, Value>, _> = serde_json::from_str(&result.json);
                let said = fields
                    .map_err(|_| format!("result {} is not a JSON object", result.json))
                    .and_then(|fields| self.intents.say(asked.intent, &fields));
                self.answer(cx, asked, said);
            }
        } else if let Some(question) = cx.take(Self::TEXT) {
            self.ask(cx, question);
        }
        let now = cx.now();
        while self.asked.first().is_some_and(|asked| asked.until <= now) {
            let asked = self.asked.remove(0);
            let reason = format!("no result after {:?}", self.params.timeout);
            self.answer(cx, asked, Err(reason));
        }
        if let Some(asked) = self.asked.first() {
            cx.wake_at(asked.until);
        }
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.asked.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValue, Params};

    use super::*;

    #[test]
    fn results_answer_the_turn_that_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("intents.yaml");
        std::fs::write(&path, "intents: {where_is: {phrases: ['where is {thing}']}}").unwrap();
        let values = [("intents".to_owned(), ParamValue::Path(path))].into();
        let params = IntentsParams::from_values(&values).unwrap();
        let mut bench = NodeBench::new(Intents::open(params, &OpenCx::default()).unwrap());
        let question = |turn, text: &str| Text { turn, ..Text::from(text) };
        let sent = bench.call(Intents::TEXT, Timestamp(0), question(3, "where is it")).unwrap();
        assert_eq!(sent[0].0, Intents::CALLS.name());
        let sent = bench.call(Intents::TEXT, Timestamp(1), question(4, "tell me a joke")).unwrap();
        assert_eq!(sent[0].1.get::<Text>().unwrap().text, "tell me a joke");
        let mut answer = |turn, json: &str| {
            let result = ToolMessage { turn, tool: "where_is".into(), json: json.into() };
            let sent = bench.call(Intents::RESULTS, Timestamp(2), result).unwrap();
            sent.first().map(|(_, packet)| packet.get::<Text>().unwrap().clone())
        };
        assert_eq!(answer(9, "{\"phrase\": \"there\"}"), None, "nothing was asked in this turn");
        assert_eq!(answer(3, "{\"phrase\": \"there\"}"), Some(question(3, "there")));
        assert_eq!(answer(3, "{\"phrase\": \"there\"}"), None, "it was answered");
        bench.call(Intents::TEXT, Timestamp(3), question(5, "where is it")).unwrap();
        let result =
            ToolMessage { turn: 5, tool: "where_is".into(), json: "{\"error\": \"x\"}".into() };
        let sent = bench.call(Intents::RESULTS, Timestamp(4), result).unwrap();
        assert_eq!(sent[0].1.get::<Text>().unwrap().text, "sorry, that did not work.");
        // A tool that does not answer.
        bench.call(Intents::TEXT, Timestamp(10), question(6, "where is it")).unwrap();
        let late = bench.advance(Timestamp(6_000_000_000)).unwrap();
        assert_eq!((late[0].0, late.len()), (Timestamp(5_000_000_010), 1));
        let text = late[0].2.get::<Text>().unwrap();
        assert_eq!(*text, question(6, "sorry, that did not work."));
    }
}
