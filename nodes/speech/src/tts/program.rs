//! The program of a voice: its methods, with the sizes of their windows.

use std::path::{Path, PathBuf};

use afferent_core::TensorView;
use afferent_graph::{NodeError, OpenCx};
use afferent_package::ModelPackage;
use afferent_runtime::{Input, Model, program::Value};

use super::{
    expansion::{PLACES, STEP},
    tokens::FEATURES,
};

/// Tokens or hops beside a window whose results are not used: what lies there is heard, but what
/// lies beyond is not.
pub(crate) const CONTEXT: usize = 16;

/// The loaded program.
pub(crate) struct Program {
    model: Model,
    path: PathBuf,
    pub(crate) sizes: Sizes,
}

/// Sizes that the program was exported with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Samples per second and of a hop.
    pub(crate) rate: u32,
    pub(crate) hop: usize,
    /// Tokens of a window of `forward`, and numbers that it says of each.
    pub(crate) tokens: usize,
    pub(crate) hidden: usize,
    /// Steps of a window of `spectrum`, and numbers that it says of each hop.
    pub(crate) steps: usize,
    pub(crate) bands: usize,
    /// Hops of a window of `sound`.
    pub(crate) hops: usize,
    /// Letters of the longest word that `spell` reads, and its columns.
    pub(crate) letters: usize,
    pub(crate) columns: usize,
}

const FORWARD: &str = "forward";
const SPECTRUM: &str = "spectrum";
const SOUND: &str = "sound";
const SPELL: &str = "spell";

impl Program {
    /// Loads the program of a package.
    ///
    /// # Errors
    /// [`NodeError::Model`] when it does not load, or does not have the contract.
    pub(crate) fn open(package: &ModelPackage, cx: &OpenCx) -> Result<Self, NodeError> {
        let path = package.folder().to_owned();
        let failed = |reason: String| NodeError::Model { path: path.clone(), reason };
        let mut model = package
            .load(cx.kernels, cx.backends, cx.weight_cache)
            .map_err(|error| failed(error.to_string()))?;
        for method in [SPECTRUM, SOUND, SPELL] {
            model.load_method(method).map_err(|error| failed(error.to_string()))?;
        }
        let sizes = sizes(&model).map_err(failed)?;
        Ok(Self { model, path, sizes })
    }

    /// Runs `forward` over a window of tokens: what the decoder needs of each, numbers by tokens,
    /// and how many seconds each lasts.
    pub(crate) fn forward(
        &mut self,
        ids: &[i64],
        features: &[f32],
        mask: &[f32],
        take: impl FnOnce(&[f32], &[f32]),
    ) -> Result<(), NodeError> {
        let tokens = self.sizes.tokens;
        let sizes: [&[usize]; 3] = [&[1, tokens], &[1, tokens, FEATURES], &[1, 1, tokens]];
        let inputs = [
            Input::Tensor(TensorView::new(sizes[0], ids)?),
            Input::Tensor(TensorView::new(sizes[1], features)?),
            Input::Tensor(TensorView::new(sizes[2], mask)?),
        ];
        let outputs = run(&mut self.model, &self.path, FORWARD, &inputs)?;
        take(outputs.tensor(0)?.data()?, outputs.tensor(1)?.data()?);
        Ok(())
    }

    /// Runs `spectrum` over a window of steps: numbers by hops.
    pub(crate) fn spectrum(
        &mut self,
        expanded: &[f32],
        mask: &[f32],
        take: impl FnOnce(&[f32]),
    ) -> Result<(), NodeError> {
        let Sizes { steps, hidden, .. } = self.sizes;
        let sizes: [&[usize]; 2] = [&[1, STEP * (hidden + PLACES), steps], &[1, 1, steps]];
        let inputs = [
            Input::Tensor(TensorView::new(sizes[0], expanded)?),
            Input::Tensor(TensorView::new(sizes[1], mask)?),
        ];
        let outputs = run(&mut self.model, &self.path, SPECTRUM, &inputs)?;
        take(outputs.tensor(0)?.data()?);
        Ok(())
    }

    /// Runs `sound` over a window of hops: their samples.
    pub(crate) fn sound(
        &mut self,
        condition: &[f32],
        pulses: &[f32],
        noise: &[f32],
        take: impl FnOnce(&[f32]),
    ) -> Result<(), NodeError> {
        let Sizes { hops, bands, .. } = self.sizes;
        let rows = pulses.len() / hops;
        let sizes: [&[usize]; 2] = [&[1, bands, hops], &[1, rows, hops]];
        let inputs = [
            Input::Tensor(TensorView::new(sizes[0], condition)?),
            Input::Tensor(TensorView::new(sizes[1], pulses)?),
            Input::Tensor(TensorView::new(sizes[1], noise)?),
        ];
        let outputs = run(&mut self.model, &self.path, SOUND, &inputs)?;
        take(outputs.tensor(0)?.data()?);
        Ok(())
    }

    /// Runs `spell` on the letters of a word: scores of the columns at two places a letter.
    pub(crate) fn spell(
        &mut self,
        letters: &[i64],
        mask: &[f32],
        take: impl FnOnce(&[f32]),
    ) -> Result<(), NodeError> {
        let sizes: [&[usize]; 2] = [&[1, letters.len()], &[1, 1, letters.len()]];
        let inputs = [
            Input::Tensor(TensorView::new(sizes[0], letters)?),
            Input::Tensor(TensorView::new(sizes[1], mask)?),
        ];
        let outputs = run(&mut self.model, &self.path, SPELL, &inputs)?;
        take(outputs.tensor(0)?.data()?);
        Ok(())
    }
}

fn run<'s>(
    model: &'s mut Model,
    path: &Path,
    method: &str,
    inputs: &[Input<'s>],
) -> Result<afferent_runtime::ModelOutputs<'s>, NodeError> {
    let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
    model.run(method, inputs).map_err(|error| failed(error.to_string()))
}

/// The sizes of the program, if it has the contract.
fn sizes(model: &Model) -> Result<Sizes, String> {
    let integer = |name: &str| {
        let value = model.file().metadata_int(name);
        value.and_then(|v| u32::try_from(v).ok()).ok_or_else(|| format!("it says no {name}"))
    };
    let [tokens] = shape(model, FORWARD, true, 0).map(|[_, tokens]| [tokens])?;
    let [_, hidden, _] = shape(model, FORWARD, false, 0)?;
    let [_, expanded, steps] = shape(model, SPECTRUM, true, 0)?;
    let [_, bands, decoded] = shape(model, SPECTRUM, false, 0)?;
    let [_, heard, hops] = shape(model, SOUND, true, 0)?;
    let [_, rows, _] = shape(model, SOUND, true, 1)?;
    let [_, _, hop] = shape(model, SOUND, false, 0)?;
    let [_, letters] = shape(model, SPELL, true, 0)?;
    let [_, _, columns] = shape(model, SPELL, false, 0)?;
    let agrees = expanded == STEP * (hidden + PLACES)
        && decoded == STEP * steps
        && heard == bands
        && bands > 2
        && rows == 3 * hop + 2
        && tokens > 2 * CONTEXT
        && steps > 2 * CONTEXT
        && hops > 2 * CONTEXT
        && hop == integer("hop_size")? as usize;
    if !agrees {
        return Err("the sizes of its methods do not fit each other".to_owned());
    }
    let rate = integer("sample_rate")?;
    Ok(Sizes { rate, hop, tokens, hidden, steps, bands, hops, letters, columns })
}

/// The sizes of an input or an output of a method.
fn shape<const N: usize>(
    model: &Model,
    method: &str,
    is_input: bool,
    at: usize,
) -> Result<[usize; N], String> {
    let plan = model.file().method(method).map_err(|error| error.to_string())?;
    let ids = if is_input { plan.inputs() } else { plan.outputs() };
    let Some(Value::Tensor(meta)) = ids.get(at).map(|id| plan.value(id as usize)) else {
        return Err(format!("its method {method} has no tensor {at}"));
    };
    let sizes: Vec<usize> = meta.layout.sizes.iter().collect();
    let found = sizes.clone().try_into();
    found.map_err(|_| format!("its method {method} has a tensor of sizes {sizes:?}"))
}
