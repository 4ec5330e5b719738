//! Sound.

use std::{ops::RangeInclusive, time::Duration};

use afferent_core::{Error, Tensor};

use crate::{Cdr, CdrMessage};
use afferent_graph::{Field, Payload, RecordCodec};

/// Samples per second and channel, in hertz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct SampleRate(pub u32);

impl SampleRate {
    /// How long `samples` last.
    pub fn duration(self, samples: usize) -> Duration {
        let nanos = samples as u128 * 1_000_000_000 / u128::from(self.0.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How many whole samples fit in `duration`.
    pub fn samples(self, duration: Duration) -> usize {
        let samples = duration.as_nanos() * u128::from(self.0) / 1_000_000_000;
        usize::try_from(samples).unwrap_or(usize::MAX)
    }
}

/// Consecutive samples of one source: a tensor `[channels, samples]` of `f32`, full scale ±1.
#[derive(Debug, Clone)]
pub struct AudioBlock {
    /// The samples, channel after channel.
    pub samples: Tensor,
    /// How fast they were taken.
    pub rate: SampleRate,
}

impl AudioBlock {
    /// The rates that sound of files and devices may have, in hertz: what waits of it takes memory.
    pub const RATES_HZ: RangeInclusive<u32> = 1..=768_000;

    /// Sixty decibels over full scale: what is louder is a fault of the sender.
    const LOUDEST: f32 = 1e3;

    /// The sample; silence where it is no number, or more than 60 dB over full scale, which would stay in
    /// what remembers it.
    pub fn heard(sample: f32) -> f32 {
        if sample.abs() <= Self::LOUDEST { sample } else { 0.0 }
    }

    /// More than a file may say, or sound of a recording have that has no samples: every channel
    /// takes memory.
    pub const MAX_CHANNELS: usize = 64;

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.samples.sizes().first().copied().unwrap_or(0)
    }

    /// Number of samples of each channel.
    pub fn len(&self) -> usize {
        self.samples.sizes().get(1).copied().unwrap_or(0)
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long the block lasts.
    pub fn duration(&self) -> Duration {
        self.rate.duration(self.len())
    }

    /// The samples of `channel`.
    ///
    /// # Errors
    /// When there is no such channel, or the tensor is not of `f32`.
    pub fn channel(&self, channel: usize) -> Result<&[f32], Error> {
        let (len, data) = (self.len(), self.samples.data::<f32>()?);
        let samples = data.get(channel * len..(channel + 1) * len);
        samples.ok_or(Error::InvalidTensor { reason: "there is no such channel" })
    }

    /// Gives the block its shape and returns the samples, channel after channel, to fill.
    ///
    /// # Errors
    /// When the tensor is not of `f32` or the size overflows.
    pub fn reshape(
        &mut self,
        rate: SampleRate,
        channels: usize,
        samples: usize,
    ) -> Result<&mut [f32], Error> {
        self.rate = rate;
        self.samples.resize(&[channels, samples])?;
        self.samples.data_mut()
    }
}

impl Default for AudioBlock {
    fn default() -> Self {
        let samples = Tensor::zeros(afferent_core::ScalarType::Float, &[1, 0]);
        Self { samples, rate: SampleRate(16_000) }
    }
}

impl Payload for AudioBlock {
    const TYPE: &'static str = "audio/Block";
    const CODEC: Option<&'static dyn RecordCodec> = Some(&Cdr::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("rate_hz", Field::Int(i64::from(self.rate.0))),
            ("channels", Field::Int(i64::try_from(self.channels()).unwrap_or(i64::MAX))),
            ("samples", Field::Int(i64::try_from(self.len()).unwrap_or(i64::MAX))),
        ]
    }

    fn bulk_bytes(&self) -> usize {
        self.samples.view().bytes().len()
    }
}

impl CdrMessage for AudioBlock {
    const MESSAGE: &'static str = "afferent_msgs/msg/AudioBlock";
    const SCHEMA: &'static str = "# Consecutive samples, full scale 1, channel after channel.
uint32 sample_rate_hz
uint32 channels
float32[] samples
";
    type Wire = (u32, u32, Vec<f32>);

    fn to_wire(&self) -> Self::Wire {
        let samples = self.samples.data().map(<[f32]>::to_vec).unwrap_or_default();
        (self.rate.0, u32::try_from(self.channels()).unwrap_or(u32::MAX), samples)
    }

    fn from_wire((rate, channels, samples): Self::Wire) -> Result<Self, String> {
        if !Self::RATES_HZ.contains(&rate) {
            let (least, most) = Self::RATES_HZ.into_inner();
            return Err(format!("sound of {rate} Hz; {least} to {most} Hz are read"));
        }
        let (channels, total) = (channels as usize, samples.len());
        let len = total.checked_div(channels).unwrap_or(0);
        if total == 0 && channels > Self::MAX_CHANNELS {
            return Err(format!("{channels} channels, and no samples"));
        }
        if channels.checked_mul(len) != Some(total) {
            return Err(format!(
                "{total} samples are not the same number for each of {channels} channels"
            ));
        }
        let samples = Tensor::new(&[channels, len], &samples).map_err(|error| error.to_string())?;
        Ok(Self { samples, rate: SampleRate(rate) })
    }
}
