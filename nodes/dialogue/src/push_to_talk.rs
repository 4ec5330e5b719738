//! Push-to-talk.

use std::{
    collections::VecDeque,
    io::BufRead,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use afferent_graph::{
    Cx, Node, NodeError, OpenCx, Packet, Port, Timestamp, params, ports, read_duration,
};
use afferent_messages::{AudioBlock, SpeechEvent, SpeechEventKind};

params! {
    /// Settings of [`PushToTalk`].
    pub struct PushToTalkParams {
        /// Time ranges in which the key is held, such as `0.5s-2s, 4s-6s`, for audio from a file.
        /// If absent, the Enter key toggles.
        pub held: Option<String>;
        /// Audio from before the key is pressed that passes too, since people begin to speak while
        /// they press it.
        pub pre_roll: Duration = "300ms", range 0.0..=5.0;
    }
}

/// Passes audio only while a key is held, and the last `pre_roll` before that.
///
/// Blocks pass as a whole: a block passes if the key is held at its last sample, or if it lies within
/// the pre-roll.
///
/// Latency: one block.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{AudioBlock, SampleRate};
/// use afferent_nodes_dialogue::{PushToTalk, PushToTalkParams};
///
/// let held = [("held".to_owned(), ParamValue::Text("1s-2s".to_owned()))].into();
/// let params = PushToTalkParams::from_values(&held)?;
/// let mut bench = NodeBench::new(PushToTalk::open(params, &OpenCx::default())?);
/// let mut block = AudioBlock::default();
/// block.reshape(SampleRate(16_000), 1, 320)?.fill(0.1);
/// assert!(bench.call(PushToTalk::AUDIO, Timestamp(500_000_000), block.clone())?.is_empty());
/// assert_eq!(bench.call(PushToTalk::AUDIO, Timestamp(1_500_000_000), block)?.len(), 2);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct PushToTalk {
    key: Key,
    was_held: bool,
    pre_roll: Duration,
    /// Blocks within the last `pre_roll` that did not pass.
    recent: VecDeque<Packet>,
}

/// Source of the key state.
enum Key {
    /// Start and end of each range of `held`.
    Schedule(Vec<[Timestamp; 2]>),
    /// Number of presses of the Enter key; an odd number means held.
    Enter(Arc<AtomicUsize>),
}

ports! {
    impl PushToTalk {
        /// Audio of the microphone, full scale ±1, any sample rate and channels.
        in AUDIO: AudioBlock;
        /// The blocks during which the key is held and those of the pre-roll, unchanged.
        out HELD = "audio": AudioBlock;
        /// Speech start when the key is pressed, speech end when it is released; replaces the
        /// events of `vad`.
        out EVENTS: SpeechEvent, optional;
    }
}

impl PushToTalk {
    fn is_held(&self, at: Timestamp) -> bool {
        match &self.key {
            Key::Schedule(times) => times.iter().any(|[start, end]| (*start..*end).contains(&at)),
            Key::Enter(presses) => presses.load(Ordering::Relaxed) % 2 == 1,
        }
    }

    /// Keeps the block of this call for the pre-roll.
    fn keep(&mut self, cx: &Cx<'_>, end: Timestamp) {
        let Some(mut packet) = cx.packet().cloned() else { return };
        // A kept block does not count as in flight.
        packet.credit = None;
        self.recent.push_back(packet);
        self.drop_early(end);
    }

    /// Drops the kept blocks that do not lie within the pre-roll of a key press at `at`.
    fn drop_early(&mut self, at: Timestamp) {
        let earliest = at - self.pre_roll;
        self.recent.retain(|packet| (earliest..at).contains(&packet.header.at));
    }

    fn send_event(&mut self, cx: &mut Cx<'_>, held: bool, at: Timestamp) {
        let kind = if held { SpeechEventKind::Start } else { SpeechEventKind::End };
        self.was_held = held;
        cx.send_at(Self::EVENTS, at, SpeechEvent { kind, probability: 1.0 });
    }
}

impl Node for PushToTalk {
    type Params = PushToTalkParams;

    const NAME: &'static str = "push_to_talk";
    const SUMMARY: &'static str = "Passes audio only while a key is held.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "one block";

    fn check(params: &PushToTalkParams, _: &OpenCx) -> Result<(), NodeError> {
        params.held.as_deref().map_or(Ok(()), |held| parse_held(held).map(drop))
    }

    fn open(params: PushToTalkParams, _: &OpenCx) -> Result<Self, NodeError> {
        let key = match params.held.as_deref() {
            Some(held) => Key::Schedule(parse_held(held)?),
            None => Key::Enter(count_enter_presses()?),
        };
        Ok(Self { key, was_held: false, pre_roll: params.pre_roll, recent: VecDeque::new() })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(block) = cx.get(Self::AUDIO) else { return Ok(()) };
        let (at, end) = (cx.at(), cx.at() + block.duration());
        // The state at the last sample: the node sees the Enter key no earlier.
        let held = self.is_held(at.max(end - Duration::from_nanos(1)));
        if held != self.was_held {
            self.send_event(cx, held, at);
        }
        if !held {
            self.keep(cx, end);
        } else {
            self.drop_early(at);
            for packet in self.recent.drain(..) {
                cx.send_packet(Self::HELD.id(), packet);
            }
            cx.forward(Self::AUDIO, Self::HELD);
            // The key is released at the end of this block; no further block may follow.
            if matches!(&self.key, Key::Schedule(_)) && !self.is_held(end) {
                self.send_event(cx, false, end);
            }
        }
        Ok(())
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if self.was_held {
            let now = cx.now();
            self.send_event(cx, false, now);
        }
        Ok(())
    }
}

/// Counts the lines of standard input, on a thread that ends with the process.
fn count_enter_presses() -> Result<Arc<AtomicUsize>, NodeError> {
    let presses = Arc::new(AtomicUsize::new(0));
    let counted = presses.clone();
    let count = move || {
        for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    };
    let thread = thread::Builder::new().name("push_to_talk".to_owned()).spawn(count);
    thread.map_err(|error| NodeError::Device {
        name: "keyboard".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(presses)
}

/// Parses time ranges such as `0.5s-2s, 4s-6s`.
fn parse_held(held: &str) -> Result<Vec<[Timestamp; 2]>, NodeError> {
    let failed = |reason: String| NodeError::InvalidParam { name: "held".into(), reason };
    let time = |text: &str| {
        let time = read_duration(text, None).map_err(|error| failed(error.to_string()))?;
        Ok::<_, NodeError>(Timestamp::ZERO + time)
    };
    let mut times = Vec::new();
    let mut last = Timestamp::ZERO;
    for part in held.split(',') {
        let (start, end) = part.split_once('-').ok_or_else(|| {
            failed(format!("{:?} is not a time range such as 1s-2s", part.trim()))
        })?;
        let (start, end) = (time(start)?, time(end)?);
        if start < last || end <= start {
            let reason = format!(
                "{:?} must end after it starts, and start after the range before it",
                part.trim()
            );
            return Err(failed(reason));
        }
        last = end;
        times.push([start, end]);
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use afferent_graph::NodeBench;
    use afferent_messages::SampleRate;

    use super::*;

    #[test]
    fn time_ranges_are_parsed_or_rejected() {
        let seconds = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let times = parse_held("1s-2s, 4s - 6000ms").unwrap();
        assert_eq!(times, [[seconds(1), seconds(2)], [seconds(4), seconds(6)]]);
        for wrong in ["", "1s", "1-2", "2s-1s", "1s-3s, 2s-4s", "a-b"] {
            let error = parse_held(wrong).unwrap_err().to_string();
            assert!(error.starts_with("parameter held: "), "{error}");
        }
    }

    #[test]
    fn audio_passes_while_the_key_is_held() {
        let expected = [
            "Start 40",
            "audio 40",
            "audio 60",
            "audio 80",
            "End 100",
            "Start 140",
            "audio 140",
            "audio 160",
            "audio 180",
            "End 200",
        ];
        check("40ms-100ms, 140ms-10s", &expected);
    }

    #[test]
    fn the_key_state_at_the_end_of_a_block_decides() {
        check("50ms-90ms", &["Start 40", "audio 40", "audio 60", "End 80"]);
        check("45ms-100ms", &["Start 40", "audio 40", "audio 60", "audio 80", "End 100"]);
        check("45ms-55ms", &[]);
    }

    #[test]
    fn audio_from_before_the_key_is_pressed_passes_once() {
        let expected = [
            "Start 60",
            "audio 20",
            "audio 40",
            "audio 60",
            "End 80",
            "Start 100",
            "audio 80",
            "audio 100",
            "End 120",
        ];
        check_with_pre_roll("60ms-80ms, 100ms-120ms", 50, &expected);
    }

    fn check(held: &str, expected: &[&str]) {
        check_with_pre_roll(held, 0, expected);
    }

    /// Output for 200 ms of audio in blocks of 20 ms.
    fn check_with_pre_roll(held: &str, pre_roll_ms: u64, expected: &[&str]) {
        let pre_roll = Duration::from_millis(pre_roll_ms);
        let params = PushToTalkParams { held: Some(held.to_owned()), pre_roll };
        let mut bench = NodeBench::new(PushToTalk::open(params, &OpenCx::default()).unwrap());
        let mut sent = Vec::new();
        for number in 0..10 {
            let mut block = AudioBlock::default();
            block.reshape(SampleRate(1000), 1, 20).unwrap().fill(0.5);
            let at = Timestamp(number * 20_000_000);
            sent.extend(bench.call(PushToTalk::AUDIO, at, block).unwrap());
        }
        sent.extend(bench.finish(Timestamp(200_000_000)).unwrap());
        let output = sent.iter().map(|(port, packet)| {
            let ms = packet.header.at.0 / 1_000_000;
            match packet.get::<SpeechEvent>() {
                Some(event) => format!("{:?} {ms}", event.kind),
                None => format!("{port} {ms}"),
            }
        });
        assert_eq!(output.collect::<Vec<_>>(), expected, "{held}");
    }
}
