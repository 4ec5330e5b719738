//! Durations of symbols, in frames.

/// Scales `frames` to the sum `target`: each is rounded, down to a shorter sum up, and the frames that
/// are missing or too many are spread over the greatest errors of rounding.
pub(super) fn scale(frames: &mut [usize], target: usize) {
    let total: usize = frames.iter().sum();
    if total == 0 || total == target {
        return;
    }
    let shrinks = target < total;
    let mut errors: Vec<(usize, usize)> = Vec::with_capacity(frames.len());
    for (at, count) in frames.iter_mut().enumerate() {
        // Exact, in parts of `total`.
        let share = *count * target;
        let rounded = if shrinks { share.div_ceil(total) } else { share / total };
        errors.push(((rounded * total).abs_diff(share), at));
        *count = rounded;
    }
    errors.sort_by_key(|(error, _)| std::cmp::Reverse(*error));
    let rest = frames.iter().sum::<usize>().abs_diff(target);
    for (_, at) in errors.into_iter().take(rest) {
        frames[at] = if shrinks { frames[at].saturating_sub(1) } else { frames[at] + 1 };
    }
}

/// Number of the symbol of each frame.
pub(super) fn indices(frames: &[usize]) -> Vec<i64> {
    let numbered = (0..).zip(frames);
    numbered.flat_map(|(symbol, &count)| std::iter::repeat_n(symbol, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_scaled() {
        let check = |frames: &[usize], target: usize, expected: &[usize]| {
            let mut found = frames.to_vec();
            scale(&mut found, target);
            assert_eq!(found, expected, "{frames:?} to {target}");
        };
        check(&[1, 2, 3], 6, &[1, 2, 3]);
        check(&[2, 4, 6], 6, &[1, 2, 3]);
        // Shares 1.25, 2.5, 1.25 round up to 2, 3, 2: two too many.
        check(&[2, 4, 2], 5, &[1, 3, 1]);
        // Shares 2.67, 5.33 round down to 2, 5: one is missing.
        check(&[1, 2], 8, &[3, 5]);
        check(&[0, 0], 5, &[0, 0]);
        assert_eq!(indices(&[1, 0, 3]), [0, 2, 2, 2]);
    }
}
