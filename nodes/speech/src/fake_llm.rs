//! Scripted stand-in for `llm`.

use std::{collections::VecDeque, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{Played, Text, ToolMessage, Word};

use crate::{
    heard_words::HeardWords,
    script::{Script, check_texts},
};

params! {
    /// Settings of [`FakeLlm`].
    pub struct FakeLlmParams {
        /// Answers in order, separated by "|"; the first follows the last. An answer that begins
        /// with "call:" is a tool call, such as `call: weather {"city": "Bern"}`. In an answer,
        /// "{text}" is replaced by the user text, "{heard}" by the part of the previous answer that
        /// was heard, and "{json}" by the result of the tool.
        pub answers: String;
        /// Time from the user text, or from the tool result, to the first word.
        pub first_token: Duration = "200ms", range 0.0..=60.0;
        /// Time from one word to the next.
        pub token: Duration = "50ms", range 0.0..=60.0;
        /// Longest time of a tool call, after which `apology` is the answer.
        pub tool_timeout: Duration = "10s", range 0.01..=600.0;
        /// Answer if a tool times out.
        pub apology: String = "sorry";
    }
}

/// Sends scripted answers, in place of `llm` in graph tests.
///
/// Input that arrives during an answer waits for its end. An interrupt ends the answer. All times
/// are those of the session clock, so every run on the virtual clock is the same.
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
/// assert_eq!(ms, [200, 250, 300, 300], "three words and the end");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct FakeLlm {
    params: FakeLlmParams,
    script: Script,
    turn: u64,
    /// User text of the turn.
    text: String,
    /// Rest of the answer, and the time at which its next token is sent.
    tokens: VecDeque<Token>,
    due: Timestamp,
    /// Deadline of the tool call in progress.
    tool_deadline: Option<Timestamp>,
    /// The last answer.
    answer: String,
    /// Words of the answer that were heard.
    heard: HeardWords,
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
    /// Begins the answer to a user text.
    fn on_text(&mut self, text: &Text, now: Timestamp) {
        let heard: Vec<_> = self.answer.split_whitespace().take(self.heard.count()).collect();
        let heard = heard.join(" ");
        (self.turn, self.text, self.tool_deadline) = (text.turn, text.text.clone(), None);
        self.heard = HeardWords::for_turn(text.turn);
        let answer = self.script.next().replace("{heard}", &heard);
        self.begin(&answer, now);
    }

    /// Begins an answer or a tool call.
    fn begin(&mut self, answer: &str, now: Timestamp) {
        self.due = now + self.params.first_token;
        if let Some(call) = answer.strip_prefix("call:") {
            let (tool, json) = call.trim().split_once(' ').unwrap_or((call.trim(), "{}"));
            self.tokens.push_back(Token::Call(tool.to_owned(), json.trim().to_owned()));
            return;
        }
        self.answer = answer.replace("{text}", &self.text);
        // The space before a word belongs to its token.
        let words = self.answer.split_whitespace().enumerate();
        let word = |(index, word): (usize, &str)| {
            Token::Word(if index == 0 { word.to_owned() } else { format!(" {word}") })
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
                    // The end is sent with the last word.
                    if !matches!(self.tokens.front(), Some(Token::End)) {
                        self.due = self.due + self.params.token;
                    }
                }
                Token::End => {
                    let (text, is_last) = (String::new(), true);
                    cx.send_at(Self::ANSWER, now, Text { turn, text, is_last });
                }
                Token::Call(tool, json) => {
                    self.tool_deadline = Some(now + self.params.tool_timeout);
                    cx.send_at(Self::CALLS, now, ToolMessage { turn, tool, json });
                }
            }
        }
        if !self.tokens.is_empty() {
            cx.resume_at(self.due);
        } else if let Some(until) = self.tool_deadline {
            cx.wake_at(until);
        }
    }
}

impl Node for FakeLlm {
    type Params = FakeLlmParams;

    const NAME: &'static str = "fake_llm";
    const SUMMARY: &'static str = "Sends scripted answers, for tests.";
    const PORTS: &'static [Port] = Self::PORTS;
    const TIMED: bool = true;
    const LATENCY: &'static str = "first_token, then token for each word";

    fn check(params: &FakeLlmParams, _: &OpenCx) -> Result<(), NodeError> {
        check_texts("answers", &params.answers)
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
            tool_deadline: None,
            answer: String::new(),
            heard: HeardWords::default(),
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let now = cx.now();
        if let Some(word) = cx.get(Self::WORDS) {
            self.heard.add_word(cx.at(), word);
        } else if let Some(played) = cx.get(Self::PLAYED) {
            self.heard.on_played(played);
        } else if let Some(result) = cx.get(Self::RESULTS) {
            if self.tool_deadline.is_some() && result.turn == self.turn {
                self.tool_deadline = None;
                let answer = self.script.next().replace("{json}", &result.json);
                self.begin(&answer, now);
            }
        } else if let Some(text) = cx.get(Self::TEXT) {
            self.on_text(text, now);
        } else if self.tool_deadline.is_some_and(|until| until <= now) {
            self.tool_deadline = None;
            let apology = self.params.apology.clone();
            self.begin(&apology, now);
        }
        self.send_due(cx);
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.tokens.clear();
        self.tool_deadline = None;
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

    fn texts(sent: &[(Timestamp, &str, Packet)]) -> String {
        sent.iter().filter_map(|(.., packet)| Some(packet.get::<Text>()?.text.as_str())).collect()
    }

    #[test]
    fn answers_are_sent_in_order_and_interrupts_end_them() {
        let mut llm = open("it is noon | i said {heard}");
        ask(&mut llm, ms(0), 0);
        assert_eq!(texts(&llm.advance(ms(260)).unwrap()), "it is");
        for (at, position) in [(100, 1), (200, 2)] {
            let word = Word { position, ..Word::default() };
            llm.call(FakeLlm::WORDS, ms(at), word).unwrap();
        }
        llm.call(FakeLlm::PLAYED, ms(260), Played { until: ms(150), is_playing: true }).unwrap();
        llm.cancel(ms(260)).unwrap();
        assert!(llm.advance(ms(500)).unwrap().is_empty());
        ask(&mut llm, ms(500), 1);
        let sent = llm.advance(ms(900)).unwrap();
        assert_eq!((texts(&sent).as_str(), sent[0].0), ("i said it", ms(700)));
        let last = sent.last().unwrap().2.get::<Text>().unwrap();
        assert_eq!((last.turn, last.is_last), (1, true));
    }

    #[test]
    fn a_tool_call_waits_for_its_result() {
        let mut llm = open("call: weather {\"city\": \"Bern\"} | it rains");
        ask(&mut llm, ms(0), 4);
        let sent = llm.advance(ms(1000)).unwrap();
        let call = sent[0].2.get::<ToolMessage>().unwrap().clone();
        assert_eq!((call.tool.as_str(), call.json.as_str()), ("weather", "{\"city\": \"Bern\"}"));
        let wrong = ToolMessage { turn: 7, ..call.clone() };
        llm.call(FakeLlm::RESULTS, ms(1000), wrong).unwrap();
        assert!(llm.advance(ms(2000)).unwrap().is_empty(), "results of other turns are ignored");
        llm.call(FakeLlm::RESULTS, ms(2000), call.clone()).unwrap();
        assert_eq!(texts(&llm.advance(ms(3000)).unwrap()), "it rains");
        ask(&mut llm, ms(3000), 5);
        let late = llm.advance(ms(20_000)).unwrap();
        assert_eq!((texts(&late).as_str(), late.last().unwrap().0), ("sorry", ms(13_400)));
    }
}
