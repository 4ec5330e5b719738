//! Language model of a dialogue, on a server.

mod events;

use std::{collections::VecDeque, path::PathBuf, sync::mpsc::TryRecvError, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{Played, Text, ToolMessage, Word};
use serde_json::{Map, Value, json};

use crate::{
    heard_words::{HeardWords, first_words},
    llm::History,
    server::{Arrival, Body, Endpoint, POLL, Request},
};
use events::{CallPart, Event, read_events};

params! {
    /// Settings of [`Chat`].
    pub struct ChatParams {
        /// Address of the server up to `/chat/completions`.
        pub url: String = "http://127.0.0.1:8000/v1";
        /// Name of the model on the server.
        pub model: String;
        /// Environment variable with the key that the server asks for.
        pub key_env: Option<String>;
        /// System prompt.
        pub system: Option<String>;
        /// JSON file with the tools: the list `tools` of the protocol.
        pub tools: Option<PathBuf>;
        /// Longest answer.
        pub max_new: u32 = "256", range 1.0..=32768.0, unit "tokens";
        /// Divisor of the logits; 0 is greedy decoding. Default: that of the server.
        pub temperature: Option<f32>, range 0.0..=2.0;
        /// Turns of the dialogue that the server gets.
        pub turns: u32 = "20", range 1.0..=1000.0, unit "turns";
        /// Part of an interrupted answer that stays in the history.
        pub history: History = "said";
        /// Longest wait for the beginning of an answer, and between two parts of it.
        pub timeout: Duration = "10s", range 0.05..=600.0;
        /// Further attempts if the server cannot be reached, is busy or fails, with growing pauses.
        pub retries: u32 = "2", range 0.0..=10.0;
        /// Longest time of a tool call, after which `apology` is the answer.
        pub tool_timeout: Duration = "10s", range 0.01..=600.0;
        /// Answer if the server or a tool fails.
        pub apology: String = "sorry, i cannot answer that now.";
    }
}

/// Answers user text with a language model on a server: the protocol of OpenAI's chat completions,
/// streamed, which most servers of language models speak.
///
/// It has the ports of `llm` and can replace it in a graph, for machines with a network. The user text
/// and the history leave the machine; nothing is sent before the first text. `https` addresses need the
/// feature `tls`. A server that fails before its first word is asked again; after that, or if it
/// falls silent, the answer ends with `apology`. A second text of the same turn replaces the first.
/// An interrupt ends the answer; `history` says what stays of it.
///
/// A tool call is sent through `calls`; of several in an answer, all are sent, and the next answer
/// begins with the last result. After eight consecutive calls, the answer is `apology`.
///
/// Latency: that of the server, up to 5 ms.
pub struct Chat {
    params: ChatParams,
    endpoint: Endpoint,
    tools: Option<Value>,
    turns: VecDeque<Turn>,
    /// Present request, and the time by which it must bring something.
    asking: Option<(Request<Event>, Timestamp)>,
    /// Calls of the present answer, as far as they have arrived.
    calls: Vec<CallPart>,
    /// Calls whose results are awaited, and until when.
    waiting: Option<(Vec<CallPart>, Timestamp)>,
    /// Consecutive answers with calls.
    rounds: u32,
    heard: HeardWords,
    was_interrupted: bool,
}

/// A turn of the dialogue.
struct Turn {
    number: u64,
    /// Messages as the server gets them.
    messages: Vec<Value>,
    /// Text of the present answer.
    answer: String,
}

/// Most consecutive answers with calls: more are taken for a loop.
const MAX_ROUNDS: u32 = 8;

ports! {
    impl Chat {
        /// User text of a turn.
        in TEXT: Text;
        /// Results of the last tool calls.
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

impl Chat {
    fn turn(&self) -> u64 {
        self.turns.back().map_or(0, |turn| turn.number)
    }

    fn on_text(&mut self, cx: &mut Cx<'_>, text: &Text) -> Result<(), NodeError> {
        if std::mem::take(&mut self.was_interrupted) {
            self.keep_answer();
        }
        (self.asking, self.waiting, self.rounds) = (None, None, 0);
        let message = json!({"role": "user", "content": text.text});
        if self.turn() == text.turn && !self.turns.is_empty() {
            self.turns.pop_back();
        }
        let messages = vec![message];
        self.turns.push_back(Turn { number: text.turn, messages, answer: String::new() });
        while self.turns.len() > self.params.turns as usize {
            self.turns.pop_front();
        }
        self.heard = HeardWords::for_turn(text.turn);
        self.ask(cx)
    }

    /// Puts what stays of an interrupted answer into the history.
    fn keep_answer(&mut self) {
        let Some(turn) = self.turns.back_mut().filter(|turn| !turn.answer.is_empty()) else {
            return;
        };
        let answer = std::mem::take(&mut turn.answer);
        let kept = match self.params.history {
            History::Said => &answer,
            History::Heard => first_words(&answer, self.heard.count()).trim(),
        };
        // A complete answer is there already.
        if turn.messages.last().is_some_and(|last| last["role"] == "assistant") {
            turn.messages.pop();
        }
        if !kept.is_empty() {
            turn.messages.push(json!({"role": "assistant", "content": kept}));
        }
    }

    /// Sends the dialogue to the server.
    fn ask(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let system =
            self.params.system.iter().map(|text| json!({"role": "system", "content": text}));
        let messages: Vec<Value> = system
            .chain(self.turns.iter().flat_map(|turn| turn.messages.iter().cloned()))
            .collect();
        let mut body = Map::new();
        body.insert("model".to_owned(), self.params.model.clone().into());
        body.insert("messages".to_owned(), messages.into());
        body.insert("stream".to_owned(), true.into());
        body.insert("max_tokens".to_owned(), self.params.max_new.into());
        if let Some(temperature) = self.params.temperature {
            body.insert("temperature".to_owned(), f64::from(temperature).into());
        }
        if let Some(tools) = &self.tools {
            body.insert("tools".to_owned(), tools.clone());
        }
        let body = Body::json(&Value::Object(body));
        let request = Request::start(self.endpoint.clone(), body, read_events)?;
        self.calls.clear();
        self.asking = Some((request, cx.now() + self.endpoint.patience()));
        cx.wake_at(cx.now() + POLL);
        Ok(())
    }

    /// Sends what has arrived of the answer.
    fn take(&mut self, cx: &mut Cx<'_>) {
        while let Some((request, until)) = &mut self.asking {
            match request.arrivals.try_recv() {
                Ok(Arrival::Part(Event::Text(text))) => {
                    *until = cx.now() + self.params.timeout;
                    let turn = self.turn();
                    if let Some(last) = self.turns.back_mut() {
                        last.answer.push_str(&text);
                    }
                    cx.send(Self::ANSWER, Text { turn, text, is_last: false });
                }
                Ok(Arrival::Part(Event::Calls(parts))) => {
                    *until = cx.now() + self.params.timeout;
                    parts.into_iter().for_each(|part| add(&mut self.calls, part));
                }
                Ok(Arrival::End) => self.end(cx),
                Ok(Arrival::Failed(reason)) => {
                    tracing::warn!("{reason}");
                    self.apologize(cx);
                }
                Err(TryRecvError::Empty) if cx.now() < *until => {
                    cx.wake_at(cx.now() + POLL);
                    return;
                }
                Err(_) => {
                    let (url, silence) = (&self.endpoint.url, self.params.timeout);
                    tracing::warn!("{url} sent nothing for {silence:?}");
                    self.apologize(cx);
                }
            }
        }
    }

    /// Ends an answer: with a mark, or with its calls.
    fn end(&mut self, cx: &mut Cx<'_>) {
        self.asking = None;
        let turn = self.turn();
        let Some(last) = self.turns.back_mut() else { return };
        let calls = std::mem::take(&mut self.calls);
        if calls.is_empty() {
            last.messages.push(json!({"role": "assistant", "content": last.answer}));
            cx.send(Self::ANSWER, Text { turn, text: String::new(), is_last: true });
            return;
        }
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            tracing::warn!("the model called tools in {MAX_ROUNDS} consecutive answers");
            self.apologize(cx);
            return;
        }
        let listed = calls.iter().map(|call| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"id": call.id, "type": "function", "function": function})
        });
        let listed: Vec<_> = listed.collect();
        last.messages.push(json!({
            "role": "assistant", "content": last.answer, "tool_calls": listed,
        }));
        for call in &calls {
            let (tool, json) = (call.name.clone(), call.arguments.clone());
            let json = if json.trim().is_empty() { "{}".to_owned() } else { json };
            cx.send(Self::CALLS, ToolMessage { turn, tool, json });
        }
        let until = cx.now() + self.params.tool_timeout;
        self.waiting = Some((calls, until));
        cx.wake_at(until);
    }

    /// Takes the result of a call; asks again after the last one.
    fn on_result(&mut self, cx: &mut Cx<'_>, result: &ToolMessage) -> Result<(), NodeError> {
        let (turn, Some((calls, _))) = (self.turn(), &mut self.waiting) else { return Ok(()) };
        let position = calls.iter().position(|call| call.name == result.tool);
        let (Some(position), Some(last), true) =
            (position, self.turns.back_mut(), result.turn == turn)
        else {
            return Ok(());
        };
        let call = calls.remove(position);
        last.messages
            .push(json!({"role": "tool", "tool_call_id": call.id, "content": result.json}));
        if !calls.is_empty() {
            return Ok(());
        }
        self.waiting = None;
        self.ask(cx)
    }

    fn apologize(&mut self, cx: &mut Cx<'_>) {
        (self.asking, self.waiting) = (None, None);
        let (turn, text) = (self.turn(), self.params.apology.clone());
        if let Some(last) = self.turns.back_mut() {
            // Calls without results are refused by servers.
            last.messages.truncate(1);
            last.messages.push(json!({"role": "assistant", "content": text}));
            last.answer.clone_from(&text);
        }
        cx.send(Self::ANSWER, Text { turn, text, is_last: true });
    }
}

/// Adds a part to the call with its index.
fn add(calls: &mut Vec<CallPart>, part: CallPart) {
    match calls.iter_mut().find(|call| call.index == part.index) {
        Some(call) => {
            call.arguments.push_str(&part.arguments);
            call.name.push_str(&part.name);
        }
        None => calls.push(part),
    }
}

/// The list of tools in a file.
fn read_tools(path: &PathBuf) -> Result<Value, NodeError> {
    let wrong = |reason: String| NodeError::File { path: path.clone(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let tools: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let is_tool = |tool: &Value| tool["function"]["name"].is_string();
    match tools.as_array().is_some_and(|list| list.iter().all(is_tool)) {
        true => Ok(tools),
        false => Err(wrong(
            "it is not a list of tools, such as [{\"type\": \"function\", \"function\": {\"name\": …}}]"
                .to_owned(),
        )),
    }
}

impl Node for Chat {
    type Params = ChatParams;

    const NAME: &'static str = "chat";
    const SUMMARY: &'static str = "Answers user text with a language model on a server.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Light;
    const TIMED: bool = true;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "that of the server";

    fn check(params: &ChatParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(drop)
    }

    fn open(params: ChatParams, cx: &OpenCx) -> Result<Self, NodeError> {
        if params.history == History::Heard {
            cx.needs("history", &[Self::WORDS.name()], "tts")?;
            cx.needs("history", &[Self::PLAYED.name()], "speaker")?;
        }
        let endpoint = Endpoint::new(
            &params.url,
            "/chat/completions",
            params.key_env.as_deref(),
            params.timeout,
            params.retries,
        )?;
        let tools = params.tools.as_ref().map(read_tools).transpose()?;
        Ok(Self {
            params,
            endpoint,
            tools,
            turns: VecDeque::new(),
            asking: None,
            calls: Vec::new(),
            waiting: None,
            rounds: 0,
            heard: HeardWords::default(),
            was_interrupted: false,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(word) = cx.get(Self::WORDS) {
            self.heard.add_word(cx.at(), word);
        } else if let Some(played) = cx.get(Self::PLAYED) {
            self.heard.on_played(played);
        } else if let Some(result) = cx.get(Self::RESULTS).cloned() {
            self.on_result(cx, &result)?;
        } else if let Some(text) = cx.get(Self::TEXT).cloned() {
            self.on_text(cx, &text)?;
        }
        if self.asking.is_some() {
            self.take(cx);
        } else if let Some((_, until)) = self.waiting {
            match cx.now() >= until {
                true => self.apologize(cx),
                false => cx.wake_at(until),
            }
        }
        Ok(())
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // The answer to the last text.
        while self.asking.is_some() && !cx.canceled() {
            self.take(cx);
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        (self.asking, self.waiting, self.was_interrupted) = (None, None, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use afferent_graph::{NodeBench, Packet, ParamValue, ParamValues, Params};

    use super::*;
    use crate::server::testing::{answered, failed, server};

    /// An answer in these parts.
    fn streamed(deltas: &[Value]) -> Vec<u8> {
        let events = deltas.iter().map(|delta| {
            format!("data: {}\n\n", json!({"choices": [{"delta": delta, "index": 0}]}))
        });
        let events = format!("{}data: [DONE]\n\n", events.collect::<String>());
        answered("text/event-stream", events.as_bytes())
    }

    fn read(body: &[u8]) -> Value {
        serde_json::from_slice(body).unwrap()
    }

    fn open(url: &str, more: &[(&str, &str)]) -> Result<NodeBench<Chat>, NodeError> {
        let text = |text: &str| ParamValue::Text(text.to_owned());
        let mut values =
            ParamValues::from([("url".to_owned(), text(url)), ("model".to_owned(), text("small"))]);
        values.extend(more.iter().map(|(name, value)| {
            let value = value.parse().map_or_else(|_| text(value), ParamValue::Int);
            ((*name).to_owned(), value)
        }));
        Chat::open(ChatParams::from_values(&values).unwrap(), &OpenCx::default())
            .map(NodeBench::new)
    }

    fn ask(turn: u64, text: &str) -> Text {
        Text { turn, ..Text::from(text) }
    }

    type Sent = Vec<(&'static str, Packet)>;

    /// Calls the node until it has sent the end of an answer, or a call.
    fn rest(bench: &mut NodeBench<Chat>, mut sent: Sent) -> Sent {
        for call in 1..400 {
            let is_end =
                |(_, packet): &(&str, Packet)| packet.get::<Text>().is_none_or(|text| text.is_last);
            if sent.iter().any(is_end) {
                break;
            }
            thread::sleep(POLL);
            sent.extend(bench.poll(Timestamp(call * 5_000_000)).unwrap().0);
        }
        sent
    }

    fn answer(sent: &Sent) -> String {
        let texts = sent.iter().filter_map(|(_, packet)| packet.get::<Text>());
        texts.map(|text| text.text.as_str()).collect()
    }

    #[test]
    fn answers_are_streamed_and_stay_in_the_history() {
        let delta = |text: &str| json!({"content": text});
        let (url, bodies) = server(vec![
            streamed(&[json!({"role": "assistant"}), delta("it is"), delta(" noon.")]),
            streamed(&[delta("again")]),
        ]);
        let mut bench = open(&url, &[("system", "be short")]).unwrap();
        let sent = bench.call(Chat::TEXT, Timestamp(0), ask(1, "what time is it")).unwrap();
        let sent = rest(&mut bench, sent);
        assert_eq!((answer(&sent).as_str(), sent.len()), ("it is noon.", 3));
        let sent = bench.call(Chat::TEXT, Timestamp(0), ask(2, "say it again")).unwrap();
        assert_eq!(answer(&rest(&mut bench, sent)), "again");
        let body = read(&bodies.lock().unwrap()[1]);
        let roles: Vec<_> =
            body["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user"]);
        assert_eq!((&body["model"], &body["stream"]), (&json!("small"), &json!(true)));
    }

    #[test]
    fn tools_are_called_and_their_results_are_answered() {
        let call = |arguments: &str, name: &str| {
            let function = json!({"name": name, "arguments": arguments});
            json!({"tool_calls": [{"index": 0, "id": "c1", "function": function}]})
        };
        let (url, bodies) = server(vec![
            streamed(&[call("", "light"), call("{\"on\":", ""), call("true}", "")]),
            streamed(&[json!({"content": "done."})]),
        ]);
        let mut bench = open(&url, &[]).unwrap();
        let sent = bench.call(Chat::TEXT, Timestamp(0), ask(1, "light on")).unwrap();
        let sent = rest(&mut bench, sent);
        let call = sent.iter().find_map(|(_, packet)| packet.get::<ToolMessage>()).unwrap();
        assert_eq!((call.tool.as_str(), call.json.as_str()), ("light", "{\"on\":true}"));
        let result = ToolMessage { turn: 1, tool: "light".into(), json: "{\"ok\":true}".into() };
        let sent = bench.call(Chat::RESULTS, Timestamp(1), result).unwrap();
        assert_eq!(answer(&rest(&mut bench, sent)), "done.");
        let body = read(&bodies.lock().unwrap()[1]);
        let last = body["messages"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["role"], &last["tool_call_id"]), (&json!("tool"), &json!("c1")));
    }

    #[test]
    fn a_busy_server_is_asked_again_and_a_refusal_is_not() {
        let (url, bodies) = server(vec![
            failed("503 Service Unavailable", "busy"),
            streamed(&[json!({"content": "hi"})]),
            failed("401 Unauthorized", "no key"),
        ]);
        let mut bench = open(&url, &[]).unwrap();
        let sent = bench.call(Chat::TEXT, Timestamp(0), ask(1, "hello")).unwrap();
        assert_eq!(answer(&rest(&mut bench, sent)), "hi");
        let sent = bench.call(Chat::TEXT, Timestamp(0), ask(2, "hello")).unwrap();
        assert_eq!(answer(&rest(&mut bench, sent)), "sorry, i cannot answer that now.");
        assert_eq!(bodies.lock().unwrap().len(), 3);
    }

    #[test]
    fn an_interrupted_answer_is_kept_as_said() {
        let (url, bodies) = server(vec![
            streamed(&[json!({"content": "one two"})]),
            streamed(&[json!({"content": "three"})]),
        ]);
        let mut bench = open(&url, &[]).unwrap();
        let mut sent = bench.call(Chat::TEXT, Timestamp(0), ask(1, "count")).unwrap();
        while sent.is_empty() {
            thread::sleep(POLL);
            sent = bench.poll(Timestamp(1)).unwrap().0;
        }
        bench.cancel(Timestamp(2)).unwrap();
        let sent = bench.call(Chat::TEXT, Timestamp(3), ask(2, "go on")).unwrap();
        rest(&mut bench, sent);
        let body = read(&bodies.lock().unwrap()[1]);
        assert_eq!(body["messages"][1], json!({"role": "assistant", "content": "one two"}));
    }

    #[test]
    fn wrong_settings_are_explained() {
        let error = |url: &str, more: &[(&str, &str)]| open(url, more).err().unwrap().to_string();
        assert!(error("127.0.0.1", &[]).contains("is no address such as http://"));
        let key = error("http://x", &[("key_env", "AFFERENT_NO_SUCH_KEY")]);
        assert_eq!(
            key,
            "parameter key_env: the environment variable AFFERENT_NO_SUCH_KEY is not set"
        );
        if cfg!(not(feature = "tls")) {
            assert!(error("https://x", &[]).contains("feature `tls`"));
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_answered_with_the_apology() {
        let mut bench = open("http://127.0.0.1:9", &[("retries", "0")]).unwrap();
        let sent = bench.call(Chat::TEXT, Timestamp(0), ask(1, "hello")).unwrap();
        assert!(answer(&rest(&mut bench, sent)).starts_with("sorry"));
    }
}
