//! Block-by-block reader of WAV files.

use std::{
    fs::File,
    io::{self, BufReader, Chain, Cursor, Read},
    path::{Path, PathBuf},
};

use afferent_graph::NodeError;
use afferent_messages::{AudioBlock, SampleRate};
use hound::{SampleFormat, WavReader, WavSpec};

use crate::{output::file_error, wav_header::WavHeader};

/// An open WAV file.
pub(crate) struct WavFile {
    path: PathBuf,
    reader: WavReader<Chain<Cursor<Vec<u8>>, BufReader<File>>>,
    spec: WavSpec,
    /// Samples per channel by the header, or by the length of a streamed file.
    total: usize,
    is_streamed: bool,
    /// Samples per channel that were read.
    position: usize,
    /// Samples of the last block, channels interleaved.
    interleaved: Vec<f32>,
}

impl WavFile {
    pub(crate) fn open(path: &Path) -> Result<Self, NodeError> {
        let failed = |error: hound::Error| file_error(path, header_message(error));
        let file = File::open(path).map_err(|error| failed(error.into()))?;
        let len = file.metadata().map_err(|error| failed(error.into()))?.len();
        let mut file = BufReader::new(file);
        let header = WavHeader::read(&mut file, len).map_err(|error| failed(error.into()))?;
        let WavHeader { bytes, is_streamed } = header;
        let reader = WavReader::new(Cursor::new(bytes).chain(file)).map_err(failed)?;
        let spec = reader.spec();
        if usize::from(spec.channels) > AudioBlock::MAX_CHANNELS {
            let (found, most) = (spec.channels, AudioBlock::MAX_CHANNELS);
            let reason =
                format!("the header states {found} channels; at most {most} are supported");
            return Err(file_error(path, reason));
        }
        if !AudioBlock::RATES_HZ.contains(&spec.sample_rate) {
            let found = spec.sample_rate;
            let (least, most) = AudioBlock::RATES_HZ.into_inner();
            let reason =
                format!("the header states {found} Hz; {least} to {most} Hz are supported");
            return Err(file_error(path, reason));
        }
        if !matches!(spec.bits_per_sample, 8 | 16 | 24 | 32) {
            return Err(file_error(path, UNSUPPORTED));
        }
        let total = reader.duration() as usize;
        Ok(Self {
            path: path.to_owned(),
            reader,
            spec,
            total,
            is_streamed,
            position: 0,
            interleaved: Vec::new(),
        })
    }

    pub(crate) fn channels(&self) -> usize {
        usize::from(self.spec.channels)
    }

    pub(crate) fn rate(&self) -> SampleRate {
        SampleRate(self.spec.sample_rate)
    }

    /// True if the header does not state the number of samples.
    pub(crate) fn is_streamed(&self) -> bool {
        self.is_streamed
    }

    /// Samples per channel that were read.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Samples of the last [`WavFile::read`], channels interleaved.
    pub(crate) fn samples(&self) -> &[f32] {
        &self.interleaved
    }

    /// Samples per channel that are left by the header.
    pub(crate) fn remaining(&self) -> usize {
        self.total - self.position
    }

    /// Reads the next `len` samples per channel; on an error, those before it.
    pub(crate) fn read(&mut self, len: usize) -> Result<(), NodeError> {
        self.interleaved.clear();
        let count = len.min(self.remaining()) * self.channels();
        // Memory grows with the samples in the file, not with the length in the header.
        let result = match self.spec.sample_format {
            SampleFormat::Float => {
                let mut samples = self.reader.samples::<f32>().take(count);
                samples.try_for_each(|sample| {
                    self.interleaved.push(sample?);
                    Ok(())
                })
            }
            SampleFormat::Int => {
                let scale = 1.0 / (1_u64 << (self.spec.bits_per_sample - 1)) as f32;
                let mut samples = self.reader.samples::<i32>().take(count);
                samples.try_for_each(|sample| {
                    self.interleaved.push(sample? as f32 * scale);
                    Ok(())
                })
            }
        };
        let channels = self.channels();
        let bad = self.interleaved.iter().position(|sample| !sample.is_finite());
        let whole = bad.unwrap_or(self.interleaved.len()) / channels;
        self.interleaved.truncate(whole * channels);
        self.position += whole;
        let reason = match (result, bad) {
            (Err(error), None) => data_message(error),
            (_, Some(_)) => "not a finite number".to_owned(),
            (Ok(()), None) => return Ok(()),
        };
        let (position, total) = (self.position, self.total);
        let seconds = self.rate().duration(position).as_secs_f64();
        let reason = format!("sample {position} of {total} ({seconds:.3} s): {reason}");
        Err(file_error(&self.path, reason))
    }
}

const UNSUPPORTED: &str = "unsupported WAV format; PCM with 8, 16, 24, or 32 bits and 32-bit \
                           floating point are supported; convert it, for example with ffmpeg";

/// Message for an error in the header.
fn header_message(error: hound::Error) -> String {
    match error {
        hound::Error::IoError(error) if is_end(&error) => {
            "not a WAV file, or truncated within its header".to_owned()
        }
        hound::Error::IoError(error) => error.to_string(),
        hound::Error::FormatError(reason) => format!("not a valid WAV file: {reason}"),
        _ => UNSUPPORTED.to_owned(),
    }
}

/// Message for an error in the samples.
fn data_message(error: hound::Error) -> String {
    match error {
        hound::Error::IoError(error) if is_end(&error) => {
            "the file is truncated; its header states more samples".to_owned()
        }
        hound::Error::IoError(error) => error.to_string(),
        _ => UNSUPPORTED.to_owned(),
    }
}

/// True if a read met the end of the file.
fn is_end(error: &io::Error) -> bool {
    // `hound` reports missing bytes as `Other`.
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::Other)
}

#[cfg(test)]
mod tests {
    use hound::WavWriter;

    use super::*;
    use crate::testing::TempFolder;

    fn spec(bits_per_sample: u16, sample_format: SampleFormat) -> WavSpec {
        WavSpec { channels: 1, sample_rate: 8000, bits_per_sample, sample_format }
    }

    fn write<S: hound::Sample + Copy>(path: &Path, spec: WavSpec, samples: &[S]) {
        let mut writer = WavWriter::create(path, spec).unwrap();
        samples.iter().for_each(|sample| writer.write_sample(*sample).unwrap());
        writer.finalize().unwrap();
    }

    #[test]
    fn every_sample_format_has_the_same_scale() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        let check = || {
            let mut file = WavFile::open(&path).unwrap();
            file.read(8).unwrap();
            assert_eq!(file.samples(), [-1.0, 0.0, 0.5], "{:?}", file.spec);
            assert_eq!(file.remaining(), 0);
        };
        for bits in [8, 16, 24, 32] {
            let half = 1 << (bits - 2);
            write(&path, spec(bits, SampleFormat::Int), &[(-2_i64 * half) as i32, 0, half as i32]);
            check();
        }
        write(&path, spec(32, SampleFormat::Float), &[-1.0_f32, 0.0, 0.5]);
        check();
    }

    #[test]
    fn other_chunks_are_skipped_and_streamed_files_are_read_to_their_end() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        write(&path, spec(16, SampleFormat::Int), &[0_i16, 8192, -16384]);
        let sound = std::fs::read(&path).unwrap();
        let check = |(riff, data): (u32, u32), before: &[u8], after: &[u8], len: usize| {
            let mut bytes = [&sound[..36], before, &sound[36..], after].concat();
            bytes[4..8].copy_from_slice(&riff.to_le_bytes());
            let at = 40 + before.len();
            bytes[at..at + 4].copy_from_slice(&data.to_le_bytes());
            std::fs::write(&path, &bytes).unwrap();
            let mut file = WavFile::open(&path).unwrap();
            assert_eq!(file.remaining(), len, "{riff}, {data}");
            file.read(8).unwrap();
            assert_eq!(file.samples(), &[0.0, 0.25, -0.5, 0.125][..len], "{riff}, {data}");
            file.is_streamed()
        };
        let odd = [b"LIST\x1b\0\0\0".as_slice(), &[1; 27], &[0]].concat();
        assert!(!check((78, 6), &odd, &[], 3), "a chunk of odd length has a padding byte");
        assert!(!check((78, 6), &[], &odd, 3));
        assert!(
            !check((42, 0), &[], &[], 0),
            "an empty data chunk is valid if another chunk follows"
        );
        // The sizes that ffmpeg and sox write to a pipe, and those of an aborted recording.
        let whole = 4096_i16.to_le_bytes();
        for lengths in [(u32::MAX, u32::MAX), (0x7fff_f024, 0x7fff_f000), (0, 0), (36, 0)] {
            assert!(check(lengths, &odd, &[], 3));
            assert!(
                check(lengths, &[], &[whole.as_slice(), &[9]].concat(), 4),
                "a partial sample is ignored"
            );
        }
    }

    #[test]
    fn samples_that_are_not_finite_are_rejected() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        write(&path, spec(32, SampleFormat::Float), &[0.5, f32::NAN, 0.5]);
        let mut file = WavFile::open(&path).unwrap();
        let error = file.read(3).unwrap_err().to_string();
        assert!(error.ends_with("sample 1 of 3 (0.000 s): not a finite number"), "{error}");
        assert_eq!(file.samples(), [0.5]);
    }

    #[test]
    fn invalid_files_are_rejected() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        let check = |bytes: &[u8], expected: &str| {
            std::fs::write(&path, bytes).unwrap();
            let error = WavFile::open(&path).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(b"", "truncated within its header");
        check(b"not a sound file", "no RIFF tag found");
        write(&path, spec(16, SampleFormat::Int), &[1_i16]);
        let mut bytes = std::fs::read(&path).unwrap();
        let error = WavFile::open(&folder.path("none.wav")).err().unwrap().to_string();
        assert!(error.contains("none.wav: No such file"), "{error}");
        bytes[20] = 2;
        check(&bytes, "unsupported WAV format");
    }

    #[test]
    fn hostile_headers_neither_panic_nor_allocate() {
        let folder = TempFolder::new();
        let path = folder.path("sound.wav");
        for sample_format in [SampleFormat::Int, SampleFormat::Float] {
            if sample_format == SampleFormat::Int {
                write(&path, spec(32, sample_format), &[1_i32; 4]);
            } else {
                write(&path, spec(32, sample_format), &[0.5_f32; 4]);
            }
            let sound = std::fs::read(&path).unwrap();
            let bytes = (0..sound.len()).flat_map(|at| [0, 1, 0x7f, 0xff].map(|byte| (at, byte)));
            for (at, byte) in bytes {
                let mut sound = sound.clone();
                sound[at] = byte;
                std::fs::write(&path, &sound).unwrap();
                let Ok(mut file) = WavFile::open(&path) else { continue };
                while file.remaining() > 0 && file.read(usize::from(u16::MAX)).is_ok() {}
                assert!(file.interleaved.capacity() <= 64, "byte {at} = {byte}");
            }
        }
    }
}
