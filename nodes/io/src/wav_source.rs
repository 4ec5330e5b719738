//! Audio from a WAV file.

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, choices, params, ports};
use afferent_messages::AudioBlock;

use crate::wav_file::WavFile;

/// Reads a WAV file, block by block.
///
/// At pace `realtime`, a block is sent when its last sample would have been recorded, as a
/// microphone does. The timestamp of a block is that of its first sample; the file begins at the
/// start of the session.
///
/// Supported are PCM with 8, 16, 24, and 32 bits and 32-bit floating point, up to 64 channels, up
/// to 768 kHz. The last block may be shorter. If the file is truncated, the samples before the end
/// are sent, and then the node fails. A file whose header does not state its length, because it was
/// written to a pipe or its writer was killed, is read to its end with a warning.
///
/// Latency: one block.
///
/// ```
/// use std::time::Duration;
///
/// use afferent_graph::{Node, NodeBench, OpenCx, Timestamp};
/// use afferent_messages::AudioBlock;
/// use afferent_nodes_io::{Channels, Pace, WavSource, WavSourceParams};
///
/// let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/assets/wake_word.wav").into();
/// let block = Duration::from_millis(20);
/// let params =
///     WavSourceParams { path, pace: Pace::Max, block, channels: Channels::Keep, repeat: false };
/// let mut bench = NodeBench::new(WavSource::open(params, &OpenCx::default())?);
/// let (sent, _) = bench.poll(Timestamp::ZERO)?;
/// let block = sent[0].1.get::<AudioBlock>().unwrap();
/// assert_eq!((block.rate.0, block.len()), (16_000, 320));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct WavSource {
    params: WavSourceParams,
    file: WavFile,
    /// Timestamp of the first sample of this pass through the file.
    start: Timestamp,
    /// Read error, returned after the samples before it were sent.
    error: Option<NodeError>,
}

choices! {
    /// Pace of reading or writing.
    pub enum Pace {
        /// At the speed of the session clock.
        Realtime = "realtime",
        /// As fast as downstream nodes accept it.
        Max = "max",
    }
}

choices! {
    /// Treatment of several channels.
    pub enum Channels {
        /// Sends all channels.
        Keep = "keep",
        /// Sends the mean of all channels.
        Mono = "mono",
    }
}

params! {
    /// Settings of [`WavSource`].
    pub struct WavSourceParams {
        /// Path of the WAV file.
        pub path: PathBuf;
        /// Pace of reading.
        pub pace: Pace = "realtime";
        /// Length of a block.
        pub block: Duration = "20ms", range 0.001..=1.0;
        /// Treatment of several channels.
        pub channels: Channels = "keep";
        /// Restart the file at its end; timestamps keep increasing.
        pub repeat: bool = "false";
    }
}

ports! {
    impl WavSource {
        /// Audio of the file, full scale ±1, at the sample rate of the file, one block every
        /// `block`.
        out AUDIO: AudioBlock;
    }
}

impl WavSource {
    /// Samples per channel of the next block; zero at the end of the file.
    fn next_block_len(&self) -> usize {
        self.file.rate().samples(self.params.block).max(1).min(self.file.remaining())
    }

    /// Timestamp of the sample `samples` after the next one.
    fn time_after(&self, samples: usize) -> Timestamp {
        self.start + self.file.rate().duration(self.file.position() + samples)
    }

    /// Restarts the file; false if it does not repeat.
    fn rewind(&mut self) -> Result<bool, NodeError> {
        if !self.params.repeat || self.file.position() == 0 {
            return Ok(false);
        }
        self.start = self.time_after(0);
        self.file = WavFile::open(&self.params.path)?;
        Ok(self.file.remaining() > 0)
    }

    fn send_block(&mut self, cx: &mut Cx<'_>, len: usize) -> Result<(), NodeError> {
        let at = self.time_after(0);
        self.error = self.file.read(len).err();
        let (channels, samples) = (self.file.channels(), self.file.samples());
        let len = samples.len() / channels;
        if len == 0 {
            return Ok(());
        }
        let mut block = cx.loan(Self::AUDIO);
        let rate = self.file.rate();
        match self.params.channels {
            Channels::Keep => {
                let planar = block.reshape(rate, channels, len)?;
                for (channel, plane) in planar.chunks_exact_mut(len).enumerate() {
                    let samples = samples.iter().skip(channel).step_by(channels);
                    plane.iter_mut().zip(samples).for_each(|(to, from)| *to = *from);
                }
            }
            Channels::Mono => {
                let mono = block.reshape(rate, 1, len)?;
                for (to, from) in mono.iter_mut().zip(samples.chunks_exact(channels)) {
                    *to = from.iter().sum::<f32>() / channels as f32;
                }
            }
        }
        cx.send_at(Self::AUDIO, at, block);
        Ok(())
    }
}

impl Node for WavSource {
    type Params = WavSourceParams;

    const NAME: &'static str = "wav_source";
    const SUMMARY: &'static str = "Reads a WAV file, block by block.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "one block";

    fn check(params: &WavSourceParams, _: &OpenCx) -> Result<(), NodeError> {
        WavFile::open(&params.path).map(drop)
    }

    fn open(params: WavSourceParams, _: &OpenCx) -> Result<Self, NodeError> {
        let file = WavFile::open(&params.path)?;
        if file.is_streamed() {
            let path = params.path.display();
            tracing::warn!(
                "{path}: the header does not state the length; the file is read to its end"
            );
        }
        Ok(Self { params, file, start: Timestamp::ZERO, error: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.file.remaining() == 0 && !self.rewind()? {
            cx.end();
            return Ok(());
        }
        let len = self.next_block_len();
        let heard = self.time_after(len);
        if self.params.pace == Pace::Realtime && cx.now() < heard {
            cx.resume_at(heard);
            return Ok(());
        }
        self.send_block(cx, len)?;
        if self.params.pace == Pace::Realtime && self.error.is_none() {
            cx.resume_at(self.time_after(self.next_block_len()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use afferent_graph::{NodeBench, Packet, Resume};
    use hound::{SampleFormat, WavSpec, WavWriter};

    use super::*;
    use crate::testing::TempFolder;

    fn write(path: &Path, channels: u16, samples: impl IntoIterator<Item = i16>) {
        let (bits_per_sample, sample_format) = (16, SampleFormat::Int);
        let spec = WavSpec { channels, sample_rate: 8000, bits_per_sample, sample_format };
        let mut writer = WavWriter::create(path, spec).unwrap();
        samples.into_iter().for_each(|sample| writer.write_sample(sample).unwrap());
        writer.finalize().unwrap();
    }

    fn params(path: &Path, pace: Pace) -> WavSourceParams {
        let (block, channels) = (Duration::from_millis(10), Channels::Keep);
        WavSourceParams { path: path.to_owned(), pace, block, channels, repeat: false }
    }

    fn open(params: WavSourceParams) -> NodeBench<WavSource> {
        NodeBench::new(WavSource::open(params, &OpenCx::default()).unwrap())
    }

    fn block(packet: &Packet) -> &AudioBlock {
        packet.get().unwrap()
    }

    #[test]
    fn blocks_are_planar_and_the_last_is_short() {
        let folder = TempFolder::new();
        let path = folder.path("stereo.wav");
        write(&path, 2, (0..200).map(|n| if n % 2 == 0 { n * 8 } else { -n * 8 }));
        let mut bench = open(params(&path, Pace::Max));
        let mut blocks = Vec::new();
        loop {
            let (sent, resume) = bench.poll(Timestamp::ZERO).unwrap();
            blocks.extend(sent.into_iter().map(|(_, packet)| packet));
            match resume {
                Resume::Done => break,
                other => assert_eq!(other, Resume::Now),
            }
        }
        let about = blocks.iter().map(|packet| (packet.header.at.0, block(packet).len()));
        assert_eq!(about.collect::<Vec<_>>(), [(0, 80), (10_000_000, 20)]);
        let last = block(&blocks[1]);
        assert_eq!(last.channel(0).unwrap()[..2], [160.0 / 4096.0, 162.0 / 4096.0]);
        assert_eq!(last.channel(1).unwrap()[..2], [-161.0 / 4096.0, -163.0 / 4096.0]);
    }

    #[test]
    fn channels_are_averaged_on_request() {
        let folder = TempFolder::new();
        let path = folder.path("stereo.wav");
        write(&path, 2, [16384, 0, -8192, -8192]);
        let params = WavSourceParams { channels: Channels::Mono, ..params(&path, Pace::Max) };
        let (sent, _) = open(params).poll(Timestamp::ZERO).unwrap();
        assert_eq!(block(&sent[0].1).samples.sizes(), [1, 2]);
        assert_eq!(block(&sent[0].1).channel(0).unwrap(), [0.25, -0.25]);
    }

    #[test]
    fn realtime_sends_a_block_after_its_last_sample() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        write(&path, 1, 0..100);
        let mut bench = open(params(&path, Pace::Realtime));
        let ms = |ms: i64| Timestamp(ms * 1_000_000);
        let mut poll = |now| {
            let (sent, resume) = bench.poll(now).unwrap();
            (sent.first().map(|(_, packet)| packet.header.at), resume)
        };
        assert_eq!(poll(ms(0)), (None, Resume::At(ms(10))));
        assert_eq!(poll(ms(10)), (Some(ms(0)), Resume::At(Timestamp(12_500_000))));
        // After a slow downstream node, timestamps do not drift.
        assert_eq!(poll(ms(50)).0, Some(ms(10)));
        assert_eq!(poll(ms(50)), (None, Resume::Done));
    }

    #[test]
    fn timestamps_keep_increasing_when_the_file_repeats() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        write(&path, 1, 0..100);
        let mut bench = open(WavSourceParams { repeat: true, ..params(&path, Pace::Max) });
        let times = (0..5).map(|_| bench.poll(Timestamp::ZERO).unwrap().0[0].1.header.at.0);
        let expected = [0.0, 10.0, 12.5, 22.5, 25.0].map(|ms: f64| (ms * 1e6) as i64);
        assert_eq!(times.collect::<Vec<_>>(), expected);
        write(&path, 1, []);
        let mut bench = open(WavSourceParams { repeat: true, ..params(&path, Pace::Max) });
        assert_eq!(bench.poll(Timestamp::ZERO).unwrap().1, Resume::Done);
    }

    #[test]
    fn samples_of_a_truncated_file_are_sent() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        write(&path, 1, 0..100);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 41]).unwrap();
        let mut bench = open(params(&path, Pace::Max));
        let (sent, _) = bench.poll(Timestamp::ZERO).unwrap();
        assert_eq!(block(&sent[0].1).len(), 79);
        let error = bench.poll(Timestamp::ZERO).unwrap_err().to_string();
        let expected =
            "sample 79 of 100 (0.010 s): the file is truncated; its header states more samples";
        assert_eq!(error, format!("{}: {expected}", path.display()));
    }
}
