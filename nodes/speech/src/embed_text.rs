//! Embedding of text.

use std::path::PathBuf;

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, params, ports};
use afferent_messages::{Text, vision::Embedding};
use afferent_runtime::ModelFile;

use crate::{
    programs::{Programs, Step},
    text_encoder::{self, TextEncoder},
};

params! {
    /// Settings of [`EmbedText`].
    pub struct EmbedTextParams {
        /// Path of the model package, or of a folder with the program and its tokenizer.
        pub model: PathBuf;
        /// Text before each text, such as `query: `, which some models want. Default: `prompt` in
        /// model.yaml.
        pub prefix: Option<String>;
        /// Scale each vector to the length 1.
        pub normalize: bool = "true";
        /// Name of the space of the vectors; default: the name of the package. Give an encoder of images
        /// and that of its texts the same name.
        pub space: Option<String>;
    }
}

/// Turns text into vectors that can be compared, with a model such as MiniLM or the text encoder of CLIP.
///
/// Contract of the model: `forward(ids i64[1, n], mask i64[1, n]) -> f32[1, dimensions]`, `[dimensions]`,
/// or `[1, n, dimensions]` with a vector for each token; the mask may be absent; a tokenizer. The tokens
/// around a text, such as `[CLS]` and `[SEP]`, are those of the tokenizer file. A program of a fixed length
/// gets padding, whose mask is 0; longer texts are cut.
///
/// Latency: one run of the model.
pub struct EmbedText {
    encoder: TextEncoder,
    prefix: String,
    normalize: bool,
    space: String,
    values: Vec<f32>,
}

/// Name of the contract in `model.yaml`.
const CONTRACT: &str = "text_embedding";

ports! {
    impl EmbedText {
        /// Text.
        in TEXT: Text;
        /// Its vector, or a vector for each of its tokens.
        out EMBEDDING: Embedding, in_step;
    }
}

/// The method `forward`, if it embeds text.
fn method(programs: &[(&str, &ModelFile)]) -> Option<Step> {
    let step = text_encoder::method(programs)?;
    let is_output = match *step.output_sizes(0) {
        [_] | [1, _] => true,
        // A vector for each token; the text of a language model has more values than this.
        [1, vectors, _] => step.input_sizes(0) == [1, vectors],
        _ => false,
    };
    is_output.then_some(step)
}

/// Contract of the programs, if they embed text: with a mask, which tells them from language models.
pub(crate) fn contract(programs: &[(&str, &ModelFile)]) -> Option<&'static str> {
    let step = method(programs)?;
    let has_one = step.output_sizes(0).len() < 3;
    (has_one && step.has_inputs(&["i2", "i2"])).then_some(CONTRACT)
}

impl EmbedText {
    /// Runs the model on `text`. Returns the number of vectors.
    fn embed(&mut self, text: &str) -> Result<usize, NodeError> {
        let found = self.encoder.run(&format!("{}{text}", self.prefix), &mut self.values)?;
        match *found.sizes.as_slice() {
            // Vectors of padding are dropped.
            [1, vectors, dimensions] => {
                let count = found.tokens.min(vectors);
                self.values.truncate(count * dimensions);
                Ok(count)
            }
            _ => Ok(1),
        }
    }
}

impl Node for EmbedText {
    type Params = EmbedTextParams;

    const NAME: &'static str = "embed_text";
    const SUMMARY: &'static str = "Turns text into vectors that can be compared, with a model.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "one run of the model";

    fn check(params: &EmbedTextParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: EmbedTextParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let programs = Programs::open(&params.model, "text_embedding", cx)?;
        let Some(step) = method(&programs.files()) else {
            return Err(programs.error(format!(
                "forward(ids i64[1, n], mask i64[1, n]) -> [1, dimensions] was expected; the package has {}",
                programs.methods()
            )));
        };
        programs.expect_contract(CONTRACT)?;
        let space = params.space.unwrap_or_else(|| programs.package.manifest.name.clone());
        let prefix = params.prefix.unwrap_or_else(|| programs.package.manifest.prompt.clone());
        Ok(Self {
            encoder: TextEncoder::new(programs, step)?,
            prefix,
            normalize: params.normalize,
            space,
            values: Vec::new(),
        })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(text) = cx.get(Self::TEXT).cloned() else { return Ok(()) };
        let vectors = cx.time_model(|| self.embed(&text.text))?;
        let dimensions = self.values.len() / vectors.max(1);
        let mut embedding = cx.loan(Self::EMBEDDING);
        embedding.vectors.resize(&[vectors, dimensions])?;
        let to = embedding.vectors.data_mut::<f32>()?;
        to.copy_from_slice(&self.values[..vectors * dimensions]);
        if self.normalize {
            for vector in to.chunks_exact_mut(dimensions.max(1)) {
                let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
                if length > 0.0 {
                    vector.iter_mut().for_each(|value| *value /= length);
                }
            }
        }
        embedding.space.clone_from(&self.space);
        cx.send(Self::EMBEDDING, embedding);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use afferent_graph::{NodeBench, ParamValue, ParamValues, Params, Timestamp};
    use afferent_runtime::ModelOptions;
    use serde_json::Value;

    use super::*;

    fn data() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/embed_text")
    }

    fn bench(program: &str, more: &[(&str, ParamValue)]) -> NodeBench<EmbedText> {
        let name = format!("afferent-embed-{program}-{:?}", std::thread::current().id());
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::copy(data().join(format!("{program}.pte")), folder.join("model.pte")).unwrap();
        let tokenizer = "../../runtime/text/tests/data/wordpiece.json";
        let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join(tokenizer);
        fs::copy(tokenizer, folder.join("tokenizer.json")).unwrap();
        let mut values: ParamValues =
            [("model".to_owned(), ParamValue::Path(folder.clone()))].into();
        values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let models = ModelOptions::new(afferent_kernels::KERNELS);
        let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
        let node = EmbedText::open(EmbedTextParams::from_values(&values).unwrap(), &cx).unwrap();
        fs::remove_dir_all(folder).unwrap();
        NodeBench::new(node)
    }

    fn cases() -> Vec<Value> {
        serde_json::from_str(&fs::read_to_string(data().join("cases.json")).unwrap()).unwrap()
    }

    #[test]
    fn vectors_are_those_of_transformers() {
        for program in ["pooled", "fixed", "tokens"] {
            let mut bench = bench(program, &[("normalize", ParamValue::Bool(false))]);
            for case in cases() {
                let text = Text::from(case["text"].as_str().unwrap());
                let sent = bench.call(EmbedText::TEXT, Timestamp(1), text).unwrap();
                let found = sent[0].1.get::<Embedding>().unwrap();
                let key = if program == "tokens" { "tokens" } else { "pooled" };
                let expected: Vec<f64> =
                    case[key].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
                let values = found.vectors.data::<f32>().unwrap();
                assert_eq!(values.len(), expected.len(), "{program}: {case}");
                for (value, expected) in values.iter().zip(&expected) {
                    let error = (f64::from(*value) - expected).abs();
                    assert!(error < 1e-4, "{program}: {values:?}: {case}");
                }
            }
        }
    }

    #[test]
    fn vectors_are_scaled_and_their_space_is_named() {
        let space = ParamValue::Text("clip".to_owned());
        let mut bench = bench("pooled", &[("space", space)]);
        let sent = bench.call(EmbedText::TEXT, Timestamp(1), Text::from("hello")).unwrap();
        let found = sent[0].1.get::<Embedding>().unwrap();
        let values = found.vectors.data::<f32>().unwrap();
        let length: f32 = values.iter().map(|value| value * value).sum();
        assert!((length - 1.0).abs() < 1e-5 && found.space == "clip", "{length}, {}", found.space);
    }

    #[test]
    fn long_texts_are_cut() {
        let mut bench = bench("fixed", &[]);
        let long = Text::from("what comes after monday ".repeat(40).as_str());
        let sent = bench.call(EmbedText::TEXT, Timestamp(1), long).unwrap();
        assert_eq!(sent[0].1.get::<Embedding>().unwrap().vectors.sizes()[0], 1);
    }
}
