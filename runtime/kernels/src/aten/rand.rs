//! `aten::rand.out`, `aten::randn.out`: random numbers, uniform and normal.
//!
//! | argument | type                  | shape  |
//! |----------|-----------------------|--------|
//! | `size`   | ints, not negative    |        |
//! | `out`    | floating-point tensor | `size` |
//!
//! `rand` is uniform in [0, 1); `randn` has mean 0 and variance 1.
//! Each call returns the same numbers: kernels have no state, so the generator starts from a
//! constant seed. The numbers differ from those of PyTorch.
//! Errors: another dtype is [`Error::InvalidType`].
//! Source: ATen `rand`, `randn`; Steele, Lea and Flood 2014 (SplitMix64); Box and Muller 1958.

use afferent_core::{Arg, Args, Error, Kernel};

use crate::shared::{
    dim_args::sizes_arg,
    dtype::{Number, with_dtype},
};

const ARGS: &[Arg] = &[Arg::IntList, Arg::Out];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::rand.out", ARGS, |_, args| random(args, SplitMix64::uniform)),
    Kernel::new("aten::randn.out", ARGS, |_, args| random(args, SplitMix64::normal)),
];

fn random(args: &mut Args<'_>, next: fn(&mut SplitMix64) -> f64) -> Result<(), Error> {
    let sizes = sizes_arg(args, 0)?;
    let mut out = args.out(1)?;
    out.resize(&sizes)?;
    let mut generator = SplitMix64 { state: 0 };
    with_dtype!(float, out.dtype(), 1, T => {
        for element in out.data_mut::<T>()? {
            *element = T::from_f64(next(&mut generator));
        }
        Ok(())
    })
}

/// SplitMix64 generator.
struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in [0, 1). It has 8 bits, so that `bf16` represents it without rounding up to 1.
    fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 56) as f64 / 256.0
    }

    /// Standard normal, by the Box–Muller transform.
    fn normal(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1_u64 << 53) as f64;
        // In (0, 1]: the logarithm is finite.
        let uniform = ((self.next_u64() >> 11) + 1) as f64 * SCALE;
        let angle = (self.next_u64() >> 11) as f64 * SCALE * core::f64::consts::TAU;
        libm::sqrt(-2.0 * libm::log(uniform)) * libm::cos(angle)
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn mean_and_variance(kernel: &Kernel) -> (f64, f64) {
        let mut out = Tensor::zeros(ScalarType::Float, &[0]);
        let mut arguments = [Argument::Ints(vec![10_000]), Argument::Out(&mut out)];
        Call::new(kernel).run(&mut arguments).unwrap();
        let data: Vec<f64> = out.data::<f32>().unwrap().iter().map(|&x| f64::from(x)).collect();
        let mean = data.iter().sum::<f64>() / 10_000.0;
        (mean, data.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 10_000.0)
    }

    #[test]
    fn moments() {
        let (mean, variance) = mean_and_variance(&KERNELS[0]);
        assert!((mean - 0.5).abs() < 0.02 && (variance - 1.0 / 12.0).abs() < 0.01);
        let (mean, variance) = mean_and_variance(&KERNELS[1]);
        assert!(mean.abs() < 0.05 && (variance - 1.0).abs() < 0.05);
    }
}
