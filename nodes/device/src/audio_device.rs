//! Audio devices, and the ring buffers between their callbacks and the nodes.
//!
//! A callback runs on a real-time thread of the device. It moves samples and increments counters;
//! it takes no lock, allocates nothing, and logs nothing. The nodes log the counters.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use afferent_graph::NodeError;
use cpal::{
    BufferSize, ErrorKind, FromSample, SampleFormat, SizedSample, StreamConfig,
    SupportedBufferSize, SupportedStreamConfigRange,
    traits::{DeviceTrait, HostTrait, StreamTrait},
};
use ringbuf::{
    HeapCons, HeapProd, HeapRb,
    traits::{Consumer, Observer, Producer, Split},
};

use crate::{AudioDevice, Direction, StreamRequest};

/// A capture stream.
pub(crate) struct Capture {
    device: DeviceStream,
    samples: HeapCons<f32>,
    channels: usize,
}

/// A playback stream.
pub(crate) struct Playback {
    device: DeviceStream,
    samples: HeapProd<f32>,
    channels: usize,
}

/// An open stream of a device.
struct DeviceStream {
    name: String,
    stream: cpal::Stream,
    state: Arc<CallbackState>,
}

/// State shared with the callbacks.
#[derive(Default)]
struct CallbackState {
    /// Samples dropped because the ring buffer was full, plus overruns and underruns of the device.
    lost: AtomicU64,
    /// Error that stopped the stream.
    error: OnceLock<String>,
}

/// Checks that the device exists, without opening it: that would turn on a microphone indicator.
pub(crate) fn check(device: &str, direction: Direction) -> Result<(), NodeError> {
    find_device(device, direction).map(drop)
}

impl Capture {
    /// Opens a device, which captures from [`Capture::start`] on.
    pub(crate) fn open(request: &StreamRequest<'_>) -> Result<Self, NodeError> {
        let (producer, samples) = HeapRb::new(request.buffer * request.channels).split();
        let device = open_stream(request, |device, config, format, state| match format {
            SampleFormat::F32 => capture::<f32>(device, config, producer, state),
            SampleFormat::I32 => capture::<i32>(device, config, producer, state),
            _ => capture::<i16>(device, config, producer, state),
        })?;
        Ok(Self { device, samples, channels: request.channels })
    }

    pub(crate) fn start(&mut self) -> Result<(), NodeError> {
        self.device.start()
    }

    /// Fails once the stream has stopped with an error.
    pub(crate) fn health(&self) -> Result<(), NodeError> {
        self.device.health()
    }

    /// Samples per channel that can be read.
    pub(crate) fn available(&self) -> usize {
        self.samples.occupied_len() / self.channels
    }

    /// Counter that increases whenever audio is lost.
    pub(crate) fn lost(&self) -> u64 {
        self.device.state.lost.load(Ordering::Relaxed)
    }

    /// Reads interleaved samples.
    pub(crate) fn read(&mut self, to: &mut [f32]) {
        self.samples.pop_slice(to);
    }
}

impl Playback {
    /// Opens a device, which plays from [`Playback::start`] on.
    pub(crate) fn open(request: &StreamRequest<'_>) -> Result<Self, NodeError> {
        let (samples, consumer) = HeapRb::new(request.buffer * request.channels).split();
        let device = open_stream(request, |device, config, format, state| match format {
            SampleFormat::F32 => playback::<f32>(device, config, consumer, state),
            SampleFormat::I32 => playback::<i32>(device, config, consumer, state),
            _ => playback::<i16>(device, config, consumer, state),
        })?;
        Ok(Self { device, samples, channels: request.channels })
    }

    pub(crate) fn start(&mut self) -> Result<(), NodeError> {
        self.device.start()
    }

    /// Fails once the stream has stopped with an error.
    pub(crate) fn health(&self) -> Result<(), NodeError> {
        self.device.health()
    }

    /// Samples per channel that wait to be played.
    pub(crate) fn queued(&self) -> usize {
        self.samples.occupied_len() / self.channels
    }

    /// Writes interleaved samples. Returns the samples per channel that fit into the ring buffer.
    pub(crate) fn write(&mut self, samples: &[f32]) -> usize {
        let len = samples.len().min(self.samples.vacant_len()) / self.channels;
        self.samples.push_slice(&samples[..len * self.channels]);
        len
    }
}

impl DeviceStream {
    fn start(&mut self) -> Result<(), NodeError> {
        self.stream.play().map_err(|error| device_error(&self.name, error))
    }

    fn health(&self) -> Result<(), NodeError> {
        self.state.error.get().map_or(Ok(()), |reason| Err(device_error(&self.name, reason)))
    }
}

fn device_error(device: &str, reason: impl ToString) -> NodeError {
    NodeError::Device { name: device.to_owned(), reason: reason.to_string() }
}

/// Lists the devices of both directions.
pub(crate) fn list() -> Result<Vec<AudioDevice>, String> {
    let host = cpal::default_host();
    let id = |device: &cpal::Device| device.id().ok().map(|id| id.id().to_owned());
    let default_capture = host.default_input_device().as_ref().and_then(id);
    let default_playback = host.default_output_device().as_ref().and_then(id);
    let mut found = Vec::new();
    for device in host.devices().map_err(|error| error.to_string())? {
        let Some(id) = id(&device) else { continue };
        let capture: Vec<_> = device.supported_input_configs().into_iter().flatten().collect();
        let playback: Vec<_> = device.supported_output_configs().into_iter().flatten().collect();
        let directions = [(true, capture, &default_capture), (false, playback, &default_playback)];
        for (is_capture, configs, default) in directions {
            let least = configs.iter().map(SupportedStreamConfigRange::min_sample_rate).min();
            let greatest = configs.iter().map(SupportedStreamConfigRange::max_sample_rate).max();
            let channels = configs.iter().map(SupportedStreamConfigRange::channels).max();
            if let (Some(least), Some(greatest), Some(channels)) = (least, greatest, channels) {
                found.push(AudioDevice {
                    id: id.clone(),
                    name: device.to_string(),
                    is_capture,
                    is_default: default.as_ref() == Some(&id),
                    rates: (least, greatest),
                    channels,
                });
            }
        }
    }
    Ok(found)
}

fn find_device(name: &str, direction: Direction) -> Result<cpal::Device, NodeError> {
    let host = cpal::default_host();
    if name == "default" {
        let device = match direction {
            Direction::Capture => host.default_input_device(),
            Direction::Playback => host.default_output_device(),
        };
        return device
            .ok_or_else(|| device_error(name, with_devices("no default device", direction)));
    }
    let mut devices = host.devices().map_err(|error| device_error(name, error))?;
    let is_named = |device: &cpal::Device| {
        device.id().is_ok_and(|id| id.id() == name) || device.to_string() == name
    };
    let device = devices.find(is_named);
    device.ok_or_else(|| device_error(name, with_devices("device not found", direction)))
}

/// `reason`, followed by the available devices.
fn with_devices(reason: &str, direction: Direction) -> String {
    let devices = cpal::default_host().devices().into_iter().flatten();
    let names = devices.filter(|device| match direction {
        Direction::Capture => device.supports_input(),
        Direction::Playback => device.supports_output(),
    });
    let names: Vec<_> =
        names.filter_map(|device| device.id().ok()).map(|id| id.id().to_owned()).collect();
    match names.as_slice() {
        [] => format!("{reason}; no device is available"),
        names => format!("{reason}; available: {}", names.join(", ")),
    }
}

type BuildResult = Result<cpal::Stream, cpal::Error>;

/// Opens the device of `request` with the best supported format.
fn open_stream(
    request: &StreamRequest<'_>,
    build: impl FnOnce(&cpal::Device, StreamConfig, SampleFormat, Arc<CallbackState>) -> BuildResult,
) -> Result<DeviceStream, NodeError> {
    let StreamRequest { device: name, direction, .. } = *request;
    let device = find_device(name, direction)?;
    let failed = |error: cpal::Error| match error.kind() {
        ErrorKind::DeviceNotAvailable | ErrorKind::UnsupportedOperation => {
            device_error(name, with_devices(&error.to_string(), direction))
        }
        _ => device_error(name, error),
    };
    let configs: Vec<_> = match direction {
        Direction::Capture => device.supported_input_configs().map_err(failed)?.collect(),
        Direction::Playback => device.supported_output_configs().map_err(failed)?.collect(),
    };
    let (config, format) =
        choose_config(request, &configs).map_err(|reason| device_error(name, reason))?;
    let state = Arc::new(CallbackState::default());
    let stream = build(&device, config, format, Arc::clone(&state)).map_err(failed)?;
    Ok(DeviceStream { name: name.to_owned(), stream, state })
}

/// The best of `configs` that matches the request.
fn choose_config(
    request: &StreamRequest<'_>,
    configs: &[SupportedStreamConfigRange],
) -> Result<(StreamConfig, SampleFormat), String> {
    let StreamRequest { rate, channels, .. } = *request;
    let fits = |config: &&SupportedStreamConfigRange, format| {
        usize::from(config.channels()) == channels
            && config.contains_rate(rate)
            && config.sample_format() == format
    };
    let formats = [SampleFormat::F32, SampleFormat::I32, SampleFormat::I16];
    let config = formats.iter().find_map(|format| configs.iter().find(|c| fits(c, *format)));
    let Some(config) = config else {
        return Err(format!(
            "{rate} Hz with {channels} channels is not supported; supported: {}; set rate and \
             channels accordingly and insert a resample node",
            describe(configs)
        ));
    };
    // Callbacks of 10 ms, within the limits of the device.
    let buffer_size = match *config.buffer_size() {
        SupportedBufferSize::Range { min, max } if min <= max => {
            BufferSize::Fixed((rate / 100).clamp(min, max))
        }
        _ => BufferSize::Default,
    };
    let stream = StreamConfig { channels: config.channels(), sample_rate: rate, buffer_size };
    Ok((stream, config.sample_format()))
}

/// Supported sample rates and channels, for error messages.
fn describe(configs: &[SupportedStreamConfigRange]) -> String {
    let text = |config: &SupportedStreamConfigRange| {
        let (least, most) = (config.min_sample_rate(), config.max_sample_rate());
        let rates = if least == most { least.to_string() } else { format!("{least} to {most}") };
        format!("{rates} Hz with {} channels", config.channels())
    };
    let mut texts: Vec<_> = configs.iter().map(text).collect();
    texts.dedup();
    match texts.len() {
        0 => "no usable sample format".to_owned(),
        _ => texts.into_iter().take(4).collect::<Vec<_>>().join(", "),
    }
}

/// Builds an input stream that writes to `samples`.
fn capture<T>(
    device: &cpal::Device,
    config: StreamConfig,
    mut samples: HeapProd<f32>,
    state: Arc<CallbackState>,
) -> BuildResult
where
    T: SizedSample,
    f32: FromSample<T>,
{
    let (channels, errors) = (usize::from(config.channels), Arc::clone(&state));
    let callback = move |data: &[T], _: &cpal::InputCallbackInfo| {
        // Only whole sets of channels are written, or the channels would be swapped.
        let vacant = samples.vacant_len() / channels * channels;
        let taken = data.len().min(vacant);
        samples.push_iter(data[..taken].iter().map(|sample| f32::from_sample_(*sample)));
        if taken < data.len() {
            state.lost.fetch_add((data.len() - taken) as u64, Ordering::Relaxed);
        }
    };
    device.build_input_stream(config, callback, move |error| errors.record_error(&error), None)
}

/// Builds an output stream that reads from `samples`.
fn playback<T>(
    device: &cpal::Device,
    config: StreamConfig,
    mut samples: HeapCons<f32>,
    state: Arc<CallbackState>,
) -> BuildResult
where
    T: SizedSample + FromSample<f32>,
{
    let errors = Arc::clone(&state);
    // `data` is initialized with silence.
    let callback = move |data: &mut [T], _: &cpal::OutputCallbackInfo| {
        for (to, sample) in data.iter_mut().zip(samples.pop_iter()) {
            *to = T::from_sample_(sample);
        }
    };
    device.build_output_stream(config, callback, move |error| errors.record_error(&error), None)
}

impl CallbackState {
    fn record_error(&self, error: &cpal::Error) {
        match error.kind() {
            ErrorKind::Xrun => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            // The stream continues.
            ErrorKind::DeviceChanged | ErrorKind::RealtimeDenied => {}
            // The stream has stopped, so allocating the message is harmless.
            _ => drop(self.error.set(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(rate: u32, channels: usize) -> StreamRequest<'static> {
        StreamRequest { device: "x", direction: Direction::Capture, rate, channels, buffer: 1 }
    }

    fn range(channels: u16, rates: (u32, u32), format: SampleFormat) -> SupportedStreamConfigRange {
        let sizes = SupportedBufferSize::Range { min: 64, max: 256 };
        SupportedStreamConfigRange::new(channels, rates.0, rates.1, sizes, format)
    }

    #[test]
    fn the_most_precise_format_is_chosen() {
        let configs = [
            range(1, (8000, 48_000), SampleFormat::I16),
            range(1, (8000, 48_000), SampleFormat::I32),
            range(1, (48_000, 48_000), SampleFormat::F32),
        ];
        let choose = |rate| choose_config(&request(rate, 1), &configs).unwrap();
        assert_eq!(choose(48_000).1, SampleFormat::F32);
        assert_eq!(choose(16_000).1, SampleFormat::I32);
        assert_eq!(choose(16_000).0.buffer_size, BufferSize::Fixed(160));
        assert_eq!(
            choose(48_000).0.buffer_size,
            BufferSize::Fixed(256),
            "the limit of the device applies"
        );
    }

    #[test]
    fn unsupported_rates_are_rejected_with_the_supported_ones() {
        let configs = [range(2, (44_100, 48_000), SampleFormat::I16)];
        let error = choose_config(&request(16_000, 1), &configs).unwrap_err();
        let expected =
            "16000 Hz with 1 channels is not supported; supported: 44100 to 48000 Hz with 2";
        assert!(error.starts_with(expected), "{error}");
        assert!(
            choose_config(&request(16_000, 1), &[])
                .unwrap_err()
                .contains("no usable sample format")
        );
    }
}
