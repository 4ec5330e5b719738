//! Lookup tables of 256 entries: elementwise functions of int8 values (XNNPACK `x8-lut`).

use crate::{Isa, Routine, Simd};

/// Writes `table[x as u8]` for each value of `x` to `out`, up to the length of the shorter slice.
pub fn lookup(isa: Isa, table: &[i8; 256], x: &[i8], out: &mut [i8]) {
    isa.run(Lookup { table, x, out });
}

struct Lookup<'d> {
    table: &'d [i8; 256],
    x: &'d [i8],
    out: &'d mut [i8],
}

impl Routine for Lookup<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { table, x, out } = self;
        let (x_bytes, out_bytes) = (bytemuck::cast_slice(x), bytemuck::cast_slice_mut(out));
        let done = simd.lookup_bytes(bytemuck::cast_ref(table), x_bytes, out_bytes);
        for (x, out) in x.iter().zip(out).skip(done) {
            *out = table[usize::from(x.cast_unsigned())];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_indexing_for_every_length() {
        let table: [i8; 256] = core::array::from_fn(|at| (at * 37 + 11) as i8);
        for isa in Isa::available() {
            for len in [0, 1, 63, 64, 65, 300] {
                let x: Vec<i8> = (0..len).map(|at| (at * 3) as i8).collect();
                let mut found = vec![0; len];
                lookup(isa, &table, &x, &mut found);
                let expected = x.iter().map(|x| table[usize::from(x.cast_unsigned())]);
                assert!(found.iter().copied().eq(expected), "{isa:?}, length {len}");
            }
        }
    }
}
