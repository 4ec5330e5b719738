//! Batch normalization with running statistics or with the statistics of the batch.

use afferent_core::{Args, Error};

use crate::shared::{
    accumulator::Float,
    elements::{Reader, Writer},
    loop_nest::{out_strides, strides_of},
    norm::{Affine, Group},
};

/// Argument indices of a batch normalization. Weight and bias are arguments 1 and 2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArgIndices {
    /// Running mean; the running variance is the next argument. `None`: statistics of the batch.
    pub(crate) running: Option<u8>,
    pub(crate) eps: u8,
    /// Output; the saved mean and the saved inverse standard deviation are the next arguments.
    pub(crate) out: u8,
}

/// Writes `(x - mean) / √(var + eps) · weight + bias` for each channel.
pub(crate) fn batch_norm<A: Float>(args: &mut Args<'_>, indices: ArgIndices) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let wrong = |index, expected| Error::InvalidArgument { index, expected };
    let &[batch, channels, ref space @ ..] = x.sizes() else {
        return Err(wrong(0, "a tensor [batch, channels, ...]"));
    };
    let reader = |index: u8| match args.opt_tensor(usize::from(index))? {
        Some(tensor) if *tensor.sizes() != [channels] => {
            Err(wrong(index, "one element per channel"))
        }
        Some(tensor) => Reader::<A>::new(tensor, index).map(Some),
        None => Ok(None),
    };
    let affine = Affine { weight: reader(1)?, bias: reader(2)? };
    let running = match indices.running {
        Some(index) => reader(index)?.zip(reader(index + 1)?),
        None => None,
    };
    let eps = A::from_double(args.double(usize::from(indices.eps))?);

    let first = usize::from(indices.out);
    let [mut out, mut mean, mut rstd] = args.outs([first, first + 1, first + 2])?;
    out.resize(x.sizes())?;
    let saved = if running.is_some() { 0 } else { channels };
    mean.resize(&[saved])?;
    rstd.resize(&[saved])?;
    let (from, to) = (strides_of(&x), out_strides(&out));
    let count = space.iter().fold(batch, |count, &size| count.saturating_mul(size));
    let dims = (0..x.rank()).filter(|&dim| dim != 1);
    let channel = Group::new(dims.map(|dim| (x.sizes()[dim], [from[dim], to[dim]])))?;
    let x = Reader::<A>::new(x, 0)?;
    let mut out = Writer::new(&mut out, indices.out)?;
    let mut mean = Writer::new(&mut mean, indices.out + 1)?;
    let mut rstd = Writer::new(&mut rstd, indices.out + 2)?;
    for c in 0..channels {
        let (mean_c, var_c) = match &running {
            Some((mean, var)) => (mean.get(c), var.get(c)),
            None => channel.mean_var(&x, c * from[1], count),
        };
        let inv_std = A::ONE / (var_c + eps).sqrt();
        let (weight, bias) = affine.get(c);
        let scale = inv_std * weight;
        channel.map(&x, &mut out, [c * from[1], c * to[1]], |chunk, _| {
            chunk.iter_mut().for_each(|x| *x = (*x - mean_c) * scale + bias);
        });
        // No effect where the saved statistics are empty.
        mean.set(c, mean_c);
        rstd.set(c, inv_std);
    }
    Ok(())
}
