//! Sound into a WAV file.

use std::{fs::File, io::BufWriter, path::PathBuf, time::Duration};

use afferent_graph::{
    AudioBlock, Cx, In, Node, NodeError, OpenCx, Port, SampleRate, Timestamp, choices, params,
};
use hound::{WavSpec, WavWriter};

use crate::output::{self, file_error};

/// Writes sound to a WAV file.
///
/// | port    | type         | unit          | rate                          |
/// |---------|--------------|---------------|-------------------------------|
/// | `audio` | `AudioBlock` | full scale ±1 | of the first block, to the end |
///
/// Latency: none. The file is made when the graph starts, with the folders above it; one that is
/// there is overwritten. Its header is completed when the stream ends or the node is dropped.
///
/// Whole numbers are clipped to full scale. A gap in the time stamps that is longer than the
/// block before it, up to `fill_gaps`, is filled with silence; a longer one is closed up, and a
/// warning says so. Overlaps are written one after the other. A stream without sound leaves a
/// file of length zero at 16 kHz.
///
/// ```
/// use std::time::Duration;
///
/// use afferent_graph::{AudioBlock, Node, NodeBench, OpenCx, SampleRate, Timestamp};
/// use afferent_nodes_io::{SampleFormat, WavSink, WavSinkParams};
///
/// let path = std::env::temp_dir().join(format!("afferent-sink-{}.wav", std::process::id()));
/// let (bits, fill_gaps) = (SampleFormat::Int16, Duration::from_secs(1));
/// let params = WavSinkParams { path: path.clone(), bits, fill_gaps };
/// let mut bench = NodeBench::new(WavSink::open(params, &OpenCx::default())?);
/// let mut block = AudioBlock::default();
/// block.reshape(SampleRate(8000), 1, 2)?.copy_from_slice(&[0.5, 2.0]);
/// bench.call(WavSink::AUDIO, Timestamp::ZERO, block)?;
/// bench.finish(Timestamp::ZERO)?;
/// let bytes = std::fs::read(&path).unwrap();
/// assert_eq!(bytes[bytes.len() - 4..], [0x00, 0x40, 0xff, 0x7f]);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct WavSink {
    params: WavSinkParams,
    /// Until the first block tells the rate.
    file: Option<File>,
    writer: Option<Writer>,
}

choices! {
    /// How a sample is written.
    pub enum SampleFormat {
        /// Whole numbers of 16 bits, clipped.
        Int16 = "16",
        /// Floating point of 32 bits, not clipped.
        Float32 = "float32",
    }
}

params! {
    /// Settings of [`WavSink`].
    pub struct WavSinkParams {
        /// The file.
        pub path: PathBuf;
        /// How a sample is written.
        pub bits: SampleFormat = "16", unit "bits";
        /// Longest gap that is filled with silence.
        pub fill_gaps: Duration = "1s", range 0.0..=3600.0;
    }
}

/// A file whose kind is known.
struct Writer {
    wav: WavWriter<BufWriter<File>>,
    rate: SampleRate,
    channels: usize,
    /// Bytes that the file still has room for.
    room: u64,
    /// When the last block ended, and how long it was.
    last: Option<(Timestamp, Duration)>,
}

impl WavSink {
    /// Sound in.
    pub const AUDIO: In<AudioBlock> = In::new("audio");

    /// Bytes of samples in a file, of which a header can tell the length, with room for the
    /// header itself.
    const MAX_BYTES: u64 = u32::MAX as u64 - 4096;

    fn writer(&mut self, rate: SampleRate, channels: usize) -> Result<&mut Writer, NodeError> {
        if let Some(file) = self.file.take() {
            let count = u16::try_from(channels).ok().filter(|count| (1..=64).contains(count));
            let count = count.ok_or_else(|| {
                input_error(format!("{channels} channels cannot be written, only 1 to 64"))
            })?;
            let (bits_per_sample, sample_format) = match self.params.bits {
                SampleFormat::Int16 => (16, hound::SampleFormat::Int),
                SampleFormat::Float32 => (32, hound::SampleFormat::Float),
            };
            let spec =
                WavSpec { channels: count, sample_rate: rate.0, bits_per_sample, sample_format };
            let wav = WavWriter::new(BufWriter::new(file), spec);
            let wav = wav.map_err(|error| write_error(&self.params.path, error))?;
            let room = Self::MAX_BYTES;
            self.writer = Some(Writer { wav, rate, channels, room, last: None });
        }
        let ended = || file_error(&self.params.path, "it is closed after an earlier error");
        self.writer.as_mut().ok_or_else(ended)
    }

    /// Completes the file.
    fn close(&mut self) -> Result<(), NodeError> {
        if self.file.is_some() {
            self.writer(AudioBlock::default().rate, 1)?;
        }
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.wav.finalize().map_err(|error| write_error(&self.params.path, error))
    }
}

impl Node for WavSink {
    type Params = WavSinkParams;

    const NAME: &'static str = "wav_sink";
    const SUMMARY: &'static str = "Writes sound to a WAV file.";
    const PORTS: &'static [Port] =
        &[Self::AUDIO.port().help("full scale ±1, rate and channels of the first block")];
    const LATENCY: &'static str = "none";

    fn check(params: &WavSinkParams, _: &OpenCx) -> Result<(), NodeError> {
        output::check(&params.path)
    }

    fn open(params: WavSinkParams, _: &OpenCx) -> Result<Self, NodeError> {
        let file = Some(output::create(&params.path)?);
        Ok(Self { params, file, writer: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(block) = cx.get(Self::AUDIO) else { return Ok(()) };
        let (rate, channels) = (block.rate, block.channels());
        let (bits, fill_gaps) = (self.params.bits, self.params.fill_gaps);
        let writer = self.writer(rate, channels)?;
        if (rate, channels) != (writer.rate, writer.channels) {
            return Err(input_error(format!(
                "a block of {} Hz and {channels} channels in a file of {} Hz and {} channels; \
                 put a resample node before this one, or one sink for each stream",
                rate.0, writer.rate.0, writer.channels,
            )));
        }
        let silence = writer.silence_before(cx.at(), fill_gaps);
        let written = writer.write(block, silence, bits);
        writer.last = Some((cx.at() + block.duration(), block.duration()));
        written.map_err(|error| write_error(&self.params.path, error))
    }

    fn finish(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.close()
    }
}

impl Drop for WavSink {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!("{error}");
        }
    }
}

impl Writer {
    /// Samples of silence that belong between the last block and one at `at`.
    fn silence_before(&self, at: Timestamp, longest: Duration) -> usize {
        let Some((end, length)) = self.last else { return 0 };
        let gap = at.since(end);
        if gap <= length {
            return 0;
        }
        if gap > longest {
            tracing::warn!("a gap of {gap:?} before {at} is closed up; fill_gaps is {longest:?}");
            return 0;
        }
        self.rate.samples(gap)
    }

    fn write(
        &mut self,
        block: &AudioBlock,
        silence: usize,
        format: SampleFormat,
    ) -> hound::Result<()> {
        let size = if format == SampleFormat::Int16 { 2 } else { 4 };
        let bytes = (silence as u64 + block.len() as u64) * self.channels as u64 * size;
        self.room = self.room.checked_sub(bytes).ok_or(hound::Error::TooWide)?;
        let samples = block.samples.data::<f32>().unwrap_or_default();
        let silence = std::iter::repeat_n(0.0, silence * self.channels);
        let times = 0..block.len();
        let sound = times.flat_map(|time| samples.iter().skip(time).step_by(block.len()));
        for sample in silence.chain(sound.copied()) {
            match format {
                // Rounds, and clips to the range of the type.
                SampleFormat::Int16 => self.wav.write_sample((sample * 32768.0).round() as i16)?,
                SampleFormat::Float32 => self.wav.write_sample(sample)?,
            }
        }
        Ok(())
    }
}

fn input_error(reason: String) -> NodeError {
    NodeError::InvalidInput { port: WavSink::AUDIO.name(), reason }
}

fn write_error(path: &std::path::Path, error: hound::Error) -> NodeError {
    match error {
        hound::Error::IoError(error) => file_error(path, format!("it cannot be written: {error}")),
        hound::Error::TooWide => file_error(path, "it is full: a WAV file holds 4 GiB"),
        error => file_error(path, format!("it cannot be written: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::NodeBench;
    use hound::WavReader;

    use super::*;
    use crate::testing::Folder;

    fn open(path: PathBuf, bits: SampleFormat) -> NodeBench<WavSink> {
        let params = WavSinkParams { path, bits, fill_gaps: Duration::from_millis(100) };
        NodeBench::new(WavSink::open(params, &OpenCx::default()).unwrap())
    }

    /// A block at 1 kHz, so that a sample lasts a millisecond.
    fn block(channels: usize, samples: &[f32]) -> AudioBlock {
        let mut block = AudioBlock::default();
        let len = samples.len() / channels;
        block.reshape(SampleRate(1000), channels, len).unwrap().copy_from_slice(samples);
        block
    }

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    #[test]
    fn channels_are_interleaved() {
        let folder = Folder::new();
        let path = folder.path("new/folder/sound.wav");
        let mut bench = open(path.clone(), SampleFormat::Float32);
        bench.call(WavSink::AUDIO, ms(0), block(2, &[0.1, 0.2, -0.1, -2.0])).unwrap();
        bench.finish(ms(0)).unwrap();
        let mut reader = WavReader::open(path).unwrap();
        assert_eq!((reader.spec().channels, reader.spec().sample_rate), (2, 1000));
        let samples: Vec<f32> = reader.samples().map(Result::unwrap).collect();
        assert_eq!(samples, [0.1, -0.1, 0.2, -2.0]);
    }

    #[test]
    fn whole_numbers_are_rounded_and_clipped() {
        let folder = Folder::new();
        let path = folder.path("sound.wav");
        let mut bench = open(path.clone(), SampleFormat::Int16);
        let sound = [-1.0, -3.0, 1.0, 1.0 / 32768.0, f32::NAN];
        bench.call(WavSink::AUDIO, ms(0), block(1, &sound)).unwrap();
        drop(bench);
        let mut reader = WavReader::open(path).unwrap();
        let samples: Vec<i16> = reader.samples().map(Result::unwrap).collect();
        assert_eq!(samples, [-32768, -32768, 32767, 1, 0], "a file is completed by drop too");
    }

    #[test]
    fn short_gaps_are_filled_with_silence() {
        let check = |starts: &[i64], expected: u32| {
            let folder = Folder::new();
            let path = folder.path("sound.wav");
            let mut bench = open(path.clone(), SampleFormat::Int16);
            for start in starts {
                bench.call(WavSink::AUDIO, ms(*start), block(1, &[0.5; 10])).unwrap();
            }
            bench.finish(ms(0)).unwrap();
            assert_eq!(WavReader::open(path).unwrap().duration(), expected, "{starts:?}");
        };
        check(&[], 0);
        check(&[500, 510], 20);
        check(&[0, 20], 20);
        check(&[0, 21], 31);
        check(&[0, 110], 120);
        check(&[0, 111], 20);
        check(&[0, 5], 20);
    }

    #[test]
    fn another_rate_is_refused() {
        let folder = Folder::new();
        let mut bench = open(folder.path("sound.wav"), SampleFormat::Int16);
        bench.call(WavSink::AUDIO, ms(0), block(1, &[0.5])).unwrap();
        let mut other = block(1, &[0.5]);
        other.rate = SampleRate(2000);
        let error = bench.call(WavSink::AUDIO, ms(1), other).unwrap_err().to_string();
        assert!(error.contains("2000 Hz and 1 channels in a file of 1000 Hz"), "{error}");
        assert!(error.contains("resample"), "{error}");
        let error = bench.call(WavSink::AUDIO, ms(1), block(2, &[0.5; 2])).unwrap_err();
        assert!(error.to_string().contains("2 channels in a file"), "{error}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_an_error() {
        let mut bench = open("/dev/full".into(), SampleFormat::Int16);
        let sound = block(1, &[0.5; 100_000]);
        let error = bench.call(WavSink::AUDIO, ms(0), sound).unwrap_err().to_string();
        assert!(error.starts_with("/dev/full: it cannot be written: No space left"), "{error}");
    }
}
