//! Audio into a WAV file.

use std::{fs::File, io::BufWriter, time::Duration};

use afferent_graph::{
    Cx, Node, NodeError, OpenCx, OutputPath, Port, Timestamp, choices, params, ports,
};
use afferent_messages::{AudioBlock, Gain, Played, Playout, SampleRate};
use hound::{WavSpec, WavWriter};

use crate::{
    Pace,
    output::{self, file_error},
};

/// Writes audio to a WAV file.
///
/// The file and its parent folders are created when the graph starts; an existing file is
/// overwritten. The header is completed when the stream ends or the node is dropped. It is also
/// updated after every second of audio, so that the file stays readable if the program is killed.
///
/// With `pace: max`, audio is written when it arrives. A gap between the timestamps of two blocks
/// is filled with silence if it is longer than the block before it and no longer than `fill_gaps`.
/// A longer gap is dropped with a warning. Overlapping blocks are written one after the other. A
/// stream without audio makes an empty file of 16 kHz.
///
/// With `pace: realtime`, the node simulates a loudspeaker: the file contains what would be heard
/// from the start of the session. Audio that arrives while the device is silent is heard `buffer`
/// later. An interrupt lets the device play its buffer, fades out within `fade`, and discards the
/// rest. While more than 30 s of audio are queued, the node accepts no packet, so `gain` takes
/// effect late too.
///
/// Integer samples are rounded and clipped to full scale.
///
/// Latency: none; with `pace: realtime`, `buffer`.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{AudioBlock, SampleRate};
/// use afferent_nodes_io::{WavSink, WavSinkParams};
///
/// let path = std::env::temp_dir().join(format!("afferent-sink-{}.wav", std::process::id()));
/// let values = [("path".to_owned(), ParamValue::Path(path.clone()))].into();
/// let params = WavSinkParams::from_values(&values)?;
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
    /// The created file, until the first block sets its format.
    file: Option<File>,
    writer: Option<Writer>,
    /// Playback queue of `pace: realtime`, from the first block on.
    playout: Option<Playout>,
    gain: Gain,
    /// Next time at which `played` is sent.
    report_at: Timestamp,
}

choices! {
    /// Sample format of a WAV file.
    pub enum SampleFormat {
        /// 16-bit integers, clipped.
        Int16 = "16",
        /// 32-bit floating point, not clipped.
        Float32 = "float32",
    }
}

params! {
    /// Settings of [`WavSink`].
    pub struct WavSinkParams {
        /// Path of the WAV file.
        pub path: OutputPath;
        /// Sample format.
        pub bits: SampleFormat = "16", unit "bits";
        /// `max` writes audio when it arrives, `realtime` when a loudspeaker would play it.
        pub pace: Pace = "max";
        /// Longest gap between blocks that is filled with silence; used with `pace: max`.
        pub fill_gaps: Duration = "1s", range 0.0..=3600.0;
        /// Length of the device buffer; used with `pace: realtime`.
        pub buffer: Duration = "40ms", range 0.001..=10.0;
        /// Length of the fade-out after an interrupt; used with `pace: realtime`.
        pub fade: Duration = "8ms", range 0.0..=1.0;
    }
}

/// A file with known sample rate and channels.
struct Writer {
    wav: WavWriter<BufWriter<File>>,
    rate: SampleRate,
    channels: usize,
    /// Bytes of samples that can still be written.
    bytes_left: u64,
    /// Samples of all channels since the header was last updated.
    unflushed: usize,
    /// End and length of the last block.
    last: Option<(Timestamp, Duration)>,
}

ports! {
    impl WavSink {
        /// Audio to write, full scale ±1; the first block sets the sample rate and the channels of
        /// the file.
        in AUDIO: AudioBlock;
        /// Playback gain from now on; used with `pace: realtime`.
        in GAIN: Gain, optional;
        /// Playback position, every 20 ms; sent with `pace: realtime`.
        out PLAYED: Played, optional;
        /// Audio as it is played, timestamped with the time at which it is heard; sent with `pace:
        /// realtime`.
        out HEARD: AudioBlock, optional;
    }
}

impl WavSink {
    /// Time between two `played` packets.
    const REPORT_INTERVAL: Duration = Duration::from_millis(20);

    /// Most bytes of samples: the header states sizes with 32 bits, of the header itself too.
    const MAX_BYTES: u64 = u32::MAX as u64 - 4096;

    /// The writer, created with the format of the first block.
    fn writer(&mut self, rate: SampleRate, channels: usize) -> Result<&mut Writer, NodeError> {
        if let Some(file) = self.file.take() {
            let most = AudioBlock::MAX_CHANNELS;
            let count = u16::try_from(channels).ok();
            let count = count.filter(|_| (1..=most).contains(&channels)).ok_or_else(|| {
                input_error(format!("cannot write {channels} channels; 1 to {most} are supported"))
            })?;
            if !AudioBlock::RATES_HZ.contains(&rate.0) {
                let (least, most) = AudioBlock::RATES_HZ.into_inner();
                let found = rate.0;
                return Err(input_error(format!(
                    "cannot write a sample rate of {found} Hz; {least} to {most} Hz are supported"
                )));
            }
            let (bits_per_sample, sample_format) = match self.params.bits {
                SampleFormat::Int16 => (16, hound::SampleFormat::Int),
                SampleFormat::Float32 => (32, hound::SampleFormat::Float),
            };
            let spec =
                WavSpec { channels: count, sample_rate: rate.0, bits_per_sample, sample_format };
            let wav = WavWriter::new(BufWriter::new(file), spec);
            let wav = wav.map_err(|error| write_error(&self.params.path, error))?;
            let bytes_left = Self::MAX_BYTES;
            let (unflushed, last) = (0, None);
            self.writer = Some(Writer { wav, rate, channels, bytes_left, unflushed, last });
        }
        let closed = || file_error(&self.params.path, "closed after an earlier error");
        self.writer.as_mut().ok_or_else(closed)
    }

    /// Queues a block for playback.
    fn queue(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Self { params, writer: Some(writer), playout, gain, .. } = self else { return Ok(()) };
        let playout = playout.get_or_insert_with(|| {
            let mut playout = Playout::new(writer.rate, writer.channels, params.fade);
            playout.set_gain(*gain);
            playout
        });
        if !playout.is_playing() {
            // Writes the silence until now.
            self.report_at = cx.now();
            self.play(cx)?;
        }
        let (Some(block), Some(playout)) = (cx.get(Self::AUDIO), &mut self.playout) else {
            return Ok(());
        };
        playout.push(cx.at(), block)?;
        playout.call_again(cx);
        Ok(())
    }

    /// Writes everything that the device has buffered by now, and sends the playback position.
    fn play(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Self { params, writer: Some(writer), playout: Some(playout), .. } = self else {
            return Ok(());
        };
        let now = writer.rate.samples(cx.now().since(Timestamp::ZERO)) as u64;
        let until = now + writer.rate.samples(params.buffer) as u64;
        // Pieces of a second bound the memory, even after hours of silence.
        while playout.position() < until {
            let (first, queued) = (playout.position(), playout.waiting());
            let samples = playout.next(until.min(first + u64::from(writer.rate.0)));
            writer
                .write_interleaved(samples.iter().copied(), samples.len(), params.bits)
                .map_err(|error| write_error(&params.path, error))?;
            if queued > 0 {
                let at = writer.rate.duration(usize::try_from(first).unwrap_or(usize::MAX));
                playout.send_heard(cx, Self::HEARD, Timestamp::ZERO + at)?;
            }
        }
        let is_over = !playout.is_playing();
        if cx.now() >= self.report_at || is_over {
            if let Some(played) = playout.played(now) {
                let now = cx.now();
                cx.send_at(Self::PLAYED, now, played);
            }
            self.report_at = cx.now() + Self::REPORT_INTERVAL;
        }
        playout.call_again(cx);
        Ok(())
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
    const SUMMARY: &'static str = "Writes audio to a WAV file.";
    const PORTS: &'static [Port] = Self::PORTS;
    const TIMED: bool = true;
    const LATENCY: &'static str = "none; with pace: realtime, buffer";

    fn check(params: &WavSinkParams, _: &OpenCx) -> Result<(), NodeError> {
        output::check_file(&params.path)
    }

    fn open(params: WavSinkParams, _: &OpenCx) -> Result<Self, NodeError> {
        let file = Some(output::create_file(&params.path)?);
        let (gain, report_at) = (Gain::default(), Timestamp::ZERO);
        Ok(Self { params, file, writer: None, playout: None, gain, report_at })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(gain) = cx.get(Self::GAIN).copied() {
            self.gain = gain;
            self.playout.iter_mut().for_each(|playout| playout.set_gain(gain));
            return Ok(());
        }
        let Some(block) = cx.get(Self::AUDIO) else { return self.play(cx) };
        let (rate, channels) = (block.rate, block.channels());
        let (bits, fill_gaps) = (self.params.bits, self.params.fill_gaps);
        let is_realtime = self.params.pace == Pace::Realtime;
        let writer = self.writer(rate, channels)?;
        if (rate, channels) != (writer.rate, writer.channels) {
            return Err(input_error(format!(
                "block of {} Hz and {channels} channels for a file of {} Hz and {} channels; \
                 insert a resample node, or use one wav_sink per stream",
                rate.0, writer.rate.0, writer.channels,
            )));
        }
        if is_realtime {
            return self.queue(cx);
        }
        let silence = writer.silence_before(cx.at(), fill_gaps);
        let written = writer.write(block, silence, bits);
        writer.last = Some((cx.at() + block.duration(), block.duration()));
        written.map_err(|error| write_error(&self.params.path, error))
    }

    fn finish(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.close()
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if self.playout.as_ref().is_none_or(|playout| !playout.is_playing()) {
            return Ok(());
        }
        // Brings the device up to the time of the interrupt.
        self.play(cx)?;
        let Self { params, writer: Some(writer), playout: Some(playout), .. } = self else {
            return Ok(());
        };
        let at = writer.rate.duration(usize::try_from(playout.position()).unwrap_or(usize::MAX));
        let fade = playout.flush();
        let written = writer.write_interleaved(fade.iter().copied(), fade.len(), params.bits);
        playout.send_heard(cx, Self::HEARD, Timestamp::ZERO + at)?;
        written.map_err(|error| write_error(&params.path, error))?;
        self.report_at = cx.now();
        self.play(cx)
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
    /// Samples of silence per channel between the last block and one at `at`.
    fn silence_before(&self, at: Timestamp, longest: Duration) -> usize {
        let Some((end, length)) = self.last else { return 0 };
        let gap = at.since(end);
        if gap <= length {
            return 0;
        }
        if gap > longest {
            tracing::warn!(
                "dropped a gap of {gap:?} before {at}: it is longer than fill_gaps, {longest:?}"
            );
            return 0;
        }
        self.rate.samples(gap)
    }

    /// Writes `count` interleaved samples, if the file can hold them.
    fn write_interleaved(
        &mut self,
        mut samples: impl Iterator<Item = f32>,
        count: usize,
        format: SampleFormat,
    ) -> hound::Result<()> {
        let size = if format == SampleFormat::Int16 { 2 } else { 4 };
        let bytes_left = self.bytes_left.checked_sub(count as u64 * size);
        self.bytes_left = bytes_left.ok_or(hound::Error::TooWide)?;
        samples.try_for_each(|sample| match format {
            // The cast clips.
            SampleFormat::Int16 => self.wav.write_sample((sample * 32768.0).round() as i16),
            SampleFormat::Float32 => self.wav.write_sample(sample),
        })?;
        self.unflushed += count;
        if self.unflushed >= self.rate.0 as usize * self.channels {
            self.unflushed = 0;
            self.wav.flush()?;
        }
        Ok(())
    }

    /// Writes `silence` samples of silence per channel, then `block`.
    fn write(
        &mut self,
        block: &AudioBlock,
        silence: usize,
        format: SampleFormat,
    ) -> hound::Result<()> {
        let samples = block.samples.data::<f32>().unwrap_or_default();
        let silence = std::iter::repeat_n(0.0, silence * self.channels);
        let times = 0..block.len();
        let sound = times.flat_map(|time| samples.iter().skip(time).step_by(block.len()));
        let count = silence.len() + samples.len();
        self.write_interleaved(silence.chain(sound.copied()), count, format)
    }
}

fn input_error(reason: String) -> NodeError {
    NodeError::InvalidInput { port: WavSink::AUDIO.name().into(), reason }
}

fn write_error(path: &std::path::Path, error: hound::Error) -> NodeError {
    match error {
        hound::Error::IoError(error) => file_error(path, format!("cannot write it: {error}")),
        hound::Error::TooWide => file_error(path, "the file is full; a WAV file holds 4 GiB"),
        error => file_error(path, format!("cannot write it: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValue, Params};
    use hound::WavReader;

    use std::path::PathBuf;

    use super::*;
    use crate::testing::TempFolder;

    fn open(path: PathBuf, bits: SampleFormat) -> NodeBench<WavSink> {
        let fill_gaps = Duration::from_millis(100);
        NodeBench::new(WavSink::open(params(path, bits, fill_gaps), &OpenCx::default()).unwrap())
    }

    fn params(path: PathBuf, bits: SampleFormat, fill_gaps: Duration) -> WavSinkParams {
        let values = [("path".to_owned(), ParamValue::Path(path))].into();
        WavSinkParams { bits, fill_gaps, ..WavSinkParams::from_values(&values).unwrap() }
    }

    /// A block at 1 kHz: a sample lasts 1 ms.
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
        let folder = TempFolder::new();
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
    fn integer_samples_are_rounded_and_clipped() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        let mut bench = open(path.clone(), SampleFormat::Int16);
        let sound = [-1.0, -3.0, 1.0, 1.0 / 32768.0, f32::NAN];
        bench.call(WavSink::AUDIO, ms(0), block(1, &sound)).unwrap();
        drop(bench);
        let mut reader = WavReader::open(path).unwrap();
        let samples: Vec<i16> = reader.samples().map(Result::unwrap).collect();
        assert_eq!(samples, [-32768, -32768, 32767, 1, 0], "drop completes the file");
    }

    #[test]
    fn short_gaps_are_filled_with_silence() {
        let check = |starts: &[i64], expected: u32| {
            let folder = TempFolder::new();
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

    /// A simulated loudspeaker with a buffer of 40 ms and a fade of 4 ms, at 1 kHz.
    fn device(path: PathBuf) -> NodeBench<WavSink> {
        let (fade, pace) = (Duration::from_millis(4), Pace::Realtime);
        let params = params(path, SampleFormat::Float32, Duration::ZERO);
        let params = WavSinkParams { pace, fade, ..params };
        NodeBench::new(WavSink::open(params, &OpenCx::default()).unwrap())
    }

    fn read(path: PathBuf) -> Vec<f32> {
        WavReader::open(path).unwrap().samples().map(Result::unwrap).collect()
    }

    #[test]
    fn a_simulated_loudspeaker_plays_in_real_time() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        let mut bench = device(path.clone());
        // Two blocks that arrive together are heard one after the other.
        bench.call(WavSink::AUDIO, ms(100), block(1, &[0.5; 30])).unwrap();
        bench.call(WavSink::AUDIO, ms(130), block(1, &[0.25; 30])).unwrap();
        let sent = bench.advance(ms(1000)).unwrap();
        bench.finish(ms(1000)).unwrap();
        let sound = read(path);
        assert_eq!(sound.iter().position(|sample| *sample != 0.0), Some(140));
        assert_eq!((sound[140..170].to_vec(), sound[170]), (vec![0.5; 30], 0.25));
        let heard = |(at, port, packet): &(Timestamp, &str, afferent_graph::Packet)| {
            (*port == "played").then(|| (*at, *packet.get::<Played>().unwrap()))
        };
        let heard: Vec<_> = sent.iter().filter_map(heard).collect();
        assert!(heard.len() >= 3, "{heard:?}");
        for (at, played) in &heard {
            let until = ms(at.0 / 1_000_000 - 40).min(ms(160));
            assert_eq!((played.until, played.is_playing), (until, until < ms(160)), "{at}");
        }
        let blocks = sent.iter().filter_map(|(_, _, packet)| {
            Some((packet.header.at, packet.get::<AudioBlock>()?.len()))
        });
        let mut end = ms(140);
        for (at, len) in blocks {
            assert_eq!(at, end);
            end = end + Duration::from_millis(len as u64);
        }
        assert!(end >= ms(200));
    }

    #[test]
    fn overdue_audio_is_written_in_pieces_of_a_second() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        let mut bench = device(path.clone());
        bench.call(WavSink::AUDIO, ms(0), block(1, &[0.5; 2500])).unwrap();
        let (sent, _) = bench.poll(ms(600_000)).unwrap();
        bench.finish(ms(600_000)).unwrap();
        let blocks = sent
            .iter()
            .filter_map(|(_, packet)| Some((packet.header.at, packet.get::<AudioBlock>()?.len())));
        let expected = [(ms(40), 1000), (ms(1040), 1000), (ms(2040), 1000)];
        assert_eq!(blocks.collect::<Vec<_>>(), expected);
        let sound = read(path);
        assert_eq!(sound.len(), 600_040);
        assert_eq!(sound.iter().rposition(|sample| *sample != 0.0), Some(2539));
    }

    #[test]
    fn an_interrupt_fades_out() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        let mut bench = device(path.clone());
        bench.call(WavSink::AUDIO, ms(100), block(1, &[1.0; 500])).unwrap();
        bench.advance(ms(300)).unwrap();
        let sent = bench.cancel(ms(305)).unwrap();
        bench.advance(ms(400)).unwrap();
        bench.call(WavSink::AUDIO, ms(410), block(1, &[0.5; 10])).unwrap();
        bench.advance(ms(600)).unwrap();
        bench.finish(ms(600)).unwrap();
        let sound = read(path);
        let last = sound[..440].iter().rposition(|sample| *sample != 0.0);
        assert_eq!(last, Some(348), "40 ms of buffer and 4 ms of fade");
        assert!(sound[344] == 1.0 && sound[345..349].is_sorted_by(|a, b| a > b));
        assert_eq!(sound[450], 0.5);
        let played = sent.iter().find_map(|(_, packet)| packet.get::<Played>()).unwrap();
        assert_eq!((played.until, played.is_playing), (ms(265), true));
    }

    #[test]
    fn an_unfinished_file_is_readable() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        let mut bench = open(path.clone(), SampleFormat::Int16);
        for at in 0..50 {
            bench.call(WavSink::AUDIO, ms(50 * at), block(2, &[0.5; 100])).unwrap();
        }
        assert_eq!(WavReader::open(path).unwrap().duration(), 2000);
    }

    #[test]
    fn invalid_sample_rates_are_rejected() {
        let folder = TempFolder::new();
        for rate in [0, 768_001, 4_000_000_000] {
            let mut bench = device(folder.path("sound.wav"));
            let mut block = block(1, &[0.5]);
            block.rate = SampleRate(rate);
            let error = bench.call(WavSink::AUDIO, ms(0), block).unwrap_err().to_string();
            let expected =
                format!("cannot write a sample rate of {rate} Hz; 1 to 768000 Hz are supported");
            assert!(error.ends_with(&expected), "{error}");
        }
    }

    #[test]
    fn a_change_of_format_is_rejected() {
        let folder = TempFolder::new();
        let mut bench = open(folder.path("sound.wav"), SampleFormat::Int16);
        bench.call(WavSink::AUDIO, ms(0), block(1, &[0.5])).unwrap();
        let mut other = block(1, &[0.5]);
        other.rate = SampleRate(2000);
        let error = bench.call(WavSink::AUDIO, ms(1), other).unwrap_err().to_string();
        assert!(error.contains("2000 Hz and 1 channels for a file of 1000 Hz"), "{error}");
        assert!(error.contains("resample"), "{error}");
        let error = bench.call(WavSink::AUDIO, ms(1), block(2, &[0.5; 2])).unwrap_err();
        assert!(error.to_string().contains("2 channels for a file"), "{error}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_an_error() {
        let mut bench = open("/dev/full".into(), SampleFormat::Int16);
        let sound = block(1, &[0.5; 100_000]);
        let error = bench.call(WavSink::AUDIO, ms(0), sound).unwrap_err().to_string();
        assert!(error.starts_with("/dev/full: cannot write it: No space left"), "{error}");
    }
}
