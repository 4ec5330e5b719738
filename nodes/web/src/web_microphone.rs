//! The microphone of a browser.

use std::{collections::VecDeque, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{AudioBlock, SampleRate};
use serde_json::json;

use crate::{
    device::Kind,
    web::{Offered, Web},
};

params! {
    /// Settings of [`WebMicrophone`].
    pub struct WebMicrophoneParams {
        /// Sample rate of the output; the browser converts to it.
        pub rate: u32 = "16000", range 8000.0..=96000.0, unit "Hz";
        /// Length of the blocks.
        pub block: Duration = "20ms", range 0.005..=1.0;
        /// Cancellation of the sound that the same browser plays, by the browser.
        pub echo_cancellation: bool = "true";
        /// Suppression of noise, by the browser.
        pub noise_suppression: bool = "false";
        /// Automatic gain, by the browser.
        pub auto_gain: bool = "false";
    }
}

/// Captures the microphone of a browser: of a user that opens the page of the program, and
/// presses the button.
///
/// Browsers give a page the microphone only on this machine (`localhost`) or over TLS: a phone reaches
/// the page through a tunnel, such as `adb reverse tcp:8088 tcp:8088`. The page of another client takes
/// the device over. Without a client, the node sends nothing; after a pause its timestamps continue at
/// the present time.
///
/// Latency: that of the browser and the network, about 50 ms, and one block.
pub struct WebMicrophone {
    offered: Offered,
    rate: SampleRate,
    block_len: usize,
    /// Samples that were not sent yet.
    waiting: VecDeque<f32>,
    /// Timestamp of the next sample; `None` after a pause.
    next: Option<Timestamp>,
    lost: u64,
}

ports! {
    impl WebMicrophone {
        /// Sound of one channel at `rate`, full scale ±1.
        out AUDIO: AudioBlock;
    }
}

/// Time between two looks for what has arrived.
pub(crate) const POLL: Duration = Duration::from_millis(5);

/// Difference from the time of arrival above which timestamps jump.
const MAX_DRIFT: Duration = Duration::from_millis(250);

/// Longest sound that may wait; older sound is dropped.
const MAX_WAITING: Duration = Duration::from_secs(2);

impl WebMicrophone {
    /// Takes the samples of a message: 16-bit integers, little endian.
    fn take(&mut self, bytes: &[u8], now: Timestamp) {
        let samples = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
        self.waiting.extend(samples.map(|sample| f32::from(sample) / 32768.0));
        let most = self.rate.samples(MAX_WAITING);
        if self.waiting.len() > most {
            self.waiting.drain(..self.waiting.len() - most);
            self.next = None;
        }
        // The last sample is heard now, or was a little earlier.
        let arrived = Timestamp(now.0 - nanos(self.rate.duration(self.waiting.len())));
        let is_near = |next: &Timestamp| {
            let (early, late) = (arrived.0.saturating_sub(next.0), nanos(MAX_DRIFT));
            early.abs() <= late
        };
        let earliest = self.next.unwrap_or(Timestamp::ZERO);
        self.next = self.next.filter(is_near).or(Some(arrived.max(earliest)));
    }

    fn send_blocks(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        while self.waiting.len() >= self.block_len {
            let at = self.next.unwrap_or(cx.now());
            let mut block = cx.loan(Self::AUDIO);
            let to = block.reshape(self.rate, 1, self.block_len)?;
            to.iter_mut()
                .zip(self.waiting.drain(..self.block_len))
                .for_each(|(to, from)| *to = from);
            cx.send_at(Self::AUDIO, at, block);
            self.next = Some(at + self.rate.duration(self.block_len));
        }
        Ok(())
    }
}

/// Nanoseconds of a short time.
fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl Node for WebMicrophone {
    type Params = WebMicrophoneParams;

    const NAME: &'static str = "web_microphone";
    const SUMMARY: &'static str = "Captures the microphone of a browser.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "that of the browser, about 50 ms, and one block";

    fn open(params: WebMicrophoneParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let rate = SampleRate(params.rate);
        let settings = json!({
            "rate": params.rate,
            "echo_cancellation": params.echo_cancellation,
            "noise_suppression": params.noise_suppression,
            "auto_gain": params.auto_gain,
        });
        let offered = cx.services.need::<Web>()?.offer(&cx.name, Kind::Microphone, settings)?;
        let block_len = rate.samples(params.block).max(1);
        Ok(Self { offered, rate, block_len, waiting: VecDeque::new(), next: None, lost: 0 })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let arrived: Vec<_> = self.offered.arrivals.try_iter().take(16).collect();
        arrived.iter().for_each(|bytes| self.take(bytes, cx.now()));
        let lost = self.offered.device.lost();
        if lost > self.lost {
            tracing::warn!("{} messages of a browser's microphone were lost", lost - self.lost);
            (self.lost, self.next) = (lost, None);
        }
        if arrived.is_empty() && !self.offered.device.is_connected() {
            self.waiting.clear();
        }
        self.send_blocks(cx)?;
        cx.resume_at(cx.now() + POLL);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpStream, thread};

    use afferent_graph::{NodeBench, ParamValues, Params};
    use tungstenite::{Message, WebSocket};

    use super::*;
    use crate::WebOptions;

    fn node() -> (Web, NodeBench<WebMicrophone>) {
        let web = Web::new(WebOptions { bind: "127.0.0.1:0".to_owned(), ..WebOptions::default() });
        let cx = OpenCx { name: "ear".to_owned(), ..OpenCx::with_service(web.clone()) };
        let params = WebMicrophoneParams::from_values(&ParamValues::new()).unwrap();
        (web, NodeBench::new(WebMicrophone::open(params, &cx).unwrap()))
    }

    fn connect(web: &Web, name: &str) -> WebSocket<TcpStream> {
        let address = web.serve().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        let url = format!("ws://{address}/device/{name}");
        tungstenite::client(url, stream).unwrap().0
    }

    #[test]
    fn sound_of_a_page_becomes_blocks() {
        let (web, mut bench) = node();
        let mut page = connect(&web, "ear");
        let samples: Vec<u8> = (0..480_i16).flat_map(|at| (at * 64).to_le_bytes()).collect();
        page.send(Message::binary(samples)).unwrap();
        let mut sent = Vec::new();
        for call in 0..50 {
            sent.extend(bench.poll(Timestamp(1_000_000_000 + call)).unwrap().0);
            if !sent.is_empty() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let (port, packet) = &sent[0];
        let block = packet.get::<AudioBlock>().unwrap();
        assert_eq!((*port, sent.len(), block.rate.0), ("audio", 1, 16_000));
        let found = block.channel(0).unwrap();
        assert_eq!(
            (found.len(), found[1], found[319]),
            (320, 64.0 / 32768.0, 319.0 * 64.0 / 32768.0)
        );
        // 30 ms had arrived.
        assert_eq!(packet.header.at.0 / 1_000_000, 970);
    }

    #[test]
    fn a_page_takes_the_device_over_and_unknown_ones_are_refused() {
        let (web, _bench) = node();
        let mut first = connect(&web, "ear");
        thread::sleep(Duration::from_millis(50));
        let _second = connect(&web, "ear");
        let reason = |page: &mut WebSocket<TcpStream>| match page.read() {
            Ok(Message::Close(Some(frame))) => frame.reason.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(&mut first), "another page has taken the device over");
        assert_eq!(reason(&mut connect(&web, "eye")), "there is no such device");
    }

    #[test]
    fn timestamps_follow_the_samples_and_jump_after_a_pause() {
        let (_web, mut bench) = node();
        let node = bench.node_mut();
        let ms = |ms: i64| Timestamp(ms * 1_000_000);
        let block = vec![0; 640];
        node.take(&block, ms(100));
        assert_eq!(node.next, Some(ms(80)));
        node.waiting.clear();
        node.next = Some(ms(100));
        // 40 ms late on the way.
        node.take(&block, ms(160));
        assert_eq!(node.next, Some(ms(100)));
        node.waiting.clear();
        node.take(&block, ms(5000));
        assert_eq!(node.next, Some(ms(4980)));
    }
}
