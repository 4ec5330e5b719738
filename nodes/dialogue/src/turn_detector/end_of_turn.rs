//! A model that hears whether a pause ends a turn.

use std::{collections::VecDeque, path::Path};

use afferent_core::{ScalarType, TensorView};
use afferent_graph::{NodeError, OpenCx};
use afferent_messages::{AudioBlock, SampleRate};
use afferent_package::{ModelPackage, Threshold};
use afferent_runtime::{Input, Model, program::Value};

/// A model with the contract `forward(sound f32[1, window]) -> probability f32[1, 1]`, and the last
/// sound that it may be asked about.
pub(super) struct Pause {
    model: Model,
    path: std::path::PathBuf,
    rate: SampleRate,
    window: usize,
    threshold: f32,
    /// The newest sample last; never more than a window and what came since.
    sound: VecDeque<f32>,
    /// What the model is given.
    asked: Vec<f32>,
}

/// A probability of this is taken for an end where the package does not say.
const THRESHOLD: f32 = 0.5;

impl Pause {
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
            value.ok_or_else(|| failed(format!("it has no {name}")))
        };
        let (rate, window) = (SampleRate(number("sample_rate")?), number("window_size")? as usize);
        expect_window(&model, window).map_err(failed)?;
        let threshold = match &package.manifest.decision.threshold {
            Some(Threshold::Uniform(threshold)) => *threshold,
            _ => THRESHOLD,
        };
        let (path, sound) = (path.to_owned(), VecDeque::with_capacity(2 * window));
        Ok(Self { model, path, rate, window, threshold, sound, asked: Vec::new() })
    }

    /// Takes in sound.
    ///
    /// # Errors
    /// [`NodeError::InvalidInput`].
    pub(super) fn hear(&mut self, port: &'static str, block: &AudioBlock) -> Result<(), NodeError> {
        if (block.rate, block.channels()) != (self.rate, 1) {
            let reason = format!(
                "sound of {} Hz and {} channels, but the model hears one of {} Hz; put a resample \
                 node with rate: {} before it, and set channels: mono on wav_source, or channels: 1 \
                 on microphone",
                block.rate.0,
                block.channels(),
                self.rate.0,
                self.rate.0
            );
            return Err(NodeError::InvalidInput { port: port.into(), reason });
        }
        self.sound.extend(block.channel(0)?);
        let excess = self.sound.len().saturating_sub(self.window);
        self.sound.drain(..excess);
        Ok(())
    }

    /// Whether the pause that goes on now is the end of a turn.
    ///
    /// # Errors
    /// [`NodeError::Model`] and [`NodeError::Tensor`].
    pub(super) fn is_end(&mut self) -> Result<bool, NodeError> {
        // Zeros stand for what came before the first sample.
        self.asked.clear();
        self.asked.resize(self.window - self.sound.len().min(self.window), 0.0);
        self.asked.extend(&self.sound);
        let sizes = [1, self.window];
        let input = Input::Tensor(TensorView::new(&sizes, &self.asked)?);
        let failed = |reason: String| NodeError::Model { path: self.path.clone(), reason };
        let outputs = self.model.run("forward", &[input]);
        let outputs = outputs.map_err(|error| failed(error.to_string()))?;
        let probability = outputs.tensor(0)?.data::<f32>()?.first().copied();
        let probability = probability.ok_or_else(|| failed("it gave nothing".to_owned()))?;
        Ok(probability >= self.threshold)
    }
}

/// Checks that the model hears a window of sound.
fn expect_window(model: &Model, window: usize) -> Result<(), String> {
    let plan = model.file().method("forward").map_err(|error| error.to_string())?;
    let wrong = || format!("its input is not f32[1, {window}], as its window_size says");
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
    fn a_window_that_is_not_the_input_is_refused() {
        // A bare program is for every task; that of `vad` hears more than its window.
        let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models");
        let cx =
            OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
        let vad = Path::new(models).join("vad/vad_portable.pte");
        let Err(error) = Pause::open(&vad, &cx) else { panic!("it was accepted") };
        assert!(error.to_string().contains("its input is not f32[1, 512]"), "{error}");
        assert!(Pause::open(&Path::new(models).join("turn"), &cx).is_ok());
    }

    #[test]
    fn other_sound_is_refused_with_the_remedy() {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pipelines/models/turn");
        let cx =
            OpenCx::with_service(afferent_runtime::ModelOptions::new(afferent_kernels::KERNELS));
        let mut pause = Pause::open(Path::new(model), &cx).unwrap();
        let mut block = AudioBlock::default();
        block.reshape(SampleRate(48_000), 2, 1).unwrap();
        let error = pause.hear("audio", &block).unwrap_err().to_string();
        assert!(error.contains("rate: 16000") && error.contains("channels: mono"), "{error}");
    }
}
