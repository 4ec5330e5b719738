//! Sample rate conversion.

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, choices, params, ports};
use afferent_messages::{AudioBlock, SampleRate};

use crate::polyphase::{PolyphaseFilter, StreamState, rates_error};

choices! {
    /// Bandwidth and stopband attenuation.
    pub enum Quality {
        /// 73 % of the band, 70 dB, delay of 16 samples at the lower rate.
        Fast = "fast",
        /// 80 % of the band, 100 dB, delay of 32 samples at the lower rate.
        Medium = "medium",
        /// 88 % of the band, 120 dB, delay of 64 samples at the lower rate.
        High = "high",
    }
}

params! {
    /// Settings of [`Resample`].
    pub struct ResampleParams {
        /// Sample rate of the output.
        pub rate: u32 = "16000", range 1.0..=768000.0, unit "Hz";
        /// Bandwidth and stopband attenuation of the filter.
        pub quality: Quality = "medium";
    }
}

/// Changes the sample rate of audio.
///
/// The resampler is a linear-phase polyphase filter. Output timestamps are exact to the nanosecond,
/// and n input samples become n · `rate` / input rate samples, rounded up. Rates whose common
/// divisor is too small need too many filter coefficients and are rejected.
///
/// After a gap of more than half a block in the timestamps, or a change of sample rate or channels,
/// the node sends the tail of the old stream and starts again. The tail is discarded if time
/// restarts at an earlier value, and on an interrupt.
///
/// Latency: at 16 kHz, 1 ms with quality `fast`, 2 ms with `medium`, 4 ms with `high`. None if the
/// rates are equal; the packet is then forwarded unchanged.
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
    stream: Option<Stream>,
}

/// A contiguous stream of one format.
struct Stream {
    filter: PolyphaseFilter,
    state: StreamState,
    from: SampleRate,
    channels: usize,
    /// Samples per channel that were received and sent.
    received: usize,
    sent: usize,
    /// Timestamp of the first sample, derived from the last block.
    start: Timestamp,
    /// Expected timestamp of the next sample.
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
    fn start_stream(&self, block: &AudioBlock, at: Timestamp) -> Result<Stream, NodeError> {
        let (from, to, channels) = (block.rate.0, self.rate.0, block.channels());
        let (zeros, db) = match self.quality {
            Quality::Fast => (16, 70.0),
            Quality::Medium => (32, 100.0),
            Quality::High => (64, 120.0),
        };
        let filter = if from == 0 { None } else { PolyphaseFilter::new(from, to, zeros, db) };
        let filter = filter.ok_or_else(|| rates_error(Self::AUDIO, from, to))?;
        let (state, from) = (filter.state(channels), block.rate);
        let (received, sent) = (0, 0);
        Ok(Stream { filter, state, from, channels, received, sent, start: at, next_at: at })
    }

    /// Sends the resampled audio that is ready.
    fn send_ready(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let len = stream.state.ready(&stream.filter);
        if len == 0 {
            return Ok(());
        }
        let at = stream.start + self.rate.duration(stream.sent);
        let mut block = cx.loan(Self::OUT);
        let samples = block.reshape(self.rate, stream.channels, len)?;
        stream.state.pull(&stream.filter, samples);
        stream.sent += len;
        cx.send_at(Self::OUT, at, block);
        Ok(())
    }

    /// Ends the stream. Its tail is sent, unless the next stream begins at `next`, before the tail.
    fn end_stream(&mut self, cx: &mut Cx<'_>, next: Timestamp) -> Result<(), NodeError> {
        let rate = self.rate;
        let is_before = |stream: &&mut Stream| stream.start + rate.duration(stream.sent) <= next;
        if let Some(stream) = self.stream.as_mut().filter(is_before) {
            stream.state.push_silence(&stream.filter);
            self.send_ready(cx)?;
        }
        self.stream = None;
        Ok(())
    }
}

impl Stream {
    /// True if `block` at `at` continues the stream.
    fn continues(&self, block: &AudioBlock, at: Timestamp) -> bool {
        let gap = at.since(self.next_at).max(self.next_at.since(at));
        (block.rate, block.channels()) == (self.from, self.channels) && gap <= block.duration() / 2
    }
}

impl Node for Resample {
    type Params = ResampleParams;

    const NAME: &'static str = "resample";
    const SUMMARY: &'static str = "Changes the sample rate of audio.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "16, 32, or 64 samples at the lower rate";

    fn open(params: ResampleParams, _: &OpenCx) -> Result<Self, NodeError> {
        let ResampleParams { rate, quality } = params;
        Ok(Self { rate: SampleRate(rate), quality, stream: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // Cloning the packet allows sending the tail of the old stream while the block is borrowed.
        let Some(packet) = cx.packet().cloned() else { return Ok(()) };
        let (Some(block), at) = (packet.get::<AudioBlock>(), cx.at()) else { return Ok(()) };
        if self.stream.as_ref().is_some_and(|stream| !stream.continues(block, at)) {
            self.end_stream(cx, at)?;
        }
        if block.rate == self.rate {
            cx.forward(Self::AUDIO, Self::OUT);
            return Ok(());
        }
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.start_stream(block, at)?,
        };
        stream.start = at - stream.from.duration(stream.received);
        stream.next_at = at + block.duration();
        stream.received += block.len();
        stream.state.push(block.samples.data()?);
        self.stream = Some(stream);
        self.send_ready(cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.end_stream(cx, Timestamp(i64::MAX))
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.stream = None;
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

    /// 10 ms of `channels` channels at `rate`, with the constant values `level`, 2 · `level`, ...
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
    fn timestamps_are_exact() {
        let mut bench = open();
        let mut call =
            |at| about(&bench.call(Resample::AUDIO, ms(at), block(48_000, 1, 0.5)).unwrap());
        // 96 samples at 48 kHz wait for the next block.
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
        assert_eq!(about(&sent), [(28_000, 32), (30_000, 96)], "another rate starts a new stream");
    }

    #[test]
    fn the_tail_is_discarded_if_time_restarts_or_on_an_interrupt() {
        let mut bench = open();
        bench.call(Resample::AUDIO, ms(20_000), block(48_000, 1, 0.5)).unwrap();
        let sent = bench.call(Resample::AUDIO, ms(12_500), block(48_000, 1, 0.5)).unwrap();
        assert_eq!(about(&sent), [(12_500_000, 128)]);
        assert!(bench.cancel(ms(12_510)).unwrap().is_empty());
        let sent = bench.call(Resample::AUDIO, ms(13_000), block(48_000, 1, 0.5)).unwrap();
        assert_eq!(about(&sent), [(13_000_000, 128)]);
    }

    #[test]
    fn channels_are_independent() {
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
    fn equal_rates_forward_the_packet() {
        let mut bench = open();
        let block = block(16_000, 2, 0.25);
        let sent = bench.call(Resample::AUDIO, ms(7), block).unwrap();
        assert_eq!(about(&sent), [(7000, 160)]);
        assert_eq!(sent[0].1.get::<AudioBlock>().unwrap().channels(), 2);
        assert!(bench.finish(ms(17)).unwrap().is_empty());
    }

    #[test]
    fn unsupported_rates_are_rejected() {
        let mut block = block(48_000, 1, 0.5);
        for rate in [0, 47_999_999] {
            block.rate = SampleRate(rate);
            let error = open().call(Resample::AUDIO, ms(0), block.clone()).unwrap_err().to_string();
            assert!(error.contains(&format!("cannot resample {rate} Hz to 16000 Hz")), "{error}");
        }
    }
}
