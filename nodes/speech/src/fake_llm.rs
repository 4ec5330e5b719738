//! Answers what it was told to answer.

use std::{collections::VecDeque, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{Played, Text, ToolMessage, Word};

use crate::{
    heard::Heard,
    script::{Script, no_text},
};

params! {
    /// Settings of [`FakeLlm`].
    pub struct FakeLlmParams {
        /// The answers, one after the other, with "|" between them; then from the first again. One
        /// that begins with "call:" is a call of a tool: "call: weather {\"place\": \"Bern\"}". In
        /// an answer, "{text}" stands for what the user says, "{heard}" for what he heard of the
        /// answer before, "{json}" for what a tool gave.
        pub answers: String;
        /// Time from what the user says, or from what a tool gave, to the first token.
        pub first_token: Duration = "200ms", range 0.0..=60.0;
        /// Time from one token to the next.
        pub token: Duration = "50ms", range 0.0..=60.0;
        /// How long a tool may take; after that, `apology` is the answer.
        pub tool_timeout: Duration = "10s", range 0.01..=600.0;
        /// What is said when a tool gives nothing.
        pub apology: String = "sorry";
    }
}

/// Answers what it was told to answer, in the place of `llm` in tests of the rest of a graph.
///
/// What comes during an answer waits for its end. An interrupt ends the answer. Times are those of
/// the clock of the session, so that on the virtual clock it does the same in every run.
///
/// Latency: `first_token`, then `token` for each word.
///
/// ```
/// use std::time::Duration;
///
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::Text;
/// use afferent_nodes_speech::{FakeLlm, FakeLlmParams};
///
/// let values = [("answers".to_owned(), ParamValue::Text("it is noon".to_owned()))].into();
/// let params = FakeLlmParams::from_values(&values).unwrap();
/// let mut llm = NodeBench::new(FakeLlm::open(params, &OpenCx::default())?);
/// llm.call(FakeLlm::TEXT, Timestamp(0), Text::from("what time is it"))?;
/// let sent = llm.advance(Timestamp::ZERO + Duration::from_secs(1))?;
/// let ms: Vec<_> = sent.iter().map(|(now, ..)| now.0 / 1_000_000).collect();
/// assert_eq!(ms, [200, 250, 300, 300], "three words, and the end");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct FakeLlm {
    params: FakeLlmParams,
    script: Script,
    turn: u64,
    /// What the user says in it.
    text: String,
    /// What is still to be said, and when the next part is due.
    tokens: VecDeque<Token>,
    due: Timestamp,
    /// A tool was called, and its result is waited for until then.
    waiting: Option<Timestamp>,
    /// The answer.
    answer: String,
    /// How much of it was heard.
    heard: Heard,
}

/// A part of an answer.
enum Token {
    Word(String),
    End,
    Call(String, String),
}

ports! {
    impl FakeLlm {
        /// User text of a turn.
        in TEXT: Text;
        /// Result of the last tool call.
        in RESULTS: ToolMessage, optional;
        /// Words of the answer, timestamped with their time in the synthesized audio.
        in WORDS: Word, optional;
        /// Playback position of that audio.
        in PLAYED: Played, optional;
        /// The answer, one packet per word; the last piece is marked.
        out ANSWER: Text;
        /// A tool call in place of an answer.
        out CALLS: ToolMessage, optional;
    }
}

impl FakeLlm {
    /// Takes in what the user says.
    fn ask(&mut self, text: &Text, now: Timestamp) {
        let heard: Vec<_> = self.answer.split_whitespace().take(self.heard.words()).collect();
        let heard = heard.join(" ");
        (self.turn, self.text, self.waiting) = (text.turn, text.text.clone(), None);
        self.heard = Heard::of(text.turn);
        let answer = self.script.next().replace("{heard}", &heard);
        self.begin(&answer, now);
    }

    /// Begins an answer, or a call.
    fn begin(&mut self, answer: &str, now: Timestamp) {
        self.due = now + self.params.first_token;
        if let Some(call) = answer.strip_prefix("call:") {
            let (tool, json) = call.trim().split_once(' ').unwrap_or((call.trim(), "{}"));
            self.tokens.push_back(Token::Call(tool.to_owned(), json.trim().to_owned()));
            return;
        }
        self.answer = answer.replace("{text}", &self.text);
        // A space belongs to the word behind it.
        let words = self.answer.split_whitespace().enumerate();
        let word = |(place, word): (usize, &str)| {
            Token::Word(if place == 0 { word.to_owned() } else { format!(" {word}") })
        };
        self.tokens.extend(words.map(word));
        self.tokens.push_back(Token::End);
    }

    fn send_due(&mut self, cx: &mut Cx<'_>) {
        let (now, turn) = (cx.now(), self.turn);
        while self.due <= now
            && let Some(token) = self.tokens.pop_front()
        {
            match token {
                Token::Word(text) => {
                    cx.send_at(Self::ANSWER, now, Text { turn, text, is_last: false });
                    // The end is known with the last word.
                    if !matches!(self.tokens.front(), Some(Token::End)) {
                        self.due = self.due + self.params.token;
                    }
                }
                Token::End => {
                    let (text, is_last) = (String::new(), true);
                    cx.send_at(Self::ANSWER, now, Text { turn, text, is_last });
                }
                Token::Call(tool, json) => {
                    self.waiting = Some(now + self.params.tool_timeout);
                    cx.send_at(Self::CALLS, now, ToolMessage { turn, tool, json });
                }
            }
        }
        if !self.tokens.is_empty() {
            cx.resume_at(self.due);
        } else if let Some(until) = self.waiting {
            cx.wake_at(until);
        }
    }
}

impl Node for FakeLlm {
    type Params = FakeLlmParams;

    const NAME: &'static str = "fake_llm";
    const SUMMARY: &'static str = "Answers what it was told to answer, for tests.";
    const PORTS: &'static [Port] = Self::PORTS;
    const TIMED: bool = true;
    const LATENCY: &'static str = "`first_token`, then `token` for each word";

    fn check(params: &FakeLlmParams, _: &OpenCx) -> Result<(), NodeError> {
        no_text("answers", &params.answers)
    }

    fn open(params: FakeLlmParams, cx: &OpenCx) -> Result<Self, NodeError> {
        Self::check(&params, cx)?;
        Ok(Self {
            script: Script::new(&params.answers),
            params,
            turn: 0,
            text: String::new(),
            tokens: VecDeque::new(),
            due: Timestamp::ZERO,
            waiting: None,
            answer: String::new(),
            heard: Heard::default(),
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let now = cx.now();
        if let Some(word) = cx.get(Self::WORDS) {
            self.heard.said_at(cx.at(), word);
        } else if let Some(played) = cx.get(Self::PLAYED) {
            self.heard.played(played);
        } else if let Some(result) = cx.get(Self::RESULTS) {
            if self.waiting.is_some() && result.turn == self.turn {
                self.waiting = None;
                let answer = self.script.next().replace("{json}", &result.json);
                self.begin(&answer, now);
            }
        } else if let Some(text) = cx.get(Self::TEXT) {
            self.ask(text, now);
        } else if self.waiting.is_some_and(|until| until <= now) {
            self.waiting = None;
            let apology = self.params.apology.clone();
            self.begin(&apology, now);
        }
        self.send_due(cx);
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.tokens.clear();
        self.waiting = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, Packet, ParamValue, Params};

    use super::*;

    fn open(answers: &str) -> NodeBench<FakeLlm> {
        let values = [("answers".to_owned(), ParamValue::Text(answers.to_owned()))].into();
        let params = FakeLlmParams::from_values(&values).expect("settings of the test");
        NodeBench::new(FakeLlm::open(params, &OpenCx::default()).expect("settings of the test"))
    }

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    fn ask(llm: &mut NodeBench<FakeLlm>, at: Timestamp, turn: u64) {
        llm.call(FakeLlm::TEXT, at, Text { turn, ..Text::from("?") }).expect("it takes any text");
    }

    fn said(sent: &[(Timestamp, &str, Packet)]) -> String {
        sent.iter().filter_map(|(.., packet)| Some(packet.get::<Text>()?.text.as_str())).collect()
    }

    #[test]
    fn answers_come_in_their_order_and_an_interrupt_ends_one() {
        let mut llm = open("it is noon | i said {heard}");
        ask(&mut llm, ms(0), 0);
        assert_eq!(said(&llm.advance(ms(260)).unwrap()), "it is");
        for (at, position) in [(100, 1), (200, 2)] {
            let word = Word { position, ..Word::default() };
            llm.call(FakeLlm::WORDS, ms(at), word).unwrap();
        }
        llm.call(FakeLlm::PLAYED, ms(260), Played { until: ms(150), is_playing: true }).unwrap();
        llm.cancel(ms(260)).unwrap();
        assert!(llm.advance(ms(500)).unwrap().is_empty());
        ask(&mut llm, ms(500), 1);
        let sent = llm.advance(ms(900)).unwrap();
        assert_eq!((said(&sent).as_str(), sent[0].0), ("i said it", ms(700)));
        let last = sent.last().unwrap().2.get::<Text>().unwrap();
        assert_eq!((last.turn, last.is_last), (1, true));
    }

    #[test]
    fn a_call_waits_for_its_tool() {
        let mut llm = open("call: weather {\"place\": \"Bern\"} | it rains");
        ask(&mut llm, ms(0), 4);
        let sent = llm.advance(ms(1000)).unwrap();
        let call = sent[0].2.get::<ToolMessage>().unwrap().clone();
        assert_eq!((call.tool.as_str(), call.json.as_str()), ("weather", "{\"place\": \"Bern\"}"));
        let wrong = ToolMessage { turn: 7, ..call.clone() };
        llm.call(FakeLlm::RESULTS, ms(1000), wrong).unwrap();
        assert!(llm.advance(ms(2000)).unwrap().is_empty(), "nobody waits for that");
        llm.call(FakeLlm::RESULTS, ms(2000), call.clone()).unwrap();
        assert_eq!(said(&llm.advance(ms(3000)).unwrap()), "it rains");
        ask(&mut llm, ms(3000), 5);
        let late = llm.advance(ms(20_000)).unwrap();
        assert_eq!((said(&late).as_str(), late.last().unwrap().0), ("sorry", ms(13_400)));
    }
}
