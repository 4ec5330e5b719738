//! Instruction sets: run-time detection, and code compiled for each of them.

#[cfg(all(target_arch = "x86_64", feature = "std"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", feature = "std"))]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
mod scalar;

use core::fmt;

#[cfg(all(target_arch = "x86_64", feature = "std"))]
pub use avx2::Avx2;
#[cfg(all(target_arch = "x86_64", feature = "std"))]
pub use avx512::Avx512;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
pub use neon::Neon;
pub use scalar::Scalar;

use crate::Simd;

/// A computation that is compiled for every instruction set.
pub trait Routine {
    /// Result of the computation.
    type Output;

    /// Runs the computation with the instruction set of `simd`. Implementations, and all functions
    /// that their loops call, are `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// An instruction set that this processor supports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(Token);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    #[cfg(all(target_arch = "x86_64", feature = "std"))]
    Avx512(Avx512),
    #[cfg(all(target_arch = "x86_64", feature = "std"))]
    Avx2(Avx2),
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    NeonDot(Neon<true>),
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Neon(Neon<false>),
    Scalar(Scalar),
}

impl Isa {
    /// Scalar code, which every processor supports.
    pub const SCALAR: Self = Self(Token::Scalar(Scalar));

    /// Returns the fastest instruction set of this processor.
    #[inline]
    pub fn best() -> Self {
        #[cfg(feature = "std")]
        {
            static BEST: std::sync::OnceLock<Isa> = std::sync::OnceLock::new();
            *BEST.get_or_init(|| Self::available().next().unwrap_or(Self::SCALAR))
        }
        #[cfg(not(feature = "std"))]
        Self::available().next().unwrap_or(Self::SCALAR)
    }

    /// Iterates over all instruction sets of this processor, fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        let all = [
            #[cfg(all(target_arch = "x86_64", feature = "std"))]
            Avx512::detect().map(Token::Avx512),
            #[cfg(all(target_arch = "x86_64", feature = "std"))]
            Avx2::detect().map(Token::Avx2),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Neon::detect().map(Token::NeonDot),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Some(Token::Neon(Neon::new())),
            Some(Token::Scalar(Scalar)),
        ];
        all.into_iter().flatten().map(Self)
    }

    /// Name for messages and reports.
    pub const fn name(self) -> &'static str {
        match self.0 {
            #[cfg(all(target_arch = "x86_64", feature = "std"))]
            Token::Avx512(_) => "AVX-512",
            #[cfg(all(target_arch = "x86_64", feature = "std"))]
            Token::Avx2(_) => "AVX2",
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Token::NeonDot(_) => "NEON with dot products",
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Token::Neon(_) => "NEON",
            Token::Scalar(_) => "scalar",
        }
    }

    /// Runs the version of `routine` that is compiled for this instruction set.
    #[inline]
    pub fn run<R: Routine>(self, routine: R) -> R::Output {
        match self.0 {
            #[cfg(all(target_arch = "x86_64", feature = "std"))]
            Token::Avx512(token) => token.run(routine),
            #[cfg(all(target_arch = "x86_64", feature = "std"))]
            Token::Avx2(token) => token.run(routine),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Token::NeonDot(token) => token.run(routine),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Token::Neon(token) => token.run(routine),
            Token::Scalar(token) => routine.run(token),
        }
    }

    /// 32-bit lanes of a vector.
    #[inline(never)]
    pub fn lanes(self) -> usize {
        self.run(Lanes)
    }

    /// Calls `f`, plain loops that the compiler autovectorizes for this instruction set.
    ///
    /// `f` is compiled for the instruction set only if it is inlined. A long closure should call an
    /// `#[inline(always)]` function.
    #[inline]
    pub fn call<T>(self, f: impl FnOnce() -> T) -> T {
        self.run(Plain(f))
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

struct Lanes;

impl Routine for Lanes {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        S::LANES
    }
}

/// A closure that does not use the token.
struct Plain<F>(F);

impl<T, F: FnOnce() -> T> Routine for Plain<F> {
    type Output = T;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> T {
        (self.0)()
    }
}

#[cfg(test)]
mod tests {
    use core::cmp::Reverse;

    use super::*;

    #[test]
    fn available_sets_are_sorted_by_lanes_and_end_with_scalar() {
        let all: Vec<Isa> = Isa::available().collect();
        assert!(all.is_sorted_by_key(|isa| Reverse(isa.lanes())), "{all:?}");
        assert_eq!(all.last(), Some(&Isa::SCALAR));
    }

    #[test]
    fn closures_run_on_every_set() {
        let mut data = [1.0_f32; 37];
        for isa in Isa::available() {
            isa.call(|| data.iter_mut().for_each(|x| *x *= 2.0));
        }
        let expected = 2.0_f32.powi(i32::try_from(Isa::available().count()).unwrap());
        assert_eq!(data, [expected; 37]);
    }
}
