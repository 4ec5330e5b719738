//! Tokens and their durations to what is said in each hop of sound.

/// Numbers that say where in its token a hop lies.
pub(crate) const PLACES: usize = 4;
/// The decoder makes this many hops at a time.
pub(crate) const STEP: usize = 2;

/// Longest time that a token may last.
const LONGEST_S: f32 = 5.0;

/// One hop of sound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Placed {
    /// The token that its middle lies in.
    pub(crate) token: usize,
    /// The share of the token before it, the time since its begin, until its end, and its length.
    pub(crate) place: [f32; PLACES],
}

/// The hops of tokens that last so many seconds, which are made 0 to 5; a hop lasts `hop_s`. The
/// last token grows until the hops fill a step.
pub(crate) fn place(seconds: &mut [f32], hop_s: f64) -> Vec<Placed> {
    for each in seconds.iter_mut() {
        *each = if each.is_nan() { 0.0 } else { each.clamp(0.0, LONGEST_S) };
    }
    let before_last: f64 = seconds.iter().rev().skip(1).map(|&s| f64::from(s)).sum();
    let Some(last) = seconds.last_mut() else { return Vec::new() };
    let step_s = hop_s * STEP as f64;
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
        let after = (middle - start).max(0.0);
        let before = (start + length - middle).max(0.0);
        let place = [
            (after / length).min(1.0),
            after.min(0.2) * 10.0,
            before.min(0.2) * 10.0,
            length.min(0.4) * 5.0,
        ];
        hops.push(Placed { token, place: place.map(|value| value as f32) });
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_lie_in_the_token_of_their_middle() {
        let mut seconds = [0.012, 0.0, 0.02, 0.011];
        let hops = place(&mut seconds, 0.01);
        assert_eq!(hops.iter().map(|hop| hop.token).collect::<Vec<_>>(), [0, 2, 2, 3, 3, 3]);
        assert!((seconds.iter().sum::<f32>() - 0.06).abs() < 1e-6);
        let expected = [0.65, 0.13, 0.07, 0.1];
        for (found, expected) in hops[2].place.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{:?}", hops[2]);
        }
    }

    #[test]
    fn whole_steps_stay_as_they_are() {
        assert_eq!(place(&mut [0.05, 0.15], 0.01).len(), 20);
        assert!(place(&mut [], 0.01).is_empty());
    }

    #[test]
    fn no_token_lasts_longer_than_five_seconds() {
        let mut seconds = [1e4, f32::NAN, -1.0, 0.08];
        assert_eq!(place(&mut seconds, 0.01).len(), 508);
        assert_eq!(seconds[..3], [5.0, 0.0, 0.0]);
    }
}
