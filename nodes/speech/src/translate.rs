//! Translation of text.

use std::path::PathBuf;

use afferent_core::TensorView;
use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, params, ports};
use afferent_messages::{Text, Transcript};
use afferent_runtime::{Input, ModelFile};
use afferent_text::Tokenizer;

use crate::{
    programs::{Programs, Step, argmax},
    seq2seq::{Decoder, DecoderForm},
};

params! {
    /// Settings of [`Translate`].
    pub struct TranslateParams {
        /// Path of the model package, or of a folder with the program and its tokenizer.
        pub model: PathBuf;
        /// Text before each text, such as `translate English to German: `. Default: `prompt` in
        /// model.yaml.
        pub prefix: Option<String>;
        /// Longest result of a text.
        pub max_new: u32 = "256", range 1.0..=4096.0, unit "tokens";
    }
}

/// Translates text, or rewrites it otherwise, with an encoder and a decoder such as T5.
///
/// Each text is translated alone, by greedy decoding: put `sentences` ahead of a long one. Final
/// transcripts of `transcript` are translated with the number of their utterance as the turn. Contract of the model,
/// that of optimum's T5 exports: `encoder(ids i64[1, n]) -> rows[1, n, width]`, `text_decoder(token
/// i64[1, 1], rows, position i64[1]) -> [1, 1, vocabulary]`, the constants `decoder_start_token_id` and
/// `get_eos_id`, and a tokenizer.
///
/// Latency: one run of the encoder, and one of the decoder for each token of the result.
pub struct Translate {
    programs: Programs,
    encoder: Step,
    decoder: Decoder,
    tokenizer: Tokenizer,
    prefix: String,
    max_new: usize,
    /// Longest input in tokens.
    max_ids: usize,
    start: u32,
    end: Vec<u32>,
}

ports! {
    impl Translate {
        /// Text to translate, a sentence at best.
        in TEXT: Text, optional;
        /// Recognized speech to translate; partial transcripts are ignored.
        in TRANSCRIPT: Transcript, optional;
        /// The translation of each text and final transcript, with the timestamp and the turn of what
        /// it translates.
        out TRANSLATION: Text;
    }
}

/// Name of the contract in `model.yaml`.
const CONTRACT: &str = "seq2seq";

/// Encoder and decoder of the programs, if they translate.
fn methods(programs: &[(&str, &ModelFile)]) -> Option<(Step, Decoder)> {
    let encoder = Step::find(programs, &["encoder"]).filter(|step| step.has_inputs(&["i2"]))?;
    let decoder = Decoder::of(Step::find(programs, &["text_decoder"])?)?;
    (decoder.form == DecoderForm::Token).then_some((encoder, decoder))
}

/// Contract of the programs, if they translate.
pub(crate) fn contract(programs: &[(&str, &ModelFile)]) -> Option<&'static str> {
    methods(programs).map(|_| CONTRACT)
}

impl Translate {
    fn translate(&mut self, text: &str) -> Result<String, NodeError> {
        let failed = |programs: &Programs, error: afferent_text::TextError| {
            programs.error(error.to_string())
        };
        let mut ids = self
            .tokenizer
            .encode(&format!("{}{text}", self.prefix))
            .map_err(|error| failed(&self.programs, error))?;
        ids.extend(self.end.first());
        if ids.len() > self.max_ids {
            let (found, most) = (ids.len(), self.max_ids);
            tracing::warn!(
                "translate: the text has {found} tokens, the model takes {most}: it is cut"
            );
            ids.truncate(self.max_ids);
        }
        let ids: Vec<i64> = ids.into_iter().map(i64::from).collect();
        let sizes = [1, ids.len()];
        let input = Input::Tensor(TensorView::new(&sizes, &ids)?);
        let outputs = self.programs.run(&self.encoder, &[input])?;
        self.decoder.begin(&outputs.tensor(0)?)?;
        let (mut tokens, mut logits) = (vec![self.start], Vec::new());
        while tokens.len() <= self.max_new {
            self.decoder.logits(&mut self.programs, &tokens, &mut logits)?;
            // The index is below the size of the vocabulary.
            let token = argmax(&logits) as u32;
            if self.end.contains(&token) {
                break;
            }
            tokens.push(token);
        }
        self.tokenizer.decode(&tokens[1..]).map_err(|error| failed(&self.programs, error))
    }
}

impl Node for Translate {
    type Params = TranslateParams;

    const NAME: &'static str = "translate";
    const SUMMARY: &'static str = "Translates text with an encoder and a decoder.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "one run of the encoder, and one of the decoder per token";

    fn check(params: &TranslateParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: TranslateParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let mut programs = Programs::open(&params.model, "translation", cx)?;
        let Some((encoder, decoder)) = methods(&programs.files()) else {
            return Err(programs.error(format!(
                "encoder(i64[1, n]) and text_decoder(i64[1, 1], rows, i64[1]) were expected; the package \
                 has {}",
                programs.methods()
            )));
        };
        programs.expect_contract(CONTRACT)?;
        let tokenizer = programs.tokenizer()?;
        for step in [&encoder, decoder.step()] {
            programs.load(step)?;
        }
        let token = |value: i64| u32::try_from(value).ok();
        let start = programs.int("decoder_start_token_id").and_then(token).ok_or_else(|| {
            programs.error("the program has no constant decoder_start_token_id, a token")
        })?;
        let mut end: Vec<u32> = programs.int("get_eos_id").and_then(token).into_iter().collect();
        end.extend(tokenizer.eos());
        if end.is_empty() {
            return Err(
                programs.error("neither the constant get_eos_id nor the tokenizer has an end")
            );
        }
        let context = programs.size("get_max_seq_len").unwrap_or(usize::MAX);
        let max_new = usize::try_from(params.max_new).unwrap_or(usize::MAX).min(context - 1);
        let max_ids = encoder.input_sizes(0).last().copied().unwrap_or(0);
        let prefix = params.prefix.unwrap_or_else(|| programs.package.manifest.prompt.clone());
        Ok(Self { programs, encoder, decoder, tokenizer, prefix, max_new, max_ids, start, end })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let spoken = cx.get(Self::TRANSCRIPT).filter(|transcript| transcript.is_final);
        let spoken = spoken.map(|transcript| Text {
            turn: transcript.utterance,
            text: transcript.text(),
            is_last: true,
        });
        let Some(text) = cx.get(Self::TEXT).cloned().or(spoken) else { return Ok(()) };
        let translated = match text.text.trim().is_empty() {
            true => String::new(),
            false => cx.time_model(|| self.translate(&text.text))?,
        };
        cx.send(Self::TRANSLATION, Text { text: translated, ..text });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params, Timestamp};
    use afferent_messages::HeardWord;
    use afferent_runtime::ModelOptions;
    use serde_json::Value;

    use super::*;

    /// A folder with the program that spells backwards, see `tools/stand_ins/seq2seq.py`, and its
    /// tokenizer.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("afferent-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = root.join("tests/data/seq2seq/model.pte");
        let tokenizer = root.join("../../runtime/text/tests/data/bpe.model");
        fs::copy(program, folder.join("model.pte")).unwrap();
        fs::copy(tokenizer, folder.join("tokenizer.model")).unwrap();
        folder
    }

    fn open(folder: &Path, prefix: Option<&str>) -> Result<Translate, NodeError> {
        let mut values: ParamValues =
            [("model".to_owned(), ParamValue::Path(folder.to_owned()))].into();
        let prefix = prefix.map(|text| ("prefix".to_owned(), ParamValue::Text(text.to_owned())));
        values.extend(prefix);
        let models = ModelOptions::new(afferent_kernels::KERNELS);
        let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
        Translate::open(TranslateParams::from_values(&values).unwrap(), &cx)
    }

    #[test]
    fn results_are_those_of_the_exported_modules() {
        let folder = folder("translate");
        let tokenizer = Tokenizer::open(folder.join("tokenizer.model")).unwrap();
        let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/seq2seq/cases.json");
        let cases: Vec<Value> = serde_json::from_str(&fs::read_to_string(cases).unwrap()).unwrap();
        for prefix in ["", "what comes after "] {
            let mut bench = NodeBench::new(open(&folder, Some(prefix)).unwrap());
            for (turn, case) in (0..).zip(&cases) {
                let whole = case["text"].as_str().unwrap();
                let Some(text) = whole.strip_prefix(prefix) else { continue };
                let sent = Text { turn, text: text.to_owned(), is_last: turn % 2 == 0 };
                let sent = bench.call(Translate::TEXT, Timestamp(5), sent).unwrap();
                let [(_, packet)] = sent.as_slice() else { panic!("{sent:?}") };
                let found = packet.get::<Text>().unwrap();
                let tokens = case["tokens"].as_array().unwrap().iter().filter_map(Value::as_u64);
                let tokens: Vec<u32> = tokens.map(|token| u32::try_from(token).unwrap()).collect();
                let expected = tokenizer.decode(&tokens).unwrap();
                assert_eq!(
                    (&found.text, found.turn, found.is_last),
                    (&expected, turn, turn % 2 == 0)
                );
                assert!(!expected.is_empty());
            }
        }
        let mut bench = NodeBench::new(open(&folder, Some("")).unwrap());
        let sent = bench.call(Translate::TEXT, Timestamp(6), Text::from(" ")).unwrap();
        assert_eq!(sent[0].1.get::<Text>().unwrap().text, "", "the mark of a last piece");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_package_has_the_default_of_the_prefix() {
        let folder = folder("translate-prompt");
        let translated = |prefix: Option<&str>| {
            let mut bench = NodeBench::new(open(&folder, prefix).unwrap());
            let sent = bench.call(Translate::TEXT, Timestamp(1), Text::from("hello")).unwrap();
            sent[0].1.get::<Text>().unwrap().text.clone()
        };
        let (bare, expected) = (translated(None), translated(Some("what: ")));
        let card = "afferent_model: 1\nname: t5\ntask: translation\ncontract: seq2seq\nvariants:\n- {file: \
                    model.pte, backend: portable, precision: fp32}\ntokenizer: tokenizer.model\nprompt: \
                    'what: '\nlicense: MIT\nprovenance: a test\n";
        fs::write(folder.join("model.yaml"), card).unwrap();
        assert_ne!(bare, expected);
        assert_eq!((translated(None), translated(Some(""))), (expected, bare));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn final_transcripts_are_translated() {
        let folder = folder("translate-spoken");
        let mut bench = NodeBench::new(open(&folder, None).unwrap());
        let text = Text::from("hello");
        let sent = bench.call(Translate::TEXT, Timestamp(1), text).unwrap();
        let expected = sent[0].1.get::<Text>().unwrap().text.clone();
        let word = HeardWord { text: "hello".into(), ..HeardWord::default() };
        let mut heard = Transcript { utterance: 7, words: vec![word], ..Transcript::default() };
        let partial = bench.call(Translate::TRANSCRIPT, Timestamp(2), heard.clone()).unwrap();
        assert!(partial.is_empty());
        heard.is_final = true;
        let sent = bench.call(Translate::TRANSCRIPT, Timestamp(3), heard).unwrap();
        let found = sent[0].1.get::<Text>().unwrap();
        assert_eq!((found.turn, &found.text, found.is_last), (7, &expected, true));
        assert_eq!(sent[0].1.header.at, Timestamp(3));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn other_programs_are_refused() {
        let folder = folder("translate-other");
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fsmn/fsmn.pte");
        fs::copy(program, folder.join("model.pte")).unwrap();
        let told = open(&folder, None).err().unwrap().to_string();
        assert!(told.contains("were expected; the package has forward(f32[1000, 512])"), "{told}");
        fs::remove_dir_all(folder).unwrap();
    }
}
