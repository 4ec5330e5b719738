//! Audio from a sound file or a pipe.

mod pipe;

use std::{path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, choices, params, ports};
use afferent_messages::{AudioBlock, SampleRate};

use self::pipe::{Pipe, PipeBlock, Received};
use crate::sound_file::{self, Encoding, RawFormat, SoundFile};

/// Reads a sound file, a pipe, or standard input, block by block.
///
/// Supported are WAV (also RF64 and BW64) with PCM of 8 to 32 bits, 32-bit and 64-bit floating point,
/// µ-law, A-law, Microsoft and IMA ADPCM; AIFF, FLAC, MP3, and Ogg Vorbis; and, with `format`,
/// samples without a header. The format is recognized by the content of the file. Up to 64 channels
/// and 768 kHz are supported.
///
/// At pace `realtime`, a block is sent when its last sample would have been recorded, as a
/// microphone does. The timestamp of a block is that of its first sample; a file begins at the start
/// of the session, a pipe with its first block. Later samples are counted.
///
/// The last block may be shorter. If the file is truncated or damaged, the samples before that are
/// sent, and then the node fails. A WAV file whose header does not state its length, because it was
/// written to a pipe or its writer was killed, is read to its end; a warning is logged unless it
/// comes from a pipe.
///
/// Latency: one block.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::AudioBlock;
/// use afferent_nodes_io::{WavSource, WavSourceParams};
///
/// let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/assets/wake_word.wav").into();
/// let values = [("path", ParamValue::Path(path)), ("pace", ParamValue::Text("max".into()))];
/// let values = values.map(|(name, value)| (name.to_owned(), value)).into();
/// let params = WavSourceParams::from_values(&values)?;
/// let mut bench = NodeBench::new(WavSource::open(params, &OpenCx::default())?);
/// let (sent, _) = bench.poll(Timestamp::ZERO)?;
/// let block = sent[0].1.get::<AudioBlock>().unwrap();
/// assert_eq!((block.rate.0, block.len()), (16_000, 320));
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct WavSource {
    params: WavSourceParams,
    input: Input,
    /// Timestamp of the first sample of this pass through the file.
    start: Timestamp,
    /// Read error, returned after the samples before it were sent.
    error: Option<NodeError>,
}

/// Origin of the samples.
enum Input {
    File(SoundFile),
    Pipe(Pipe),
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
    pub enum Mix {
        /// Sends the mean of all channels.
        Mono = "mono",
        /// Sends all channels.
        Keep = "keep",
    }
}

params! {
    /// Settings of [`WavSource`].
    pub struct WavSourceParams {
        /// Path of a sound file or a named pipe; `-` is standard input.
        pub path: PathBuf;
        /// Pace of reading.
        pub pace: Pace = "realtime";
        /// Length of a block.
        pub block: Duration = "20ms", range 0.001..=1.0;
        /// Treatment of several channels.
        pub mix: Mix = "mono";
        /// Encoding of samples without a header. Default: the file has a header.
        pub format: Option<Encoding>;
        /// Sample rate of samples without a header.
        pub rate: Option<u32>, range 1000.0..=768000.0, unit "Hz";
        /// Number of channels of samples without a header. Default: 1.
        pub channels: Option<usize>, range 1.0..=64.0;
        /// Time of the first sample after the start of the session.
        pub start: Duration = "0s", range 0.0..=86400.0;
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

impl WavSourceParams {
    /// Format of samples without a header.
    fn raw_format(&self) -> Result<Option<RawFormat>, NodeError> {
        let invalid = |name: &str, reason: &str| NodeError::InvalidParam {
            name: name.to_owned().into(),
            reason: reason.to_owned(),
        };
        let Some(encoding) = self.format else {
            let given = [("rate", self.rate.is_some()), ("channels", self.channels.is_some())];
            return match given.into_iter().find(|(_, is_given)| *is_given) {
                None => Ok(None),
                Some((name, _)) => Err(invalid(
                    name,
                    "is for samples without a header; set `format` too, such as format: s16le",
                )),
            };
        };
        let rate = self.rate.ok_or_else(|| invalid("rate", "is required with `format`"))?;
        let channels = self.channels.unwrap_or(1);
        Ok(Some(RawFormat { encoding, rate: SampleRate(rate), channels }))
    }
}

impl WavSource {
    /// Sends a block of interleaved samples at `at`.
    fn send(
        &self,
        cx: &mut Cx<'_>,
        at: Timestamp,
        (rate, channels, samples): (SampleRate, usize, &[f32]),
    ) -> Result<(), NodeError> {
        let len = samples.len() / channels;
        if len == 0 {
            return Ok(());
        }
        let mut block = cx.loan(Self::AUDIO);
        match self.params.mix {
            Mix::Keep => {
                let planar = block.reshape(rate, channels, len)?;
                for (channel, plane) in planar.chunks_exact_mut(len).enumerate() {
                    let samples = samples.iter().skip(channel).step_by(channels);
                    plane.iter_mut().zip(samples).for_each(|(to, from)| *to = *from);
                }
            }
            Mix::Mono => {
                let mono = block.reshape(rate, 1, len)?;
                for (to, from) in mono.iter_mut().zip(samples.chunks_exact(channels)) {
                    *to = from.iter().sum::<f32>() / channels as f32;
                }
            }
        }
        cx.send_at(Self::AUDIO, at, block);
        Ok(())
    }

    fn is_realtime(&self) -> bool {
        self.params.pace == Pace::Realtime
    }

    /// Restarts the file; false if it does not repeat.
    fn rewind(&mut self) -> Result<bool, NodeError> {
        let Input::File(file) = &mut self.input else { return Ok(false) };
        if !self.params.repeat || file.position() == 0 {
            return Ok(false);
        }
        self.start = self.start + file.rate().duration(file.position());
        *file = SoundFile::open(&self.params.path, self.params.raw_format()?)?;
        Ok(file.remaining() > 0)
    }

    /// Sends the next block of a file, if it is time.
    fn process_file(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let is_at_end = matches!(&self.input, Input::File(file) if file.remaining() == 0);
        if is_at_end && !self.rewind()? {
            cx.end();
            return Ok(());
        }
        let Input::File(file) = &mut self.input else { return Ok(()) };
        let (block, start) = (self.params.block, self.start);
        let next_len = |file: &SoundFile| file.rate().samples(block).max(1).min(file.remaining());
        let time_after =
            |file: &SoundFile, len: usize| start + file.rate().duration(file.position() + len);
        let len = next_len(file);
        let heard = time_after(file, len);
        let is_realtime = self.params.pace == Pace::Realtime;
        if is_realtime && cx.now() < heard {
            cx.resume_at(heard);
            return Ok(());
        }
        let at = time_after(file, 0);
        self.error = file.read(len).err();
        if is_realtime && self.error.is_none() {
            cx.resume_at(time_after(file, next_len(file)));
        }
        let Input::File(file) = &self.input else { return Ok(()) };
        self.send(cx, at, (file.rate(), file.channels(), file.samples()))
    }

    /// Sends the next block of a pipe, if it has arrived and it is time.
    fn process_pipe(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let is_realtime = self.is_realtime();
        let Input::Pipe(pipe) = &mut self.input else { return Ok(()) };
        let block = match pipe.receive()? {
            Received::Block(block) => block,
            // The engine gets a chance to stop the run.
            Received::Nothing => {
                cx.resume();
                return Ok(());
            }
            Received::End => {
                cx.end();
                return Ok(());
            }
        };
        let PipeBlock { rate, channels, ref samples } = block;
        let len = samples.len() / channels;
        if pipe.position == 0 {
            self.start = Timestamp((cx.now() - rate.duration(len)).0.max(0));
        }
        let at = self.start + rate.duration(pipe.position);
        let heard = self.start + rate.duration(pipe.position + len);
        if is_realtime && cx.now() < heard {
            pipe.put_back(block);
            cx.resume_at(heard);
            return Ok(());
        }
        pipe.position += len;
        self.send(cx, at, (rate, channels, samples))
    }
}

impl Node for WavSource {
    type Params = WavSourceParams;

    const NAME: &'static str = "wav_source";
    const SUMMARY: &'static str = "Reads a sound file or a pipe, block by block.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "one block";

    fn check(params: &WavSourceParams, _: &OpenCx) -> Result<(), NodeError> {
        let raw = params.raw_format()?;
        if !sound_file::is_pipe(&params.path) {
            return SoundFile::open(&params.path, raw).map(drop);
        }
        let refused = match (params.repeat, params.start.is_zero()) {
            (true, _) => Some(("repeat", "a pipe cannot be read again")),
            (_, false) => Some(("start", "the samples of a pipe come at their own time")),
            _ => None,
        };
        refused.map_or(Ok(()), |(name, reason)| {
            Err(NodeError::InvalidParam { name: name.into(), reason: reason.to_owned() })
        })
    }

    fn open(params: WavSourceParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let raw = params.raw_format()?;
        let input = if sound_file::is_pipe(&params.path) {
            Self::check(&params, cx)?;
            Input::Pipe(Pipe::open(&params.path, raw, params.block)?)
        } else {
            let file = SoundFile::open(&params.path, raw)?;
            if file.is_streamed() {
                let path = params.path.display();
                tracing::warn!(
                    "{path}: the header does not state the length; the file is read to its end"
                );
            }
            Input::File(file)
        };
        let start = Timestamp::ZERO + params.start;
        Ok(Self { params, input, start, error: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        match &self.input {
            Input::File(_) => self.process_file(cx),
            Input::Pipe(_) => self.process_pipe(cx),
        }
    }
}

#[cfg(test)]
mod tests;
