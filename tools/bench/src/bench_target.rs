//! Program with inputs, timed with Afferent and with the official runtime.

use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
};

use afferent_backend_xnnpack::Xnnpack;
use afferent_core::{ScalarType, Tensor};
use afferent_program::Value;
use afferent_runtime::{Input, Model, ModelError, ModelOptions};
use afferent_simd::pool;
use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::{peer, timing};

/// Model options with all kernels and backends.
pub(crate) fn model_options() -> ModelOptions {
    portable_options().with_backend(Xnnpack)
}

/// Model options with all kernels and no backend. Packages then load their portable variants.
pub(crate) fn portable_options() -> ModelOptions {
    ModelOptions::new(afferent_kernels::KERNELS)
}

/// Loaded method `forward` with its inputs, in memory and as files.
pub(crate) struct BenchTarget {
    path: PathBuf,
    pub(crate) model: Model,
    pub(crate) inputs: Vec<Tensor>,
    files: Vec<PathBuf>,
    _folder: TempDir,
}

/// Median times of one call, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Time of a batch of calls divided by their number.
    pub(crate) batched: f64,
    /// Time of single calls, including two clock reads, as the peer measures.
    pub(crate) clocked: f64,
    /// Times of the peer, if there is one.
    pub(crate) peer: Option<Peer>,
}

/// Times of the peer in the same rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// Median time of one call, in microseconds.
    pub(crate) clocked: f64,
    /// Median of the ratio of Afferent to the peer in each round. Temporary load on the machine
    /// affects both sides of a round.
    pub(crate) ratio: f64,
}

impl BenchTarget {
    /// Loads the program at `path` for one thread, with zeros as inputs.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::open_on(1, path)
    }

    /// As [`BenchTarget::open`], for `threads` threads.
    pub(crate) fn open_on(threads: usize, path: &Path) -> Result<Self> {
        let mut options = model_options();
        options.workers = pool::workers(threads);
        let model = Model::open(path, options)?;
        let inputs = zeros(&model)?;
        let folder = TempDir::with_prefix("afferent-bench-")?;
        let files = write(&inputs, folder.path())?;
        Ok(Self { path: path.to_owned(), model, inputs, files, _folder: folder })
    }

    /// As [`BenchTarget::open_on`], with inputs from `f32` NPY files.
    pub(crate) fn with_inputs(threads: usize, path: &Path, files: &[PathBuf]) -> Result<Self> {
        let mut target = Self::open_on(threads, path)?;
        for (input, file) in target.inputs.iter_mut().zip(files) {
            *input = Tensor::new(input.sizes(), &read_npy(file)?)?;
        }
        target.files = files.to_vec();
        Ok(target)
    }

    /// Calls the method `repeat` times and reads output 0 each time.
    pub(crate) fn call(&mut self, repeat: usize) -> Result<(), ModelError> {
        let Self { model, inputs, .. } = self;
        for _ in 0..repeat {
            call(model, inputs)?;
        }
        Ok(())
    }

    /// Median times over `rounds` rounds. In each round, both sides make `repeat` calls.
    pub(crate) fn times(
        &mut self,
        peer: Option<&Path>,
        rounds: usize,
        repeat: usize,
    ) -> Result<Times> {
        let (mut batched, mut clocked, mut official) = (vec![], vec![], vec![]);
        for _ in 0..rounds {
            self.call(repeat / 10 + 1)?;
            let Self { model, inputs, .. } = self;
            batched.push(timing::batch(repeat, || call(model, inputs))?);
            clocked.push(timing::median(timing::each(repeat, || call(model, inputs))?));
            if let Some(program) = peer {
                official.push(peer::median_us(program, &self.path, &self.files, repeat)?);
            }
        }
        let ratios = clocked.iter().zip(&official).map(|(own, peer)| own / peer);
        let ratio = timing::median(ratios.collect());
        Ok(Times {
            batched: timing::median(batched),
            clocked: timing::median(clocked),
            peer: peer.map(|_| Peer { clocked: timing::median(official), ratio }),
        })
    }

    /// Command line of the peer for `warmup` calls and one more.
    pub(crate) fn peer_command(&self, program: &Path, warmup: usize) -> Vec<String> {
        peer::command(program, &self.path, &self.files, 1, warmup)
    }

    /// Path of the program.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Tensors of zeros for the inputs of the method `forward`.
pub(crate) fn zeros(model: &Model) -> Result<Vec<Tensor>> {
    let plan = model.file().method("forward")?;
    let input = |id: u32| match plan.value(id as usize) {
        Value::Tensor(meta) => {
            let sizes: Vec<usize> = meta.layout.sizes.iter().collect();
            Ok(Tensor::zeros(meta.layout.dtype, &sizes))
        }
        _ => bail!("{}: an input is not a tensor", model.file().path().display()),
    };
    plan.inputs().iter().map(input).collect()
}

/// Writes `tensors` as NPY files to `folder`.
pub(crate) fn write(tensors: &[Tensor], folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (at, tensor) in tensors.iter().enumerate() {
        let file = folder.join(format!("{at}.npy"));
        fs::write(&file, npy(tensor)?)?;
        files.push(file);
    }
    Ok(files)
}

fn call(model: &mut Model, inputs: &[Tensor]) -> Result<(), ModelError> {
    // At most 8 inputs. Build the list in every call, as an application would.
    let mut list = [Input::None; 8];
    for (input, tensor) in list.iter_mut().zip(inputs) {
        *input = Input::Tensor(tensor.view());
    }
    let outputs = model.run("forward", &list[..inputs.len()])?;
    let _ = black_box(outputs.get(0));
    Ok(())
}

/// Reads the elements of an `f32` NPY file, version 1.
pub(crate) fn read_npy(path: &Path) -> Result<Vec<f32>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let parts = bytes.split_at_checked(10).and_then(|(start, rest)| {
        let len = u16::from_le_bytes([start[8], start[9]]);
        rest.split_at_checked(usize::from(len)).filter(|_| start.starts_with(b"\x93NUMPY\x01"))
    });
    let (header, data) = parts.with_context(|| format!("{}: not an NPY file", path.display()))?;
    let header = String::from_utf8_lossy(header);
    if !header.contains("'<f4'") || !header.contains("'fortran_order': False") {
        bail!("{}: not `f32` in row-major order", path.display());
    }
    Ok(data.as_chunks().0.iter().copied().map(f32::from_le_bytes).collect())
}

/// Formats `tensor` as an NPY file, version 1.
fn npy(tensor: &Tensor) -> Result<Vec<u8>> {
    let name = match tensor.dtype() {
        ScalarType::Float => "<f4",
        ScalarType::Double => "<f8",
        ScalarType::Long => "<i8",
        ScalarType::Int => "<i4",
        other => bail!("inputs of dtype {other} are not supported"),
    };
    let shape: String = tensor.sizes().iter().map(|size| format!("{size},")).collect();
    let header = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Magic, version and length take 10 bytes. Padding aligns the data to 64 bytes.
    let len = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let field = u16::try_from(len).context("the NPY header is too long")?;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(field.to_le_bytes());
    bytes.extend(format!("{header:<width$}\n", width = len - 1).bytes());
    bytes.extend(tensor.view().bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npy_data_is_aligned() {
        let bytes = npy(&Tensor::zeros(ScalarType::Float, &[2, 3])).unwrap();
        assert_eq!(bytes.len(), 128 + 24);
        assert!(bytes[10..127].starts_with(b"{'descr': '<f4'") && bytes[127] == b'\n');
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        assert_eq!(read_npy(file.path()).unwrap(), [0.0; 6]);
    }

    #[test]
    fn programs_are_timed() {
        let mut target = BenchTarget::open(Path::new(crate::call::PROGRAM)).unwrap();
        let times = target.times(None, 3, 10).unwrap();
        assert!(times.batched > 0.0 && times.clocked > 0.0 && times.peer.is_none());
    }
}
