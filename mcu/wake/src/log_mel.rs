//! Log-mel features in fixed-point arithmetic.
//!
//! The features are those of the package `log_mel`, in 8 bits: Hann windows of 400 samples, a hop
//! of 160, a DFT of 512 points, 40 triangular mel filters from 60 to 7600 Hz, and the logarithm.

use crate::numbers;

/// Features of one hop. A value `q` stands for `(q - LogMel::ZERO_POINT) * LogMel::SCALE`.
pub type Row = [i8; LogMel::BANDS];

/// Computes log-mel features of 16-bit samples at 16 kHz.
///
/// Samples before the first count as zeros. A row differs from the features of the package
/// `log_mel` by at most 0.6 of [`LogMel::SCALE`], rounding included. The spectrum has 32 bits, so
/// quiet sounds keep their precision.
///
/// ```
/// let mut features = afferent_wake::LogMel::new();
/// let mut rows = Vec::new();
/// features.push(&[0; 320], |row| rows.push(*row));
/// assert_eq!(rows, [[-128; 40]; 2]); // silence
/// ```
#[derive(Debug, Clone)]
pub struct LogMel {
    /// The newest samples; the next row begins with the first of them.
    samples: [i16; WINDOW],
    /// Number of samples that are present.
    filled: usize,
    spectrum: [Complex; POINTS],
}

/// Real and imaginary part.
type Complex = [i32; 2];

const WINDOW: usize = 400;
const HOP: usize = 160;
/// Points of the complex transform, whose real and imaginary parts are even and odd samples.
const POINTS: usize = 256;
/// Fraction bits of the sums of the bands: 42 of the power spectrum, less 12, and 15 of a weight.
const BAND_BITS: u32 = 45;
const POWER_SHIFT: u32 = 12;
/// Smallest power of a band, as in the package `log_mel`.
const FLOOR: u64 = ((1_u64 << BAND_BITS) as f64 * 1e-6) as u64;
/// First bin with a weight that is not zero, and the bin after the last one.
const BINS: [usize; 2] = [2, 244];

impl LogMel {
    /// Values of a row.
    pub const BANDS: usize = 40;
    /// Samples from one row to the next.
    pub const HOP: usize = HOP;
    /// Difference of the features whose quantized values differ by one.
    pub const SCALE: f64 = 0.0225;
    /// Quantized value of the feature zero.
    pub const ZERO_POINT: i32 = -19;

    /// Features of a new stream.
    pub const fn new() -> Self {
        Self { samples: [0; WINDOW], filled: WINDOW - HOP, spectrum: [[0; 2]; POINTS] }
    }

    /// Adds samples, and calls `on_row` for each hop that they complete.
    pub fn push(&mut self, samples: &[i16], mut on_row: impl FnMut(&Row)) {
        for &sample in samples {
            if let Some(free) = self.samples.get_mut(self.filled) {
                *free = sample;
                self.filled += 1;
            }
            if self.filled >= WINDOW {
                on_row(&self.row());
                self.samples.copy_within(HOP.., 0);
                self.filled = WINDOW - HOP;
            }
        }
    }

    /// Features of the samples.
    fn row(&mut self) -> Row {
        self.transform();
        let mut bands = [FLOOR; Self::BANDS + 2];
        for (bin, &(band, weight)) in (BINS[0]..BINS[1]).zip(&WEIGHTS) {
            let power = self.power(bin) >> POWER_SHIFT;
            let (band, weight) = (usize::from(band), u64::from(weight));
            // `bands` begins with the half of a filter below the first one.
            if let Some([falling, rising]) = bands.get_mut(band..).and_then(|b| b.first_chunk_mut())
            {
                *falling += power * (ONE - weight);
                *rising += power * weight;
            }
        }
        let mut row = [0; Self::BANDS];
        for (value, &power) in row.iter_mut().zip(&bands[1..]) {
            *value = quantized(power);
        }
        row
    }

    /// Transforms the windowed samples. Each stage halves the values, so none overflows.
    fn transform(&mut self) {
        self.spectrum.fill([0; 2]);
        for (point, samples) in self.samples.as_chunks::<2>().0.iter().enumerate() {
            let windowed = |part: usize| {
                let at = 2 * point + part;
                let window = HANN[at.min(WINDOW - at)];
                high_product(i32::from(samples[part]) << 16, window)
            };
            let reversed = usize::from((point as u8).reverse_bits());
            self.spectrum[reversed] = [windowed(0), windowed(1)];
        }
        for stage in 0..8 {
            let half = 1_usize << stage;
            for at in 0..half {
                let [cos, sin] = ROTATIONS[((at * POINTS) >> stage) & (POINTS - 1)];
                let mut first = at;
                while first < POINTS {
                    let second = (first + half) & (POINTS - 1);
                    let ([a, b], [c, d]) = (self.spectrum[first], self.spectrum[second]);
                    let (a, b) = (a >> 1, b >> 1);
                    let real = high_product(c, cos) + high_product(d, sin);
                    let imaginary = high_product(d, cos) - high_product(c, sin);
                    self.spectrum[first] = [a + real, b + imaginary];
                    self.spectrum[second] = [a - real, b - imaginary];
                    first += 2 * half;
                }
            }
        }
    }

    /// Power of a bin from 1 to 255, in 2^-42 of full scale.
    fn power(&self, bin: usize) -> u64 {
        let bin = bin & (POINTS - 1);
        let ([a, b], [c, d]) = (self.spectrum[bin], self.spectrum[(POINTS - bin) & (POINTS - 1)]);
        let [cos, sin] = ROTATIONS[bin];
        // Twice the transform of the odd samples; that of the even ones has a quarter.
        let (odd, odd_imaginary) = ((b + d) >> 1, (c - a) >> 1);
        let real = ((a + c) >> 2) + high_product(odd, cos) + high_product(odd_imaginary, sin);
        let imaginary = ((b - d) >> 2) + high_product(odd_imaginary, cos) - high_product(odd, sin);
        let square = |x: i32| (i64::from(x) * i64::from(x)).cast_unsigned();
        square(real) + square(imaginary)
    }
}

impl Default for LogMel {
    fn default() -> Self {
        Self::new()
    }
}

/// Upper half of a product: half of the product with a number of 31 fraction bits.
#[inline]
const fn high_product(a: i32, b: i32) -> i32 {
    ((a as i64 * b as i64) >> 32) as i32
}

/// Quantized feature of a power with [`BAND_BITS`] fraction bits.
fn quantized(power: u64) -> i8 {
    /// Quantized values of a doubling of the power, with 16 fraction bits.
    const DOUBLING: i64 = numbers::round(core::f64::consts::LN_2 * 0.25 / LogMel::SCALE * 65536.0);
    /// Quantized value of the power one, with 32 fraction bits, and a half for rounding.
    const AT_ONE: i64 =
        numbers::round((1.0 / LogMel::SCALE + LogMel::ZERO_POINT as f64 + 0.5) * 4_294_967_296.0);
    let log = log2(power) - ((BAND_BITS as i64) << 16);
    ((log * DOUBLING + AT_ONE) >> 32).clamp(-128, 127) as i8
}

/// Binary logarithm with 16 fraction bits, from a table of 64 intervals. The error is below 3e-5.
fn log2(x: u64) -> i64 {
    let zeros = x.leading_zeros() & 63;
    let mantissa = (x << zeros) >> 41; // a leading one and 22 fraction bits
    let (interval, rest) = ((mantissa >> 16) as usize & 63, (mantissa & 0xffff) as i64);
    let (low, high) = (i64::from(LOGARITHMS[interval]), i64::from(LOGARITHMS[interval + 1]));
    // The upper 6 of the 22 bits choose the interval.
    (i64::from(63 - zeros) << 16) + low + (((high - low) * rest) >> 16)
}

/// First half of the periodic Hann window and the sample after it, with 31 fraction bits.
static HANN: [i32; WINDOW / 2 + 1] = {
    let mut table = [0; WINDOW / 2 + 1];
    let mut at = 0;
    while at < table.len() {
        let phase = core::f64::consts::TAU * at as f64 / WINDOW as f64;
        table[at] = with_31_bits(0.5 - 0.5 * numbers::cos(phase));
        at += 1;
    }
    table
};

/// Number from -1 to 1 with 31 fraction bits.
const fn with_31_bits(x: f64) -> i32 {
    let x = numbers::round(x * 2_147_483_648.0);
    if x > i32::MAX as i64 { i32::MAX } else { x as i32 }
}

/// Cosine and sine of `2π k / 512`, with 31 fraction bits.
static ROTATIONS: [Complex; POINTS] = {
    let mut table = [[0; 2]; POINTS];
    let mut at = 0;
    while at < POINTS {
        let phase = core::f64::consts::PI * at as f64 / POINTS as f64;
        table[at] = [with_31_bits(numbers::cos(phase)), with_31_bits(numbers::sin(phase))];
        at += 1;
    }
    table
};

/// Binary logarithms of `1 + k / 64`, with 16 fraction bits.
static LOGARITHMS: [u32; 65] = {
    let mut table = [0; 65];
    let mut at = 0;
    while at <= 64 {
        let log = numbers::ln(1.0 + at as f64 / 64.0) / core::f64::consts::LN_2;
        table[at] = numbers::round(log * 65536.0) as u32;
        at += 1;
    }
    table
};

/// Weight one of a bin in a band.
const ONE: u64 = 1 << 15;

/// Band whose filter rises at a bin, and its weight with 15 fraction bits, for each bin. The filter
/// of the band before it falls; both weights have the sum [`ONE`].
static WEIGHTS: [(u8, u16); BINS[1] - BINS[0]] = {
    let mut table = [(0, 0); BINS[1] - BINS[0]];
    let mut band = 0;
    let mut at = 0;
    while at < table.len() {
        let hz = (at + BINS[0]) as f64 * 31.25;
        while MEL_EDGES[band + 1] <= hz {
            band += 1;
        }
        let (low, high) = (MEL_EDGES[band], MEL_EDGES[band + 1]);
        table[at] = (band as u8, numbers::round((hz - low) / (high - low) * 32768.0) as u16);
        at += 1;
    }
    table
};

/// Edges of the mel filters in Hz: filter `i` rises from edge `i` and falls from edge `i + 1`.
const MEL_EDGES: [f64; LogMel::BANDS + 2] = {
    let (low, high) = (1.0 + 60.0 / 700.0, 1.0 + 7600.0 / 700.0);
    let step = numbers::exp(numbers::ln(high / low) / (LogMel::BANDS + 1) as f64);
    let mut table = [0.0; LogMel::BANDS + 2];
    let (mut at, mut edge) = (0, low);
    while at < table.len() {
        table[at] = 700.0 * (edge - 1.0);
        edge *= step;
        at += 1;
    }
    table
};
