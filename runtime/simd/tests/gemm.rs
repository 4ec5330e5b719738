//! Products of matrices of many shapes and layouts, on every instruction set of this machine.

use afferent_simd::{
    Isa,
    gemm::{Addend, Gemm, Lines, Target},
};

/// Small integers, which every order of additions sums up to the same number.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
}

struct Case {
    rows: usize,
    inner: usize,
    cols: usize,
    alpha: f32,
    beta: Option<f32>,
    clamp: Option<(f32, f32)>,
}

/// Compares the product with sums one by one, for row-major and column-major operands.
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
            a: Lines::new(&a, (rows, a_row), (inner, a_k)).expect("lines fit"),
            b: Lines::new(&b, (cols, b_col), (inner, b_k)).expect("lines fit"),
            rows,
            inner,
            cols,
            alpha,
            addend: beta.map(|beta| Addend { data: &bias, row: bias_row, col: bias_col, beta }),
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
            let target = Target { data: &mut out, row, col };
            assert!(product.write(isa, target, &mut scratch, None).is_some(), "{what}");
            assert_eq!(out, expected, "{what}");

            let (product, row, col) = product.oriented(isa, row, col);
            let mut scratch = vec![f32::NAN; product.scratch_len(isa, 1)];
            let mut out = vec![f32::NAN; rows * cols];
            let target = Target { data: &mut out, row, col };
            if product.is_vector() {
                product.write_vector(isa, target).expect("lengths fit");
            } else {
                product.write(isa, target, &mut scratch, None).expect("lengths fit");
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
fn factors_and_bounds() {
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
fn nan_passes_bounds() {
    let (a, b) = ([f32::NAN, 1.0], [1.0; 40]);
    let product = Gemm {
        a: Lines::new(&a, (2, 1), (1, 1)).unwrap(),
        b: Lines::new(&b, (40, 1), (1, 40)).unwrap(),
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
        let target = Target { data: &mut out, row: 40, col: 1 };
        product.write(isa, target, &mut scratch, None).expect("lengths fit");
        assert!(out[..40].iter().all(|x| x.is_nan()) && out[40..] == [0.5; 40]);
    }
}

#[test]
fn matrices_outside_their_slices_are_refused() {
    let data = [1.0; 4];
    assert!(Lines::new(&data, (2, 2), (2, 1)).is_some());
    assert!(Lines::new(&data, (2, 2), (3, 1)).is_none());
    assert!(Lines::new(&data, (usize::MAX, usize::MAX), (2, 2)).is_none());
    let lines = Lines::new(&data, (2, 2), (2, 1)).unwrap();
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
    let mut write = |product: &Gemm<'_, _, _>, len: usize, scratch_len: usize| {
        let mut out = vec![0.0; len];
        let target = Target { data: &mut out, row: 2, col: 1 };
        product.write(isa, target, &mut scratch[..scratch_len], None)
    };
    let all = product.scratch_len(isa, 1);
    assert!(write(&product, 4, all).is_some());
    assert!(write(&product, 3, all).is_none());
    assert!(write(&product, 4, 1).is_none());
    assert!(write(&Gemm { inner: 3, ..product }, 4, all).is_none());
    assert!(write(&Gemm { rows: 3, ..product }, 6, all).is_none());
    let short = Some(Addend { data: &data[..3], row: 2, col: 1, beta: 1.0 });
    assert!(write(&Gemm { addend: short, ..product }, 4, all).is_none());
}
