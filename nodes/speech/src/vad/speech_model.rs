//! Models that tell the probability of speech in a window of audio.

use std::path::Path;

use afferent_graph::{NodeError, OpenCx};
use afferent_messages::SampleRate;
use afferent_package::ModelPackage;

use super::fsmn::Fsmn;
use crate::{programs::Programs, recurrent::RecurrentModel};

/// Task of the packages.
const TASK: &str = "voice_activity";

/// A model of one of the known forms.
pub(super) enum SpeechModel {
    /// Silero VAD.
    Silero {
        model: Box<RecurrentModel>,
        rate: SampleRate,
        /// New samples of a run.
        window: usize,
        /// Samples before them.
        context: usize,
    },
    /// FSMN.
    Fsmn(Box<Fsmn>),
}

impl SpeechModel {
    /// Loads the package or program at `path`, and tells its form by its inputs.
    pub(super) fn open(path: &Path, cx: &OpenCx) -> Result<(Self, ModelPackage), NodeError> {
        let programs = Programs::open(path, TASK, cx)?;
        if let Some(step) = Fsmn::find(&programs.files()) {
            let package = programs.package.clone();
            return Ok((Self::Fsmn(Box::new(Fsmn::new(programs, step)?)), package));
        }
        let (model, package) = RecurrentModel::open(path, TASK, "silero_vad", cx)?;
        let number = |name: &str, default: i64| {
            let value = model.metadata_int(name).unwrap_or(default);
            usize::try_from(value)
                .map_err(|_| model.error(format!("{name} is {value}, but must not be negative")))
        };
        let window = number("window_size", 512)?;
        let context = number("context_size", 64)?;
        let rate = u32::try_from(number("sample_rate", 16_000)?).unwrap_or(0);
        if rate == 0 || window == 0 || model.input_sizes() != [1, context + window] {
            return Err(model.error(format!(
                "input {:?} of forward does not match a context of {context} and a window of {window} \
                 samples",
                model.input_sizes()
            )));
        }
        let (model, rate) = (Box::new(model), SampleRate(rate));
        Ok((Self::Silero { model, rate, window, context }, package))
    }

    /// Sample rate of the audio.
    pub(super) fn rate(&self) -> SampleRate {
        match self {
            Self::Silero { rate, .. } => *rate,
            Self::Fsmn(_) => Fsmn::RATE,
        }
    }

    /// New samples of a run.
    pub(super) fn window(&self) -> usize {
        match self {
            Self::Silero { window, .. } => *window,
            Self::Fsmn(_) => Fsmn::WINDOW,
        }
    }

    /// Samples before the new ones that a run gets too.
    pub(super) fn context(&self) -> usize {
        match self {
            Self::Silero { context, .. } => *context,
            Self::Fsmn(_) => Fsmn::CONTEXT,
        }
    }

    /// Forgets the audio so far.
    pub(super) fn reset(&mut self) {
        if let Self::Silero { model, .. } = self {
            model.reset();
        }
    }

    /// Probability of speech in the window at the end of `samples`, which begin with the context.
    pub(super) fn probability(&mut self, samples: &[f32]) -> Result<f32, NodeError> {
        match self {
            Self::Silero { model, .. } => {
                model.run(samples).map(|result| result.first().copied().unwrap_or(0.0))
            }
            Self::Fsmn(model) => model.probability(samples),
        }
    }
}
