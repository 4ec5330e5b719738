//! Vector operations compared with scalar code, on every instruction set of this machine.

use afferent_simd::{Float, Int, Isa, Mask, Routine, Simd};

/// Operands with special values in different lanes; more than any vector has lanes.
const A: [f32; 19] = [
    1.5,
    -2.5,
    0.5,
    3.25,
    -0.0,
    7.0,
    f32::NAN,
    2.5,
    -7.75,
    1e6,
    -1e6,
    0.25,
    12.5,
    -3.5,
    4.0,
    f32::NAN,
    9.0,
    -8.0,
    6.0,
];
const B: [f32; 19] = [
    2.0,
    -2.5,
    1.0,
    -3.0,
    0.0,
    f32::NAN,
    1.0,
    2.5,
    7.75,
    -1e6,
    4.0,
    0.5,
    -12.5,
    3.5,
    4.0,
    f32::NAN,
    -9.0,
    8.0,
    5.0,
];

/// Applies an operation to all vectors of both operands.
struct Apply<F>(F);

trait Operation {
    fn apply<S: Simd>(&self, simd: S, a: S::F32, b: S::F32) -> S::F32;
}

impl<F: Operation> Routine for Apply<F> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Vec<f32> {
        let mut out = vec![0.0; A.len()];
        for start in (0..A.len()).step_by(S::LANES) {
            let end = A.len().min(start + S::LANES);
            let (a, b) = (simd.load_partial(&A[start..end]), simd.load_partial(&B[start..end]));
            simd.store_partial(self.0.apply(simd, a, b), &mut out[start..end]);
        }
        out
    }
}

macro_rules! operations {
    ($($test:ident: |$simd:ident, $a:ident, $b:ident| $vector:expr => $one:expr;)*) => {$(
        #[test]
        fn $test() {
            struct Vectors;
            impl Operation for Vectors {
                #[inline(always)]
                fn apply<S: Simd>(&self, $simd: S, $a: S::F32, $b: S::F32) -> S::F32 {
                    $vector
                }
            }
            let expected: Vec<f32> = A.iter().zip(&B).map(|(&$a, &$b)| $one).collect();
            for isa in Isa::available() {
                let found = isa.run(Apply(Vectors));
                for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let same = found.to_bits() == expected.to_bits()
                        || found.is_nan() && expected.is_nan();
                    assert!(same, "{isa:?} {at}: {found}, not {expected}");
                }
            }
        }
    )*};
}

operations! {
    adds: |_simd, a, b| a + b => a + b;
    subtracts: |_simd, a, b| a - b => a - b;
    multiplies: |_simd, a, b| a * b => a * b;
    divides: |_simd, a, b| a / b => a / b;
    negates: |_simd, a, _b| -a => -a;
    // The products are exact, so that one rounding and two give the same result.
    multiplies_and_adds: |simd, a, b| a.mul_add(simd.splat(2.0), b) => a * 2.0 + b;
    takes_the_smaller: |_simd, a, b| a.min(b) => if a < b { a } else { b };
    takes_the_greater: |_simd, a, b| a.max(b) => if a > b { a } else { b };
    takes_magnitudes: |_simd, a, _b| a.abs() => a.abs();
    takes_roots: |_simd, a, _b| a.abs().sqrt() => a.abs().sqrt();
    selects_less: |_simd, a, b| a.lt(b).select(a, b) => if a < b { a } else { b };
    selects_at_most: |_simd, a, b| a.le(b).select(a, b) => if a <= b { a } else { b };
    selects_equal: |simd, a, b| a.eq(b).select(a, simd.zero()) => if a == b { a } else { 0.0 };
    finds_nan: |simd, a, _b| a.is_nan().select(simd.splat(1.0), a) => if a.is_nan() { 1.0 } else { a };
    joins_masks: |_simd, a, b| (!a.lt(b) & a.le(b) | a.is_nan()).select(a, b)
        => if a == b || a.is_nan() { a } else { b };
    // Adding zero removes the sign of zero, which integers do not have.
    rounds: |simd, a, b| (a.is_nan() | b.is_nan()).select(b, a.round_to_i32().to_f32() + simd.zero())
        => if b.is_nan() || a.is_nan() { b } else { a.round_ties_even() + 0.0 };
    moves_bits: |simd, a, _b| (a.to_bits().shl::<3>().shr::<4>() + simd.splat_i32(5)).bitcast()
        => f32::from_bits((((a.to_bits() as i32) << 3 >> 4).wrapping_add(5)) as u32);
    joins_bits: |_simd, a, b| (a.to_bits() & b.to_bits() | (a.to_bits() - b.to_bits())).bitcast()
        => f32::from_bits(a.to_bits() & b.to_bits() | a.to_bits().wrapping_sub(b.to_bits()));
    compares_integers: |_simd, a, b| (a.to_bits().lt(b.to_bits()) | a.to_bits().eq(b.to_bits())).select(a, b)
        => if a.to_bits() as i32 <= b.to_bits() as i32 { a } else { b };
}

struct Reduce;

impl Routine for Reduce {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let data: Vec<f32> = (0..16).map(|i| (i * 7 % 16) as f32 - 3.0).collect();
        let part = &data[..S::LANES];
        let vector = simd.load(&data);
        assert_eq!(vector.sum(), part.iter().sum());
        assert_eq!(vector.min_lane(), part.iter().copied().fold(f32::INFINITY, f32::min));
        assert_eq!(vector.max_lane(), part.iter().copied().fold(-f32::INFINITY, f32::max));
        assert!(vector.le(simd.zero()).any());
        assert!(!vector.lt(simd.splat(-3.0)).any());
    }
}

#[test]
fn reduces() {
    Isa::available().for_each(|isa| isa.run(Reduce));
}

struct Parts;

impl Routine for Parts {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for len in 0..=20 {
            let data: Vec<f32> = (1..=len).map(|i| i as f32).collect();
            let kept = S::LANES.min(data.len());
            let mut whole = [f32::NAN; 16];
            simd.store(simd.load_partial(&data), &mut whole);
            assert_eq!(whole[..kept], data[..kept]);
            assert!(whole[kept..S::LANES].iter().all(|&x| x == 0.0));
            assert!(whole[S::LANES..].iter().all(|x| x.is_nan()));
            let mut part = vec![9.0; data.len()];
            simd.store_partial(simd.splat(1.0), &mut part);
            assert!(
                part[..kept].iter().all(|&x| x == 1.0) && part[kept..].iter().all(|&x| x == 9.0)
            );
        }
    }
}

#[test]
fn partial_loads_and_stores_stay_inside() {
    Isa::available().for_each(|isa| isa.run(Parts));
}

struct Bytes;

impl Routine for Bytes {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // The largest magnitudes first, whose sums exceed 16 bits.
        let a: [u8; 64] = std::array::from_fn(|at| if at < 16 { 255 } else { (at * 37) as u8 });
        let b: [i8; 64] = std::array::from_fn(|at| if at < 16 { -128 } else { (at * 91) as i8 });
        let a_words: [f32; 16] = bytemuck::cast(a);
        let b_words: [f32; 16] = bytemuck::cast(b);
        let (a_bits, b_bits) = (simd.load(&a_words).to_bits(), simd.load(&b_words).to_bits());
        let sums = simd.add_dot4(simd.splat_i32(7), a_bits, b_bits);
        let mut found = [0.0; 16];
        simd.store(sums.bitcast(), &mut found);
        for (lane, found) in found[..S::LANES].iter().enumerate() {
            let quad = 4 * lane..4 * lane + 4;
            let byte = |at: usize| match S::DOT4_OFFSET {
                0 => i32::from(a[at].cast_signed()),
                _ => i32::from(a[at]),
            };
            let wanted: i32 = quad.map(|at| byte(at) * i32::from(b[at])).sum();
            assert_eq!(found.to_bits().cast_signed(), wanted + 7, "lane {lane}");
        }
    }
}

#[test]
fn dot4_matches_scalar_code() {
    Isa::available().for_each(|isa| isa.run(Bytes));
}

struct Halves;

impl Routine for Halves {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // Both ends of the 16-bit range first, whose sums and differences wrap.
        let ends = [i16::MIN, i16::MAX, -1, 0];
        let half =
            |at: usize, step: i16| ends.get(at).copied().unwrap_or((at as i16).wrapping_mul(step));
        let a: [i16; 32] = std::array::from_fn(|at| half(at, 7919));
        let b: [i16; 32] = std::array::from_fn(|at| half(at ^ 1, -4021));
        let (a_words, b_words): ([f32; 16], [f32; 16]) = (bytemuck::cast(a), bytemuck::cast(b));
        let (a_bits, b_bits) = (simd.load(&a_words).to_bits(), simd.load(&b_words).to_bits());
        let stored = |value: S::I32| {
            let mut words = [0.0; 16];
            simd.store(value.bitcast(), &mut words);
            bytemuck::cast::<_, [i16; 32]>(words)
        };
        let [low, high] = a_bits.widen_bytes();
        let found = [a_bits.add_i16(b_bits), a_bits.sub_i16(b_bits), low, high].map(stored);
        for at in 0..2 * S::LANES {
            let sums = [a[at].wrapping_add(b[at]), a[at].wrapping_sub(b[at])];
            let bytes = [i16::from(a[at] as i8), a[at] >> 8];
            let found = found.map(|all| all[at]);
            assert_eq!(found, [sums[0], sums[1], bytes[0], bytes[1]], "half {at}");
        }
        let pairs: [i32; 16] = bytemuck::cast(stored(simd.splat_i32(5).add_dot2(a_bits, b_bits)));
        for (lane, found) in pairs[..S::LANES].iter().enumerate() {
            let product = |at: usize| i32::from(a[at]).wrapping_mul(i32::from(b[at]));
            let wanted = product(2 * lane).wrapping_add(product(2 * lane + 1)).wrapping_add(5);
            assert_eq!(*found, wanted, "lane {lane}");
        }
    }
}

#[test]
fn i16_operations_match_scalar_code() {
    Isa::available().for_each(|isa| isa.run(Halves));
}

struct LowestBytes;

impl Routine for LowestBytes {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let words = |step: u32| -> [u32; 16] {
            std::array::from_fn(|at| (at as u32 + 1).wrapping_mul(step))
        };
        let all = [0x9e37_79b9, 0x85eb_ca6b, 0xffff_ffff].map(words);
        let [a, b, c] =
            all.map(|words| simd.load(&bytemuck::cast::<_, [f32; 16]>(words)).to_bits());
        let mut found = [0.0; 16];
        simd.store(a.join_low_bytes(b, c).bitcast(), &mut found);
        for (lane, found) in found[..S::LANES].iter().enumerate() {
            let [a, b, c] = all.map(|words| words[lane].to_le_bytes()[0]);
            assert_eq!(found.to_bits().to_be_bytes(), [a, b, c, 0], "lane {lane}");
        }
    }
}

#[test]
fn join_low_bytes_matches_scalar_code() {
    Isa::available().for_each(|isa| isa.run(LowestBytes));
}

struct JoinedHalves;

impl Routine for JoinedHalves {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let words = |first: u32| -> [f32; 16] {
            std::array::from_fn(|at| f32::from_bits(first + at as u32))
        };
        let [low, high] = [words(0), words(100)];
        let joined = simd.load(&low).to_bits().join_halves(simd.load(&high).to_bits());
        let [first, second] = joined.split_halves();
        let lanes = |vector: S::I32| {
            let mut found = [0.0; 16];
            simd.store(vector.bitcast(), &mut found);
            found.map(f32::to_bits)
        };
        if S::LANES <= 4 {
            assert_eq!(lanes(joined)[..S::LANES], low.map(f32::to_bits)[..S::LANES]);
            assert_eq!(lanes(first)[..S::LANES], low.map(f32::to_bits)[..S::LANES]);
            return;
        }
        let half = S::LANES / 2;
        assert_eq!(lanes(joined)[..half], low.map(f32::to_bits)[..half]);
        assert_eq!(lanes(joined)[half..S::LANES], high.map(f32::to_bits)[..half]);
        assert_eq!(lanes(first)[..half], low.map(f32::to_bits)[..half]);
        assert_eq!(lanes(second)[..half], high.map(f32::to_bits)[..half]);
    }
}

#[test]
fn joined_halves_are_split() {
    Isa::available().for_each(|isa| isa.run(JoinedHalves));
}
