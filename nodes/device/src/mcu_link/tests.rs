//! The node with a device on a TCP connection.

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
};

use afferent_graph::{NodeBench, Packet, ParamValue, Params, Resume};
use afferent_link::{Encoder, MAX_FRAME};

use super::*;

/// The node, its device, and what it sent.
struct Setup {
    bench: NodeBench<McuLink>,
    listener: TcpListener,
    encoder: Encoder,
    now: Timestamp,
    events: Vec<(i64, String, f32)>,
    audio: Vec<(i64, Vec<f32>)>,
    status: Vec<DeviceStatus>,
}

fn params(device: &str) -> McuLinkParams {
    let values = [("device".to_owned(), ParamValue::Text(device.into()))].into();
    McuLinkParams::from_values(&values).unwrap()
}

fn open(params: McuLinkParams) -> Result<McuLink, NodeError> {
    McuLink::open(params, &OpenCx::default())
}

impl Setup {
    fn new(change: impl FnOnce(&mut McuLinkParams)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("tcp://{}", listener.local_addr().unwrap());
        let mut params = params(&address);
        change(&mut params);
        Self {
            bench: NodeBench::new(open(params).unwrap()),
            listener,
            encoder: Encoder::new(),
            now: Timestamp::ZERO,
            events: Vec::new(),
            audio: Vec::new(),
            status: Vec::new(),
        }
    }

    /// Calls the node once.
    fn poll(&mut self) -> Result<Resume, String> {
        let (sent, resume) = self.bench.poll(self.now).map_err(|error| error.to_string())?;
        for (_, packet) in sent {
            self.take(&packet);
        }
        Ok(resume)
    }

    fn take(&mut self, packet: &Packet) {
        let at = packet.header.at.0;
        if let Some(KeywordEvent { label, score }) = packet.get() {
            self.events.push((at, label.clone(), *score));
        } else if let Some(block) = packet.get::<AudioBlock>() {
            self.audio.push((at, block.channel(0).unwrap().to_vec()));
        } else if let Some(status) = packet.get::<DeviceStatus>() {
            self.status.push(*status);
        }
    }

    /// Calls the node until `is_done`.
    #[track_caller]
    fn until(&mut self, is_done: impl Fn(&mut Self) -> bool) {
        for _ in 0..500 {
            if is_done(self) {
                return;
            }
            if let Resume::At(at) = self.poll().unwrap() {
                self.now = at;
            }
        }
        panic!("{:?} {:?}", self.events, self.status);
    }

    /// Accepts the connection of the node.
    fn accept(&mut self) -> TcpStream {
        let before = self.bench.node_mut().status.connections;
        self.until(|setup| setup.bench.node_mut().status.connections > before);
        self.listener.accept().unwrap().0
    }

    fn frame(&mut self, message: &Message<'_>) -> Vec<u8> {
        self.encoder.encode(message, &mut [0; MAX_FRAME]).to_vec()
    }
}

fn word(at: u64) -> Message<'static> {
    Message::Keyword { at, score: 0.75, label: "hey afferent" }
}

fn heartbeat(at: u64) -> Message<'static> {
    Message::Heartbeat {
        at,
        sample_rate: 16_000,
        lost_samples: 5,
        failed_runs: 1,
        battery_mv: 3700,
        battery_percent: 255,
    }
}

#[test]
fn messages_become_packets() {
    let mut setup = Setup::new(|_| ());
    let mut line = setup.accept();
    setup.now = Timestamp(10_000_000_000);
    let start = Adpcm { predictor: 8192, step: 0 };
    for message in [
        heartbeat(0),
        word(16_000),
        Message::Audio { at: 15_000, start, data: &[0; 80] },
        Message::Audio { at: 15_160, start, data: &[0; 80] },
    ] {
        let frame = setup.frame(&message);
        line.write_all(&frame).unwrap();
    }
    setup.until(|setup| setup.audio.len() == 2);
    // The word came as late as the heartbeat that is one second older, so it took no time.
    assert_eq!(setup.events, [(10_000_000_000, "hey afferent".to_owned(), 0.75)]);
    let times: Vec<_> = setup.audio.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [9_937_500_000, 9_947_500_000]);
    let samples = &setup.audio[0].1;
    assert!(samples.len() == 160 && samples.iter().all(|x| (x - 0.25).abs() < 0.001));
    let status = setup.status[0];
    assert_eq!((status.lost_samples, status.failed_runs, status.connections), (5, 1, 1));
    assert!(status.is_connected && status.battery_v == 3.7 && status.battery_percent.is_nan());
}

#[test]
fn losses_and_garbage_are_counted() {
    let mut setup = Setup::new(|_| ());
    let mut line = setup.accept();
    let frames: Vec<_> = (0..5).map(|n| setup.frame(&word(n * 16_000))).collect();
    // The end of a frame whose start was sent before the connection is no fault.
    line.write_all(&[b"\x07\x03est\0", &frames[0][..]].concat()).unwrap();
    setup.until(|setup| setup.events.len() == 1);
    assert_eq!(setup.bench.node_mut().status.garbage, 0);
    line.write_all(&[&[0xa5; 5000], &[0][..], &frames[1], b"\x01\x02\x03\0", &frames[4]].concat())
        .unwrap();
    setup.until(|setup| setup.events.len() == 3);
    let beat = setup.frame(&heartbeat(80_000));
    line.write_all(&beat).unwrap();
    setup.until(|setup| !setup.status.is_empty());
    let status = setup.status[0];
    assert_eq!((status.lost_messages, status.garbage), (2, 2));
}

#[test]
fn a_cut_line_and_a_restarted_device_are_survived() {
    let mut setup = Setup::new(|_| ());
    let mut line = setup.accept();
    setup.now = Timestamp(5_000_000_000);
    let frames = [heartbeat(1_600_000), word(1_600_000)].map(|message| setup.frame(&message));
    line.write_all(&frames.concat()).unwrap();
    setup.until(|setup| setup.events.len() == 1);
    drop(line);
    setup.until(|setup| setup.status.last().is_some_and(|status| !status.is_connected));
    // The device starts again: its samples and its sequence begin with zero.
    let mut line = setup.accept();
    setup.encoder = Encoder::new();
    setup.now = Timestamp(8_000_000_000);
    let frames = [heartbeat(0), word(160)].map(|message| setup.frame(&message));
    line.write_all(&frames.concat()).unwrap();
    setup.until(|setup| setup.events.len() == 2);
    assert_eq!(setup.events[1].0, 8_000_000_000);
    let status = setup.status.last().unwrap();
    assert_eq!((status.connections, status.lost_messages, status.garbage), (2, 0, 0));
}

#[test]
fn a_device_that_was_restarted_on_the_same_line_has_a_new_clock() {
    let mut setup = Setup::new(|_| ());
    let mut line = setup.accept();
    setup.now = Timestamp(1_000_000_000);
    let frames = [heartbeat(160_000), heartbeat(0)].map(|message| setup.frame(&message));
    line.write_all(&frames.concat()).unwrap();
    setup.until(|setup| setup.status.len() == 2);
    setup.now = Timestamp(3_000_000_000);
    let frame = setup.frame(&word(32_000));
    line.write_all(&frame).unwrap();
    setup.until(|setup| !setup.events.is_empty());
    assert_eq!(setup.events[0].0, 3_000_000_000);
}

#[test]
fn a_silent_device_is_lost() {
    let mut setup = Setup::new(|params| params.timeout = Duration::from_secs(1));
    let line = setup.accept();
    setup.now = Timestamp(0);
    setup.poll().unwrap();
    setup.now = Timestamp(1_000_000_001);
    setup.poll().unwrap();
    assert!(setup.status.last().is_some_and(|status| !status.is_connected));
    drop(line);
}

#[test]
fn other_versions_are_refused() {
    let mut setup = Setup::new(|_| ());
    let mut line = setup.accept();
    // A frame of version 2 with its checksum, in COBS.
    line.write_all(&[3, 2, 1, 1, 3, 152, 94, 0]).unwrap();
    let error = (0..100).find_map(|_| setup.poll().err()).unwrap();
    assert!(error.contains("the device speaks version 2 of the protocol"), "{error}");
}

#[test]
fn an_absent_device_is_waited_for() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = format!("tcp://{free}");
    let mut bench = NodeBench::new(open(params(&address)).unwrap());
    let (sent, resume) = bench.poll(Timestamp::ZERO).unwrap();
    assert!(sent.iter().any(|(_, packet)| packet.get::<DeviceStatus>().is_some()));
    assert!(matches!(resume, Resume::At(Timestamp(250_000_000))), "{resume:?}");
    let failing = McuLinkParams { on_lost: OnLost::Fail, ..params(&address) };
    let error = NodeBench::new(open(failing).unwrap()).poll(Timestamp::ZERO).unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn addresses_are_checked() {
    let check = |device: &str, expected: &str| {
        let error = open(params(device)).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("tcp://emulator", "write tcp://HOST:PORT");
    if cfg!(not(feature = "serial")) {
        check("/dev/ttyACM0", "this build has no serial ports");
    }
}
