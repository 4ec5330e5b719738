//! `audio_common_msgs/AudioDataStamped` and audio blocks.
//!
//! The stamped message is used because `AudioData` has no capture time, and a payload without one
//! cannot be joined with other streams.

use std::borrow::Cow;

use afferent_messages::{AudioBlock, SampleRate};

use super::fault;
use crate::{
    Error,
    msg::{
        audio_common_msgs::{AudioData, AudioDataStamped},
        std_msgs::Header,
    },
};

/// Full scale of 16-bit samples.
const FULL_SCALE: f32 = 32_768.0;

/// Rate and channels of 16-bit PCM, which the message does not state (`audio_common_msgs/AudioInfo`
/// with the format `S16LE`, or `wave` in the parameters of `audio_capture`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PcmFormat {
    /// Sample rate.
    pub rate: SampleRate,
    /// Number of channels, which are interleaved.
    pub channels: usize,
}

impl AudioDataStamped<'_> {
    /// Replaces `block` by the samples of the message.
    ///
    /// # Errors
    /// [`Error::Convert`] if the data are not whole samples of every channel.
    pub fn fill(&self, format: PcmFormat, block: &mut AudioBlock) -> Result<(), Error> {
        let PcmFormat { rate, channels } = format;
        let (samples, rest) = self.audio.data.as_chunks::<2>();
        let len = samples.len().checked_div(channels);
        let len = len.filter(|len| rest.is_empty() && len * channels == samples.len());
        let len = len.ok_or_else(|| {
            let bytes = self.audio.data.len();
            fault::<Self>(format!("{bytes} bytes are not 16-bit samples of {channels} channels"))
        })?;
        let out = block.reshape(rate, channels, len).map_err(fault::<Self>)?;
        for (at, sample) in samples.iter().enumerate() {
            let sample = f32::from(i16::from_le_bytes(*sample)) / FULL_SCALE;
            out[at % channels * len + at / channels] = sample;
        }
        Ok(())
    }

    /// Message with the samples of `block`, rounded to 16 bits and limited to full scale.
    ///
    /// # Errors
    /// [`Error::Convert`] if the tensor of the block is not a matrix of `f32`.
    pub fn from_payload(block: &AudioBlock, header: Header) -> Result<Self, Error> {
        let samples = block.samples.data::<f32>().map_err(fault::<Self>)?;
        let (channels, len) = (block.channels(), block.len());
        if channels.checked_mul(len) != Some(samples.len()) {
            return Err(fault::<Self>("the samples are not a matrix of channels"));
        }
        let mut data = Vec::with_capacity(samples.len() * 2);
        for at in 0..len {
            for channel in 0..channels {
                // The conversion saturates, and NaN becomes silence.
                let sample = (samples[channel * len + at] * FULL_SCALE).round() as i16;
                data.extend(sample.to_le_bytes());
            }
        }
        Ok(Self { header, audio: AudioData { data: Cow::Owned(data) } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEREO: PcmFormat = PcmFormat { rate: SampleRate(16_000), channels: 2 };

    #[test]
    fn sixteen_bit_samples_round_trip() {
        let samples = [0_i16, i16::MIN, 1, i16::MAX, -1, 1234];
        let data: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let audio = AudioData { data: Cow::Borrowed(&data) };
        let message = AudioDataStamped { audio, ..AudioDataStamped::default() };
        let mut block = AudioBlock::default();
        message.fill(STEREO, &mut block).unwrap();
        assert_eq!((block.rate, block.channels(), block.len()), (STEREO.rate, 2, 3));
        assert_eq!(block.channel(0).unwrap(), [0.0, 1.0 / 32_768.0, -1.0 / 32_768.0]);
        assert_eq!(block.channel(1).unwrap()[0], -1.0);
        assert_eq!(AudioDataStamped::from_payload(&block, Header::default()), Ok(message));
    }

    #[test]
    fn loud_samples_are_limited() {
        let mut block = AudioBlock::default();
        let samples = [1.0, -1.5, f32::NAN, f32::INFINITY];
        block.reshape(SampleRate(1), 1, 4).unwrap().copy_from_slice(&samples);
        let message = AudioDataStamped::from_payload(&block, Header::default()).unwrap();
        let expected = [i16::MAX, i16::MIN, 0, i16::MAX].map(i16::to_le_bytes).concat();
        assert_eq!(*message.audio.data, *expected);
    }

    #[test]
    fn parts_of_samples_are_refused() {
        let mut block = AudioBlock::default();
        for (len, channels) in [(1, 1), (2, 2), (6, 2), (4, 0)] {
            let data = vec![0; len];
            let audio = AudioData { data: Cow::Owned(data) };
            let message = AudioDataStamped { audio, ..AudioDataStamped::default() };
            let error = message.fill(PcmFormat { channels, ..STEREO }, &mut block).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "audio_common_msgs/msg/AudioDataStamped: {len} bytes are not 16-bit samples of \
                     {channels} channels"
                )
            );
        }
        let empty = AudioDataStamped::default();
        assert!(empty.fill(STEREO, &mut block).is_ok() && block.is_empty());
    }
}
