//! End-of-turn model.

use std::{collections::VecDeque, path::Path};

use afferent_core::{ScalarType, TensorView};
use afferent_graph::{NodeError, OpenCx};
use afferent_messages::{AudioBlock, SampleRate};
use afferent_package::{ModelPackage, Threshold};
use afferent_runtime::{Input, Model, program::Value};

/// Model with the contract `forward(sound f32[1, window]) -> probability f32[1, 1]`, and its input
/// window.
pub(super) struct EndOfTurnModel {
    model: Model,
    path: std::path::PathBuf,
    rate: SampleRate,
    window: usize,
    threshold: f32,
    /// The last `window` samples, the newest last.
    audio: VecDeque<f32>,
    /// Input of the model.
    input: Vec<f32>,
}

/// Threshold of packages that do not declare one.
const DEFAULT_THRESHOLD: f32 = 0.5;

impl EndOfTurnModel {
    /// Loads the package at `path`.
    ///
    /// # Errors
    /// [`NodeError::Model`].
    pub(super) fn open(path: &Path, cx: &OpenCx) -> Result<Self, NodeError> {
        let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
        let package = ModelPackage::open(path).map_err(|error| failed(error.to_string()))?;
        package.expect_task("end_of_turn").map_err(|error| failed(error.to_string()))?;
        let model = package.load(cx.services.need::<afferent_runtime::ModelOptions>()?);
        let model = model.map_err(|error| failed(error.to_string()))?;
        let number = |name: &str| {
            let value = model.file().metadata_int(name);
            let value =
                value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0);
            value.ok_or_else(|| failed(format!("the program has no positive metadata {name}")))
        };
        let (rate, window) = (SampleRate(number("sample_rate")?), number("window_size")? as usize);
        expect_window(&model, window).map_err(failed)?;
        let threshold = match &package.manifest.decision.threshold {
            Some(Threshold::Uniform(threshold)) => *threshold,
            _ => DEFAULT_THRESHOLD,
        };
        let (path, audio) = (path.to_owned(), VecDeque::with_capacity(2 * window));
        Ok(Self { model, path, rate, window, threshold, audio, input: Vec::new() })
    }

    /// Appends audio to the window.
    ///
    /// # Errors
    /// [`NodeError::InvalidInput`].
    pub(super) fn push_audio(
        &mut self,
        port: &'static str,
        block: &AudioBlock,
    ) -> Result<(), NodeError> {
        if (block.rate, block.channels()) != (self.rate, 1) {
            let reason = format!(
                "the audio has {} Hz and {} channels, but the model needs {} Hz and one channel; \
                 insert a resample node with rate: {}, and set mix: mono on wav_source, or \
                 channels: 1 on microphone",
                block.rate.0,
                block.channels(),
                self.rate.0,
                self.rate.0
            );
            return Err(NodeError::InvalidInput { port: port.into(), reason });
        }
        self.audio.extend(block.channel(0)?);
        let excess = self.audio.len().saturating_sub(self.window);
        self.audio.drain(..excess);
        Ok(())
    }

    /// True if the model takes the current pause for the end of a turn.
    ///
    /// # Errors
    /// [`NodeError::Model`] and [`NodeError::Tensor`].
    pub(super) fn is_end_of_turn(&mut self) -> Result<bool, NodeError> {
        // The window is padded with silence before the first sample.
        self.input.clear();
        self.input.resize(self.window - self.audio.len().min(self.window), 0.0);
        self.input.extend(&self.audio);
        let sizes = [1, self.window];
        let input = Input::Tensor(TensorView::new(&sizes, &self.input)?);
        let failed = |reason: String| NodeError::Model { path: self.path.clone(), reason };
        let outputs = self.model.run("forward", &[input]);
        let outputs = outputs.map_err(|error| failed(error.to_string()))?;
        let probability = outputs.tensor(0)?.data::<f32>()?.first().copied();
        let probability =
            probability.ok_or_else(|| failed("the result of forward is empty".to_owned()))?;
        Ok(probability >= self.threshold)
    }
}

/// Checks that the input of the model is one window.
fn expect_window(model: &Model, window: usize) -> Result<(), String> {
    let plan = model.file().method("forward").map_err(|error| error.to_string())?;
    let wrong = || format!("the input of forward is not f32[1, {window}], as window_size requires");
    let Some(Value::Tensor(meta)) = plan.inputs().get(0).map(|id| plan.value(id as usize)) else {
        return Err(wrong());
    };
    let (dtype, sizes) = (meta.layout.dtype, meta.layout.sizes);
    let is_window = dtype == ScalarType::Float && sizes.iter().eq([1, window]);
    if is_window { Ok(()) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_of_another_size_is_rejected() {
        // A bare program fits every task; the input of `vad` has a context besides its window.
        let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models");
        let cx =
            OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
        let vad = Path::new(models).join("vad/vad_portable.pte");
        let Err(error) = EndOfTurnModel::open(&vad, &cx) else { panic!("it was accepted") };
        assert!(error.to_string().contains("the input of forward is not f32[1, 512]"), "{error}");
        assert!(EndOfTurnModel::open(&Path::new(models).join("turn"), &cx).is_ok());
    }

    #[test]
    fn other_formats_are_rejected_with_advice() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/turn");
        let cx =
            OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
        let mut model = EndOfTurnModel::open(Path::new(path), &cx).unwrap();
        let mut block = AudioBlock::default();
        block.reshape(SampleRate(48_000), 2, 1).unwrap();
        let error = model.push_audio("audio", &block).unwrap_err().to_string();
        assert!(error.contains("rate: 16000") && error.contains("mix: mono"), "{error}");
    }
}
