//! Questions that a grammar answers with tools.

mod file;
mod grammar;

use std::path::PathBuf;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, params, ports};
use afferent_messages::{Text, ToolMessage};
use serde_json::{Map, Value};

use self::file::Intents as IntentFile;

params! {
    /// Settings of [`Intents`].
    pub struct IntentsParams {
        /// Path of the YAML file with the intents.
        pub intents: PathBuf;
        /// Answer if a tool fails.
        pub failed: String = "sorry, that did not work.";
    }
}

/// Recognizes questions by a grammar, and answers them with tools. It needs no model, and never
/// guesses: other texts are sent on `other`, for a language model.
///
/// The file has the sentences of each intent, and what to do:
///
/// ```yaml
/// where_is:                                  # calls the tool where_is with {"thing": "my mug"}
///   phrases:
///     - where (is|are|did i (leave|put)) {thing}
///     - do you know where {thing} is
/// steps:
///   phrases: ["how many steps [have i (taken|made)]"]
///   tool: how_many_steps                     # default: the name of the intent
///   arguments: {since: start}                # sent with every call; default: none
///   say: "you have made {steps} steps."      # default: the field `phrase` of the result
/// ```
///
/// In a sentence, `(a|b)` are alternatives, `[a]` is optional, and `{slot}` takes up to six words, which
/// are an argument of the call. Case and punctuation do not matter, and neither do words like "please"
/// and "can you tell me" at the beginning and "now" at the end. If several intents match, the one with the fewest
/// words in slots wins.
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{Text, ToolMessage};
/// use afferent_nodes_dialogue::{Intents, IntentsParams};
///
/// let path = std::env::temp_dir().join(format!("afferent-intents-{}.yaml", std::process::id()));
/// std::fs::write(&path, "where_is: {phrases: ['where is {thing}']}").unwrap();
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
    failed: String,
    /// Turns whose results are awaited, with the tool.
    asked: Vec<(u64, String)>,
}

/// Most calls whose results are awaited; a tool that never answers does not fill the memory.
const MAX_ASKED: usize = 64;

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

impl Node for Intents {
    type Params = IntentsParams;

    const NAME: &'static str = "intents";
    const SUMMARY: &'static str = "Recognizes questions by a grammar, and answers them with tools.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    fn check(params: &IntentsParams, _: &OpenCx) -> Result<(), NodeError> {
        IntentFile::open(&params.intents).map(drop)
    }

    fn open(params: IntentsParams, _: &OpenCx) -> Result<Self, NodeError> {
        let intents = IntentFile::open(&params.intents)?;
        Ok(Self { intents, failed: params.failed, asked: Vec::new() })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(result) = cx.get(Self::RESULTS).cloned() {
            let key = (result.turn, result.tool);
            let Some(index) = self.asked.iter().position(|asked| *asked == key) else {
                return Ok(());
            };
            self.asked.remove(index);
            let parsed: Result<Map<String, Value>, _> = serde_json::from_str(&result.json);
            let said = parsed
                .map_err(|_| format!("result {} is not a JSON object", result.json))
                .and_then(|fields| self.intents.say(&key.1, &fields));
            let text = said.unwrap_or_else(|reason| {
                tracing::warn!("tool {}: {reason}", key.1);
                self.failed.clone()
            });
            cx.send(Self::ANSWER, Text { turn: key.0, text, is_last: true });
            return Ok(());
        }
        let Some(question) = cx.take(Self::TEXT) else { return Ok(()) };
        let turn = question.turn;
        match self.intents.call(&question.text) {
            Some((tool, arguments)) => {
                let (tool, json) = (tool.to_owned(), Value::Object(arguments).to_string());
                if self.asked.len() >= MAX_ASKED {
                    self.asked.remove(0);
                }
                self.asked.push((turn, tool.clone()));
                cx.send(Self::CALLS, ToolMessage { turn, tool, json });
            }
            None => cx.send(Self::OTHER, question),
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
    use afferent_graph::{NodeBench, ParamValue, Params, Timestamp};

    use super::*;

    #[test]
    fn results_answer_the_turn_that_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("intents.yaml");
        std::fs::write(&path, "where_is: {phrases: ['where is {thing}']}").unwrap();
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
    }
}
