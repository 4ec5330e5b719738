//! Answers of vision-language models about images.

mod conversation;
pub(crate) mod files;
mod prompt;

use std::{collections::VecDeque, path::PathBuf, time::Duration};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Packet, Port, Timestamp, Weight, params, ports};
use afferent_messages::{Image, Text};
use afferent_text::{SamplingOverrides, TextError};

use conversation::Conversation;
use files::Settings;
use prompt::Shown;

params! {
    /// Settings of [`Caption`].
    pub struct CaptionParams {
        /// Path of the model package, or of a program (.pte) with a tokenizer and a chat template
        /// beside it.
        pub model: PathBuf;
        /// Question about each image, if the input `question` is not connected.
        pub prompt: Option<String>;
        /// Minimum time between two images that `prompt` is asked about.
        pub interval: Duration = "1s", range 0.0..=86400.0;
        /// Number of the last images that a question is about. There are fewer at the start.
        pub images: u32 = "1", range 1.0..=16.0;
        /// Age above which an image is not shown with a question.
        pub max_age: Duration = "10s", range 0.0..=86400.0;
        /// Number of earlier questions that a question may refer to, with their images and answers.
        pub history: u32 = "0", range 0.0..=64.0;
        /// System prompt; default: that of the package.
        pub system: Option<String>;
        /// Longest answer.
        pub max_new: u32 = "64", range 1.0..=4096.0, unit "tokens";
        /// Divisor of the logits; 0 is greedy decoding. Default: that of generation_config.json
        /// beside the tokenizer if it samples, else 0.
        pub temperature: Option<f32>, range 0.0..=100.0;
        /// Probability of the most probable tokens to sample from. Default: that of
        /// generation_config.json, else 1.
        pub top_p: Option<f32>, range 0.001..=1.0;
        /// Number of most probable tokens to sample from; 0 is all. Default: that of
        /// generation_config.json, else 0.
        pub top_k: Option<u32>, range 0.0..=1000000.0;
        /// Minimum probability relative to the most probable token. Default: that of
        /// generation_config.json, else 0.
        pub min_p: Option<f32>, range 0.0..=1.0;
        /// Penalty of the last 64 tokens; 1 is none. Default: that of generation_config.json, else 1.
        pub repetition_penalty: Option<f32>, range 0.1..=10.0;
        /// Seed of sampling.
        pub seed: u32 = "0";
        /// Text that ends an answer and is not part of it.
        pub stop: Option<String>;
        /// Answer to a question before the first image, or without one that is recent enough.
        pub no_image: String = "i have no image.";
        /// Answer to a question that exceeds the context of the model.
        pub apology: String = "sorry, that is too long for me.";
    }
}

/// Answers questions about images with a vision-language model, token by token.
///
/// A question is about the last `images` images before it. Without the input `question`, `prompt` is
/// asked about an image at most once in an `interval`, and the answers are captions, in turns that are
/// counted from 1. Images that arrive during an answer wait; the last of them remains. An interrupt ends
/// the answer between two tokens.
///
/// With a `history`, a question may refer to earlier ones: a prompt has their images, each once, and
/// their answers. The oldest are dropped when the answer would exceed the context. The encoder runs once
/// for each image that is asked about, and the KV cache of the common beginning of two prompts is reused.
///
/// Contract of the model: the methods `vision_encoder(image) -> [1, rows, width]`,
/// `token_embedding(i64[1, n]) -> [1, n, width]` and `text_decoder(f32[1, n, width], i64 positions)` of
/// ExecuTorch, optimum-executorch and react-native-executorch, with `image`, `tokenizer` and `chat` in
/// `model.yaml`, or with the files of the model's hub beside the program. A Jinja template gets the
/// images of a question as parts of its content, and its token for an image is replaced by the rows. That
/// token is `chat.image_token`, or else a constant of the program (`image_token_id`, `vision_token_id`,
/// `image_placeholder_id`), or else a token such as `<image>`. Unless `model.yaml` says otherwise, images
/// are letterboxed, with values from 0 to 1.
///
/// The model is a package with the task `image_text`, or a program.
///
/// Latency: the encoder for each new image and the prefill for the first piece, one decode step for each
/// other piece.
///
/// ```
/// use afferent_graph::{Node, NodeBench, OpenCx, ParamValue, Params, Timestamp};
/// use afferent_messages::{Image, PixelFormat, Text};
/// use afferent_nodes_vision::{Caption, CaptionParams};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vlm/optimum");
/// let values = [("model".to_owned(), ParamValue::Path(model.into()))].into();
/// let params = CaptionParams::from_values(&values).unwrap();
/// let cx = OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
/// let mut bench = NodeBench::new(Caption::open(params, &cx)?);
///
/// // Red at the left, blue at the right.
/// let row = [[255, 0, 0].repeat(8), [0, 0, 255].repeat(8)].concat();
/// let image = Image::new(PixelFormat::Rgb8, 16, 16, 48, &row.repeat(16))?;
/// bench.call(Caption::IMAGE, Timestamp(0), image)?;
/// let sent = bench.call(Caption::QUESTION, Timestamp(1), Text::from("top right"))?;
/// let answer: String = sent.iter().map(|(_, packet)| packet.get::<Text>().unwrap().text.as_str()).collect();
/// assert_eq!(answer, "blue.");
/// # Ok::<(), afferent_graph::NodeError>(())
/// ```
pub struct Caption {
    params: CaptionParams,
    conversation: Conversation,
    /// The last images, the oldest first.
    images: VecDeque<Kept>,
    turn: u64,
    /// Time from which on `prompt` is asked about an image.
    next_prompt: Option<Timestamp>,
}

/// An image that a question may be about.
struct Kept {
    packet: Packet,
    /// The image after it was shown to the model.
    shown: Option<Shown>,
}

ports! {
    impl Caption {
        /// Images of any size, in color or `mono8`.
        in IMAGE: Image;
        /// Question of a turn, complete.
        in QUESTION: Text, optional;
        /// The answer, piece by piece; the last piece is marked. It has the timestamp of the question, or
        /// that of the image.
        out ANSWER: Text;
    }
}

impl Caption {
    /// Keeps an image for later questions. Returns true if `prompt` is to be asked about it.
    fn keep(&mut self, at: Timestamp, packet: Packet) -> bool {
        let count = usize::try_from(self.params.images).unwrap_or(usize::MAX);
        while self.images.len() >= count {
            self.images.pop_front();
        }
        self.images.push_back(Kept { packet, shown: None });
        let is_due = self.next_prompt.is_none_or(|next| at >= next);
        if self.params.prompt.is_none() || !is_due {
            return false;
        }
        self.next_prompt = Some(at + self.params.interval);
        true
    }

    /// Sends the first piece of the answer to a question.
    fn answer(&mut self, cx: &mut Cx<'_>, question: &str) -> Result<(), NodeError> {
        let oldest = cx.at().0.saturating_sub_unsigned(nanoseconds(self.params.max_age));
        self.images.retain(|image| image.packet.header.at.0 >= oldest);
        if self.images.is_empty() {
            let text = self.params.no_image.clone();
            cx.send(Self::ANSWER, Text { turn: self.turn, text, is_last: true });
            return Ok(());
        }
        let (cancel, mut shown) = (cx.cancel_flag(), Vec::new());
        for Kept { packet, shown: known } in &mut self.images {
            let Some(image) = packet.get::<Image>() else { continue };
            if known.is_none() {
                *known = Some(cx.time_model(|| self.conversation.show(image, cancel))?);
            }
            shown.extend(known.clone());
        }
        match self.conversation.ask(self.turn, question, shown) {
            Ok(()) => self.send_next(cx),
            Err(error @ TextError::ContextFull { .. }) => {
                tracing::warn!("dropped turn {}: {error}", self.turn);
                let text = self.params.apology.clone();
                cx.send(Self::ANSWER, Text { turn: self.turn, text, is_last: true });
                Ok(())
            }
            Err(error) => Err(self.conversation.model_error(&error)),
        }
    }

    /// Sends the next piece of the answer.
    fn send_next(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let cancel = cx.cancel_flag();
        let piece = cx.time_model(|| self.conversation.next(cancel));
        let piece = piece.map_err(|error| self.conversation.model_error(&error))?;
        let is_last = piece.is_none();
        let text = piece.unwrap_or_default();
        if is_last || !text.is_empty() {
            cx.send(Self::ANSWER, Text { turn: self.turn, text, is_last });
        }
        if !is_last {
            cx.resume();
        }
        Ok(())
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Node for Caption {
    type Params = CaptionParams;

    const NAME: &'static str = "caption";
    const SUMMARY: &'static str = "Answers questions about images with a vision-language model.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const TIMED: bool = true;
    const LATENCY: &'static str =
        "the encoder for each new image and the prefill, then one decode step per token";

    fn check(params: &CaptionParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: CaptionParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let invalid = |reason: &str| {
            Err(NodeError::InvalidParam { name: "prompt".into(), reason: reason.to_owned() })
        };
        let is_asked = cx.is_connected(Self::QUESTION.name());
        match &params.prompt {
            Some(_) if is_asked => {
                return invalid("the input question is connected; remove the one or the other");
            }
            None if !is_asked && !cx.connected.is_empty() => {
                return invalid("it is needed, since the input question is not connected");
            }
            _ => {}
        }
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let settings = Settings {
            system: params.system.clone(),
            max_new: count(params.max_new),
            images: count(params.images),
            sampling: SamplingOverrides {
                temperature: params.temperature,
                top_p: params.top_p,
                top_k: params.top_k,
                min_p: params.min_p,
                repetition_penalty: params.repetition_penalty,
                seed: u64::from(params.seed),
            },
            stop: params.stop.clone(),
        };
        let history = count(params.history);
        let conversation = Conversation::open(&params.model, &settings, history, cx)?;
        Ok(Self { params, conversation, images: VecDeque::new(), turn: 0, next_prompt: None })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        if let Some(question) = cx.get(Self::QUESTION) {
            self.turn = question.turn;
            let question = question.text.clone();
            return self.answer(cx, &question);
        }
        if cx.get(Self::IMAGE).is_some() {
            if cx.restarted() {
                self.next_prompt = None;
            }
            let Some(packet) = cx.packet().cloned() else { return Ok(()) };
            if self.keep(cx.at(), packet)
                && let Some(prompt) = self.params.prompt.clone()
            {
                self.turn += 1;
                return self.answer(cx, &prompt);
            }
        } else if self.conversation.is_answering() {
            return self.send_next(cx);
        }
        Ok(())
    }

    fn cancel(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        self.conversation.stop();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
