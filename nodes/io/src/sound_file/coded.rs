//! Compressed files and AIFF, decoded by `symphonia`.

use symphonia::core::{
    codecs::audio::{AudioDecoder, AudioDecoderOptions},
    errors::Error,
    formats::{FormatOptions, FormatReader, TrackType, probe::Hint},
    io::{MediaSource, MediaSourceStream, MediaSourceStreamOptions},
    meta::MetadataOptions,
};

use super::SampleReader;

/// Reads the first audio track of a file.
pub(crate) struct CodedReader {
    format: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    pub(crate) rate: u32,
    pub(crate) channels: usize,
    /// Decoded samples, channels interleaved.
    samples: Vec<f32>,
    /// Samples of `samples` that were read.
    used: usize,
}

impl CodedReader {
    pub(crate) fn open(source: Box<dyn MediaSource>) -> Result<Self, String> {
        let stream = MediaSourceStream::new(source, MediaSourceStreamOptions::default());
        let (hint, options) = (Hint::new(), FormatOptions::default());
        let probe = symphonia::default::get_probe();
        let format = probe.probe(&hint, stream, options, MetadataOptions::default());
        let format = format.map_err(message)?;
        let track = format.default_track(TrackType::Audio).ok_or("the file has no audio track")?;
        let params = track.codec_params.as_ref().and_then(|params| params.audio());
        let params = params.ok_or("the codec of the audio track is unknown")?;
        let codecs = symphonia::default::get_codecs();
        let decoder = codecs.make_audio_decoder(params, &AudioDecoderOptions::default());
        let decoder = decoder.map_err(message)?;
        let mut reader = Self {
            track: track.id,
            rate: params.sample_rate.unwrap_or(0),
            channels: params.channels.as_ref().map_or(0, |channels| channels.count()),
            format,
            decoder,
            samples: Vec::new(),
            used: 0,
        };
        // Some formats state the channels in their first packet only.
        if reader.rate == 0 || reader.channels == 0 {
            reader.decode_packet()?;
        }
        Ok(reader)
    }

    /// Decodes the next packet of the track; false at the end of the file.
    fn decode_packet(&mut self) -> Result<bool, String> {
        loop {
            let packet = match self.format.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) => return Ok(false),
                Err(Error::ResetRequired) => {
                    return Err("another stream begins within the file".to_owned());
                }
                Err(error) => return Err(message(error)),
            };
            if packet.track_id != self.track {
                continue;
            }
            let audio = self.decoder.decode(&packet).map_err(message)?;
            let (rate, channels) = (audio.spec().rate(), audio.spec().channels().count());
            if self.channels == 0 || self.rate == 0 {
                (self.rate, self.channels) = (rate, channels);
            }
            if (rate, channels) != (self.rate, self.channels) {
                return Err(format!("the format changes to {rate} Hz and {channels} channels"));
            }
            self.samples.resize(audio.samples_interleaved(), 0.0);
            audio.copy_to_slice_interleaved(&mut self.samples);
            self.used = 0;
            return Ok(true);
        }
    }
}

impl SampleReader for CodedReader {
    fn read(&mut self, count: usize, samples: &mut Vec<f32>) -> Result<(), String> {
        let end = samples.len().saturating_add(count);
        while samples.len() < end {
            if self.used == self.samples.len() && !self.decode_packet()? {
                break;
            }
            let len = (end - samples.len()).min(self.samples.len() - self.used);
            samples.extend_from_slice(&self.samples[self.used..self.used + len]);
            self.used += len;
        }
        Ok(())
    }
}

fn message(error: Error) -> String {
    match error {
        Error::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the file is truncated".to_owned()
        }
        error => error.to_string(),
    }
}
