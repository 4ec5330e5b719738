//! GEMM and GEMV compared with plain loops for many shapes and layouts, on every instruction set of
//! this machine.

use afferent_simd::{
    Isa, SizeError,
    gemm::{Addend, Dim, Gemm, MatrixStrides, Output, StridedOperand},
};

/// Small integers, whose sums are exact in any order.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
}

/// Operand of vectors and elements, each `[len, stride]`.
fn operand(data: &[f32], vectors: [usize; 2], elements: [usize; 2]) -> Option<StridedOperand<'_>> {
    let [vectors, elements] = [vectors, elements].map(|[len, stride]| Dim { len, stride });
    StridedOperand::new(data, vectors, elements)
}

struct Case {
    rows: usize,
    inner: usize,
    cols: usize,
    alpha: f32,
    beta: Option<f32>,
    clamp: Option<(f32, f32)>,
}

/// Compares the product with plain loops, for row-major and column-major operands.
#[track_caller]
fn check(case: &Case) {
    let Case { rows, inner, cols, alpha, beta, clamp } = *case;
    let (a, b, bias) =
        (numbers(rows * inner, 1), numbers(inner * cols, 2), numbers(rows * cols, 3));
    for layout in 0..16 {
        let steps = |rows, cols, by_cols: bool| if by_cols { (1, rows) } else { (cols, 1) };
        let (a_row, a_k) = steps(rows, inner, layout & 1 > 0);
        let (b_k, b_col) = steps(inner, cols, layout & 2 > 0);
        let (row, col) = steps(rows, cols, layout & 4 > 0);
        let (bias_row, bias_col) = if layout & 8 > 0 { (1, 0) } else { (0, 1) };
        let product = Gemm {
            a: operand(&a, [rows, a_row], [inner, a_k]).expect("lines fit"),
            b: operand(&b, [cols, b_col], [inner, b_k]).expect("lines fit"),
            rows,
            inner,
            cols,
            alpha,
            addend: beta.map(|beta| Addend {
                data: &bias,
                strides: MatrixStrides { row: bias_row, col: bias_col },
                beta,
            }),
            clamp,
        };
        let mut expected = vec![0.0; rows * cols];
        for i in 0..rows {
            for j in 0..cols {
                let products = (0..inner).map(|k| a[i * a_row + k * a_k] * b[k * b_k + j * b_col]);
                let mut sum = alpha * products.sum::<f32>();
                sum += beta.map_or(0.0, |beta| beta * bias[i * bias_row + j * bias_col]);
                let (low, high) = clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
                expected[i * row + j * col] = sum.clamp(low, high);
            }
        }
        for isa in Isa::available() {
            let what = format!("{isa:?} {rows} {inner} {cols} layout {layout}");
            let mut scratch = vec![f32::NAN; product.scratch_len(isa, 1)];
            let mut out = vec![f32::NAN; rows * cols];
            let strides = MatrixStrides { row, col };
            let target = Output { data: &mut out, strides };
            assert_eq!(product.run(isa, target, &mut scratch, None), Ok(()), "{what}");
            assert_eq!(out, expected, "{what}");

            let (product, strides) = product.oriented(isa, strides);
            let mut scratch = vec![f32::NAN; product.scratch_len(isa, 1)];
            let mut out = vec![f32::NAN; rows * cols];
            let target = Output { data: &mut out, strides };
            if product.is_gemv() {
                product.run_gemv(isa, target).expect("lengths fit");
            } else {
                product.run(isa, target, &mut scratch, None).expect("lengths fit");
            }
            assert_eq!(out, expected, "{what} oriented");
        }
    }
}

#[test]
fn every_remainder_of_rows_and_columns() {
    for rows in [1, 2, 5, 6, 7, 12, 13, 25] {
        for cols in [1, 3, 8, 16, 17, 33, 70] {
            for inner in [0, 1, 19] {
                let (beta, clamp) = (Some(1.0), None);
                check(&Case { rows, inner, cols, alpha: 1.0, beta, clamp });
            }
        }
    }
}

#[test]
fn alpha_beta_and_clamp() {
    for (alpha, beta) in [(1.0, None), (2.0, None), (2.0, Some(3.0)), (1.0, Some(1.0))] {
        for clamp in [None, Some((-20.0, 15.0))] {
            check(&Case { rows: 7, inner: 9, cols: 40, alpha, beta, clamp });
            check(&Case { rows: 1, inner: 40, cols: 9, alpha, beta, clamp });
        }
    }
}

#[test]
fn several_blocks() {
    for (rows, inner, cols) in [(30, 800, 70), (400, 400, 40), (13, 1000, 1)] {
        let clamp = Some((-90.0, 90.0));
        check(&Case { rows, inner, cols, alpha: 2.0, beta: Some(1.0), clamp });
    }
}

#[test]
fn nan_passes_through_the_clamp() {
    let (a, b) = ([f32::NAN, 1.0], [1.0; 40]);
    let product = Gemm {
        a: operand(&a, [2, 1], [1, 1]).unwrap(),
        b: operand(&b, [40, 1], [1, 40]).unwrap(),
        rows: 2,
        inner: 1,
        cols: 40,
        alpha: 1.0,
        addend: None,
        clamp: Some((0.0, 0.5)),
    };
    for isa in Isa::available() {
        let mut scratch = vec![0.0; product.scratch_len(isa, 1)];
        let mut out = [0.0; 80];
        let target = Output { data: &mut out, strides: MatrixStrides { row: 40, col: 1 } };
        product.run(isa, target, &mut scratch, None).expect("lengths fit");
        assert!(out[..40].iter().all(|x| x.is_nan()) && out[40..] == [0.5; 40]);
    }
}

#[test]
fn short_slices_are_refused() {
    let data = [1.0; 4];
    assert!(operand(&data, [2, 2], [2, 1]).is_some());
    assert!(operand(&data, [2, 2], [3, 1]).is_none());
    assert!(operand(&data, [usize::MAX, usize::MAX], [2, 2]).is_none());
    let lines = operand(&data, [2, 2], [2, 1]).unwrap();
    let product = Gemm {
        a: lines,
        b: lines,
        rows: 2,
        inner: 2,
        cols: 2,
        alpha: 1.0,
        addend: None,
        clamp: None,
    };
    let isa = Isa::best();
    let mut scratch = vec![0.0; product.scratch_len(isa, 1)];
    let mut run = |product: &Gemm<'_, _, _>, len: usize, scratch_len: usize| {
        let mut out = vec![0.0; len];
        let target = Output { data: &mut out, strides: MatrixStrides { row: 2, col: 1 } };
        product.run(isa, target, &mut scratch[..scratch_len], None)
    };
    let all = product.scratch_len(isa, 1);
    assert_eq!(run(&product, 4, all), Ok(()));
    let short = SizeError::Length { slice: "out", len: 3, required: 4 };
    assert_eq!(run(&product, 3, all), Err(short));
    assert!(run(&product, 4, 1).is_err());
    assert!(run(&Gemm { inner: 3, ..product }, 4, all).is_err());
    assert!(run(&Gemm { rows: 3, ..product }, 6, all).is_err());
    let short =
        Some(Addend { data: &data[..3], strides: MatrixStrides { row: 2, col: 1 }, beta: 1.0 });
    assert!(run(&Gemm { addend: short, ..product }, 4, all).is_err());
}
