//! Changes the sample rate of sound.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, choices, params, ports};
use afferent_messages::{AudioBlock, SampleRate};

use crate::polyphase::{Filter, Stream};

choices! {
    /// How much of the band is kept, and how well the rest is suppressed.
    pub enum Quality {
        /// 73 % of the band, 70 dB; a delay of 16 samples of the lower rate.
        Fast = "fast",
        /// 80 % of the band, 100 dB; a delay of 32 samples of the lower rate.
        Medium = "medium",
        /// 88 % of the band, 120 dB; a delay of 64 samples of the lower rate.
        High = "high",
    }
}

params! {
    /// Settings of [`Resample`].
    pub struct ResampleParams {
        /// Sample rate of what is sent.
        pub rate: u32 = "16000", range 1.0..=768000.0, unit "Hz";
        /// How much of the band is kept, and how well the rest is suppressed.
        pub quality: Quality = "medium";
    }
}

/// Changes the sample rate of sound.
///
/// Latency: 1 ms at 16 kHz with quality `fast`, 2 ms with `medium`, 4 ms with `high`; none where
/// the rates are equal, in which case the packet itself is passed on.
///
/// A linear-phase filter with one set of weights for each phase of the ratio of the rates, so
/// that a sample lies where its time stamp says, to the nanosecond, and a stream of n samples
/// becomes one of n · `rate` / rate of the input, rounded up. Rates that have no common divisor
/// to speak of need too many weights and are refused. After a gap of more than half a block in
/// the time stamps, or a change of rate or channels, it sends what is left and starts again. Where
/// time begins anew, and with an interrupt, what is left is forgotten.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, Timestamp};
/// use afferent_messages::{AudioBlock, SampleRate};
/// use afferent_nodes_audio::{Quality, Resample, ResampleParams};
///
/// let params = ResampleParams { rate: 16_000, quality: Quality::Medium };
/// let mut bench = NodeBench::new(Resample::open(params, &OpenCx::default())?);
/// let mut block = AudioBlock::default();
/// block.reshape(SampleRate(48_000), 1, 4800)?.fill(0.5);
/// let sent = bench.call(Resample::AUDIO, Timestamp::ZERO, block)?;
/// let tail = bench.finish(Timestamp::ZERO)?;
/// let len = |sent: &[(&str, afferent_graph::Packet)]| sent[0].1.get::<AudioBlock>().unwrap().len();
/// assert_eq!(len(&sent) + len(&tail), 1600);
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Resample {
    rate: SampleRate,
    quality: Quality,
    running: Option<Running>,
}

/// What is known once the first block is there.
struct Running {
    filter: Filter,
    stream: Stream,
    from: SampleRate,
    channels: usize,
    /// Samples of each channel that came in and went out.
    taken: usize,
    sent: usize,
    /// Time of the first sample, as the last block has it.
    start: Timestamp,
    /// Time of the sample that should come next.
    next_at: Timestamp,
}

ports! {
    impl Resample {
        /// Audio of any sample rate and channels, full scale ±1, blocks of any length.
        in AUDIO: AudioBlock;
        /// The same audio at the sample rate `rate`, with the channels of the input.
        out OUT = "audio": AudioBlock;
    }
}

impl Resample {
    fn start(&self, block: &AudioBlock, at: Timestamp) -> Result<Running, NodeError> {
        let (from, to, channels) = (block.rate.0, self.rate.0, block.channels());
        let (zeros, db) = match self.quality {
            Quality::Fast => (16, 70.0),
            Quality::Medium => (32, 100.0),
            Quality::High => (64, 120.0),
        };
        let filter = if from == 0 { None } else { Filter::new(from, to, zeros, db) };
        let filter = filter.ok_or_else(|| {
            let port = Self::AUDIO.name();
            let reason = format!(
                "sound of {from} Hz cannot be brought to {to} Hz: the rates need a common divisor"
            );
            NodeError::InvalidInput { port: port.into(), reason }
        })?;
        let (stream, from) = (filter.stream(channels), block.rate);
        let (taken, sent) = (0, 0);
        Ok(Running { filter, stream, from, channels, taken, sent, start: at, next_at: at })
    }

    /// Sends what is ready.
    fn send_ready(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let len = running.stream.ready(&running.filter);
        if len == 0 {
            return Ok(());
        }
        let at = running.start + self.rate.duration(running.sent);
        let mut block = cx.loan(Self::OUT);
        let samples = block.reshape(self.rate, running.channels, len)?;
        running.stream.pull(&running.filter, samples);
        running.sent += len;
        cx.send_at(Self::OUT, at, block);
        Ok(())
    }

    /// Ends the stream. Its rest is sent, unless what comes next, at `next`, begins before that.
    fn end_stream(&mut self, cx: &mut Cx<'_>, next: Timestamp) -> Result<(), NodeError> {
        let rate = self.rate;
        let before = |running: &&mut Running| running.start + rate.duration(running.sent) <= next;
        if let Some(running) = self.running.as_mut().filter(before) {
            running.stream.push_silence(&running.filter);
            self.send_ready(cx)?;
        }
        self.running = None;
        Ok(())
    }
}

impl Running {
    /// Whether `block` at `at` goes on with the stream.
    fn continues(&self, block: &AudioBlock, at: Timestamp) -> bool {
        let gap = at.since(self.next_at).max(self.next_at.since(at));
        (block.rate, block.channels()) == (self.from, self.channels) && gap <= block.duration() / 2
    }
}

impl Node for Resample {
    type Params = ResampleParams;

    const NAME: &'static str = "resample";
    const SUMMARY: &'static str = "Changes the sample rate of sound.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "16, 32 or 64 samples of the lower rate";

    fn open(params: ResampleParams, _: &OpenCx) -> Result<Self, NodeError> {
        let ResampleParams { rate, quality } = params;
        Ok(Self { rate: SampleRate(rate), quality, running: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // A second holder, so that the tail of another stream can be sent first.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        let (Some(block), at) = (packet.get::<AudioBlock>(), cx.at()) else { return Ok(()) };
        if self.running.as_ref().is_some_and(|running| !running.continues(block, at)) {
            self.end_stream(cx, at)?;
        }
        if block.rate == self.rate {
            cx.forward(Self::AUDIO, Self::OUT);
            return Ok(());
        }
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.start(block, at)?,
        };
        running.start = at - running.from.duration(running.taken);
        running.next_at = at + block.duration();
        running.taken += block.len();
        running.stream.push(block.samples.data()?);
        self.running = Some(running);
        self.send_ready(cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.end_stream(cx, Timestamp(i64::MAX))
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.running = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, Packet};

    use super::*;

    fn open() -> NodeBench<Resample> {
        let params = ResampleParams { rate: 16_000, quality: Quality::Medium };
        NodeBench::new(Resample::open(params, &OpenCx::default()).unwrap())
    }

    /// `channels` channels of 10 ms at `rate`, with the level `level`, 2 · `level` and so on.
    fn block(rate: u32, channels: usize, level: f32) -> AudioBlock {
        let mut block = AudioBlock::default();
        let len = rate as usize / 100;
        let samples = block.reshape(SampleRate(rate), channels, len).unwrap();
        for (channel, samples) in samples.chunks_mut(len).enumerate() {
            samples.fill(level * (channel + 1) as f32);
        }
        block
    }

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    /// Start in microseconds and number of samples of each packet.
    fn about(sent: &[(&str, Packet)]) -> Vec<(i64, usize)> {
        let about = |packet: &Packet| {
            (packet.header.at.0 / 1000, packet.get::<AudioBlock>().unwrap().len())
        };
        sent.iter().map(|(_, packet)| about(packet)).collect()
    }

    #[test]
    fn times_are_those_of_the_samples() {
        let mut bench = open();
        let mut call =
            |at| about(&bench.call(Resample::AUDIO, ms(at), block(48_000, 1, 0.5)).unwrap());
        // 96 samples at 48 kHz are still needed for what comes next.
        assert_eq!(call(100), [(100_000, 128)]);
        assert_eq!(call(110), [(108_000, 160)]);
        assert_eq!(call(120), [(118_000, 160)]);
        assert_eq!(about(&bench.finish(ms(130)).unwrap()), [(128_000, 32)]);
    }

    #[test]
    fn a_gap_sends_the_tail_and_starts_again() {
        let mut bench = open();
        bench.call(Resample::AUDIO, ms(0), block(48_000, 1, 0.5)).unwrap();
        let sent = bench.call(Resample::AUDIO, ms(20), block(48_000, 1, 0.5)).unwrap();
        assert_eq!(about(&sent), [(8000, 32), (20_000, 128)]);
        let sent = bench.call(Resample::AUDIO, ms(30), block(8000, 2, 0.5)).unwrap();
        assert_eq!(about(&sent), [(28_000, 32), (30_000, 96)], "another rate is another stream");
    }

    #[test]
    fn what_is_left_is_forgotten_where_time_begins_anew_or_is_interrupted() {
        let mut bench = open();
        bench.call(Resample::AUDIO, ms(20_000), block(48_000, 1, 0.5)).unwrap();
        let sent = bench.call(Resample::AUDIO, ms(12_500), block(48_000, 1, 0.5)).unwrap();
        assert_eq!(about(&sent), [(12_500_000, 128)]);
        assert!(bench.cancel(ms(12_510)).unwrap().is_empty());
        let sent = bench.call(Resample::AUDIO, ms(13_000), block(48_000, 1, 0.5)).unwrap();
        assert_eq!(about(&sent), [(13_000_000, 128)]);
    }

    #[test]
    fn channels_stay_apart() {
        let mut bench = open();
        let mut last = Vec::new();
        for at in [0, 10, 20] {
            last = bench.call(Resample::AUDIO, ms(at), block(44_100, 2, 0.25)).unwrap();
        }
        let block = last[0].1.get::<AudioBlock>().unwrap();
        for (channel, level) in [(0, 0.25), (1, 0.5)] {
            let middle = block.channel(channel).unwrap();
            assert!(middle.iter().all(|x| (x - level).abs() < 1e-4), "{middle:?}");
        }
    }

    #[test]
    fn equal_rates_pass_the_packet_itself() {
        let mut bench = open();
        let block = block(16_000, 2, 0.25);
        let sent = bench.call(Resample::AUDIO, ms(7), block).unwrap();
        assert_eq!(about(&sent), [(7000, 160)]);
        assert_eq!(sent[0].1.get::<AudioBlock>().unwrap().channels(), 2);
        assert!(bench.finish(ms(17)).unwrap().is_empty());
    }

    #[test]
    fn odd_rates_are_refused() {
        let mut block = block(48_000, 1, 0.5);
        for rate in [0, 47_999_999] {
            block.rate = SampleRate(rate);
            let error = open().call(Resample::AUDIO, ms(0), block.clone()).unwrap_err().to_string();
            assert!(error.contains("cannot be brought to 16000 Hz"), "{error}");
        }
    }
}
