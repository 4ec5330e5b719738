//! Messages of a microcontroller.

mod line;
#[cfg(test)]
mod tests;

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, params, ports};
use afferent_link::{Adpcm, Decoder, Fault, Frame, Message};
use afferent_messages::{AudioBlock, DeviceStatus, KeywordEvent, SampleRate};

use crate::{
    OnLost,
    offset::Offset,
    reconnect::{Policy, Reconnect},
    warn_rarely,
};

use line::Line;

params! {
    /// Settings of [`McuLink`].
    pub struct McuLinkParams {
        /// Address: `tcp://HOST:PORT`, or a serial port such as `/dev/ttyACM0` or `COM3`.
        pub device: String;
        /// Speed of a serial port.
        pub baud: u32 = "460800", range 1200.0..=12000000.0, unit "Bd";
        /// Time without a message after which the device counts as lost. It sends one every second.
        pub timeout: Duration = "5s", range 0.1..=600.0;
        /// Action when the device is lost.
        pub on_lost: OnLost = "restart";
    }
}

/// Receives the messages of a microcontroller that listens for a wake word (`mcu/firmware`): detected
/// phrases, the sound after them, and its state.
///
/// The line is a TCP connection, as emulators have, or a serial port (feature `serial`). Frames are
/// encoded with COBS and have a checksum and a sequence number (`mcu/link`). Bytes that are no message
/// are counted and skipped. A device that is absent or silent is tried again with `on_lost: restart`.
/// A device with another version of the protocol is an error.
///
/// Timestamps are times of the device: its samples count the time, and the quickest message so far
/// is taken to have needed none. The sound has gaps, because it is sent after phrases only.
///
/// Latency: that of the line.
///
/// ```
/// use std::{io::Write, net::TcpListener};
///
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_link::{Encoder, MAX_FRAME, Message};
/// use afferent_messages::KeywordEvent;
/// use afferent_nodes_device::{McuLink, McuLinkParams};
///
/// let device = TcpListener::bind("127.0.0.1:0").unwrap();
/// let address = format!("tcp://{}", device.local_addr().unwrap());
/// let values = [("device".to_owned(), ParamValue::Text(address.into()))].into();
/// let params = McuLinkParams::from_values(&values)?;
/// let mut link = NodeBench::new(McuLink::open(params, &OpenCx::default())?);
/// link.poll(Timestamp::ZERO)?;
///
/// let message = Message::Keyword { at: 16_000, score: 0.8, label: "hey afferent" };
/// let mut line = device.accept().unwrap().0;
/// line.write_all(Encoder::new().encode(&message, &mut [0; MAX_FRAME])).unwrap();
/// let sent = loop {
///     let (sent, _) = link.poll(Timestamp(2_000_000_000))?;
///     if let Some((_, packet)) = sent.into_iter().next() {
///         break packet;
///     }
/// };
/// assert_eq!(sent.get::<KeywordEvent>().unwrap().label, "hey afferent");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct McuLink {
    params: McuLinkParams,
    device: Reconnect<(), Connection>,
    status: DeviceStatus,
    clock: DeviceClock,
    /// Timestamp of the last event and of the last sound.
    last_event: Timestamp,
    last_audio: Timestamp,
}

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(250);

/// Most bytes of one call.
const READ_BYTES: usize = 4096;

ports! {
    impl McuLink {
        /// Detected phrases, timestamped with the end of the audio that decided.
        out EVENTS: KeywordEvent;
        /// Sound after a phrase, mono.
        out AUDIO: AudioBlock;
        /// State of the device and of the line: about once a second, and when the device is lost.
        out STATUS: DeviceStatus;
    }
}

/// Connected device.
struct Connection {
    line: Line,
    decoder: Decoder,
    /// True once a message came. Bytes before it are the rest of a frame.
    is_in_step: bool,
}

/// Session time of a device that counts its samples.
struct DeviceClock {
    rate: u32,
    offset: Offset,
    /// Session time of the start of the device, in nanoseconds; `None` before its first message.
    start_ns: Option<i64>,
    newest: u64,
    /// Next sample of sound, and the start of the device as it was for the sound before it.
    audio: Option<(u64, i64)>,
}

impl McuLink {
    fn receive(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Self { params, device, status, .. } = self;
        let connect = |()| {
            let line = Line::open(&params.device, params.baud)?;
            Ok(Connection { line, decoder: Decoder::new(), is_in_step: false })
        };
        let was_connected = std::mem::replace(&mut status.is_connected, false);
        let connection = match device.running(cx, || Ok(()), connect) {
            Ok(Some(connection)) => connection,
            Ok(None) => return Ok(()),
            // The first attempt. Later ones are repeated without an error.
            Err(error) => return self.lose(cx, &error.to_string()),
        };
        status.is_connected = true;
        if !was_connected {
            status.connections += 1;
            self.clock = DeviceClock::new();
        }
        let mut bytes = [0; READ_BYTES];
        let count = match connection.line.read(&mut bytes) {
            Ok(count) => count,
            Err(reason) => return self.lose(cx, &reason),
        };
        let mut sink = Sink {
            cx,
            status,
            clock: &mut self.clock,
            last_event: &mut self.last_event,
            last_audio: &mut self.last_audio,
        };
        let mut is_message = false;
        for &byte in &bytes[..count] {
            match connection.decoder.push(byte) {
                None => {}
                Some(Ok(Frame { message, lost })) => {
                    sink.status.lost_messages += u64::from(lost);
                    sink.message(&message)?;
                    (is_message, connection.is_in_step) = (true, true);
                }
                Some(Err(fault @ Fault::Version(_))) => {
                    let (name, reason) = (params.device.clone(), fault.to_string());
                    return Err(NodeError::Device { name, reason });
                }
                Some(Err(fault)) if connection.is_in_step => {
                    sink.status.garbage += 1;
                    warn_rarely(sink.status.garbage, &format!("{}: {fault}", params.device));
                }
                Some(Err(_)) => connection.is_in_step = true,
            }
        }
        if is_message {
            let now = cx.now();
            self.device.stamp(now, now);
            return Ok(());
        }
        let is_lost = self.device.check_timeout(cx);
        self.tell_loss(cx);
        is_lost
    }

    fn lose(&mut self, cx: &mut Cx<'_>, reason: &str) -> Result<(), NodeError> {
        self.status.is_connected = false;
        cx.send_at(Self::STATUS, cx.now(), self.status);
        self.device.lose(cx, reason)
    }

    /// Tells that a silent device was lost.
    fn tell_loss(&mut self, cx: &mut Cx<'_>) {
        if self.device.is_lost() {
            self.status.is_connected = false;
            cx.send_at(Self::STATUS, cx.now(), self.status);
        }
    }
}

impl Node for McuLink {
    type Params = McuLinkParams;

    const NAME: &'static str = "mcu_link";
    const SUMMARY: &'static str = "Receives wake words and sound from a microcontroller.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "that of the line";

    fn check(params: &McuLinkParams, _: &OpenCx) -> Result<(), NodeError> {
        Line::check(&params.device)
            .map_err(|reason| NodeError::InvalidParam { name: "device".into(), reason })
    }

    fn open(params: McuLinkParams, cx: &OpenCx) -> Result<Self, NodeError> {
        Self::check(&params, cx)?;
        let policy = Policy {
            kind: "microcontroller",
            device: params.device.clone(),
            value: "message",
            on_lost: params.on_lost,
            timeout: params.timeout,
            retry: RETRY,
        };
        Ok(Self {
            params,
            device: Reconnect::new((), policy),
            status: DeviceStatus {
                battery_v: f32::NAN,
                battery_percent: f32::NAN,
                ..DeviceStatus::default()
            },
            clock: DeviceClock::new(),
            last_event: Timestamp::ZERO,
            last_audio: Timestamp::ZERO,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.receive(cx)
    }
}

/// Receiver of messages.
struct Sink<'s, 'c> {
    cx: &'s mut Cx<'c>,
    status: &'s mut DeviceStatus,
    clock: &'s mut DeviceClock,
    last_event: &'s mut Timestamp,
    last_audio: &'s mut Timestamp,
}

impl Sink<'_, '_> {
    fn message(&mut self, message: &Message<'_>) -> Result<(), NodeError> {
        match *message {
            Message::Heartbeat {
                at,
                sample_rate,
                lost_samples,
                failed_runs,
                battery_mv,
                battery_percent,
            } => {
                self.clock.heartbeat(at, sample_rate, self.cx.now());
                let measured = |is_measured: bool, value: f32| {
                    if is_measured { value } else { f32::NAN }
                };
                *self.status = DeviceStatus {
                    lost_samples: lost_samples.into(),
                    failed_runs: failed_runs.into(),
                    battery_v: measured(battery_mv > 0, f32::from(battery_mv) / 1000.0),
                    battery_percent: measured(battery_percent <= 100, battery_percent.into()),
                    ..*self.status
                };
                self.cx.send_at(McuLink::STATUS, self.cx.now(), *self.status);
            }
            Message::Keyword { at, score, label } => {
                let at = self.clock.time(at, self.cx.now()).max(*self.last_event);
                *self.last_event = at;
                let mut event = self.cx.loan(McuLink::EVENTS);
                event.label.clear();
                event.label.push_str(label);
                event.score = score;
                self.cx.send_at(McuLink::EVENTS, at, event);
            }
            Message::Audio { at, start, data } => self.audio(at, start, data)?,
            _ => {}
        }
        Ok(())
    }

    fn audio(&mut self, at: u64, start: Adpcm, data: &[u8]) -> Result<(), NodeError> {
        let samples = 2 * data.len();
        let time = self.clock.audio_time(at, samples, self.cx.now()).max(*self.last_audio);
        *self.last_audio = time;
        let mut block = self.cx.loan(McuLink::AUDIO);
        let out = block.reshape(SampleRate(self.clock.rate), 1, samples)?;
        let mut decoder = start;
        for (pair, &byte) in out.chunks_mut(2).zip(data) {
            for (sample, decoded) in pair.iter_mut().zip(decoder.decode(byte)) {
                *sample = f32::from(decoded) / 32768.0;
            }
        }
        self.cx.send_at(McuLink::AUDIO, time, block);
        Ok(())
    }
}

impl DeviceClock {
    /// Sample rate of devices that have not told theirs yet.
    const RATE: u32 = 16_000;

    fn new() -> Self {
        let offset = Offset::default();
        Self { rate: Self::RATE, offset, start_ns: None, newest: 0, audio: None }
    }

    /// Time of a sample since the start of the device.
    fn since_start_ns(&self, at: u64) -> i64 {
        let ns = u128::from(at) * 1_000_000_000 / u128::from(self.rate);
        i64::try_from(ns).unwrap_or(i64::MAX)
    }

    /// Takes a heartbeat. A count that went back tells that the device has restarted.
    fn heartbeat(&mut self, at: u64, rate: u32, now: Timestamp) {
        let is_valid = AudioBlock::RATES_HZ.contains(&rate);
        let rate = if is_valid { rate } else { Self::RATE };
        if at < self.newest || rate != self.rate {
            *self = Self { rate, ..Self::new() };
        }
        self.time(at, now);
    }

    /// Session time of the sample `at` of a message that tells of the present.
    fn time(&mut self, at: u64, now: Timestamp) -> Timestamp {
        self.newest = self.newest.max(at);
        let since_ns = self.since_start_ns(at);
        let start_ns = self.offset.update(now.0.saturating_sub(since_ns));
        self.start_ns = Some(start_ns);
        Timestamp(start_ns.saturating_add(since_ns))
    }

    /// Session time of a block of sound. Blocks without a gap between them keep their distance.
    fn audio_time(&mut self, at: u64, samples: usize, now: Timestamp) -> Timestamp {
        let since_ns = self.since_start_ns(at);
        let start_ns = match (self.audio, self.start_ns) {
            (Some((next, start_ns)), _) if next == at => start_ns,
            (_, Some(start_ns)) => start_ns,
            _ => now.0.saturating_sub(since_ns),
        };
        self.audio = Some((at + samples as u64, start_ns));
        Timestamp(start_ns.saturating_add(since_ns).max(0))
    }
}
