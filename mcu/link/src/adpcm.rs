//! IMA ADPCM: 4 bits for a sample of 16.
//!
//! Source: IMA Digital Audio Focus and Technical Working Groups, "Recommended Practices for
//! Enhancing Digital Audio Compatibility in Multimedia Systems", 1992.

/// State of an encoder or a decoder. A block of samples carries the state at its start, so that
/// a lost block does not spoil the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Adpcm {
    /// The last decoded sample.
    pub predictor: i16,
    /// Position in the table of step sizes, 0 to 88.
    pub step: u8,
}

/// Step sizes: a number and about 1.1 times it.
static STEPS: [u16; 89] = [
    7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66,
    73, 80, 88, 97, 107, 118, 130, 143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449,
    494, 544, 598, 658, 724, 796, 876, 963, 1060, 1166, 1282, 1411, 1552, 1707, 1878, 2066, 2272,
    2499, 2749, 3024, 3327, 3660, 4026, 4428, 4871, 5358, 5894, 6484, 7132, 7845, 8630, 9493,
    10442, 11487, 12635, 13899, 15289, 16818, 18500, 20350, 22385, 24623, 27086, 29794, 32767,
];

/// Change of the step for the lower three bits of a code.
static CHANGES: [i8; 8] = [-1, -1, -1, -1, 2, 4, 6, 8];

impl Adpcm {
    /// Encodes two samples into a byte, the first one in the lower four bits.
    pub fn encode(&mut self, samples: [i16; 2]) -> u8 {
        let [low, high] = samples.map(|sample| self.encode_one(sample));
        low | high << 4
    }

    /// Decodes the two samples of a byte.
    pub fn decode(&mut self, byte: u8) -> [i16; 2] {
        [byte & 15, byte >> 4].map(|code| self.decode_one(code))
    }

    fn encode_one(&mut self, sample: i16) -> u8 {
        let difference = i32::from(sample) - i32::from(self.predictor);
        let mut rest = difference.abs();
        let mut code = if difference < 0 { 8 } else { 0 };
        for bit in [2_u8, 1, 0] {
            let part = self.step_size() >> (2 - bit);
            if rest >= part {
                code |= 1 << bit;
                rest -= part;
            }
        }
        self.decode_one(code);
        code
    }

    fn decode_one(&mut self, code: u8) -> i16 {
        let step = self.step_size();
        let mut difference = step >> 3;
        for (bit, shift) in [(4, 0), (2, 1), (1, 2)] {
            if code & bit != 0 {
                difference += step >> shift;
            }
        }
        let difference = if code & 8 == 0 { difference } else { -difference };
        let predictor = i32::from(self.predictor) + difference;
        self.predictor = predictor.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        let change = CHANGES[usize::from(code & 7)];
        self.step = self.step.saturating_add_signed(change).min(88);
        self.predictor
    }

    fn step_size(self) -> i32 {
        STEPS.get(usize::from(self.step)).map_or(32767, |&step| step.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes and decodes `sound`; returns the signal-to-noise ratio of its second half in dB.
    fn ratio_db(sound: &[i16]) -> f64 {
        let (mut encoder, mut decoder) = (Adpcm::default(), Adpcm::default());
        let (mut signal, mut noise) = (0.0, 0.0);
        for (at, &pair) in sound.as_chunks::<2>().0.iter().enumerate() {
            let decoded = decoder.decode(encoder.encode(pair));
            assert_eq!(encoder, decoder);
            if at >= sound.len() / 4 {
                for (sample, decoded) in pair.into_iter().zip(decoded) {
                    signal += f64::from(sample).powi(2);
                    noise += (f64::from(sample) - f64::from(decoded)).powi(2);
                }
            }
        }
        10.0 * (signal / noise.max(1e-9)).log10()
    }

    #[test]
    fn tones_keep_their_shape() {
        for (level, hz) in [(30_000.0, 200.0), (3_000.0, 440.0), (300.0, 1_000.0)] {
            let sample = |at: i32| {
                let phase = std::f64::consts::TAU * hz * f64::from(at) / 16_000.0;
                (level * phase.sin()).round() as i16
            };
            let ratio = ratio_db(&(0..8000).map(sample).collect::<Vec<_>>());
            assert!(ratio > 20.0, "{hz} Hz: {ratio} dB");
        }
    }

    #[test]
    fn codes_of_a_step_are_those_of_the_standard() {
        // From zero with the smallest step: 7/8, then +7, +3, +1 for the bits of the code.
        for (code, expected) in [(0, 0), (1, 1), (2, 3), (4, 7), (7, 11), (15, -11)] {
            assert_eq!(Adpcm::default().decode_one(code), expected, "{code}");
        }
        let mut end = Adpcm { predictor: i16::MAX, step: 88 };
        assert_eq!((end.decode_one(7), end.step), (i16::MAX, 88));
        let mut invalid = Adpcm { predictor: 0, step: 255 };
        assert_eq!((invalid.decode_one(0), invalid.step), (4095, 88));
    }
}
