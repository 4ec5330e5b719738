//! Attention compared with what its formula says, in every layout and dtype.

use super::*;

/// Numbers that look random.
fn noise(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// `[heads, key heads, queries, keys, width]`.
type Shape = [usize; 5];

fn expected(attention: &Attention<'_>) -> Vec<f32> {
    let Attention { batches, queries, keys, width, .. } = *attention;
    let mut out = vec![0.0; batches * attention.heads * queries * width];
    let row = |rows: &Rows<'_>, batch, head, position| {
        let mut row = vec![0.0; width];
        rows.numbers
            .read(batch * rows.batch + head * rows.head + position * rows.position, &mut row);
        row
    };
    for batch in 0..batches {
        for head in 0..attention.heads {
            let key_head = head / (attention.heads / attention.key_heads);
            for query in 0..queries {
                let q = row(&attention.query, batch, head, query);
                let seen = attention.causal.map_or(keys, |first| (first + query + 1).min(keys));
                let scores: Vec<f64> = (0..seen)
                    .map(|key| {
                        let k = row(&attention.key, batch, key_head, key);
                        let dot: f32 = q.iter().zip(k).map(|(q, k)| q * k).sum();
                        let mask = attention.mask.map_or(0.0, |mask| mask[query * keys + key]);
                        f64::from(dot * attention.scale + mask)
                    })
                    .collect();
                let best = scores.iter().copied().fold(f64::MIN, f64::max);
                let total: f64 = scores.iter().map(|score| (score - best).exp()).sum();
                let start = batch * attention.query.batch
                    + head * attention.query.head
                    + query * attention.query.position;
                for (key, score) in scores.iter().enumerate() {
                    let v = row(&attention.value, batch, key_head, key);
                    let weight = if score.is_finite() { (score - best).exp() / total } else { 0.0 };
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
        attention.run(isa, NumbersMut::F32(&mut out), &mut scratch);
        for (at, (found, expected)) in out.iter().zip(&expected).enumerate() {
            assert!(
                (found - expected).abs() < 2e-5,
                "{isa:?} {note}: {at}: {found}, not {expected}"
            );
        }
    }
}

#[track_caller]
fn check(shape: Shape, causal: Option<usize>, is_masked: bool) {
    let [heads, key_heads, queries, keys, width] = shape;
    let batches = 2;
    let query = noise(batches * heads * queries * width, 1);
    let key = noise(batches * key_heads * keys * width, 2);
    let value = noise(batches * key_heads * keys * width, 3);
    let mut mask = noise(queries * keys, 4);
    mask.iter_mut().step_by(3).for_each(|x| *x = f32::NEG_INFINITY);
    for positions_first in [true, false] {
        let rows = |numbers, heads, positions| {
            let (head, position) =
                if positions_first { (width, heads * width) } else { (positions * width, width) };
            Rows { numbers, batch: heads * positions * width, head, position }
        };
        let attention = Attention {
            query: rows(Numbers::F32(&query), heads, queries),
            key: rows(Numbers::F32(&key), key_heads, keys),
            value: rows(Numbers::F32(&value), key_heads, keys),
            mask: is_masked.then_some(&mask),
            batches,
            heads,
            key_heads,
            queries,
            keys,
            width,
            causal,
            scale: 0.7,
        };
        compare(&attention, &format!("{shape:?} {causal:?} {is_masked} {positions_first}"));
    }
}

#[test]
fn sizes_and_masks() {
    for shape in [
        [1, 1, 1, 1, 1],
        [2, 2, 1, 140, 64],
        [4, 2, 3, 37, 70],
        [2, 1, 40, 50, 16],
        [1, 1, 33, 260, 9],
        [6, 2, 17, 130, 8],
        [1, 1, 5, 1, 3],
    ] {
        check(shape, None, false);
        check(shape, None, true);
        let [_, _, queries, keys, _] = shape;
        check(shape, Some(keys.saturating_sub(queries)), false);
        check(shape, Some(0), false);
    }
}

#[test]
fn other_dtypes() {
    let (queries, keys, width) = (20, 40, 24);
    let numbers: Vec<i8> = noise(keys * width, 5).iter().map(|x| (x * 127.0) as i8).collect();
    let zero_points: Vec<i8> = numbers[..keys].to_vec();
    let scales: Vec<f32> = noise(keys, 6).iter().map(|x| x.abs() / 64.0).collect();
    let floats = noise(keys * width, 7);
    let half: Vec<f16> = floats.iter().map(|&x| f16::from_f32(x)).collect();
    let brain: Vec<bf16> = floats.iter().map(|&x| bf16::from_f32(x)).collect();
    let quantized = Numbers::I8 { numbers: &numbers, scales: &scales, zero_points: &zero_points };
    for numbers in [Numbers::F16(&half), Numbers::Bf16(&brain), quantized] {
        for queries in [1, queries] {
            let rows = Rows { numbers, batch: 0, head: 0, position: width };
            let attention = Attention {
                query: rows,
                key: rows,
                value: rows,
                mask: None,
                batches: 1,
                heads: 1,
                key_heads: 1,
                queries,
                keys,
                width,
                causal: Some(3),
                scale: 0.5,
            };
            compare(&attention, "dtypes");
        }
    }
}

#[test]
fn a_query_without_keys_gets_zeros_and_nan_stays() {
    for queries in [1, 40] {
        let (ones, mut mask) = (vec![1.0; 40 * 4], vec![f32::NEG_INFINITY; 40 * 2]);
        let last = queries * 2 - 1;
        if queries > 1 {
            mask[last] = f32::NAN;
        }
        let rows = Rows { numbers: Numbers::F32(&ones), batch: 0, head: 0, position: 4 };
        let attention = Attention {
            query: rows,
            key: rows,
            value: rows,
            mask: Some(&mask),
            batches: 1,
            heads: 1,
            key_heads: 1,
            queries,
            keys: 2,
            width: 4,
            causal: None,
            scale: 1.0,
        };
        let mut scratch = vec![f32::NAN; attention.scratch_len().unwrap()];
        for isa in Isa::available() {
            let mut out = vec![f32::NAN; queries * 4];
            attention.run(isa, NumbersMut::F32(&mut out), &mut scratch);
            assert_eq!(out[..4], [0.0; 4], "{isa:?}");
            assert_eq!(out[queries * 4 - 1].is_nan(), queries > 1, "{isa:?}");
        }
    }
}
