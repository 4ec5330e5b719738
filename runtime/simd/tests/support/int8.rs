//! int8 data for tests.

/// Values that depend on `seed`: any, or only the minimum and the maximum.
pub(crate) fn bytes(len: usize, seed: u32) -> Vec<i8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 9) as i8
    };
    let extreme = |x: i8| if x < 0 { i8::MIN } else { i8::MAX };
    match seed % 4 {
        0 => vec![i8::MIN; len],
        1 => (0..len).map(|_| extreme(next())).collect(),
        _ => (0..len).map(|_| next()).collect(),
    }
}

/// The int8 value of an accumulator.
pub(crate) fn requantize(acc: i32, scale: f32, clamp: (f32, f32), zero_point: i32) -> i32 {
    let value = (acc as f32 * scale).clamp(clamp.0, clamp.1).round_ties_even() as i32;
    (value + zero_point).clamp(-128, 127)
}
