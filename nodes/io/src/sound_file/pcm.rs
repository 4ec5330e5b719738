//! Uncompressed and companded samples.

use std::io::{self, Read};

use afferent_graph::choices;

use super::SampleReader;

choices! {
    /// Encoding of a sample; several bytes are in little-endian order.
    pub enum Encoding {
        /// Unsigned 8-bit integers, silence at 128.
        U8 = "u8",
        /// 16-bit integers.
        S16 = "s16le",
        /// 24-bit integers in three bytes.
        S24 = "s24le",
        /// 32-bit integers.
        S32 = "s32le",
        /// 32-bit floating point.
        F32 = "f32le",
        /// 64-bit floating point.
        F64 = "f64le",
        /// G.711 µ-law.
        MuLaw = "mulaw",
        /// G.711 A-law.
        ALaw = "alaw",
    }
}

impl Encoding {
    /// Bytes of a sample.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::U8 | Self::MuLaw | Self::ALaw => 1,
            Self::S16 => 2,
            Self::S24 => 3,
            Self::S32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Integer samples of `bytes` bytes.
    pub(crate) fn integer(bytes: usize) -> Option<Self> {
        Some(match bytes {
            1 => Self::U8,
            2 => Self::S16,
            3 => Self::S24,
            4 => Self::S32,
            _ => return None,
        })
    }

    /// Floating-point samples of `bytes` bytes.
    pub(crate) fn float(bytes: usize) -> Option<Self> {
        Some(match bytes {
            4 => Self::F32,
            8 => Self::F64,
            _ => return None,
        })
    }

    /// Appends the samples in `bytes`, full scale ±1. A partial sample at the end is ignored.
    fn decode(self, bytes: &[u8], samples: &mut Vec<f32>) {
        let sample = |bytes: &[u8]| match *bytes {
            [byte] => match self {
                Self::MuLaw => f32::from(mu_law(byte)) / 32_768.0,
                Self::ALaw => f32::from(a_law(byte)) / 32_768.0,
                _ => (f32::from(byte) - 128.0) / 128.0,
            },
            [a, b] => f32::from(i16::from_le_bytes([a, b])) / 32_768.0,
            [a, b, c] => i32::from_le_bytes([0, a, b, c]) as f32 / 2_147_483_648.0,
            [a, b, c, d] if self == Self::F32 => f32::from_le_bytes([a, b, c, d]),
            [a, b, c, d] => i32::from_le_bytes([a, b, c, d]) as f32 / 2_147_483_648.0,
            [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]) as f32,
            _ => 0.0,
        };
        samples.extend(bytes.chunks_exact(self.size()).map(sample));
    }
}

/// Linear value of a µ-law byte (ITU-T G.711), scaled to 16 bits.
fn mu_law(byte: u8) -> i16 {
    let byte = !byte;
    let (exponent, mantissa) = ((byte >> 4) & 7, i16::from(byte & 15));
    let value = (((mantissa << 3) + 0x84) << exponent) - 0x84;
    if byte & 0x80 == 0 { value } else { -value }
}

/// Linear value of an A-law byte (ITU-T G.711), scaled to 16 bits.
fn a_law(byte: u8) -> i16 {
    let byte = byte ^ 0x55;
    let (exponent, mantissa) = ((byte >> 4) & 7, i16::from(byte & 15));
    let value = match exponent {
        0 => (mantissa << 4) + 8,
        _ => ((mantissa << 4) + 0x108) << (exponent - 1),
    };
    if byte & 0x80 == 0 { -value } else { value }
}

/// Reads samples of one encoding.
pub(crate) struct PcmReader<R> {
    input: R,
    encoding: Encoding,
    bytes: Vec<u8>,
}

impl<R> PcmReader<R> {
    pub(crate) fn new(input: R, encoding: Encoding) -> Self {
        Self { input, encoding, bytes: Vec::new() }
    }
}

impl<R: Read + Send> SampleReader for PcmReader<R> {
    fn read(&mut self, count: usize, samples: &mut Vec<f32>) -> Result<(), String> {
        self.bytes.clear();
        let wanted = count.saturating_mul(self.encoding.size());
        // Memory grows with the bytes in the file, not with the length in a header.
        let result = (&mut self.input).take(wanted as u64).read_to_end(&mut self.bytes);
        self.encoding.decode(&self.bytes, samples);
        result.map(drop).map_err(|error: io::Error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(encoding: Encoding, bytes: &[u8], expected: &[f32]) {
        let mut samples = Vec::new();
        encoding.decode(bytes, &mut samples);
        assert_eq!(samples, expected, "{encoding:?}");
    }

    #[test]
    fn every_encoding_has_the_same_scale() {
        check(Encoding::U8, &[0, 128, 192], &[-1.0, 0.0, 0.5]);
        check(Encoding::S16, &[0, 0x80, 0, 0, 0, 0x40, 9], &[-1.0, 0.0, 0.5]);
        check(Encoding::S24, &[0, 0, 0x80, 0, 0, 0, 0, 0, 0x40], &[-1.0, 0.0, 0.5]);
        check(Encoding::S32, &[0, 0, 0, 0x80, 0, 0, 0, 0x40], &[-1.0, 0.5]);
        let floats = [-1.0_f32, 0.0, 0.5].map(f32::to_le_bytes).concat();
        check(Encoding::F32, &floats, &[-1.0, 0.0, 0.5]);
        let floats = [-1.0_f64, 0.0, 0.5].map(f64::to_le_bytes).concat();
        check(Encoding::F64, &floats, &[-1.0, 0.0, 0.5]);
    }

    /// Values of the tables of ITU-T G.711, scaled to 16 bits.
    #[test]
    fn companded_samples_match_g711() {
        for (byte, value) in [
            (0x00, -32_124),
            (0x0f, -16_764),
            (0x7f, 0),
            (0x80, 32_124),
            (0x8f, 16_764),
            (0xf0, 120),
            (0xfe, 8),
            (0xff, 0),
        ] {
            assert_eq!(mu_law(byte), value, "{byte:#x}");
        }
        for (byte, value) in [
            (0x2a, -32_256),
            (0xaa, 32_256),
            (0x55, -8),
            (0xd5, 8),
            (0x54, -24),
            (0x45, -264),
            (0xc5, 264),
            (0x80, 5504),
        ] {
            assert_eq!(a_law(byte), value, "{byte:#x}");
        }
    }
}
