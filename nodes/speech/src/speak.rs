//! Speech synthesis by a server.

use std::{
    io::{self, BufRead, Read},
    sync::mpsc::TryRecvError,
    time::{Duration, Instant},
};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Timestamp, Weight, params, ports};
use afferent_messages::{AudioBlock, SampleRate, Text, Word};
use serde_json::{Map, Value};

use crate::{
    asr::segments::spread_words,
    server::{Arrival, Body, Endpoint, POLL, Request},
};

params! {
    /// Settings of [`Speak`].
    pub struct SpeakParams {
        /// Address of the server up to `/audio/speech`.
        pub url: String = "http://127.0.0.1:8000/v1";
        /// Name of the model on the server.
        pub model: String;
        /// Name of the voice on the server.
        pub voice: String;
        /// Environment variable with the key that the server asks for.
        pub key_env: Option<String>;
        /// Style of the speech in words, for models that take instructions.
        pub instructions: Option<String>;
        /// Speaking rate relative to that of the voice. Default: that of the server.
        pub pace: Option<f32>, range 0.25..=4.0;
        /// Sample rate of the audio that the server sends.
        pub rate: u32 = "24000", range 8000.0..=48000.0, unit "Hz";
        /// Longest wait for the beginning of an answer, and between two parts of it.
        pub timeout: Duration = "10s", range 0.05..=600.0;
        /// Further attempts if the server cannot be reached, is busy or fails, with growing pauses.
        pub retries: u32 = "1", range 0.0..=10.0;
    }
}

/// Synthesizes speech with a model on a server: the protocol of OpenAI's speech, streamed as samples of 16
/// bits.
///
/// It has the ports of `tts` and can replace it in a graph, for machines with a network. The text leaves the
/// machine. The audio begins at the timestamp of its text, or at the end of the previous audio. Texts are
/// spoken one after the other. Words are sent after the audio of their text, with times in proportion to their
/// letters. `https` addresses need the feature `tls`. A text that the server does not speak is left
/// out, with a warning in the log; an interrupt ends the speech.
///
/// Latency: that of the server, up to 5 ms.
pub struct Speak {
    params: SpeakParams,
    endpoint: Endpoint,
    speaking: Option<Speaking>,
    /// End of the audio that was sent.
    audio_end: Timestamp,
    turn: u64,
    /// Written words of the turn before the current text.
    position: u32,
}

/// A text that is spoken now.
struct Speaking {
    request: Request<Vec<u8>>,
    /// Time by which something must arrive.
    until: Instant,
    text: Text,
    /// Start of its audio.
    begin: Timestamp,
    /// First byte of a sample whose second one has not arrived.
    half: Option<u8>,
}

/// Audio of a block, in bytes: a quarter of a second at 24 kHz.
const BLOCK: usize = 12_000;

ports! {
    impl Speak {
        /// Text to speak, one or more sentences.
        in TEXT: Text;
        /// Speech, one channel, at `rate`, full scale ±1.
        out AUDIO: AudioBlock;
        /// Words, each timestamped with its start in the audio.
        out WORDS: Word, optional;
        /// Nothing: a server does not tell which words it cannot speak.
        out UNSPOKEN: Text, optional;
    }
}

impl Speak {
    fn on_text(&mut self, cx: &Cx<'_>, text: &Text) -> Result<(), NodeError> {
        if text.turn != self.turn {
            (self.turn, self.position) = (text.turn, 0);
        }
        if text.text.trim().is_empty() {
            self.count(text);
            return Ok(());
        }
        let params = &self.params;
        let mut body = Map::new();
        body.insert("model".to_owned(), params.model.clone().into());
        body.insert("input".to_owned(), text.text.clone().into());
        body.insert("voice".to_owned(), params.voice.clone().into());
        body.insert("response_format".to_owned(), "pcm".into());
        if let Some(instructions) = &params.instructions {
            body.insert("instructions".to_owned(), instructions.clone().into());
        }
        if let Some(pace) = params.pace {
            body.insert("speed".to_owned(), f64::from(pace).into());
        }
        let body = Body::json(&Value::Object(body));
        let request = Request::start(self.endpoint.clone(), body, read_samples)?;
        self.audio_end = self.audio_end.max(cx.at());
        self.speaking = Some(Speaking {
            request,
            until: Instant::now() + self.endpoint.patience(),
            text: text.clone(),
            begin: self.audio_end,
            half: None,
        });
        Ok(())
    }

    /// Counts the written words of a text. If the turn is answered again, they are counted from the start.
    fn count(&mut self, text: &Text) {
        let written = u32::try_from(text.text.split_whitespace().count()).unwrap_or(u32::MAX);
        self.position = if text.is_last { 0 } else { self.position.saturating_add(written) };
    }

    /// Sends what has arrived of the audio.
    fn take(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        while let Some(speaking) = &mut self.speaking {
            match speaking.request.arrivals.try_recv() {
                Ok(Arrival::Part(bytes)) => {
                    speaking.until = Instant::now() + self.params.timeout;
                    self.send(cx, bytes)?;
                }
                Ok(Arrival::End) => self.end(cx),
                Ok(Arrival::Failed(reason)) => {
                    tracing::warn!("{:?} is not spoken: {reason}", speaking.text.text);
                    self.end(cx);
                }
                Err(TryRecvError::Empty) if Instant::now() < speaking.until => {
                    cx.resume_at(cx.now() + POLL);
                    return Ok(());
                }
                Err(_) => {
                    let (url, silence) = (&self.endpoint.url, self.params.timeout);
                    tracing::warn!("{url} sent nothing for {silence:?}");
                    self.end(cx);
                }
            }
        }
        Ok(())
    }

    /// Sends samples of 16 bits as a block.
    fn send(&mut self, cx: &mut Cx<'_>, bytes: Vec<u8>) -> Result<(), NodeError> {
        let Some(speaking) = &mut self.speaking else { return Ok(()) };
        let bytes = [speaking.half.take().into_iter().collect(), bytes].concat();
        let (samples, rest) = bytes.as_chunks::<2>();
        speaking.half = rest.first().copied();
        if samples.is_empty() {
            return Ok(());
        }
        let mut block = cx.loan(Self::AUDIO);
        let into = block.reshape(SampleRate(self.params.rate), 1, samples.len())?;
        for (into, sample) in into.iter_mut().zip(samples) {
            *into = f32::from(i16::from_le_bytes(*sample)) / 32768.0;
        }
        let length = block.duration();
        cx.send_at(Self::AUDIO, self.audio_end, block);
        self.audio_end = self.audio_end + length;
        Ok(())
    }

    /// Ends a text: sends its words.
    fn end(&mut self, cx: &mut Cx<'_>) {
        let Some(Speaking { text, begin, .. }) = self.speaking.take() else { return };
        let spoken = self.audio_end.since(begin);
        if !spoken.is_zero() {
            let words = spread_words(&text.text, 0.0, spoken.as_secs_f64());
            for (position, word) in (self.position + 1..).zip(words) {
                let letters = word.text.trim_matches(|letter: char| !letter.is_alphanumeric());
                if letters.is_empty() {
                    continue;
                }
                let said = Word {
                    turn: self.turn,
                    text: letters.to_lowercase(),
                    duration: word.end - word.start,
                    position,
                };
                cx.send_at(Self::WORDS, begin + word.start, said);
            }
        }
        self.count(&text);
    }
}

/// Reads the bytes of samples.
fn read_samples(reader: &mut dyn BufRead, pass: &mut dyn FnMut(Vec<u8>) -> bool) -> io::Result<()> {
    loop {
        let mut bytes = Vec::new();
        reader.take(BLOCK as u64).read_to_end(&mut bytes)?;
        if bytes.is_empty() || !pass(bytes) {
            return Ok(());
        }
    }
}

impl Node for Speak {
    type Params = SpeakParams;

    const NAME: &'static str = "speak";
    const SUMMARY: &'static str = "Synthesizes speech with a model on a server.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Light;
    const TIMED: bool = true;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "that of the server";

    fn check(params: &SpeakParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(drop)
    }

    fn open(params: SpeakParams, _: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = Endpoint::new(
            &params.url,
            "/audio/speech",
            params.key_env.as_deref(),
            params.timeout,
            params.retries,
        )?;
        let (audio_end, turn, position) = (Timestamp::ZERO, 0, 0);
        Ok(Self { params, endpoint, speaking: None, audio_end, turn, position })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(text) = cx.get(Self::TEXT).cloned() {
            self.on_text(cx, &text)?;
        }
        self.take(cx)
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        // The next text does not wait for audio that is not played.
        (self.speaking, self.audio_end, self.position) = (None, cx.now(), 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        thread,
    };

    use afferent_graph::{NodeBench, Packet, ParamValue, ParamValues, Params, Resume};

    use super::*;
    use crate::server::testing::{answered, failed, server};

    type Sent = Vec<(&'static str, Packet)>;
    type Bodies = Arc<Mutex<Vec<Vec<u8>>>>;

    fn open(answers: Vec<Vec<u8>>) -> (NodeBench<Speak>, Bodies) {
        let (url, bodies) = server(answers);
        let text = |text: &str| ParamValue::Text(text.to_owned());
        let values = ParamValues::from([
            ("url".to_owned(), text(&url)),
            ("model".to_owned(), text("small")),
            ("voice".to_owned(), text("alto")),
        ]);
        let params = SpeakParams::from_values(&values).unwrap();
        (NodeBench::new(Speak::open(params, &OpenCx::default()).unwrap()), bodies)
    }

    /// `samples` samples, and a byte that belongs to none.
    fn sound(samples: i16) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..samples).flat_map(i16::to_le_bytes).collect();
        bytes.push(1);
        answered("audio/pcm", &bytes)
    }

    /// Calls the node until `end` is true of all that it has sent.
    fn rest(bench: &mut NodeBench<Speak>, mut sent: Sent, end: fn(&Sent) -> bool) -> Sent {
        for call in 1..400 {
            if end(&sent) {
                return sent;
            }
            thread::sleep(POLL);
            sent.extend(bench.poll(Timestamp(call * 5_000_000)).unwrap().0);
        }
        panic!("{} packets", sent.len());
    }

    fn has_words(sent: &Sent) -> bool {
        sent.iter().any(|(_, packet)| packet.get::<Word>().is_some())
    }

    #[test]
    fn audio_has_no_gaps_and_words_have_times() {
        let (mut bench, bodies) = open(vec![sound(24_000), sound(2400)]);
        let start = Timestamp(1_000_000);
        let (mut next, mut samples, mut positions) = (start, Vec::new(), Vec::new());
        for text in ["Good morning, you", "two."] {
            let text = Text { turn: 3, is_last: false, ..Text::from(text) };
            let sent = bench.call(Speak::TEXT, start, text).unwrap();
            for (_, packet) in rest(&mut bench, sent, has_words) {
                if let Some(word) = packet.get::<Word>() {
                    positions.push((word.text.clone(), word.position));
                } else {
                    let block = packet.get::<AudioBlock>().unwrap();
                    assert_eq!((packet.header.at, block.rate), (next, SampleRate(24_000)));
                    next = next + block.duration();
                    samples.extend_from_slice(block.channel(0).unwrap());
                }
            }
        }
        assert_eq!(samples.len(), 26_400);
        assert!(samples.iter().zip(0..24_000_i16).all(|(a, b)| *a == f32::from(b) / 32768.0));
        let expected = [("good", 1), ("morning", 2), ("you", 3), ("two", 4)];
        assert_eq!(positions, expected.map(|(word, position)| (word.to_owned(), position)));
        let body: Value = serde_json::from_slice(&bodies.lock().unwrap()[0]).unwrap();
        assert_eq!((&body["voice"], &body["response_format"]), (&"alto".into(), &"pcm".into()));
    }

    #[test]
    fn a_refused_text_is_left_out_and_an_interrupt_ends_the_speech() {
        let (mut bench, bodies) =
            open(vec![failed("400 Bad Request", "no such voice"), sound(24_000), sound(2400)]);
        let sent = bench.call(Speak::TEXT, Timestamp(0), Text::from("one")).unwrap();
        assert!(sent.is_empty());
        // The next text waits until then.
        while bench.poll(Timestamp(1)).unwrap().1 != Resume::Done {
            thread::sleep(POLL);
        }
        bench.call(Speak::TEXT, Timestamp(0), Text::from("two")).unwrap();
        let later = Timestamp(5_000_000_000);
        assert!(bench.cancel(later).unwrap().is_empty());
        let sent = bench.call(Speak::TEXT, Timestamp(0), Text::from("three")).unwrap();
        let sent = rest(&mut bench, sent, has_words);
        assert!(sent.iter().all(|(_, packet)| packet.header.at >= later));
        assert_eq!(bodies.lock().unwrap().len(), 3);
    }
}
