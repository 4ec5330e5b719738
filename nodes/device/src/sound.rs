//! Sound devices, and the buffers between their callbacks and the nodes.
//!
//! A callback runs on a thread of the device. It moves samples and adds to counters; it takes no
//! lock, allocates nothing and logs nothing. What it counts, the node logs.

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

use crate::{Direction, Request};

/// A source of sound.
pub(crate) struct Capture {
    device: Opened,
    samples: HeapCons<f32>,
    channels: usize,
}

/// A sink of sound.
pub(crate) struct Playback {
    device: Opened,
    samples: HeapProd<f32>,
    channels: usize,
}

struct Opened {
    name: String,
    stream: cpal::Stream,
    state: Arc<State>,
}

/// What the callbacks tell, and are told.
#[derive(Default)]
struct State {
    /// Samples that found the buffer full, and times that the device itself was late.
    lost: AtomicU64,
    /// Why the device gave up.
    fault: OnceLock<String>,
}

/// Whether there is such a device. It is not opened: that would light the lamp of a microphone.
pub(crate) fn check(device: &str, direction: Direction) -> Result<(), NodeError> {
    find(device, direction).map(drop)
}

impl Capture {
    /// Opens a device; its sound is heard from [`Capture::start`] on.
    pub(crate) fn open(request: &Request<'_>) -> Result<Self, NodeError> {
        let (producer, samples) = HeapRb::new(request.buffer * request.channels).split();
        let device = open(request, |device, config, format, state| match format {
            SampleFormat::F32 => capture::<f32>(device, config, producer, state),
            SampleFormat::I32 => capture::<i32>(device, config, producer, state),
            _ => capture::<i16>(device, config, producer, state),
        })?;
        Ok(Self { device, samples, channels: request.channels })
    }

    pub(crate) fn start(&mut self) -> Result<(), NodeError> {
        self.device.start()
    }

    /// An error once the device has given up.
    pub(crate) fn health(&self) -> Result<(), NodeError> {
        self.device.health()
    }

    /// Samples of each channel that can be read.
    pub(crate) fn available(&self) -> usize {
        self.samples.occupied_len() / self.channels
    }

    /// How often sound was lost, or how much of it: it only grows.
    pub(crate) fn lost(&self) -> u64 {
        self.device.state.lost.load(Ordering::Relaxed)
    }

    /// Reads samples, channel by channel for each time.
    pub(crate) fn read(&mut self, to: &mut [f32]) {
        self.samples.pop_slice(to);
    }
}

impl Playback {
    /// Opens a device; it plays from [`Playback::start`] on.
    pub(crate) fn open(request: &Request<'_>) -> Result<Self, NodeError> {
        let (samples, consumer) = HeapRb::new(request.buffer * request.channels).split();
        let device = open(request, |device, config, format, state| match format {
            SampleFormat::F32 => playback::<f32>(device, config, consumer, state),
            SampleFormat::I32 => playback::<i32>(device, config, consumer, state),
            _ => playback::<i16>(device, config, consumer, state),
        })?;
        Ok(Self { device, samples, channels: request.channels })
    }

    pub(crate) fn start(&mut self) -> Result<(), NodeError> {
        self.device.start()
    }

    /// An error once the device has given up.
    pub(crate) fn health(&self) -> Result<(), NodeError> {
        self.device.health()
    }

    /// Samples of each channel that wait to be played.
    pub(crate) fn queued(&self) -> usize {
        self.samples.occupied_len() / self.channels
    }

    /// Writes samples, channel by channel for each time; returns how many of each channel there
    /// was room for.
    pub(crate) fn write(&mut self, samples: &[f32]) -> usize {
        let times = samples.len().min(self.samples.vacant_len()) / self.channels;
        self.samples.push_slice(&samples[..times * self.channels]);
        times
    }
}

impl Opened {
    fn start(&mut self) -> Result<(), NodeError> {
        self.stream.play().map_err(|error| fault(&self.name, error))
    }

    fn health(&self) -> Result<(), NodeError> {
        self.state.fault.get().map_or(Ok(()), |reason| Err(fault(&self.name, reason)))
    }
}

fn fault(device: &str, reason: impl ToString) -> NodeError {
    NodeError::Device { name: device.to_owned(), reason: reason.to_string() }
}

fn find(name: &str, direction: Direction) -> Result<cpal::Device, NodeError> {
    let host = cpal::default_host();
    if name == "default" {
        let device = match direction {
            Direction::Capture => host.default_input_device(),
            Direction::Playback => host.default_output_device(),
        };
        return device.ok_or_else(|| fault(name, others("there is no default device", direction)));
    }
    let mut devices = host.devices().map_err(|error| fault(name, error))?;
    let called = |device: &cpal::Device| {
        device.id().is_ok_and(|id| id.id() == name) || device.to_string() == name
    };
    let device = devices.find(called);
    device.ok_or_else(|| fault(name, others("there is no such device", direction)))
}

/// `reason`, and what devices there are.
fn others(reason: &str, direction: Direction) -> String {
    let devices = cpal::default_host().devices().into_iter().flatten();
    let names = devices.filter(|device| match direction {
        Direction::Capture => device.supports_input(),
        Direction::Playback => device.supports_output(),
    });
    let names: Vec<_> =
        names.filter_map(|device| device.id().ok()).map(|id| id.id().to_owned()).collect();
    match names.as_slice() {
        [] => format!("{reason}; this machine shows none"),
        names => format!("{reason}; there are {}", names.join(", ")),
    }
}

type Build = Result<cpal::Stream, cpal::Error>;

fn open(
    request: &Request<'_>,
    build: impl FnOnce(&cpal::Device, StreamConfig, SampleFormat, Arc<State>) -> Build,
) -> Result<Opened, NodeError> {
    let Request { device: name, direction, .. } = *request;
    let device = find(name, direction)?;
    let failed = |error: cpal::Error| match error.kind() {
        ErrorKind::DeviceNotAvailable | ErrorKind::UnsupportedOperation => {
            fault(name, others(&error.to_string(), direction))
        }
        _ => fault(name, error),
    };
    let configs: Vec<_> = match direction {
        Direction::Capture => device.supported_input_configs().map_err(failed)?.collect(),
        Direction::Playback => device.supported_output_configs().map_err(failed)?.collect(),
    };
    let (config, format) = choose(request, &configs).map_err(|reason| fault(name, reason))?;
    let state = Arc::new(State::default());
    let stream = build(&device, config, format, Arc::clone(&state)).map_err(failed)?;
    Ok(Opened { name: name.to_owned(), stream, state })
}

/// The best of the device's `configs` that is what was asked for.
fn choose(
    request: &Request<'_>,
    configs: &[SupportedStreamConfigRange],
) -> Result<(StreamConfig, SampleFormat), String> {
    let Request { rate, channels, .. } = *request;
    let fits = |config: &&SupportedStreamConfigRange, format| {
        usize::from(config.channels()) == channels
            && config.contains_rate(rate)
            && config.sample_format() == format
    };
    let formats = [SampleFormat::F32, SampleFormat::I32, SampleFormat::I16];
    let config = formats.iter().find_map(|format| configs.iter().find(|c| fits(c, *format)));
    let Some(config) = config else {
        return Err(format!(
            "it does not have {rate} Hz with {channels} channels, but {}; set rate and channels \
             to that and put a resample node on the other side",
            offers(configs)
        ));
    };
    // Callbacks of 10 ms, as far as the device goes along.
    let buffer_size = match *config.buffer_size() {
        SupportedBufferSize::Range { min, max } if min <= max => {
            BufferSize::Fixed((rate / 100).clamp(min, max))
        }
        _ => BufferSize::Default,
    };
    let stream = StreamConfig { channels: config.channels(), sample_rate: rate, buffer_size };
    Ok((stream, config.sample_format()))
}

/// What a device has, for people.
fn offers(configs: &[SupportedStreamConfigRange]) -> String {
    let text = |config: &SupportedStreamConfigRange| {
        let (least, most) = (config.min_sample_rate(), config.max_sample_rate());
        let rates = if least == most { least.to_string() } else { format!("{least} to {most}") };
        format!("{rates} Hz with {} channels", config.channels())
    };
    let mut texts: Vec<_> = configs.iter().map(text).collect();
    texts.dedup();
    match texts.len() {
        0 => "no kind of sound that is read here".to_owned(),
        _ => texts.into_iter().take(4).collect::<Vec<_>>().join(", "),
    }
}

fn capture<T>(
    device: &cpal::Device,
    config: StreamConfig,
    mut samples: HeapProd<f32>,
    state: Arc<State>,
) -> Build
where
    T: SizedSample,
    f32: FromSample<T>,
{
    let (channels, errors) = (usize::from(config.channels), Arc::clone(&state));
    let callback = move |data: &[T], _: &cpal::InputCallbackInfo| {
        // Whole times only, or the channels would change places.
        let room = samples.vacant_len() / channels * channels;
        let taken = data.len().min(room);
        samples.push_iter(data[..taken].iter().map(|sample| f32::from_sample_(*sample)));
        if taken < data.len() {
            state.lost.fetch_add((data.len() - taken) as u64, Ordering::Relaxed);
        }
    };
    device.build_input_stream(config, callback, move |error| errors.note(&error), None)
}

fn playback<T>(
    device: &cpal::Device,
    config: StreamConfig,
    mut samples: HeapCons<f32>,
    state: Arc<State>,
) -> Build
where
    T: SizedSample + FromSample<f32>,
{
    let errors = Arc::clone(&state);
    // The rest of `data` is silence already.
    let callback = move |data: &mut [T], _: &cpal::OutputCallbackInfo| {
        for (to, sample) in data.iter_mut().zip(samples.pop_iter()) {
            *to = T::from_sample_(sample);
        }
    };
    device.build_output_stream(config, callback, move |error| errors.note(&error), None)
}

impl State {
    fn note(&self, error: &cpal::Error) {
        match error.kind() {
            ErrorKind::Xrun => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            // The stream goes on.
            ErrorKind::DeviceChanged | ErrorKind::RealtimeDenied => {}
            // It does not: the text may be allocated.
            _ => drop(self.fault.set(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(rate: u32, channels: usize) -> Request<'static> {
        Request { device: "x", direction: Direction::Capture, rate, channels, buffer: 1 }
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
        let choose = |rate| choose(&request(rate, 1), &configs).unwrap();
        assert_eq!(choose(48_000).1, SampleFormat::F32);
        assert_eq!(choose(16_000).1, SampleFormat::I32);
        assert_eq!(choose(16_000).0.buffer_size, BufferSize::Fixed(160));
        assert_eq!(choose(48_000).0.buffer_size, BufferSize::Fixed(256), "the device has its say");
    }

    #[test]
    fn a_rate_that_the_device_lacks_is_refused_with_what_it_has() {
        let configs = [range(2, (44_100, 48_000), SampleFormat::I16)];
        let error = choose(&request(16_000, 1), &configs).unwrap_err();
        let expected = "it does not have 16000 Hz with 1 channels, but 44100 to 48000 Hz with 2";
        assert!(error.starts_with(expected), "{error}");
        assert!(choose(&request(16_000, 1), &[]).unwrap_err().contains("no kind of sound"));
    }
}
