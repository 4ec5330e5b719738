//! Classification of text.

use std::{path::PathBuf, sync::Arc};

use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, Weight, choices, params, ports};
use afferent_messages::{
    Text,
    vision::{Class, Classes},
};
use afferent_runtime::ModelFile;

use crate::{
    programs::{Programs, Step},
    text_encoder::{self, TextEncoder},
};

choices! {
    /// Scores from the values of a model.
    pub enum TextScores {
        /// One class of all: probabilities that add up to 1.
        Softmax = "softmax",
        /// Any number of classes: a probability for each.
        Sigmoid = "sigmoid",
        /// The model has probabilities.
        Probabilities = "probabilities",
    }
}

params! {
    /// Settings of [`ClassifyText`].
    pub struct ClassifyTextParams {
        /// Path of the model package, or of a folder with the program and its tokenizer.
        pub model: PathBuf;
        /// Scores from the values of the model.
        pub scores: TextScores = "softmax";
        /// Number of classes that are reported, the most probable ones.
        pub top: usize = "5", range 1.0..=10000.0;
        /// Score below which a class is not reported.
        pub score: f32 = "0", range 0.0..=1.0;
    }
}

/// Tells the classes of texts, such as intents, topics or moods, with a model such as BERT.
///
/// Contract of the model: `forward(ids i64[1, n], mask i64[1, n]) -> f32[1, classes]`; the mask may be absent;
/// a tokenizer. `labels` in `model.yaml` are the names of the classes; `afferent package` takes them from
/// `id2label` of `config.json`. Without names, classes have their numbers. A program of a fixed length gets
/// padding, whose mask is 0; longer texts are cut.
///
/// The package has the task `text_classification`.
///
/// Latency: one run of the model.
pub struct ClassifyText {
    params: ClassifyTextParams,
    encoder: TextEncoder,
    labels: Vec<Arc<str>>,
    values: Vec<f32>,
}

/// Name of the contract in `model.yaml`.
const CONTRACT: &str = "text_classes";

ports! {
    impl ClassifyText {
        /// Text.
        in TEXT: Text;
        /// Classes of each text, the most probable first.
        out CLASSES: Classes, in_step;
    }
}

/// The method `forward`, if it may classify text, and its number of classes.
fn method(programs: &[(&str, &ModelFile)]) -> Option<(Step, usize)> {
    let step = text_encoder::method(programs)?;
    match *step.output_sizes(0) {
        [1, classes] if classes > 0 => Some((step, classes)),
        _ => None,
    }
}

/// Contract of the programs, if they classify text into as many classes as there are `labels`. Without names
/// of classes, a classifier has the form of an encoder of text.
pub(crate) fn contract(programs: &[(&str, &ModelFile)], labels: usize) -> Option<&'static str> {
    let (_, classes) = method(programs)?;
    (classes == labels).then_some(CONTRACT)
}

impl ClassifyText {
    /// Runs the model on `text`: the scores of all classes.
    fn classify(&mut self, text: &str) -> Result<(), NodeError> {
        self.encoder.run(text, &mut self.values)?;
        if self.values.len() != self.labels.len() {
            let (found, expected) = (self.values.len(), self.labels.len());
            let reason = format!("forward returned {found} values for {expected} classes");
            return Err(self.encoder.programs.error(reason));
        }
        let values = &mut self.values;
        match self.params.scores {
            TextScores::Softmax => {
                let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                values.iter_mut().for_each(|value| *value = (*value - most).exp());
                let sum: f32 = values.iter().sum();
                values.iter_mut().for_each(|value| *value /= sum);
            }
            TextScores::Sigmoid => {
                values.iter_mut().for_each(|value| *value = 1.0 / (1.0 + (-*value).exp()));
            }
            TextScores::Probabilities => {}
        }
        Ok(())
    }
}

impl Node for ClassifyText {
    type Params = ClassifyTextParams;

    const NAME: &'static str = "classify_text";
    const SUMMARY: &'static str = "Tells the classes of texts with a model.";
    const PORTS: &'static [Port] = Self::PORTS;
    const WEIGHT: Weight = Weight::Heavy;
    const LATENCY: &'static str = "one run of the model";

    fn check(params: &ClassifyTextParams, cx: &OpenCx) -> Result<(), NodeError> {
        Self::open(params.clone(), cx).map(|_| ())
    }

    fn open(params: ClassifyTextParams, cx: &OpenCx) -> Result<Self, NodeError> {
        let programs = Programs::open(&params.model, "text_classification", cx)?;
        let Some((step, classes)) = method(&programs.files()) else {
            return Err(programs.error(format!(
                "forward(ids i64[1, n], mask i64[1, n]) -> [1, classes] was expected; the package has {}",
                programs.methods()
            )));
        };
        programs.expect_contract(CONTRACT)?;
        let labels: Vec<Arc<str>> = match programs.package.manifest.labels.as_slice() {
            [] => (0..classes).map(|class| class.to_string().into()).collect(),
            labels if labels.len() == classes => {
                labels.iter().map(|label| label.as_str().into()).collect()
            }
            labels => {
                let given = labels.len();
                let reason = format!("it has {classes} classes, but {given} labels are given");
                return Err(programs.error(reason));
            }
        };
        let encoder = TextEncoder::new(programs, step)?;
        Ok(Self { params, encoder, labels, values: Vec::new() })
    }

    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(text) = cx.get(Self::TEXT).cloned() else { return Ok(()) };
        cx.time_model(|| self.classify(&text.text))?;
        let scored = self.values.iter().zip(&self.labels);
        let class = |(&score, label): (&f32, &Arc<str>)| Class { label: label.clone(), score };
        let mut classes: Vec<Class> = scored.map(class).collect();
        // Stable: of equal scores, the first class.
        classes.sort_by(|one, other| other.score.total_cmp(&one.score));
        classes.truncate(self.params.top);
        classes.retain(|class| class.score >= self.params.score);
        cx.send(Self::CLASSES, Classes { frame_id: String::new(), classes });
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

    const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/classify_text");

    /// The node with a package of `program` and `labels`.
    fn open(
        program: &str,
        labels: &str,
        more: &[(&str, ParamValue)],
    ) -> Result<NodeBench<ClassifyText>, String> {
        let thread = std::thread::current().id();
        let name = format!("afferent-classify-{program}-{thread:?}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::copy(format!("{DATA}/{program}.pte"), folder.join("model.pte")).unwrap();
        let tokenizer = "../../runtime/text/tests/data/wordpiece.json";
        let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join(tokenizer);
        fs::copy(tokenizer, folder.join("tokenizer.json")).unwrap();
        let manifest = format!(
            "afferent_model: 1\nname: words\ntask: text_classification\ncontract: text_classes\nlabels: \
             {labels}\nvariants:\n- {{file: model.pte, backend: portable, precision: fp32}}\ntokenizer: \
             tokenizer.json\nlicense: MIT\nprovenance: tests\n"
        );
        fs::write(folder.join("model.yaml"), manifest).unwrap();
        let mut values: ParamValues =
            [("model".to_owned(), ParamValue::Path(folder.clone()))].into();
        values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let models = ModelOptions::new(afferent_kernels::KERNELS);
        let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
        let node = ClassifyText::open(ClassifyTextParams::from_values(&values).unwrap(), &cx);
        fs::remove_dir_all(folder).unwrap();
        node.map(NodeBench::new).map_err(|error| error.to_string())
    }

    fn classes(bench: &mut NodeBench<ClassifyText>, text: &str) -> Vec<Class> {
        let sent = bench.call(ClassifyText::TEXT, Timestamp(1), Text::from(text)).unwrap();
        sent[0].1.get::<Classes>().unwrap().classes.clone()
    }

    #[test]
    fn classes_are_those_of_the_words() {
        let cases = fs::read_to_string(format!("{DATA}/cases.json")).unwrap();
        let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
        let names = ["day", "month", "number"];
        for program in ["dynamic", "fixed"] {
            let mut bench = open(program, "[day, month, number]", &[]).unwrap();
            for case in &cases {
                let found = classes(&mut bench, case["text"].as_str().unwrap());
                let scores = case[program].as_array().unwrap();
                assert_eq!(found.len(), 3);
                for class in &found {
                    let index = names.iter().position(|name| *name == &*class.label).unwrap();
                    let far = f64::from(class.score) - scores[index].as_f64().unwrap();
                    assert!(far.abs() < 1e-4, "{program}: {found:?}: {case}");
                }
                if case["text"].as_str().unwrap().len() < 40 {
                    assert_eq!(Some(&*found[0].label), case["class"].as_str(), "{program}");
                }
            }
        }
    }

    #[test]
    fn several_classes_without_names() {
        let scores = [
            ("scores", ParamValue::Text("sigmoid".to_owned())),
            ("top", ParamValue::Int(2)),
            ("score", ParamValue::Float(0.52)),
        ];
        let mut bench = open("dynamic", "[]", &scores).unwrap();
        let found = classes(&mut bench, "monday friday june");
        let labels: Vec<&str> = found.iter().map(|class| &*class.label).collect();
        assert_eq!(labels, ["0", "1"]);
        // 1.5 for each day, and 1.5 - 0.1 for the month.
        for (class, value) in found.iter().zip([3.0_f32, 1.4]) {
            let expected = 1.0 / (1.0 + (-value).exp());
            assert!((class.score - expected).abs() < 1e-5, "{found:?}");
        }
        assert_eq!(classes(&mut bench, "what").len(), 1, "only the third is above the score");
    }

    #[test]
    fn the_number_of_names_must_be_that_of_the_classes() {
        let error = open("fixed", "[day, month]", &[]).err().unwrap();
        assert!(error.ends_with("it has 3 classes, but 2 labels are given"), "{error}");
    }
}
