//! Audio blocks.

use std::{ops::RangeInclusive, time::Duration};

use afferent_core::{Error, ForeignBytes, Tensor};

use crate::{Cdr, CdrMessage, Wire, WireMessage, wire::Matrix};
use afferent_graph::{Field, Payload, RecordCodec, WireCodec};

/// Sample rate in hertz (samples per second and channel).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct SampleRate(pub u32);

impl SampleRate {
    /// Duration of `samples` at this rate.
    pub fn duration(self, samples: usize) -> Duration {
        let nanos = samples as u128 * 1_000_000_000 / u128::from(self.0.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Number of whole samples in `duration`.
    pub fn samples(self, duration: Duration) -> usize {
        let samples = duration.as_nanos() * u128::from(self.0) / 1_000_000_000;
        usize::try_from(samples).unwrap_or(usize::MAX)
    }
}

/// Consecutive samples of one source: a tensor `[channels, samples]` of `f32`, full scale ±1.
#[derive(Debug, Clone)]
pub struct AudioBlock {
    /// The samples in channel-major order.
    pub samples: Tensor,
    /// Sample rate.
    pub rate: SampleRate,
}

impl AudioBlock {
    /// Accepted sample rates of files and devices, in hertz. The limit bounds the memory of buffers
    /// that hold a fixed duration.
    pub const RATES_HZ: RangeInclusive<u32> = 1..=768_000;

    /// 60 dB above full scale. Louder samples indicate a faulty sender.
    const MAX_AMPLITUDE: f32 = 1e3;

    /// Returns the sample, or silence if it is not a number or is more than 60 dB above full scale.
    /// Such values would persist in filters with state.
    pub fn sanitized(sample: f32) -> f32 {
        if sample.abs() <= Self::MAX_AMPLITUDE { sample } else { 0.0 }
    }

    /// Maximum number of channels in a file, or in a recorded block without samples. Every channel
    /// takes memory.
    pub const MAX_CHANNELS: usize = 64;

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.samples.sizes().first().copied().unwrap_or(0)
    }

    /// Number of samples per channel.
    pub fn len(&self) -> usize {
        self.samples.sizes().get(1).copied().unwrap_or(0)
    }

    /// True if the block has no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Duration of the block.
    pub fn duration(&self) -> Duration {
        self.rate.duration(self.len())
    }

    /// The samples of `channel`.
    ///
    /// # Errors
    /// If `channel` is out of range, or the tensor is not of `f32`.
    pub fn channel(&self, channel: usize) -> Result<&[f32], Error> {
        let (len, data) = (self.len(), self.samples.data::<f32>()?);
        let samples = data.get(channel * len..(channel + 1) * len);
        samples.ok_or(Error::InvalidTensor { reason: "channel index out of range" })
    }

    /// Sets the shape of the block and returns its samples for writing, in channel-major order.
    ///
    /// # Errors
    /// If the tensor is not of `f32`, or the size overflows.
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

impl AudioBlock {
    /// Checks the properties that nodes rely on.
    fn check(rate: SampleRate, channels: usize, samples: usize) -> Result<(), String> {
        if !Self::RATES_HZ.contains(&rate.0) {
            let (least, most) = Self::RATES_HZ.into_inner();
            return Err(format!(
                "sample rate of {} Hz is not supported; accepted are {least} to {most} Hz",
                rate.0
            ));
        }
        if samples == 0 && channels > Self::MAX_CHANNELS {
            return Err(format!("{channels} channels without samples"));
        }
        Ok(())
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
    const WIRE: Option<&'static dyn WireCodec> = Some(&Wire::<Self>::NEW);

    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![
            ("rate_hz", Field::Int(i64::from(self.rate.0))),
            ("channels", Field::Int(i64::try_from(self.channels()).unwrap_or(i64::MAX))),
            ("samples", Field::Int(i64::try_from(self.len()).unwrap_or(i64::MAX))),
        ]
    }

    fn bulk_bytes(&self) -> usize {
        self.samples.byte_len()
    }

    fn release_foreign(&mut self) {
        self.samples.release_foreign();
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
        let (channels, total) = (channels as usize, samples.len());
        let len = total.checked_div(channels).unwrap_or(0);
        if channels.checked_mul(len) != Some(total) {
            return Err(format!(
                "{total} samples are not the same number for each of {channels} channels"
            ));
        }
        Self::check(SampleRate(rate), channels, len)?;
        let samples = Tensor::new(&[channels, len], &samples).map_err(|error| error.to_string())?;
        Ok(Self { samples, rate: SampleRate(rate) })
    }
}

impl WireMessage for AudioBlock {
    const LAYOUT: &'static str = "uint32 sample_rate_hz
uint64[2] sizes # channels, samples
uint8[2] dim_order
bulk float32[] samples
";
    type Meta = (u32, Matrix);

    fn to_parts(&self) -> Result<(Self::Meta, &[u8]), String> {
        Self::check(self.rate, self.channels(), self.len())?;
        let (matrix, bulk) = Matrix::of(&self.samples)?;
        Ok(((self.rate.0, matrix), bulk))
    }

    fn from_parts((rate, matrix): Self::Meta, bulk: ForeignBytes) -> Result<Self, String> {
        let block = Self { samples: matrix.into_tensor(bulk)?, rate: SampleRate(rate) };
        Self::check(block.rate, block.channels(), block.len())?;
        Ok(block)
    }
}
