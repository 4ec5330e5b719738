//! What follows a sum of products.

use crate::{Float, Simd, math};

/// Bounds, and perhaps a function of what is within them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Activation {
    /// The bounds; NaN stays.
    pub clamp: (f32, f32),
    /// Whether [`hardswish`](math::hardswish) follows.
    pub hardswish: bool,
}

impl Activation {
    /// Of a vector.
    #[inline(always)]
    pub(crate) fn of<S: Simd>(self, simd: S, x: S::F32) -> S::F32 {
        // The operand that is kept where one is NaN is the second.
        let x = simd.splat(self.clamp.1).min(simd.splat(self.clamp.0).max(x));
        if self.hardswish { math::hardswish(simd, x) } else { x }
    }
}

impl From<(f32, f32)> for Activation {
    fn from(clamp: (f32, f32)) -> Self {
        Self { clamp, hardswish: false }
    }
}
