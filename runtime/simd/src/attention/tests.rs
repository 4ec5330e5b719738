//! Attention compared with its formula, in every layout and dtype.

use super::*;

/// Pseudorandom numbers from -1 to 1.
fn noise(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    heads: usize,
    kv_heads: usize,
    query_len: usize,
    kv_len: usize,
    head_dim: usize,
}

fn expected(attention: &Attention<'_>) -> Vec<f32> {
    let Attention { batches, query_len, kv_len, head_dim, .. } = *attention;
    let mut out = vec![0.0; batches * attention.heads * query_len * head_dim];
    let row = |rows: &StridedRows<'_>, batch, head, position| {
        let mut row = vec![0.0; head_dim];
        rows.data.read_row(rows.start(RowIndex { batch, head, position }), &mut row);
        row
    };
    for batch in 0..batches {
        for head in 0..attention.heads {
            let kv_head = head / (attention.heads / attention.kv_heads);
            for query in 0..query_len {
                let q = row(&attention.query, batch, head, query);
                let visible = attention
                    .causal_offset
                    .map_or(kv_len, |offset| (offset + query + 1).min(kv_len));
                let scores: Vec<f64> = (0..visible)
                    .map(|key| {
                        let k = row(&attention.key, batch, kv_head, key);
                        let dot: f32 = q.iter().zip(k).map(|(q, k)| q * k).sum();
                        let mask = attention.mask.map_or(0.0, |mask| mask[query * kv_len + key]);
                        f64::from(dot * attention.scale + mask)
                    })
                    .collect();
                let max = scores.iter().copied().fold(f64::MIN, f64::max);
                let total: f64 = scores.iter().map(|score| (score - max).exp()).sum();
                let start = attention.query.start(RowIndex { batch, head, position: query });
                for (key, score) in scores.iter().enumerate() {
                    let v = row(&attention.value, batch, kv_head, key);
                    let weight = if score.is_finite() { (score - max).exp() / total } else { 0.0 };
                    for (out, v) in out[start..].iter_mut().zip(v) {
                        *out += weight as f32 * v;
                    }
                }
            }
        }
    }
    out
}

#[track_caller]
fn compare(attention: &Attention<'_>, note: &str) {
    let expected = expected(attention);
    let mut scratch = vec![f32::NAN; attention.scratch_len().unwrap()];
    for isa in Isa::available() {
        let mut out = vec![f32::NAN; expected.len()];
        attention.run(isa, TensorDataMut::F32(&mut out), &mut scratch);
        for (index, (found, expected)) in out.iter().zip(&expected).enumerate() {
            assert!(
                (found - expected).abs() < 2e-5,
                "{isa:?} {note}: {index}: {found}, not {expected}"
            );
        }
    }
}

#[track_caller]
fn check(shape: Shape, causal_offset: Option<usize>, is_masked: bool) {
    let Shape { heads, kv_heads, query_len, kv_len, head_dim } = shape;
    let batches = 2;
    let query = noise(batches * heads * query_len * head_dim, 1);
    let key = noise(batches * kv_heads * kv_len * head_dim, 2);
    let value = noise(batches * kv_heads * kv_len * head_dim, 3);
    let mut mask = noise(query_len * kv_len, 4);
    mask.iter_mut().step_by(3).for_each(|x| *x = f32::NEG_INFINITY);
    for positions_first in [true, false] {
        let rows = |data, heads, positions| {
            let (head_stride, position_stride) = if positions_first {
                (head_dim, heads * head_dim)
            } else {
                (positions * head_dim, head_dim)
            };
            let batch_stride = heads * positions * head_dim;
            StridedRows { data, batch_stride, head_stride, position_stride }
        };
        let attention = Attention {
            query: rows(TensorData::F32(&query), heads, query_len),
            key: rows(TensorData::F32(&key), kv_heads, kv_len),
            value: rows(TensorData::F32(&value), kv_heads, kv_len),
            mask: is_masked.then_some(&mask),
            batches,
            heads,
            kv_heads,
            query_len,
            kv_len,
            head_dim,
            causal_offset,
            scale: 0.7,
        };
        compare(&attention, &format!("{shape:?} {causal_offset:?} {is_masked} {positions_first}"));
    }
}

#[test]
fn sizes_and_masks() {
    for [heads, kv_heads, query_len, kv_len, head_dim] in [
        [1, 1, 1, 1, 1],
        [2, 2, 1, 140, 64],
        [4, 2, 3, 37, 70],
        [2, 1, 40, 50, 16],
        [1, 1, 33, 260, 9],
        [6, 2, 17, 130, 8],
        [1, 1, 5, 1, 3],
    ] {
        let shape = Shape { heads, kv_heads, query_len, kv_len, head_dim };
        check(shape, None, false);
        check(shape, None, true);
        check(shape, Some(kv_len.saturating_sub(query_len)), false);
        check(shape, Some(0), false);
    }
}

#[test]
fn other_dtypes() {
    let (query_len, kv_len, head_dim) = (20, 40, 24);
    let data: Vec<i8> = noise(kv_len * head_dim, 5).iter().map(|x| (x * 127.0) as i8).collect();
    let zero_points: Vec<i8> = data[..kv_len].to_vec();
    let scales: Vec<f32> = noise(kv_len, 6).iter().map(|x| x.abs() / 64.0).collect();
    let floats = noise(kv_len * head_dim, 7);
    let half: Vec<f16> = floats.iter().map(|&x| f16::from_f32(x)).collect();
    let brain: Vec<bf16> = floats.iter().map(|&x| bf16::from_f32(x)).collect();
    let quantized = TensorData::I8 { data: &data, scales: &scales, zero_points: &zero_points };
    for data in [TensorData::F16(&half), TensorData::Bf16(&brain), quantized] {
        for query_len in [1, query_len] {
            let rows =
                StridedRows { data, batch_stride: 0, head_stride: 0, position_stride: head_dim };
            let attention = Attention {
                query: rows,
                key: rows,
                value: rows,
                mask: None,
                batches: 1,
                heads: 1,
                kv_heads: 1,
                query_len,
                kv_len,
                head_dim,
                causal_offset: Some(3),
                scale: 0.5,
            };
            compare(&attention, "dtypes");
        }
    }
}

#[test]
fn a_query_without_visible_keys_gives_zeros_and_nan_propagates() {
    for query_len in [1, 40] {
        let (ones, mut mask) = (vec![1.0; 40 * 4], vec![f32::NEG_INFINITY; 40 * 2]);
        let last = query_len * 2 - 1;
        if query_len > 1 {
            mask[last] = f32::NAN;
        }
        let data = TensorData::F32(&ones);
        let rows = StridedRows { data, batch_stride: 0, head_stride: 0, position_stride: 4 };
        let attention = Attention {
            query: rows,
            key: rows,
            value: rows,
            mask: Some(&mask),
            batches: 1,
            heads: 1,
            kv_heads: 1,
            query_len,
            kv_len: 2,
            head_dim: 4,
            causal_offset: None,
            scale: 1.0,
        };
        let mut scratch = vec![f32::NAN; attention.scratch_len().unwrap()];
        for isa in Isa::available() {
            let mut out = vec![f32::NAN; query_len * 4];
            attention.run(isa, TensorDataMut::F32(&mut out), &mut scratch);
            assert_eq!(out[..4], [0.0; 4], "{isa:?}");
            assert_eq!(out[query_len * 4 - 1].is_nan(), query_len > 1, "{isa:?}");
        }
    }
}
