//! Functions of integers of 8 bits, as tables of their results.

use crate::{Isa, Routine, Simd};

/// Writes for each integer the one of `table` at the place that its bits are.
///
/// As many are written as both `x` and `to` have.
pub fn look_up(isa: Isa, table: &[i8; 256], x: &[i8], to: &mut [i8]) {
    isa.run(LookUp { table, x, to });
}

struct LookUp<'d> {
    table: &'d [i8; 256],
    x: &'d [i8],
    to: &'d mut [i8],
}

impl Routine for LookUp<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { table, x, to } = self;
        let bytes = (bytemuck::cast_slice(x), bytemuck::cast_slice_mut(to));
        let done = simd.look_up(bytemuck::cast_ref(table), bytes.0, bytes.1);
        for (x, to) in x.iter().zip(to).skip(done) {
            *to = table[usize::from(x.cast_unsigned())];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_integer_and_every_length() {
        let table: [i8; 256] = core::array::from_fn(|at| (at * 37 + 11) as i8);
        for isa in Isa::available() {
            for len in [0, 1, 63, 64, 65, 300] {
                let x: Vec<i8> = (0..len).map(|at| (at * 3) as i8).collect();
                let mut found = vec![0; len];
                look_up(isa, &table, &x, &mut found);
                let wanted = x.iter().map(|x| table[usize::from(x.cast_unsigned())]);
                assert!(found.iter().copied().eq(wanted), "{isa:?}, {len}");
            }
        }
    }
}
