//! Samples that are no sound.

/// Sixty decibels over full scale: what is louder is a fault of the sender.
const LOUDEST: f32 = 1e3;

/// The sample; silence where it is no number or no sound, which would stay in what hears it.
pub(crate) fn heard(sample: f32) -> f32 {
    if sample.abs() <= LOUDEST { sample } else { 0.0 }
}

/// Sound that nodes which remember what they heard have to outlive.
#[cfg(test)]
pub(crate) const NO_SOUND: [f32; 4] = [f32::NAN, f32::NEG_INFINITY, 2e19, -1e30];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_sound_is_silence() {
        assert_eq!(NO_SOUND.map(heard), [0.0; 4]);
        assert_eq!([-1e3, -0.5, 0.0, 2.0].map(heard), [-1e3, -0.5, 0.0, 2.0]);
    }
}
