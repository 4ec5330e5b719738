//! Listens only while a key is held.

use std::{
    io::BufRead,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports, read_duration};
use afferent_messages::{AudioBlock, SpeechEvent, SpeechEventKind};

params! {
    /// Settings of [`PushToTalk`].
    pub struct PushToTalkParams {
        /// When the key is held, such as `0.5s-2s, 4s-6s`, for sound from a file. Without it, the
        /// key Enter begins to listen, and ends.
        pub held: Option<String>;
    }
}

/// Lets sound through while a key is held.
///
/// Blocks are let through whole: one during which the key was pressed is, one during which it was
/// let go is not.
///
/// Latency: a block.
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
}

/// Who holds the key.
enum Key {
    /// The times of a setting.
    Times(Vec<[Timestamp; 2]>),
    /// How often Enter was pressed.
    Enter(Arc<AtomicUsize>),
}

ports! {
    impl PushToTalk {
        /// Audio of the microphone, full scale ±1, any sample rate and channels.
        in AUDIO: AudioBlock;
        /// The blocks during which the key is held, unchanged.
        out HELD = "audio": AudioBlock;
        /// Speech start when the key is pressed, speech end when it is released; replaces the
        /// events of `vad`.
        out EVENTS: SpeechEvent, optional;
    }
}

impl PushToTalk {
    fn is_held(&self, at: Timestamp) -> bool {
        match &self.key {
            Key::Times(times) => times.iter().any(|[start, end]| (*start..*end).contains(&at)),
            Key::Enter(presses) => presses.load(Ordering::Relaxed) % 2 == 1,
        }
    }

    fn tell(&mut self, cx: &mut Cx<'_>, held: bool, at: Timestamp) {
        let kind = if held { SpeechEventKind::Start } else { SpeechEventKind::End };
        self.was_held = held;
        cx.send_at(Self::EVENTS, at, SpeechEvent { kind, probability: 1.0 });
    }
}

impl Node for PushToTalk {
    type Params = PushToTalkParams;

    const NAME: &'static str = "push_to_talk";
    const SUMMARY: &'static str = "Lets sound through while a key is held.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "a block";

    fn check(params: &PushToTalkParams, _: &OpenCx) -> Result<(), NodeError> {
        params.held.as_deref().map_or(Ok(()), |held| read(held).map(drop))
    }

    fn open(params: PushToTalkParams, _: &OpenCx) -> Result<Self, NodeError> {
        let key = match params.held.as_deref() {
            Some(held) => Key::Times(read(held)?),
            None => Key::Enter(enter()?),
        };
        Ok(Self { key, was_held: false })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(block) = cx.get(Self::AUDIO) else { return Ok(()) };
        let (at, end) = (cx.at(), cx.at() + block.duration());
        // As it is when the last sample was heard, so that a block goes through or not as with
        // Enter.
        let held = self.is_held(at.max(end - Duration::from_nanos(1)));
        if held != self.was_held {
            self.tell(cx, held, at);
        }
        if held {
            cx.forward(Self::AUDIO, Self::HELD);
            // Sound that ends ends what was held, too.
            if matches!(&self.key, Key::Times(_)) && !self.is_held(end) {
                self.tell(cx, false, end);
            }
        }
        Ok(())
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if self.was_held {
            let now = cx.now();
            self.tell(cx, false, now);
        }
        Ok(())
    }
}

/// Counts the lines of the standard input, on a thread that ends with the program.
fn enter() -> Result<Arc<AtomicUsize>, NodeError> {
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

/// Times such as `0.5s-2s, 4s-6s`.
fn read(held: &str) -> Result<Vec<[Timestamp; 2]>, NodeError> {
    let failed = |reason: String| NodeError::InvalidParam { name: "held".into(), reason };
    let time = |text: &str| {
        let time = read_duration(text, None).map_err(|error| failed(error.to_string()))?;
        Ok::<_, NodeError>(Timestamp::ZERO + time)
    };
    let mut times = Vec::new();
    let mut last = Timestamp::ZERO;
    for part in held.split(',') {
        let (start, end) = part
            .split_once('-')
            .ok_or_else(|| failed(format!("{:?} is not two times such as 1s-2s", part.trim())))?;
        let (start, end) = (time(start)?, time(end)?);
        if start < last || end <= start {
            let reason = format!("{:?} does not come after what stands before it", part.trim());
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
    fn times_are_read_or_refused() {
        let seconds = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let times = read("1s-2s, 4s - 6000ms").unwrap();
        assert_eq!(times, [[seconds(1), seconds(2)], [seconds(4), seconds(6)]]);
        for wrong in ["", "1s", "1-2", "2s-1s", "1s-3s, 2s-4s", "a-b"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.starts_with("parameter held: "), "{error}");
        }
    }

    #[test]
    fn sound_goes_through_while_the_key_is_held() {
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
    fn a_block_is_let_through_as_the_key_is_at_its_end() {
        check("50ms-90ms", &["Start 40", "audio 40", "audio 60", "End 80"]);
        check("45ms-100ms", &["Start 40", "audio 40", "audio 60", "audio 80", "End 100"]);
        check("45ms-55ms", &[]);
    }

    /// What is told of 200 ms of sound in blocks of 20 ms.
    fn check(held: &str, expected: &[&str]) {
        let params = PushToTalkParams { held: Some(held.to_owned()) };
        let mut bench = NodeBench::new(PushToTalk::open(params, &OpenCx::default()).unwrap());
        let mut sent = Vec::new();
        for number in 0..10 {
            let mut block = AudioBlock::default();
            block.reshape(SampleRate(1000), 1, 20).unwrap().fill(0.5);
            let at = Timestamp(number * 20_000_000);
            sent.extend(bench.call(PushToTalk::AUDIO, at, block).unwrap());
        }
        sent.extend(bench.finish(Timestamp(200_000_000)).unwrap());
        let told = sent.iter().map(|(port, packet)| {
            let ms = packet.header.at.0 / 1_000_000;
            match packet.get::<SpeechEvent>() {
                Some(event) => format!("{:?} {ms}", event.kind),
                None => format!("{port} {ms}"),
            }
        });
        assert_eq!(told.collect::<Vec<_>>(), expected, "{held}");
    }
}
