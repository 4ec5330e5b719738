//! Mixing of several streams.

use std::{collections::BTreeMap, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_messages::{AudioBlock, SampleRate};

use crate::timeline::{Timeline, is_contiguous, sample_index, sample_time};

params! {
    /// Settings of [`AudioMixer`].
    pub struct AudioMixerParams {
        /// Gains in decibels by the name of the sending node, such as `music: -12, tts: 0`; 0 dB
        /// for all others.
        pub gains_db: String = "";
        /// Longest time that the other inputs wait for a late input.
        pub wait: Duration = "40ms", range 0.0..=10.0;
    }
}

/// Mixes several streams into their sum.
///
/// Inputs are identified by the sending node and aligned by their timestamps, to the nearest
/// sample. Gaps in an input are silence; while no input has audio, nothing is sent. Audio that all
/// inputs have is sent at once. If an input is late or silent, the others wait until the session
/// clock and the start of some block are `wait` later than their audio, or until one minute of
/// audio is waiting. Audio that arrives later is dropped. An input may send ahead of the clock.
///
/// An interrupt discards the waiting audio of all inputs. So does an input whose time restarts: at
/// more than one minute before the audio that was sent, or at any earlier time if its node was
/// restarted. Sums beyond ±0.8 are compressed smoothly to stay within ±1.
///
/// Latency: none while all inputs have audio, otherwise `wait` and one block.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValues, Params, Timestamp};
/// use afferent_messages::AudioBlock;
/// use afferent_messages::SampleRate;
/// use afferent_nodes_audio::{AudioMixer, AudioMixerParams};
///
/// let params = AudioMixerParams::from_values(&ParamValues::new()).unwrap();
/// let mut mixer = NodeBench::new(AudioMixer::open(params, &OpenCx::default())?);
/// let mut block = AudioBlock::default();
/// block.reshape(SampleRate(16_000), 1, 1600)?.fill(0.25);
/// // Another input may still start.
/// assert!(mixer.call(AudioMixer::AUDIO, Timestamp::ZERO, block)?.is_empty());
/// let sent = mixer.finish(Timestamp::ZERO)?;
/// assert_eq!(sent[0].1.get::<AudioBlock>().unwrap().len(), 1600);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct AudioMixer {
    gains: BTreeMap<String, f32>,
    wait: Duration,
    /// Sample rate and channels of all inputs, set by the first block.
    format: Option<(SampleRate, usize)>,
    inputs: Vec<Input>,
    /// Index after the last sample that was sent.
    sent: i64,
    /// Index of the first sample of the first block, and of the newest one.
    first: i64,
    newest: i64,
}

/// Waiting audio of one sending node.
struct Input {
    source: String,
    gain: f32,
    channels: Vec<Timeline>,
    /// Expected timestamp of the next sample.
    next_at: Timestamp,
}

/// Most audio that waits, in seconds.
const MAX_WAITING_S: usize = 60;

/// Amplitude from which on sums are compressed.
const KNEE: f32 = 0.8;

ports! {
    impl AudioMixer {
        /// Streams to mix, full scale ±1, all with the same sample rate and number of channels.
        in AUDIO: AudioBlock, many;
        /// Sum of the inputs, full scale ±1.
        out OUT = "audio": AudioBlock;
    }
}

impl AudioMixer {
    /// Checks that a block of `source` has the format of all inputs.
    fn expect_format(&mut self, block: &AudioBlock, source: &str) -> Result<(), NodeError> {
        let (rate, channels) = (block.rate, block.channels());
        let reason = if AudioBlock::RATES_HZ.contains(&rate.0) {
            let own = *self.format.get_or_insert((rate, channels));
            if own == (rate, channels) {
                return Ok(());
            }
            format!(
                "{source:?} sends {} Hz and {channels} channels, but the first input has {} Hz and \
                 {}; insert a resample node",
                rate.0, own.0.0, own.1
            )
        } else {
            let (least, most) = AudioBlock::RATES_HZ.into_inner();
            format!("{source:?} sends {} Hz; {least} to {most} Hz are supported", rate.0)
        };
        Err(NodeError::InvalidInput { port: Self::AUDIO.name().into(), reason })
    }

    /// Adds the block of this call to its input.
    fn push(&mut self, cx: &Cx<'_>, block: &AudioBlock) -> Result<(), NodeError> {
        let (at, source) = (cx.at(), cx.source());
        self.expect_format(block, source)?;
        let begin = sample_index(block.rate, at);
        let early = self.sent.saturating_sub(begin);
        if early > max_waiting_samples(block.rate) as i64
            || cx.restarted() && early >= block.len() as i64
        {
            self.inputs.clear();
        }
        if self.inputs.is_empty() {
            (self.sent, self.first, self.newest) = (begin, begin, begin);
        }
        self.newest = self.newest.max(begin);
        let known = self.inputs.iter().position(|input| input.source == source);
        let continues = known.is_some_and(|known| is_contiguous(self.inputs[known].next_at, at));
        let index = known.unwrap_or_else(|| {
            let gain = self.gains.get(source).copied().unwrap_or(1.0);
            let channels = (0..block.channels()).map(|_| Timeline::default()).collect();
            self.inputs.push(Input { source: source.to_owned(), gain, channels, next_at: at });
            self.inputs.len() - 1
        });
        let max_waiting = max_waiting_samples(block.rate);
        let (input, sent) = (&mut self.inputs[index], self.sent);
        for (channel, timeline) in input.channels.iter_mut().enumerate() {
            if !continues {
                timeline.move_end(begin, max_waiting);
            }
            let gain = input.gain;
            let samples = block.channel(channel)?.iter().map(|sample| gain * sample);
            timeline.extend(samples, 2 * max_waiting);
            timeline.discard_before(sent);
        }
        input.next_at = at + block.duration();
        Ok(())
    }

    /// Index up to which no input waits any longer at `now`.
    fn complete_until(&self, now: Timestamp) -> i64 {
        let Some((rate, _)) = self.format else { return self.sent };
        let wait = i64::try_from(rate.samples(self.wait)).unwrap_or(i64::MAX);
        let timed_out = self.newest.min(sample_index(rate, now)).saturating_sub(wait);
        let ends = || self.inputs.iter().filter_map(|input| Some(input.channels.first()?.end()));
        let full = ends().max().unwrap_or(0).saturating_sub(max_waiting_samples(rate) as i64);
        // Other inputs may not have started yet.
        let has_settled = self.newest > self.first.saturating_add(wait);
        let all = ends().min().filter(|_| has_settled).unwrap_or(timed_out);
        all.max(timed_out).max(full)
    }

    /// Sends the audio before index `until`.
    fn send_until(&mut self, cx: &mut Cx<'_>, until: i64) -> Result<(), NodeError> {
        let Some((rate, channels)) = self.format else { return Ok(()) };
        loop {
            // The next range in which some input has audio.
            let timelines = self.inputs.iter().filter_map(|input| input.channels.first());
            let timelines =
                timelines.filter(|line| line.end() > self.sent && line.end() > line.first());
            let first = timelines.clone().map(|line| line.first().max(self.sent)).min();
            let Some(first) = first.filter(|first| *first < until) else { return Ok(()) };
            let mut end = first;
            for _ in 0..self.inputs.len() {
                let touching = timelines.clone().filter(|line| line.first() <= end);
                end = touching.map(Timeline::end).max().unwrap_or(end).max(end);
            }
            let end = end.min(until);
            let len = usize::try_from(end - first).unwrap_or(0);
            let mut block = cx.loan(Self::OUT);
            let samples = block.reshape(rate, channels, len)?;
            for (channel, samples) in samples.chunks_exact_mut(len).enumerate() {
                for (sample, index) in samples.iter_mut().zip(first..) {
                    let all = self.inputs.iter().map(|input| input.channels[channel].sample(index));
                    *sample = soft_clip(all.sum());
                }
            }
            cx.send_at(Self::OUT, sample_time(rate, first), block);
            self.sent = end;
            let timelines = self.inputs.iter_mut().flat_map(|input| &mut input.channels);
            timelines.for_each(|timeline| timeline.discard_before(end));
        }
    }
}

/// Most samples per channel that wait.
fn max_waiting_samples(rate: SampleRate) -> usize {
    MAX_WAITING_S * rate.0 as usize
}

/// Compresses a sample beyond the knee to stay within ±1.
fn soft_clip(sample: f32) -> f32 {
    let beyond = sample.abs() - KNEE;
    if beyond <= 0.0 {
        return sample;
    }
    let headroom = 1.0 - KNEE;
    sample.signum() * (KNEE + headroom * (beyond / headroom).tanh())
}

/// Parses gains such as `music: -12, tts: 0` to linear gains by node name.
fn parse_gains(text: &str) -> Result<BTreeMap<String, f32>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let gain = |part: &str| {
        let (name, db) = part.split_once(':').ok_or_else(|| {
            format!("{part:?} is not a node name and a gain in decibels, such as music: -12")
        })?;
        let db: Option<f32> = db.trim().parse().ok();
        let db = db.filter(|db| (-120.0..=60.0).contains(db)).ok_or_else(|| {
            format!("the gain of {:?} is not a number from -120 to 60 dB", name.trim())
        })?;
        Ok((name.trim().to_owned(), 10.0_f32.powf(db / 20.0)))
    };
    parts.map(gain).collect()
}

impl Node for AudioMixer {
    type Params = AudioMixerParams;

    const NAME: &'static str = "audio_mixer";
    const SUMMARY: &'static str = "Mixes several streams into their sum.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none while all inputs have audio, otherwise wait and one block";

    fn check(params: &AudioMixerParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(drop)
    }

    fn open(params: AudioMixerParams, _: &OpenCx) -> Result<Self, NodeError> {
        let gains = parse_gains(&params.gains_db);
        let gains =
            gains.map_err(|reason| NodeError::InvalidParam { name: "gains_db".into(), reason })?;
        let (format, inputs) = (None, Vec::new());
        Ok(Self { gains, wait: params.wait, format, inputs, sent: 0, first: 0, newest: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // Cloning the packet allows sending while the block is borrowed.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        let Some(block) = packet.get::<AudioBlock>() else { return Ok(()) };
        self.push(cx, block)?;
        let until = self.complete_until(cx.now());
        self.send_until(cx, until)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.send_until(cx, i64::MAX)
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.inputs.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{
        CallInfo, Header, InputInfo, NodeBench, NodeContext, Outbox, Packet, ParamValue, Params,
        Pool,
    };

    use super::*;

    fn open(gains_db: &str) -> Result<AudioMixer, NodeError> {
        let values = [("gains_db".to_owned(), ParamValue::Text(gains_db.to_owned()))].into();
        AudioMixer::open(AudioMixerParams::from_values(&values).unwrap(), &OpenCx::default())
    }

    fn block(rate: u32, samples: &[f32]) -> AudioBlock {
        let mut block = AudioBlock::default();
        let to = block.reshape(SampleRate(rate), 1, samples.len()).unwrap();
        to.copy_from_slice(samples);
        block
    }

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    /// Start and length in milliseconds, first and last sample of each block.
    type Sent = Vec<(i64, usize, f32, f32)>;

    /// Calls the mixer with `len` ms of the value `level` from `source`; `times` are the session
    /// clock and the timestamp, in milliseconds.
    fn call(
        mixer: &mut AudioMixer,
        source: &str,
        times: (i64, i64),
        len: usize,
        level: f32,
    ) -> Sent {
        call_with(mixer, source, times, len, level, false)
    }

    /// Same as [`call`], from a source that may have been restarted.
    fn call_with(
        mixer: &mut AudioMixer,
        source: &str,
        (now, at): (i64, i64),
        len: usize,
        level: f32,
        restarted: bool,
    ) -> Sent {
        let outputs = vec![("audio".into(), Pool::new(4))];
        let around = NodeContext { outputs, ..NodeContext::default() };
        let mut sent = Outbox::default();
        let header = Header { at: ms(at), ..Header::default() };
        let mut packet = Packet::new(block(16_000, &vec![level; 16 * len]), header);
        let inbound = InputInfo {
            port: AudioMixer::AUDIO.id(),
            name: "audio".into(),
            source: source.to_owned(),
        };
        let caller = CallInfo { now: ms(now), real_ns: 0, restarted, context: &around };
        let mut cx = Cx::new(caller, Some((&inbound, &mut packet)), &mut sent);
        mixer.process(&mut cx).unwrap();
        let mut all = Vec::new();
        while let Some((_, packet)) = sent.pop() {
            let samples = packet.get::<AudioBlock>().unwrap().channel(0).unwrap();
            let at = packet.header.at.0 / 1_000_000;
            all.push((at, samples.len() / 16, samples[0], samples[samples.len() - 1]));
        }
        all
    }

    #[test]
    fn simultaneous_audio_is_summed_with_gains() {
        let mut mixer = open("music: -20.0, other: 3").unwrap();
        for at in [0, 20, 40] {
            assert!(call(&mut mixer, "voice", (at, at), 20, 0.25).is_empty(), "at {at}");
            assert!(call(&mut mixer, "music", (at, at), 20, 0.5).is_empty(), "at {at}");
        }
        // Both inputs have started now.
        let sent = call(&mut mixer, "voice", (60, 60), 20, 0.25);
        assert_eq!(sent, [(0, 60, 0.3, 0.3)]);
        assert_eq!(call(&mut mixer, "music", (60, 60), 20, 0.5), [(60, 20, 0.3, 0.3)]);
        assert!(call(&mut mixer, "music", (80, 80), 10, 0.5).is_empty());
        assert_eq!(call(&mut mixer, "voice", (80, 80), 20, 0.0), [(80, 10, 0.05, 0.05)]);
    }

    #[test]
    fn waiting_is_limited_and_common_gaps_are_kept() {
        let mut mixer = open("").unwrap();
        for at in [0, 20, 40, 60] {
            call(&mut mixer, "a", (at, at), 20, 0.25);
            call(&mut mixer, "b", (at, at), 20, 0.25);
        }
        assert!(call(&mut mixer, "a", (80, 80), 20, 0.25).is_empty());
        assert!(call(&mut mixer, "a", (100, 100), 20, 0.25).is_empty());
        assert!(call(&mut mixer, "a", (120, 120), 20, 0.25).is_empty());
        assert_eq!(call(&mut mixer, "a", (140, 140), 20, 0.25), [(80, 20, 0.25, 0.25)]);
        // Late audio is dropped up to the audio that was sent.
        let sent = call(&mut mixer, "b", (140, 95), 70, 0.5);
        assert_eq!(sent, [(100, 60, 0.75, 0.75)]);
        let sent = call(&mut mixer, "a", (1000, 1000), 20, 0.25);
        assert_eq!(sent, [(160, 5, 0.5, 0.5)]);
        assert_eq!(call(&mut mixer, "b", (1010, 1010), 10, 0.25), [(1000, 20, 0.25, 0.5)]);
    }

    #[test]
    fn an_input_may_send_ahead_of_the_clock() {
        let mut mixer = open("").unwrap();
        for at in [0, 20, 40, 60] {
            call(&mut mixer, "music", (at, at), 20, 0.25);
        }
        assert!(call(&mut mixer, "voice", (60, 80), 500, 0.25).is_empty());
        assert!(call(&mut mixer, "voice", (60, 580), 500, 0.25).is_empty());
        assert_eq!(call(&mut mixer, "music", (80, 80), 20, 0.25), [(80, 20, 0.5, 0.5)]);
    }

    #[test]
    fn an_interrupt_discards_waiting_audio() {
        let mut mixer = open("").unwrap();
        for at in [0, 20, 40, 60] {
            call(&mut mixer, "music", (at, at), 20, 0.25);
        }
        call(&mut mixer, "voice", (60, 80), 5000, 0.5);
        let mut bench = NodeBench::new(mixer);
        assert!(bench.cancel(ms(70)).unwrap().is_empty());
        let mixer = bench.node_mut();
        assert!(call(mixer, "music", (80, 80), 20, 0.25).is_empty());
        assert!(call(mixer, "voice", (80, 80), 40, 0.25).is_empty());
        let sent: Vec<_> =
            [100, 120, 140].map(|at| call(mixer, "music", (at, at), 20, 0.25)).concat();
        assert_eq!(sent, [(80, 40, 0.5, 0.5)]);
    }

    #[test]
    fn an_input_whose_time_restarts_is_mixed() {
        let mut mixer = open("").unwrap();
        let run = |mixer: &mut AudioMixer, ms: i64, restarted| {
            let times = [ms, ms + 20, ms + 40, ms + 60].map(|at| (at, at));
            let call = |at| call_with(mixer, "voice", at, 20, 0.25, restarted);
            times.map(call).concat().iter().map(|(at, ..)| *at).collect::<Vec<_>>()
        };
        assert_eq!(run(&mut mixer, 100_000, false), [100_000]);
        assert!(run(&mut mixer, 50_000, false).is_empty(), "late audio is dropped");
        assert_eq!(run(&mut mixer, 20_000, false), [20_000]);
        assert_eq!(run(&mut mixer, 5000, true), [5000]);
    }

    #[test]
    fn sums_stay_within_full_scale() {
        let mut mixer = NodeBench::new(open("").unwrap());
        let loud = [0.5, 0.8, 0.9, 1.5, 40.0, -3.0];
        mixer.call(AudioMixer::AUDIO, ms(0), block(16_000, &loud)).unwrap();
        let sent = mixer.finish(ms(0)).unwrap();
        let found = sent[0].1.get::<AudioBlock>().unwrap().channel(0).unwrap().to_vec();
        assert_eq!(found[..2], [0.5, 0.8]);
        assert!(found.iter().all(|x| x.abs() <= 1.0) && found[2] > 0.88 && found[5] < -0.99);
    }

    #[test]
    fn invalid_formats_and_gains_are_rejected() {
        let mut mixer = NodeBench::new(open("").unwrap());
        mixer.call(AudioMixer::AUDIO, ms(0), block(16_000, &[0.0])).unwrap();
        for (rate, reason) in [
            (8000, "insert a resample node"),
            (0, "sends 0 Hz; 1 to 768000 Hz are supported"),
            (4_000_000_000, "sends 4000000000 Hz; 1 to 768000 Hz are supported"),
        ] {
            let error = mixer.call(AudioMixer::AUDIO, ms(0), block(rate, &[0.0])).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        for (gains, reason) in
            [("music", "is not a node name and a gain"), ("a: loud", "\"a\""), ("a: 90", "60 dB")]
        {
            let Err(error) = open(gains) else { panic!("{gains} was accepted") };
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
