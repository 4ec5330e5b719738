//! The speaker of a browser.

use std::time::Duration;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{AudioBlock, Gain, Played, Playout, SampleRate};
use serde_json::json;

use crate::{
    device::Kind,
    web::{Offered, Web},
};

params! {
    /// Settings of [`WebSpeaker`].
    pub struct WebSpeakerParams {
        /// Sample rate of the input; the browser converts from it.
        pub rate: u32 = "24000", range 8000.0..=96000.0, unit "Hz";
        /// Sound that is sent ahead of its time; an interrupt cannot take it back.
        pub buffer: Duration = "80ms", range 0.02..=2.0;
        /// Sound that the browser holds back, against irregular arrival.
        pub jitter: Duration = "60ms", range 0.0..=1.0;
        /// Length of the fade-out after an interrupt.
        pub fade: Duration = "8ms", range 0.0..=1.0;
    }
}

/// Plays sound in a browser: for a user that opened the page of the program, and pressed the
/// button; the last page that did so plays.
///
/// Sound is sent to the browser at the pace of its playback, so that an interrupt silences it within
/// `buffer` and `jitter`. Without a client the sound is dropped, at the same pace. While more
/// than 30 s are queued, the node accepts no packet.
///
/// Latency: `buffer`, `jitter`, and that of the browser.
pub struct WebSpeaker {
    offered: Offered,
    rate: SampleRate,
    buffer: u64,
    jitter: Duration,
    playout: Playout,
    /// Next time at which `played` is sent.
    report_at: Timestamp,
}

ports! {
    impl WebSpeaker {
        /// Sound of one channel to play, full scale ±1, at `rate`.
        in AUDIO: AudioBlock;
        /// Playback gain from now on.
        in GAIN: Gain, optional;
        /// Playback position, every 20 ms.
        out PLAYED: Played, optional;
        /// Sound as it is played, timestamped with the time at which it is heard.
        out HEARD: AudioBlock, optional;
    }
}

impl WebSpeaker {
    /// Time between two `played` packets.
    const REPORT_INTERVAL: Duration = Duration::from_millis(20);

    /// Sends the browser what it has to have by now, and the playback position.
    fn play(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let now = self.rate.samples(cx.now().since(Timestamp::ZERO)) as u64;
        // The browser plays what it gets after its own delay.
        let heard = now.saturating_sub(self.rate.samples(self.jitter) as u64);
        let until = now + self.buffer;
        while self.playout.position() < until {
            let (first, queued) = (self.playout.position(), self.playout.waiting());
            if queued == 0 && first >= now {
                break;
            }
            if queued == 0 {
                // Silence needs no bytes, and is over as soon as there is sound.
                self.playout.next(now.min(first + u64::from(self.rate.0)));
                continue;
            }
            let end = until.min(first + queued as u64);
            let samples = self.playout.next(end);
            let bytes = samples.iter().flat_map(|sample| {
                // The cast clips.
                ((sample * 32767.0).round() as i16).to_le_bytes()
            });
            self.offered.device.send(bytes.collect());
            let at = self.rate.duration(usize::try_from(first).unwrap_or(usize::MAX));
            self.playout.send_heard(cx, Self::HEARD, Timestamp::ZERO + at + self.jitter)?;
        }
        self.report(cx, heard);
        self.playout.call_again(cx);
        Ok(())
    }

    fn report(&mut self, cx: &mut Cx<'_>, heard: u64) {
        if cx.now() < self.report_at && self.playout.is_playing() {
            return;
        }
        self.report_at = cx.now() + Self::REPORT_INTERVAL;
        if let Some(played) = self.playout.played(heard) {
            let now = cx.now();
            cx.send_at(Self::PLAYED, now, played);
        }
    }
}

impl Node for WebSpeaker {
    type Params = WebSpeakerParams;

    const NAME: &'static str = "web_speaker";
    const SUMMARY: &'static str = "Plays sound in a browser.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const TIMED: bool = true;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "buffer, jitter, and that of the browser";

    fn open(params: WebSpeakerParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let rate = SampleRate(params.rate);
        let settings = json!({"rate": params.rate, "jitter_s": params.jitter.as_secs_f64()});
        let offered = cx.services.need::<Web>()?.offer(&cx.name, Kind::Speaker, settings)?;
        Ok(Self {
            offered,
            rate,
            buffer: rate.samples(params.buffer).max(1) as u64,
            jitter: params.jitter,
            playout: Playout::new(rate, 1, params.fade),
            report_at: Timestamp::ZERO,
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(gain) = cx.get(Self::GAIN).copied() {
            self.playout.set_gain(gain);
        } else if let Some(block) = cx.get(Self::AUDIO) {
            if (block.rate, block.channels()) != (self.rate, 1) {
                let (rate, channels) = (block.rate.0, block.channels());
                let reason = format!(
                    "audio of {rate} Hz and {channels} channels for a browser that plays {} Hz and one \
                     channel; insert a resample node, or set rate",
                    self.rate.0
                );
                return Err(NodeError::InvalidInput { port: Self::AUDIO.name().into(), reason });
            }
            if !self.playout.is_playing() {
                // The silence until now is over.
                self.play(cx)?;
            }
            let Some(block) = cx.get(Self::AUDIO) else { return Ok(()) };
            self.playout.push(cx.at(), block)?;
        }
        self.play(cx)
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if !self.playout.is_playing() {
            return Ok(());
        }
        self.play(cx)?;
        let first = self.playout.position();
        let fade = self.playout.flush();
        let bytes =
            fade.iter().flat_map(|sample| ((sample * 32767.0).round() as i16).to_le_bytes());
        self.offered.device.send(bytes.collect());
        let at = self.rate.duration(usize::try_from(first).unwrap_or(usize::MAX));
        self.playout.send_heard(cx, Self::HEARD, Timestamp::ZERO + at + self.jitter)?;
        self.report_at = cx.now();
        self.play(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use afferent_graph::{NodeBench, ParamValues, Params};
    use tungstenite::WebSocket;

    use super::*;
    use crate::WebOptions;

    fn ms(ms: i64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    fn node() -> (NodeBench<WebSpeaker>, WebSocket<TcpStream>) {
        let web = Web::new(WebOptions { bind: "127.0.0.1:0".to_owned(), ..WebOptions::default() });
        let cx = OpenCx { name: "mouth".to_owned(), ..OpenCx::with_service(web.clone()) };
        let params = WebSpeakerParams {
            rate: 8000,
            ..WebSpeakerParams::from_values(&ParamValues::new()).unwrap()
        };
        let bench = NodeBench::new(WebSpeaker::open(params, &cx).unwrap());
        let address = web.serve().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        let page = tungstenite::client(format!("ws://{address}/device/mouth"), stream).unwrap().0;
        std::thread::sleep(Duration::from_millis(50));
        (bench, page)
    }

    fn block(samples: usize) -> AudioBlock {
        let mut block = AudioBlock::default();
        block.reshape(SampleRate(8000), 1, samples).unwrap().fill(0.5);
        block
    }

    #[test]
    fn sound_is_sent_at_the_pace_of_its_playback() {
        let (mut bench, mut page) = node();
        // A second of sound that arrives at once.
        let sent = bench.call(WebSpeaker::AUDIO, ms(1000), block(8000)).unwrap();
        let heard = sent
            .iter()
            .find_map(|(_, packet)| Some((packet.header.at, packet.get::<AudioBlock>()?.len())));
        // The browser has 80 ms, and plays them 60 ms later.
        assert_eq!(heard, Some((ms(1060), 640)));
        let bytes = page.read().unwrap().into_data();
        assert_eq!((bytes.len(), i16::from_le_bytes([bytes[0], bytes[1]])), (1280, 16384));
        let sent = bench.poll(ms(1100)).unwrap().0;
        let played = sent.iter().find_map(|(_, packet)| packet.get::<Played>().copied()).unwrap();
        assert_eq!((played.until, played.is_playing), (ms(1040), true));
        assert_eq!(page.read().unwrap().into_data().len(), 1600);
    }

    #[test]
    fn wrong_rates_are_explained() {
        let (mut bench, _page) = node();
        let mut block = AudioBlock::default();
        block.reshape(SampleRate(16000), 1, 10).unwrap();
        let error = bench.call(WebSpeaker::AUDIO, ms(0), block).unwrap_err().to_string();
        assert!(
            error.contains("audio of 16000 Hz and 1 channels") && error.contains("set rate"),
            "{error}"
        );
    }
}
