//! Speech recognition by a server.

use std::{
    io::{self, BufRead, Cursor, Read},
    sync::mpsc::RecvTimeoutError,
    time::Duration,
};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, params, ports};
use afferent_messages::{AudioBlock, SampleRate, SpeechEvent, Transcript};
use hound::{WavSpec, WavWriter};
use serde_json::Value;

use crate::{
    asr::{
        Asr,
        segments::{Limits, Recognized, SegmentModel, Segments, spread_words},
    },
    server::{Arrival, Body, Endpoint, MAX_TEXT, POLL, Request},
};

params! {
    /// Settings of [`Transcribe`].
    pub struct TranscribeParams {
        /// Address of the server up to `/audio/transcriptions`.
        pub url: String = "http://127.0.0.1:8000/v1";
        /// Name of the model on the server.
        pub model: String;
        /// Environment variable with the key that the server asks for.
        pub key_env: Option<String>;
        /// Language of the speech, an ISO 639-1 code such as `en`. Default: the server tells it.
        pub language: Option<String>;
        /// Text that guides the model, such as names that will be said.
        pub prompt: Option<String>;
        /// Sample rate of the audio.
        pub rate: u32 = "16000", range 8000.0..=48000.0, unit "Hz";
        /// Silence that ends an utterance without a speech event.
        pub silence: Duration = "600ms", range 0.06..=60.0;
        /// Longest utterance. A longer one is cut in the longest pause of its second half.
        pub max_utterance: Duration = "30s", range 1.0..=600.0;
        /// Longest wait for the beginning of an answer.
        pub timeout: Duration = "10s", range 0.05..=600.0;
        /// Further attempts if the server cannot be reached, is busy or fails, with growing pauses.
        pub retries: u32 = "1", range 0.0..=10.0;
    }
}

/// Recognizes speech with a model on a server: the protocol of OpenAI's audio transcriptions.
///
/// It has the ports of `asr` and can replace it in a graph, for machines with a network. Each utterance
/// leaves the machine after its end, as a WAV file. A speech-end event, a gap in the audio, a pause of
/// `silence`, or the end of the stream ends an utterance. Words have times within the utterance in
/// proportion to their letters; there are no partial transcripts. `https` addresses need the feature `tls`.
/// An utterance that the server does not transcribe is left out, with a warning in the log; audio
/// that comes meanwhile waits.
///
/// Latency: that of the server, after the end of speech.
pub struct Transcribe(Asr);

// In the order of `asr`, which runs it.
ports! {
    impl Transcribe {
        /// Audio or speech segments of `vad`, one channel, at `rate`, full scale ±1.
        in AUDIO: AudioBlock;
        /// Speech events; the end of speech ends the utterance.
        in EVENTS: SpeechEvent, optional;
        /// All words of an utterance, at its end.
        out TRANSCRIPT: Transcript;
    }
}

/// A model on a server.
struct ServerModel {
    params: TranscribeParams,
    endpoint: Endpoint,
}

impl SegmentModel for ServerModel {
    fn rate(&self) -> SampleRate {
        SampleRate(self.params.rate)
    }

    fn max_len(&self) -> Duration {
        Duration::MAX
    }

    fn recognize(
        &mut self,
        cx: &mut Cx<'_>,
        samples: &[f32],
        _: bool,
    ) -> Result<Recognized, NodeError> {
        let body = form(&self.params, samples);
        let body = body.map_err(|error| NodeError::Payload(format!("no WAV file: {error}")))?;
        let request = Request::start(self.endpoint.clone(), body, read_text)?;
        let seconds = samples.len() as f64 / f64::from(self.params.rate);
        let mut found = Recognized::default();
        loop {
            match request.arrivals.recv_timeout(POLL) {
                Ok(Arrival::Part(Transcription { text, language })) => {
                    let words = spread_words(&text, 0.0, seconds);
                    let language = language.or(self.params.language.clone()).unwrap_or_default();
                    found = Recognized { words, language };
                }
                Ok(Arrival::End) | Err(RecvTimeoutError::Disconnected) => return Ok(found),
                Ok(Arrival::Failed(reason)) => {
                    tracing::warn!("{seconds:.1} s of speech are not recognized: {reason}");
                    return Ok(found);
                }
                Err(RecvTimeoutError::Timeout) if cx.canceled() => return Err(NodeError::Canceled),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Text of an utterance, and its language if the server tells it.
struct Transcription {
    text: String,
    language: Option<String>,
}

/// Reads the answer of a server.
fn read_text(
    reader: &mut dyn BufRead,
    pass: &mut dyn FnMut(Transcription) -> bool,
) -> io::Result<()> {
    let mut answer = String::new();
    reader.take(MAX_TEXT).read_to_string(&mut answer)?;
    let json: Value = serde_json::from_str(&answer)?;
    let text = json["text"].as_str().ok_or_else(|| io::Error::other("the answer has no text"))?;
    let language = json["language"].as_str().map(str::to_owned);
    pass(Transcription { text: text.to_owned(), language });
    Ok(())
}

/// The request to transcribe `samples`: a form with a WAV file.
fn form(params: &TranscribeParams, samples: &[f32]) -> Result<Body, hound::Error> {
    // Sound does not contain this line.
    const BOUNDARY: &str = "afferent-4f1b6c2e9d7a4e05b3c8a1d6f0e2975c";
    let mut bytes = Vec::new();
    let fields = [
        ("model", Some(params.model.as_str())),
        ("language", params.language.as_deref()),
        ("prompt", params.prompt.as_deref()),
        ("response_format", Some("json")),
    ];
    for (name, value) in fields {
        let Some(value) = value else { continue };
        bytes.extend(
            format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            )
            .bytes(),
        );
    }
    bytes.extend(
        format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"speech.wav\"\r\n\
             Content-Type: audio/wav\r\n\r\n"
        )
        .bytes(),
    );
    bytes.extend(wav(params.rate, samples)?);
    bytes.extend(format!("\r\n--{BOUNDARY}--\r\n").bytes());
    Ok(Body { kind: format!("multipart/form-data; boundary={BOUNDARY}"), bytes })
}

/// A WAV file with one channel of 16 bits.
fn wav(rate: u32, samples: &[f32]) -> Result<Vec<u8>, hound::Error> {
    let sample_format = hound::SampleFormat::Int;
    let spec = WavSpec { channels: 1, sample_rate: rate, bits_per_sample: 16, sample_format };
    let mut file = Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut file, spec)?;
    for sample in samples {
        writer.write_sample((sample.clamp(-1.0, 1.0) * f32::from(i16::MAX)).round() as i16)?;
    }
    writer.finalize()?;
    Ok(file.into_inner())
}

impl Node for Transcribe {
    type Params = TranscribeParams;

    const NAME: &'static str = "transcribe";
    const SUMMARY: &'static str = "Recognizes speech with a model on a server.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const HAS_EFFECTS: bool = true;
    const LATENCY: &'static str = "that of the server, after the end of speech";

    fn check(params: &TranscribeParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(drop)
    }

    fn open(params: TranscribeParams, _: &OpenCx) -> Result<Self, NodeError> {
        let endpoint = Endpoint::new(
            &params.url,
            "/audio/transcriptions",
            params.key_env.as_deref(),
            params.timeout,
            params.retries,
        )?;
        let limits =
            Limits { silence: params.silence, max_utterance: params.max_utterance, update: None };
        Ok(Self(Asr::new(Box::new(Segments::new(ServerModel { params, endpoint }, limits)))))
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.0.process(cx)
    }

    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.0.finish(cx)
    }

    fn cancel(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        self.0.cancel(cx)
    }
}

#[cfg(test)]
mod tests {
    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params, Timestamp};
    use afferent_messages::SpeechEventKind;

    use super::*;
    use crate::server::testing::{answered, failed, server};

    fn open(url: &str) -> NodeBench<Transcribe> {
        let text = |text: &str| ParamValue::Text(text.to_owned());
        let values = ParamValues::from([
            ("url".to_owned(), text(url)),
            ("model".to_owned(), text("small")),
            ("language".to_owned(), text("en")),
        ]);
        let params = TranscribeParams::from_values(&values).unwrap();
        NodeBench::new(Transcribe::open(params, &OpenCx::default()).unwrap())
    }

    /// Half a second of sound from `at` on.
    fn block(at: Timestamp) -> (Timestamp, AudioBlock) {
        let mut block = AudioBlock::default();
        let samples = block.reshape(SampleRate(16_000), 1, 8000).unwrap();
        samples.iter_mut().enumerate().for_each(|(i, sample)| *sample = (i as f32 * 0.3).sin());
        (at, block)
    }

    fn end() -> SpeechEvent {
        SpeechEvent { kind: SpeechEventKind::End, ..SpeechEvent::default() }
    }

    #[test]
    fn an_utterance_is_sent_as_a_wav_file_and_its_words_have_times() {
        let json = br#"{"text": " Light on."}"#;
        let (url, bodies) = server(vec![answered("application/json", json)]);
        let mut bench = open(&url);
        let (at, block) = block(Timestamp(1_000_000_000));
        assert!(bench.call(Transcribe::AUDIO, at, block.clone()).unwrap().is_empty());
        let sent = bench.call(Transcribe::EVENTS, at + block.duration(), end()).unwrap();
        let transcript = sent[0].1.get::<Transcript>().unwrap();
        let words: Vec<_> = transcript.words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!((words.as_slice(), transcript.is_final), (["Light", "on."].as_slice(), true));
        assert_eq!(transcript.language, "en");
        assert_eq!(
            (transcript.words[0].start, transcript.words[1].end),
            (at, at + block.duration())
        );

        let bodies = bodies.lock().unwrap();
        let body = &bodies[0];
        let head = String::from_utf8_lossy(&body[..600]);
        for (name, value) in [("model", "small"), ("language", "en"), ("response_format", "json")] {
            assert!(head.contains(&format!("name=\"{name}\"\r\n\r\n{value}\r\n")), "{head}");
        }
        let wav = body.windows(4).position(|bytes| bytes == b"RIFF").unwrap();
        let wav = hound::WavReader::new(&body[wav..]).unwrap();
        assert_eq!((wav.spec().sample_rate, wav.spec().channels), (16_000, 1));
        let samples: Vec<i16> = wav.into_samples().map(Result::unwrap).collect();
        assert_eq!((samples.len(), samples[1]), (8000, (0.3_f32.sin() * 32767.0).round() as i16));
    }

    #[test]
    fn a_refused_utterance_is_left_out_and_the_next_one_is_not() {
        let (url, bodies) = server(vec![
            failed("400 Bad Request", "no such model"),
            answered("application/json", b"{\"no\": 1}"),
            answered("application/json", b"{\"text\": \"yes\"}"),
        ]);
        let mut bench = open(&url);
        let mut heard = Vec::new();
        for second in 0..3 {
            let (at, block) = block(Timestamp(second * 2_000_000_000));
            bench.call(Transcribe::AUDIO, at, block.clone()).unwrap();
            heard.push(bench.call(Transcribe::EVENTS, at + block.duration(), end()).unwrap().len());
        }
        assert_eq!(heard, [0, 0, 1]);
        assert_eq!(bodies.lock().unwrap().len(), 3);
    }

    #[test]
    fn wrong_addresses_are_explained() {
        let values = ParamValues::from([
            ("url".to_owned(), ParamValue::Text("server".to_owned())),
            ("model".to_owned(), ParamValue::Text("small".to_owned())),
        ]);
        let params = TranscribeParams::from_values(&values).unwrap();
        let error = Transcribe::open(params, &OpenCx::default()).err().unwrap().to_string();
        assert!(error.contains("\"server\" is no address such as http://"), "{error}");
    }
}
