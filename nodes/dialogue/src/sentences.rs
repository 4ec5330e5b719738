//! Segmentation of text for speech synthesis.

use std::{collections::VecDeque, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, choices, params, ports};
use afferent_messages::{Text, TurnEvent, TurnEventKind};

choices! {
    /// Unit into which text is cut.
    pub enum Unit {
        /// Sentences: cut after periods, question marks, and exclamation marks.
        Sentence = "sentence",
        /// Clauses: also cut after commas, colons, and semicolons.
        Clause = "clause",
        /// Each input piece is passed on as it is.
        Token = "token",
    }
}

params! {
    /// Settings of [`Sentences`].
    pub struct SentencesParams {
        /// Unit into which text is cut.
        pub unit: Unit = "clause";
        /// Least length of a part; the last part of a turn may be shorter.
        pub min_chars: usize = "12", range 1.0..=1000.0, unit "characters";
        /// Time after which waiting text is sent up to its last whole word; `0s` waits for the end
        /// of the part.
        pub max_wait: Duration = "1s", range 0.0..=60.0;
        /// Hold the answer to a turn until the turn has ended; requires `turns`.
        pub hold: bool = "false";
    }
}

/// Cuts streamed text into sentences or clauses for speech synthesis.
///
/// A punctuation mark ends a part only if a space follows, so `3.5` and `7:30` stay whole;
/// abbreviations such as `Mr.` do not end a part. The parts of a turn, joined, are its text except
/// for the spaces between them. Pending text is discarded when another turn begins, when the same
/// turn is answered again, and on an interrupt. A notice is sent unchanged, after the current
/// answer; after an interrupt it waits for `max_wait`.
///
/// Latency: until the end of a part, at most `max_wait`.
///
/// ```
/// use std::time::Duration;
///
/// use afferent_graph::{Node, NodeBench, OpenCx, Timestamp};
/// use afferent_messages::Text;
/// use afferent_nodes_dialogue::{Sentences, SentencesParams};
///
/// let params: SentencesParams = afferent_graph::Params::from_values(&[].into())?;
/// let mut bench = NodeBench::new(Sentences::open(params, &OpenCx::default())?);
/// let piece = |text: &str| Text { turn: 1, text: text.to_owned(), is_last: false };
/// assert!(bench.call(Sentences::TEXT, Timestamp(0), piece("It is half past seven."))?.is_empty());
/// let sent = bench.call(Sentences::TEXT, Timestamp(1), piece(" You"))?;
/// assert_eq!(sent[0].1.get::<Text>().unwrap().text, "It is half past seven.");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Sentences {
    params: SentencesParams,
    turn: u64,
    /// Text of the turn that was not sent, and the time since which it waits.
    pending: String,
    pending_since: Timestamp,
    /// Parts of turns that have not ended.
    held: VecDeque<Text>,
    /// Last turn that has ended.
    ended_turn: Option<u64>,
    /// Notices that wait for the end of an answer.
    notices: VecDeque<Text>,
    is_answering: bool,
    /// Time before which no notice is sent, after an interrupt.
    notices_after: Timestamp,
}

ports! {
    impl Sentences {
        /// Pieces of text, such as tokens; the last piece of a turn is marked.
        in TEXT: Text, many;
        /// Start and end of the user's turns; required if `hold` is set.
        in TURNS: TurnEvent, optional;
        /// Whole texts that answer no turn, such as an alarm.
        in NOTICES: Text, optional;
        /// The same text in sentences or clauses; the last one of a turn is marked.
        out PARTS = "text": Text;
    }
}

impl Sentences {
    fn on_text(&mut self, cx: &mut Cx<'_>, text: &Text) {
        let is_new = text.turn != self.turn || !self.is_answering;
        self.is_answering = !text.is_last;
        if is_new {
            self.turn = text.turn;
            self.pending.clear();
            // The user resumed the turn: this is another answer to it.
            self.held.retain(|part| part.turn != text.turn);
        }
        if self.pending.is_empty() {
            self.pending_since = cx.now();
        }
        self.pending.push_str(&text.text);
        if self.params.unit == Unit::Token {
            let part = std::mem::take(&mut self.pending);
            self.send(cx, part, text.is_last);
            return;
        }
        let (min_chars, unit) = (self.params.min_chars, self.params.unit);
        while let Some(end) = first_part_end(&self.pending, min_chars, unit) {
            self.send_until(cx, end);
        }
        if text.is_last {
            let part = std::mem::take(&mut self.pending);
            self.send(cx, part, true);
        } else if !self.pending.trim().is_empty() && !self.params.max_wait.is_zero() {
            cx.wake_at(self.pending_since + self.params.max_wait);
        }
    }

    /// Sends the pending text up to byte `end`.
    fn send_until(&mut self, cx: &mut Cx<'_>, end: usize) {
        let rest = self.pending.split_off(end);
        let part = std::mem::replace(&mut self.pending, rest);
        self.pending_since = cx.now();
        self.send(cx, part, false);
    }

    /// Sends the pending text up to its last whole word, once it has waited for `max_wait`.
    fn flush_overdue(&mut self, cx: &mut Cx<'_>) {
        let due = self.pending_since + self.params.max_wait;
        if self.pending.trim().is_empty() {
            return;
        }
        if cx.now() < due {
            cx.wake_at(due);
            return;
        }
        // The last word may be incomplete.
        match self.pending.rfind(char::is_whitespace) {
            Some(end) if end >= self.params.min_chars => self.send_until(cx, end),
            // A single word waits for the next piece.
            _ => {
                self.pending_since = cx.now();
                return;
            }
        }
        if !self.pending.trim().is_empty() {
            cx.wake_at(self.pending_since + self.params.max_wait);
        }
    }

    fn send(&mut self, cx: &mut Cx<'_>, part: String, is_last: bool) {
        let text = part.trim().to_owned();
        if text.is_empty() && !is_last {
            return;
        }
        let text = Text { turn: self.turn, text, is_last };
        if self.params.hold && self.ended_turn.is_none_or(|ended| ended < text.turn) {
            self.held.push_back(text);
        } else {
            cx.send(Self::PARTS, text);
        }
    }

    /// Sends notices, unless an answer is in progress or was just interrupted.
    fn send_notices(&mut self, cx: &mut Cx<'_>) {
        if self.notices.is_empty() || self.is_answering {
            return;
        }
        if cx.now() < self.notices_after {
            cx.wake_at(self.notices_after);
            return;
        }
        self.notices.drain(..).for_each(|text| cx.send(Self::PARTS, text));
    }

    fn on_turn(&mut self, cx: &mut Cx<'_>, event: TurnEvent) {
        match event.kind {
            TurnEventKind::End => self.ended_turn = Some(event.turn),
            TurnEventKind::Start | TurnEventKind::Resume => {
                self.ended_turn = event.turn.checked_sub(1);
            }
            TurnEventKind::Stop => self.held.retain(|text| text.turn != event.turn),
        }
        let ended = self.ended_turn;
        while let Some(text) = self.held.pop_front_if(|text| ended >= Some(text.turn)) {
            cx.send(Self::PARTS, text);
        }
    }
}

impl Node for Sentences {
    type Params = SentencesParams;

    const NAME: &'static str = "sentences";
    const SUMMARY: &'static str =
        "Cuts streamed text into sentences or clauses for speech synthesis.";
    const PORTS: &'static [Port] = Self::PORTS;
    const TIMED: bool = true;
    const LATENCY: &'static str = "until the end of a part, at most max_wait";

    fn open(params: SentencesParams, cx: &OpenCx) -> Result<Self, NodeError> {
        if params.hold {
            cx.needs("hold", &[Self::TURNS.name()], "turn_detector")?;
        }
        Ok(Self {
            params,
            turn: 0,
            pending: String::new(),
            pending_since: Timestamp::ZERO,
            held: VecDeque::new(),
            ended_turn: None,
            notices: VecDeque::new(),
            is_answering: false,
            notices_after: Timestamp::ZERO,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(text) = cx.get(Self::TEXT).cloned() {
            self.on_text(cx, &text);
        } else if let Some(event) = cx.get(Self::TURNS).copied() {
            self.on_turn(cx, event);
        } else if let Some(notice) = cx.get(Self::NOTICES).cloned() {
            self.notices.push_back(Text { is_last: true, ..notice });
        } else {
            self.flush_overdue(cx);
        }
        self.send_notices(cx);
        Ok(())
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let part = std::mem::take(&mut self.pending);
        if !part.trim().is_empty() {
            self.send(cx, part, true);
        }
        self.notices.drain(..).for_each(|text| cx.send(Self::PARTS, text));
        if let Some(first) = self.held.front() {
            let count = self.held.len();
            tracing::warn!("dropped {count} parts: turn {} has not ended", first.turn);
        }
        Ok(())
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.pending.clear();
        self.held.clear();
        self.is_answering = false;
        self.notices_after = cx.now() + self.params.max_wait;
        self.send_notices(cx);
        Ok(())
    }
}

/// End of the first part of `text` with at least `min_chars` characters; `None` if it is
/// incomplete.
fn first_part_end(text: &str, min_chars: usize, unit: Unit) -> Option<usize> {
    let mut chars = text.char_indices().enumerate().peekable();
    while let Some((number, (at, c))) = chars.next() {
        let ends = match c {
            '.' | '!' | '?' | '…' => true,
            ',' | ';' | ':' => unit == Unit::Clause,
            // Marks of languages without spaces.
            '。' | '！' | '？' => return Some(at + c.len_utf8()),
            _ => false,
        };
        let followed = chars.peek().is_some_and(|(_, (_, next))| next.is_whitespace());
        if ends && followed && number + 1 >= min_chars && !is_abbreviation(&text[..at], c) {
            return Some(at + c.len_utf8());
        }
    }
    None
}

/// True if `mark` after `text` is the period of an abbreviation.
fn is_abbreviation(text: &str, mark: char) -> bool {
    const KNOWN: [&str; 11] =
        ["mr", "mrs", "ms", "dr", "st", "vs", "e.g", "i.e", "a.m", "p.m", "no"];
    let is_before = |c: char| c.is_whitespace() || matches!(c, '(' | '[' | '"' | '“' | '‘' | '*');
    let word = text.rsplit(is_before).next().unwrap_or(text).trim_start_matches('\'');
    let is_initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    mark == '.' && (is_initial || KNOWN.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValues, Params};

    use super::*;

    fn open(settings: &[(&str, &str)]) -> NodeBench<Sentences> {
        let mut values = ParamValues::new();
        for (name, text) in settings {
            let param = SentencesParams::PARAMS.iter().find(|param| param.name == *name).unwrap();
            values.insert((*name).to_owned(), param.parse(text).unwrap());
        }
        let params = SentencesParams::from_values(&values).unwrap();
        NodeBench::new(Sentences::open(params, &OpenCx::default()).unwrap())
    }

    fn piece(turn: u64, text: &str, is_last: bool) -> Text {
        Text { turn, text: text.to_owned(), is_last }
    }

    /// Checks the parts of `text`, received character by character.
    fn check(settings: &[(&str, &str)], text: &str, expected: &[&str]) {
        let mut bench = open(settings);
        let mut parts = Vec::new();
        for (number, c) in text.char_indices() {
            let is_last = number + c.len_utf8() == text.len();
            let piece = piece(0, &c.to_string(), is_last);
            parts.extend(bench.call(Sentences::TEXT, Timestamp(0), piece).unwrap());
        }
        let parts: Vec<_> = parts.iter().map(|(_, packet)| packet.get::<Text>().unwrap()).collect();
        let texts: Vec<_> = parts.iter().map(|part| part.text.as_str()).collect();
        assert_eq!(texts, expected, "{text}");
        let last = parts.iter().position(|part| part.is_last);
        assert_eq!(last, Some(parts.len() - 1), "only the last part is marked");
    }

    #[test]
    fn text_is_cut_after_punctuation() {
        let text = "Well, I know. At 7:30, Mr. Smith, it is 3.5 degrees! Really?";
        let clauses = ["Well, I know.", "At 7:30, Mr. Smith,", "it is 3.5 degrees!", "Really?"];
        check(&[], text, &clauses);
        let sentences = ["Well, I know.", "At 7:30, Mr. Smith, it is 3.5 degrees!", "Really?"];
        check(&[("unit", "sentence")], text, &sentences);
        let quoted = "He said \"Mr. Smith called\", “Dr. Lee” and 'St. Ives'.";
        check(&[("unit", "sentence")], quoted, &[quoted]);
        check(&[("min_chars", "1")], "Oh, no. A. Einstein.", &["Oh,", "no. A. Einstein."]);
        check(&[("min_chars", "100")], text, &[text]);
        check(&[("unit", "token")], "a b", &["a", "b"]);
        check(&[], "你好。再见", &["你好。", "再见"]);
    }

    #[test]
    fn overdue_text_is_sent_up_to_its_last_whole_word() {
        let mut bench = open(&[("max_wait", "100ms")]);
        let ms = |ms: i64| Timestamp(ms * 1_000_000);
        bench.call(Sentences::TEXT, ms(0), piece(0, "the very long rop", false)).unwrap();
        let sent = bench.advance(ms(150)).unwrap();
        assert_eq!(sent.len(), 1);
        assert_eq!(
            (sent[0].0, sent[0].2.get::<Text>().unwrap().text.as_str()),
            (ms(100), "the very long")
        );
        let sent = bench.call(Sentences::TEXT, ms(160), piece(0, "e", true)).unwrap();
        assert_eq!(sent[0].1.get::<Text>(), Some(&piece(0, "rope", true)));
    }

    #[test]
    fn an_answer_is_held_until_its_turn_ends() {
        let mut bench = open(&[("hold", "true")]);
        let turn = |turn, kind| TurnEvent { turn, kind };
        let at = Timestamp(0);
        bench.call(Sentences::TURNS, at, turn(0, TurnEventKind::Start)).unwrap();
        assert!(
            bench.call(Sentences::TEXT, at, piece(0, "Yes, of course.", true)).unwrap().is_empty()
        );
        let sent = bench.call(Sentences::TURNS, at, turn(0, TurnEventKind::End)).unwrap();
        assert_eq!(sent.len(), 1);
        let sent = bench.call(Sentences::TEXT, at, piece(0, "More.", true)).unwrap();
        assert_eq!(sent.len(), 1, "the turn has ended");
        bench.call(Sentences::TURNS, at, turn(0, TurnEventKind::Resume)).unwrap();
        assert!(bench.call(Sentences::TEXT, at, piece(0, "No.", true)).unwrap().is_empty());
        bench.cancel(at).unwrap();
        assert!(bench.call(Sentences::TURNS, at, turn(0, TurnEventKind::End)).unwrap().is_empty());
    }

    #[test]
    fn a_second_answer_to_a_turn_replaces_the_first() {
        let mut bench = open(&[("hold", "true")]);
        let turn = |kind| TurnEvent { turn: 0, kind };
        let at = Timestamp(0);
        bench.call(Sentences::TURNS, at, turn(TurnEventKind::Start)).unwrap();
        for part in [piece(0, "It is half past nine.", true), piece(0, "It is", false)] {
            assert!(bench.call(Sentences::TEXT, at, part).unwrap().is_empty());
        }
        bench.call(Sentences::TEXT, at, piece(0, " noon in London.", true)).unwrap();
        let sent = bench.call(Sentences::TURNS, at, turn(TurnEventKind::End)).unwrap();
        let texts: Vec<_> = sent.iter().filter_map(|(_, packet)| packet.get::<Text>()).collect();
        assert_eq!(texts, [&piece(0, "It is noon in London.", true)]);
    }

    #[test]
    fn an_incomplete_word_waits_without_wake_ups() {
        let mut bench = open(&[("max_wait", "100ms")]);
        bench.call(Sentences::TEXT, Timestamp(0), piece(0, "Hello", false)).unwrap();
        assert!(bench.advance(Timestamp(1_000_000_000)).unwrap().is_empty());
        assert_eq!(bench.asked().wake, None);
    }

    #[test]
    fn a_notice_waits_for_the_end_of_an_answer_and_survives_an_interrupt() {
        let mut bench = open(&[("max_wait", "1s")]);
        let ms = |ms: i64| Timestamp(ms * 1_000_000);
        let over = piece(1, "your timer is over.", true);
        let sent = bench.call(Sentences::NOTICES, ms(0), over.clone()).unwrap();
        assert_eq!(sent[0].1.get::<Text>(), Some(&over), "no answer is in progress");

        bench.call(Sentences::TEXT, ms(1), piece(2, "no", false)).unwrap();
        assert!(bench.call(Sentences::NOTICES, ms(2), over.clone()).unwrap().is_empty());
        let sent = bench.call(Sentences::TEXT, ms(3), piece(2, "on.", true)).unwrap();
        let texts: Vec<_> = sent.iter().filter_map(|(_, packet)| packet.get::<Text>()).collect();
        assert_eq!(texts, [&piece(2, "noon.", true), &over]);

        bench.call(Sentences::TEXT, ms(10), piece(3, "no", false)).unwrap();
        bench.call(Sentences::NOTICES, ms(11), over.clone()).unwrap();
        bench.cancel(ms(20)).unwrap();
        let sent = bench.advance(ms(5000)).unwrap();
        let sent: Vec<_> = sent.iter().map(|(at, _, packet)| (*at, packet.get::<Text>())).collect();
        assert_eq!(sent, [(ms(1020), Some(&over))]);
    }

    #[test]
    fn another_turn_discards_pending_text() {
        let mut bench = open(&[]);
        bench.call(Sentences::TEXT, Timestamp(0), piece(0, "unfinished", false)).unwrap();
        let sent = bench.call(Sentences::TEXT, Timestamp(0), piece(1, "New.", true)).unwrap();
        assert_eq!(sent[0].1.get::<Text>(), Some(&piece(1, "New.", true)));
        assert_eq!(sent.len(), 1);
    }
}
