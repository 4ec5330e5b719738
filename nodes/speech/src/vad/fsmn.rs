//! FSMN, a feed-forward model of speech that reads a second of audio at once.

use afferent_core::{ScalarType, TensorView, read_floats};
use afferent_graph::NodeError;
use afferent_messages::{AudioBlock, SampleRate};
use afferent_runtime::{Input, ModelFile};

use crate::programs::{Programs, Step};

/// Samples of a window of the features, and from one to the next.
const SPAN: usize = 400;
const HOP: usize = 160;
/// Values of a window: the samples, with zeros on both sides.
const PADDED: usize = 512;
/// Least windows of a run, which the model needs.
const MIN_WINDOWS: usize = 100;
/// Windows whose probabilities are new.
const NEW_WINDOWS: usize = 5;
/// Share of each sample that is subtracted from the next one.
const PRE_EMPHASIS: f32 = 0.97;

/// Name of the contract in `model.yaml`.
const CONTRACT: &str = "fsmn_vad";

/// Contract of the programs, if they are an FSMN.
pub(crate) fn contract(programs: &[(&str, &ModelFile)]) -> Option<&'static str> {
    Fsmn::find(programs).map(|_| CONTRACT)
}

/// The model, and the windows of its input.
pub(super) struct Fsmn {
    programs: Programs,
    step: Step,
    /// Periodic Hann window.
    hann: Vec<f32>,
    input: Vec<f32>,
    output: Vec<f32>,
}

impl Fsmn {
    /// Sample rate of the audio.
    pub(super) const RATE: SampleRate = SampleRate(16_000);
    /// New samples of a run.
    pub(super) const WINDOW: usize = NEW_WINDOWS * HOP;
    /// Samples before them.
    pub(super) const CONTEXT: usize = (MIN_WINDOWS - NEW_WINDOWS) * HOP + SPAN - HOP;

    /// The method `forward`, if it has the form of FSMN.
    pub(super) fn find(programs: &[(&str, &ModelFile)]) -> Option<Step> {
        let step = Step::find(programs, &["forward"])?;
        let is_fsmn = match *step.inputs()?.as_slice() {
            [(ScalarType::Float, [most, PADDED], _)] => *most >= MIN_WINDOWS,
            _ => false,
        };
        (is_fsmn && matches!(step.output_sizes(0), [1, _, classes] if *classes > 1)).then_some(step)
    }

    /// Loads the model.
    pub(super) fn new(mut programs: Programs, step: Step) -> Result<Self, NodeError> {
        programs.expect_contract(CONTRACT)?;
        programs.load(&step)?;
        let phase = |n: usize| 2.0 * std::f64::consts::PI * n as f64 / SPAN as f64;
        let hann = (0..SPAN).map(|n| (0.5 - 0.5 * phase(n).cos()) as f32).collect();
        Ok(Self { programs, step, hann, input: Vec::new(), output: Vec::new() })
    }

    /// Mean probability of speech in the last five windows of `samples`.
    pub(super) fn probability(&mut self, samples: &[f32]) -> Result<f32, NodeError> {
        self.input.clear();
        let mut window = [0.0; PADDED];
        for at in 0..MIN_WINDOWS {
            self.prepare(&samples[at * HOP..at * HOP + SPAN], &mut window);
            self.input.extend_from_slice(&window);
        }
        let sizes = [MIN_WINDOWS, PADDED];
        let input = Input::Tensor(TensorView::new(&sizes, &self.input)?);
        let outputs = self.programs.run(&self.step, &[input])?;
        let result = outputs.tensor(0)?;
        let classes = result.sizes().last().copied().unwrap_or(1).max(1);
        read_floats(&result, &mut self.output)?;
        let silence = self.output.chunks_exact(classes).rev().take(NEW_WINDOWS).map(|one| one[0]);
        let count = silence.clone().count().max(1);
        Ok(1.0 - silence.sum::<f32>() / count as f32)
    }

    /// Writes a window of the input: without its mean, with pre-emphasis, weighted, in the middle.
    fn prepare(&self, samples: &[f32], window: &mut [f32; PADDED]) {
        let sample = |n: usize| AudioBlock::sanitized(samples[n]);
        let mean = (0..SPAN).map(sample).sum::<f32>() / SPAN as f32;
        let start = (PADDED - SPAN) / 2;
        for n in 0..SPAN {
            let before = if n == 0 { 0.0 } else { PRE_EMPHASIS * (sample(n - 1) - mean) };
            window[start + n] = (sample(n) - mean - before) * self.hann[n];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use afferent_graph::OpenCx;
    use afferent_runtime::ModelOptions;
    use serde_json::Value;

    use crate::vad::speech_model::SpeechModel;

    #[test]
    fn probabilities_are_those_of_the_exported_model() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fsmn");
        let models = ModelOptions::new(afferent_kernels::KERNELS);
        let cx = OpenCx::with_service(models.with_backend(afferent_backend_xnnpack::Xnnpack));
        let (mut model, _) = SpeechModel::open(&folder.join("fsmn.pte"), &cx).unwrap();
        let whole = model.context() + model.window();
        let cases = fs::read_to_string(folder.join("cases.json")).unwrap();
        let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
        let tau = 2.0 * std::f64::consts::PI;
        let mut range = (1.0, 0.0);
        for case in &cases {
            let level = case["level"].as_f64().unwrap();
            let mut samples = vec![0.0; model.context()];
            samples.extend((0..32_000).map(|n| {
                let t = f64::from(n) / 16_000.0;
                ((tau * 700.0 * t).sin() * level * (tau * 0.7 * t).sin() + 0.05) as f32
            }));
            for (at, expected) in case["speech"].as_array().unwrap().iter().enumerate() {
                let start = at * model.window();
                let found = model.probability(&samples[start..start + whole]).unwrap();
                let expected = expected.as_f64().unwrap();
                assert!(
                    (f64::from(found) - expected).abs() < 1e-4,
                    "{level}, {at}: {found}, {expected}"
                );
                range = (expected.min(range.0), expected.max(range.1));
            }
        }
        assert!(range.0 < 0.4 && range.1 > 0.9, "{range:?}");
    }
}
