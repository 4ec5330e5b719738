//! `cortex_m::softmax.out`: softmax in fixed-point arithmetic.
//!
//! | argument            | type                 | shape      |
//! |---------------------|----------------------|------------|
//! | `input`             | i8 tensor            | any        |
//! | `dim`               | int                  |            |
//! | `input_zero_point`  | not used             |            |
//! | `output_zero_point` | -128                 |            |
//! | `input_multiplier`  | int                  |            |
//! | `input_shift`       | int, 0 to 31         |            |
//! | `diff_min`          | int                  |            |
//! | `out`               | i8 tensor            | as `input` |
//!
//! `exp(x - max)`, divided by its sum along `dim`, with scale 1/256. Differences from the maximum
//! below `diff_min` count as zero. `exp` is a polynomial with five integer bits, and the quotient
//! three steps of Newton's method. Equal to CMSIS-NN in every bit, and within one step of PyTorch.
//! Errors: other dtypes or memory orders. Source: CMSIS-NN `arm_softmax_s8`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::int8::{
    arguments::{check_int8, elements, int32, invalid, same_order},
    requantize::divide_by_power_of_two,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "cortex_m::softmax.out",
    &[Arg::Tensor, Arg::Int, Arg::Int, Arg::Int, Arg::Int, Arg::Int, Arg::Int, Arg::Out],
    softmax,
)];

fn softmax(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let data = elements(input, 0)?;
    let (dim, rank) = (int32(args, 1)?, input.rank());
    let dim = if dim < 0 { dim.wrapping_add(rank as i32) } else { dim };
    let dim = usize::try_from(dim).ok().filter(|&dim| dim < rank);
    let dim = dim.ok_or(invalid(1, "a dimension of the input"))?;
    if int32(args, 3)? != -128 {
        return Err(invalid(3, "a zero point of -128"));
    }
    let shift = u32::try_from(args.int(5)?).ok().filter(|&shift| shift < 32);
    let shift = shift.ok_or(invalid(5, "a shift of 0 to 31"))?;
    let row = Row { multiplier: int32(args, 4)?, shift, diff_min: int32(args, 6)? };
    let mut out = args.out(7)?;
    check_int8(&out, 7)?;
    if !same_order(input.sizes(), input.dim_order(), out.dim_order()) {
        return Err(invalid(7, "the dim order of the input"));
    }
    out.resize(input.sizes())?;
    let at = |dims: &[usize]| dims.get(dim).copied().unwrap_or_default();
    let (len, stride) = (at(input.sizes()), at(&input.strides()).max(1));
    let block = len * stride;
    let out = out.data_mut::<i8>()?;
    if block == 0 {
        return Ok(());
    }
    for start in (0..data.len()).step_by(block) {
        let (from, to) = (data.get(start..start + block), out.get_mut(start..start + block));
        let (Some(from), Some(to)) = (from, to) else { break };
        for first in 0..stride {
            row.run(from, to, first, stride);
        }
    }
    Ok(())
}

/// Fraction bits of the sum of exponentials.
const SUM_INTEGER_BITS: u32 = 12;

/// Scale of the differences from the maximum.
struct Row {
    multiplier: i32,
    shift: u32,
    diff_min: i32,
}

impl Row {
    /// Softmax of the elements `first`, `first + stride` and so on.
    fn run(&self, from: &[i8], to: &mut [i8], first: usize, stride: usize) {
        let row = || from.iter().skip(first).step_by(stride).map(|&x| i32::from(x));
        let max = row().max().unwrap_or_default();
        let exponentials = row().filter_map(|x| self.exponential(x - max));
        let sum = exponentials
            .map(|exponential| divide_by_power_of_two(exponential, SUM_INTEGER_BITS))
            .fold(0, i32::wrapping_add);
        let headroom = sum.leading_zeros();
        let shifted = if sum > 0 { sum.wrapping_shl(headroom) } else { 0 };
        let scale = one_over_one_plus(shifted.wrapping_sub(i32::MIN));
        // The sum is at least one exponential of zero, so that the exponent is 1 to 31.
        let exponent = (SUM_INTEGER_BITS + 23).saturating_sub(headroom).min(31);
        for (out, x) in to.iter_mut().skip(first).step_by(stride).zip(row()) {
            *out = match self.exponential(x - max) {
                Some(exponential) => {
                    let product = doubling_high_mult(scale, exponential);
                    let quotient = divide_by_power_of_two(product, exponent);
                    quotient.wrapping_sub(128).clamp(-128, 127) as i8
                }
                None => -128,
            };
        }
    }

    /// Exponential of a difference; `None` if it counts as zero.
    fn exponential(&self, difference: i32) -> Option<i32> {
        let scaled = difference.wrapping_shl(self.shift);
        let is_zero = difference < self.diff_min;
        (!is_zero).then(|| exp_of_negative(doubling_high_mult(scaled, self.multiplier)))
    }
}

/// `2 · a · b / 2³²`, rounded half away from zero and saturated.
fn doubling_high_mult(a: i32, b: i32) -> i32 {
    if a == i32::MIN && b == i32::MIN {
        return i32::MAX;
    }
    let product = i64::from(a) * i64::from(b);
    let half = if (a < 0) != (b < 0) { 1 - (1 << 30) } else { 1 << 30 };
    let sum = product + half;
    // Division truncates, and a shift rounds down: the difference is one for a negative remainder.
    let remainder = if sum < 0 { (1 << 31) - 1 } else { 0 };
    ((sum + remainder) >> 31) as i32
}

/// `value · 2^exponent`, saturated.
fn multiply_by_power_of_two(value: i32, exponent: u32) -> i32 {
    let limit = (1 << (31 - exponent)) - 1;
    match value {
        value if value > limit => i32::MAX,
        value if value < -limit => i32::MIN,
        value => value << exponent,
    }
}

/// `exp(value)` of a number that is not positive, with five integer bits. The result has none.
fn exp_of_negative(value: i32) -> i32 {
    /// `exp(-2^n)` for n = -2 to 4.
    const FACTORS: [i32; 7] = [1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242];
    /// `exp(-1/8)`.
    const START: i32 = 1895147668;
    const ONE_THIRD: i32 = 715827883;
    if value == 0 {
        return i32::MAX;
    }
    // The argument modulo 1/4, minus 1/4.
    let fraction = (value & 0xff_ffff) - (1 << 24);
    let rest = fraction.wrapping_sub(value);
    let x = (fraction << 5) + (1 << 28);
    let square = doubling_high_mult(x, x);
    let fourth = divide_by_power_of_two(doubling_high_mult(square, square), 2);
    let cube = doubling_high_mult(square, x);
    let higher = doubling_high_mult(fourth.wrapping_add(cube), ONE_THIRD).wrapping_add(square);
    let sum = x.wrapping_add(divide_by_power_of_two(higher, 1));
    let mut result = START.wrapping_add(doubling_high_mult(START, sum));
    for (bit, factor) in FACTORS.into_iter().enumerate() {
        if rest & (1 << (24 + bit)) != 0 {
            result = doubling_high_mult(result, factor);
        }
    }
    result
}

/// `1 / (1 + x)` of a number from 0 to 1.
fn one_over_one_plus(x: i32) -> i32 {
    const START: i32 = 1515870810; // 48/17
    const SLOPE: i32 = -1010580540; // -32/17
    let sum = i64::from(x) + i64::from(i32::MAX);
    let half = ((sum + if sum >= 0 { 1 } else { 0 }) >> 1) as i32;
    let mut result = START.wrapping_add(doubling_high_mult(half, SLOPE));
    for _ in 0..3 {
        let error = (1_i32 << 29).wrapping_sub(doubling_high_mult(half, result));
        let step = multiply_by_power_of_two(doubling_high_mult(result, error), 2);
        result = result.wrapping_add(step);
    }
    multiply_by_power_of_two(result, 1)
}
