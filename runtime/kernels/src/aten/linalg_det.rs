//! `aten::_linalg_det.result`, `aten::_linalg_slogdet.sign`: determinants of square matrices.
//!
//! | argument                            | type              | shape       |
//! |-------------------------------------|-------------------|-------------|
//! | `A`                                 | f32 or f64 tensor | `[…, n, n]` |
//! | `result`, or `sign` and `logabsdet` | as `A`            | `[…]`       |
//! | `LU`                                | as `A`            | as `A`      |
//! | `pivots`                            | i32 tensor        | `[…, n]`    |
//!
//! Computes `det A`, or its sign and the logarithm of its absolute value, from the LU factorization
//! with partial pivoting. As in ATen, `LU` and `pivots` factor the transpose of a row-major `A`.
//! Row `i` was swapped with row `pivots[i] - 1`. Tolerance: 1e-4 relative.
//! Scratch: one matrix and its pivots.
//! Errors: other sizes or dtypes. Source: ATen `_linalg_det`, `_linalg_slogdet`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext, ScalarType, TensorMut, TensorView};

use crate::shared::{
    accumulator::{Float, check_dtype},
    elements::{Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::_linalg_det.result", &[Arg::Tensor, Arg::Out, Arg::Out, Arg::Out], det_out),
    Kernel::new(
        "aten::_linalg_slogdet.sign",
        &[Arg::Tensor, Arg::Out, Arg::Out, Arg::Out, Arg::Out],
        slogdet_out,
    ),
];

fn det_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let a = args.tensor(0)?;
    let [mut result, mut lu, mut pivots] = args.outs([1, 2, 3])?;
    let outs = Outputs { results: [Some(&mut result), None], lu: &mut lu, pivots: &mut pivots };
    outs.run(cx, a)
}

fn slogdet_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let a = args.tensor(0)?;
    let [mut sign, mut log, mut lu, mut pivots] = args.outs([1, 2, 3, 4])?;
    let results = [Some(&mut sign), Some(&mut log)];
    Outputs { results, lu: &mut lu, pivots: &mut pivots }.run(cx, a)
}

/// Outputs: the determinants, or their signs and logarithms; and the factorization.
struct Outputs<'o, 's, 'a> {
    results: [Option<&'o mut TensorMut<'s, 'a>>; 2],
    lu: &'o mut TensorMut<'s, 'a>,
    pivots: &'o mut TensorMut<'s, 'a>,
}

impl Outputs<'_, '_, '_> {
    fn run(self, cx: &mut KernelContext<'_>, a: TensorView<'_>) -> Result<(), Error> {
        match a.dtype() {
            ScalarType::Float => self.fill::<f32>(cx, a),
            ScalarType::Double => self.fill::<f64>(cx, a),
            found => Err(Error::InvalidType { index: 0, found }),
        }
    }

    fn fill<A: Float>(
        mut self,
        cx: &mut KernelContext<'_>,
        a: TensorView<'_>,
    ) -> Result<(), Error> {
        let square = Error::InvalidArgument { index: 0, expected: "square matrices" };
        let &[ref batch @ .., rows, len] = a.sizes() else { return Err(square) };
        if rows != len {
            return Err(square);
        }
        let (mut index, mut is_empty) = (1, false);
        for result in self.results.iter_mut().flatten() {
            check_dtype(result.dtype(), a.dtype(), index)?;
            result.resize(batch)?;
            is_empty |= result.numel() == 0;
            index += 1;
        }
        check_dtype(self.lu.dtype(), a.dtype(), index)?;
        check_dtype(self.pivots.dtype(), ScalarType::Int, index + 1)?;
        self.lu.resize(a.sizes())?;
        self.pivots.resize(&a.sizes()[..batch.len() + 1])?;
        if is_empty {
            return Ok(());
        }
        let words = len.checked_mul(len).and_then(|words| words.checked_add(len));
        let words = words.ok_or(Error::OutOfResources { bytes: usize::MAX })?;
        let (pivots, matrix) = cx.scratch::<u64>(words)?.split_at_mut(len);
        let matrix: &mut [A] = &mut bytemuck::cast_slice_mut(matrix)[..len * len];
        let (from, lu_strides, pivot_strides) =
            (strides_of(&a), out_strides(self.lu), out_strides(self.pivots));
        let result_strides =
            self.results.each_ref().map(|result| result.as_ref().map(|out| out_strides(out)));
        let mut loops = LoopNest::<5>::new();
        for (dim, &size) in batch.iter().enumerate() {
            let stride = |at: usize| result_strides[at].as_ref().map_or(0, |strides| strides[dim]);
            loops.push(
                size,
                [from[dim], lu_strides[dim], pivot_strides[dim], stride(0), stride(1)],
            )?;
        }
        // Strides of a column and within it, of the matrix that is factored.
        let is_transposed = a.is_contiguous();
        let columns = |strides: &[usize]| [strides[batch.len() + 1], strides[batch.len()]];
        let [mut column, mut row] = columns(&from);
        if is_transposed {
            (column, row) = (row, column);
        }
        let [lu_column, lu_row] = columns(&lu_strides);
        let reader = Reader::<A>::new(a, 0)?;
        let mut lu = Writer::<A>::new(self.lu, index)?;
        let mut pivot_writer = Writer::<i64>::new(self.pivots, index + 1)?;
        let [first, second] = self.results;
        let mut first = first.map(|out| Writer::<A>::new(out, 1)).transpose()?;
        let mut second = second.map(|out| Writer::<A>::new(out, 2)).transpose()?;
        loops.for_each([0; 5], |[from, to, pivots_to, first_to, second_to]| {
            for (at, values) in matrix.chunks_exact_mut(len.max(1)).enumerate() {
                reader.read(from + at * column, row, values);
            }
            factor(matrix, pivots);
            for (at, values) in matrix.chunks_exact(len.max(1)).enumerate() {
                lu.write(to + at * lu_column, lu_row, values);
            }
            for (at, &pivot) in pivots.iter().enumerate() {
                let stride = pivot_strides[batch.len()];
                pivot_writer.set(pivots_to + at * stride, pivot as i64 + 1);
            }
            let (det, sign, log) = determinant(matrix, pivots);
            if let Some(out) = &mut first {
                out.set(first_to, if second.is_some() { sign } else { det });
            }
            if let Some(out) = &mut second {
                out.set(second_to, log);
            }
        });
        Ok(())
    }
}

/// Factors a matrix in columns in place: L with a unit diagonal below, U above. Column `i` was
/// reduced after row `i` was swapped with row `pivots[i]`.
fn factor<A: Float>(matrix: &mut [A], pivots: &mut [u64]) {
    let len = pivots.len();
    for step in 0..len {
        let column = &matrix[step * len..][..len];
        let mut pivot = step;
        for row in step + 1..len {
            if column[row].abs() > column[pivot].abs() {
                pivot = row;
            }
        }
        pivots[step] = pivot as u64;
        matrix.chunks_exact_mut(len).for_each(|column| column.swap(step, pivot));
        let (done, rest) = matrix.split_at_mut((step + 1) * len);
        let column = &mut done[step * len..];
        let divisor = column[step];
        if divisor == A::default() {
            continue;
        }
        column[step + 1..].iter_mut().for_each(|x| *x = *x / divisor);
        for other in rest.chunks_exact_mut(len) {
            let factor = other[step];
            for (x, &l) in other[step + 1..].iter_mut().zip(&column[step + 1..]) {
                *x = *x - l * factor;
            }
        }
    }
}

/// Determinant, its sign, and the logarithm of its absolute value, of a factored matrix.
fn determinant<A: Float>(matrix: &[A], pivots: &[u64]) -> (A, A, A) {
    let (mut det, mut sign, mut log) = (A::ONE, A::ONE, A::default());
    let negative = A::default() - A::ONE;
    for (at, &pivot) in pivots.iter().enumerate() {
        let x = matrix[at * pivots.len() + at];
        let swap = if pivot == at as u64 { A::ONE } else { negative };
        let x_sign = if x > A::default() {
            A::ONE
        } else if x < A::default() {
            negative
        } else {
            x
        };
        (det, sign, log) = (det * x * swap, sign * x_sign * swap, log + x.abs().ln());
    }
    (det, sign, log)
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Tensor};

    use super::*;

    fn run(x: &Tensor) -> Result<(Vec<f64>, Vec<i32>), Error> {
        let rank = x.sizes().len();
        let zeros = |dtype, rank: usize| Tensor::zeros(dtype, &vec![0; rank]);
        let mut result = zeros(ScalarType::Double, rank.saturating_sub(2));
        let (mut lu, mut pivots) =
            (zeros(ScalarType::Double, rank), zeros(ScalarType::Int, rank.saturating_sub(1)));
        let outs = [&mut result, &mut lu, &mut pivots].map(Argument::Out);
        let mut arguments: Vec<Argument<'_>> =
            [Argument::Tensor(x)].into_iter().chain(outs).collect();
        Call::new(&KERNELS[0]).run(&mut arguments)?;
        drop(arguments);
        Ok((result.data()?.to_vec(), pivots.data()?.to_vec()))
    }

    #[test]
    fn determinants() {
        let x = Tensor::new(&[2, 2, 2], &[1.0_f64, 2.0, 3.0, 4.0, 0.0, 2.0, 5.0, 0.0]).unwrap();
        let (det, pivots) = run(&x).unwrap();
        assert!((det[0] + 2.0).abs() < 1e-12 && (det[1] + 10.0).abs() < 1e-12, "{det:?}");
        assert_eq!(pivots, [2, 2, 2, 2]);
        assert_eq!(run(&Tensor::zeros(ScalarType::Double, &[0, 0])).unwrap().0, [1.0]);
        assert_eq!(run(&Tensor::zeros(ScalarType::Double, &[3, 3])).unwrap().0, [0.0]);
        let empty: (Vec<f64>, Vec<i32>) = (vec![], vec![]);
        for len in [2, 1 << 20] {
            let none = Tensor::zeros(ScalarType::Double, &[0, len, len]);
            assert_eq!(run(&none), Ok(empty.clone()));
        }
    }

    #[test]
    fn other_sizes_are_rejected() {
        for sizes in [&[2, 3][..], &[2], &[]] {
            assert!(run(&Tensor::zeros(ScalarType::Double, sizes)).is_err(), "{sizes:?}");
        }
    }
}
