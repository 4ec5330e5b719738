//! Length regulator: expands tokens to hops of audio by their durations.

/// Position features per hop.
pub(crate) const POSITION_FEATURES: usize = 4;
/// Hops per decoder step.
pub(crate) const HOPS_PER_STEP: usize = 2;

/// Longest duration of a token, in seconds.
const MAX_TOKEN_S: f32 = 5.0;

/// Token of a hop and the position of the hop in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HopPosition {
    /// The token at the middle of the hop.
    pub(crate) token: usize,
    /// Elapsed fraction of the token, time since its start, time until its end, and its length;
    /// times are scaled and clipped.
    pub(crate) features: [f32; POSITION_FEATURES],
}

/// Expands tokens that last `seconds` to hops of `hop_s` seconds. Durations are first clamped to 0
/// to 5 s. The last token is extended to fill a decoder step.
pub(crate) fn expand(seconds: &mut [f32], hop_s: f64) -> Vec<HopPosition> {
    for duration in seconds.iter_mut() {
        *duration = if duration.is_nan() { 0.0 } else { duration.clamp(0.0, MAX_TOKEN_S) };
    }
    let before_last: f64 = seconds.iter().rev().skip(1).map(|&s| f64::from(s)).sum();
    let Some(last) = seconds.last_mut() else { return Vec::new() };
    let step_s = hop_s * HOPS_PER_STEP as f64;
    let total = ((before_last + f64::from(*last)) / step_s - 1e-6).ceil() * step_s;
    *last = (total - before_last) as f32;
    let mut hops = Vec::new();
    let (mut token, mut start) = (0, 0.0);
    for hop in 0..(total / hop_s).round() as usize {
        let middle = (hop as f64 + 0.5) * hop_s;
        while token + 1 < seconds.len() && start + f64::from(seconds[token]) <= middle {
            start += f64::from(seconds[token]);
            token += 1;
        }
        let length = f64::from(seconds[token]).max(1e-3);
        let elapsed = (middle - start).max(0.0);
        let remaining = (start + length - middle).max(0.0);
        let features = [
            (elapsed / length).min(1.0),
            elapsed.min(0.2) * 10.0,
            remaining.min(0.2) * 10.0,
            length.min(0.4) * 5.0,
        ];
        hops.push(HopPosition { token, features: features.map(|value| value as f32) });
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_belong_to_the_token_at_their_middle() {
        let mut seconds = [0.012, 0.0, 0.02, 0.011];
        let hops = expand(&mut seconds, 0.01);
        assert_eq!(hops.iter().map(|hop| hop.token).collect::<Vec<_>>(), [0, 2, 2, 3, 3, 3]);
        assert!((seconds.iter().sum::<f32>() - 0.06).abs() < 1e-6);
        let expected = [0.65, 0.13, 0.07, 0.1];
        for (found, expected) in hops[2].features.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{:?}", hops[2]);
        }
    }

    #[test]
    fn whole_steps_are_not_extended() {
        assert_eq!(expand(&mut [0.05, 0.15], 0.01).len(), 20);
        assert!(expand(&mut [], 0.01).is_empty());
    }

    #[test]
    fn durations_are_clamped_to_five_seconds() {
        let mut seconds = [1e4, f32::NAN, -1.0, 0.08];
        assert_eq!(expand(&mut seconds, 0.01).len(), 508);
        assert_eq!(seconds[..3], [5.0, 0.0, 0.0]);
    }
}
