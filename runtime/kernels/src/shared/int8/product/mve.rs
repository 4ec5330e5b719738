//! Products with MVE: sixteen multiplications in an instruction.

#![expect(unsafe_code, reason = "calls instructions by `asm!`")]

use core::arch::asm;

use super::Filters;

pub(crate) const ROWS: usize = 4;

/// Rows are not packed.
pub(crate) fn packed_words(_len: usize) -> usize {
    0
}

/// Parameters of one filter, as the instructions read them.
#[repr(C)]
struct Block {
    offset: i32,
    bias: i32,
    multiplier: i32,
    left: i32,
    negative_right: i32,
    zero_point: i32,
    min: i32,
    max: i32,
    row_bias: [i32; ROWS],
    /// Offsets of the results from the address of the output.
    targets: [u32; ROWS],
    rows: [*const i8; ROWS],
    /// Address of the result of row zero, if its target were zero.
    out: *mut i8,
}

/// As [`Filters::multiply`].
pub(crate) fn multiply(
    filters: &Filters<'_>,
    rows: [&[i8]; ROWS],
    targets: [usize; ROWS],
    out: &mut [i8],
    _packed: &mut [u32],
) {
    let channels = filters.channels();
    let is_short = rows.iter().any(|row| row.len() < filters.len);
    let ends = targets.iter().filter_map(|target| target.checked_add(channels));
    if is_short || ends.max().is_none_or(|end| end > out.len()) {
        return;
    }
    let mut block = Block {
        offset: filters.input_offset,
        bias: 0,
        multiplier: 0,
        left: 0,
        negative_right: 0,
        zero_point: filters.output.zero_point,
        min: filters.output.min,
        max: filters.output.max,
        row_bias: rows.map(|row| filters.row_bias(row)),
        targets: targets.map(|target| target as u32),
        rows: rows.map(<[i8]>::as_ptr),
        out: out.as_mut_ptr(),
    };
    for (channel, weights) in filters.weights.chunks_exact(filters.len).enumerate() {
        let requantizer = filters.requantizer(channel);
        block.bias = filters.bias(channel);
        block.multiplier = requantizer.multiplier;
        block.left = requantizer.shift.max(0);
        block.negative_right = requantizer.shift.min(0);
        // SAFETY: the rows have at least as many elements as the weights, and each target plus the
        // number of channels is in the output, as checked above.
        unsafe { multiply_filter(&block, weights) };
        block.out = block.out.wrapping_add(1);
    }
}

/// Multiplies four rows with one filter.
///
/// # Safety
/// Each row of `block` has as many elements as `weights`, and each target is in the memory that
/// begins at its output.
#[inline]
unsafe fn multiply_filter(block: &Block, weights: &[i8]) {
    // SAFETY: guaranteed by the caller. All registers that the instructions change are listed.
    unsafe {
        asm!(
            "ldrd r3, r5, [r11, #64]",
            "ldrd r9, r10, [r11, #72]",
            "movs r0, #0",
            "movs r2, #0",
            "movs r4, #0",
            "mov r8, #0",
            "mov r12, #0",
            "wlstp.8 lr, lr, 2f",
            "1:",
            "vldrb.u8 q0, [r1], #16",
            "vldrb.u8 q1, [r3], #16",
            "vaddva.s8 r8, q0",
            "vmladava.s8 r0, q0, q1",
            "vldrb.u8 q2, [r5], #16",
            "vmladava.s8 r2, q0, q2",
            "vldrb.u8 q1, [r9], #16",
            "vmladava.s8 r4, q0, q1",
            "vldrb.u8 q2, [r10], #16",
            "vmladava.s8 r12, q0, q2",
            "letp lr, 1b",
            "2:",
            "vmov q0[2], q0[0], r4, r0",
            "vmov q0[3], q0[1], r12, r2",
            "ldrd r1, r3, [r11]", // offset, bias
            "ldrd r5, r9, [r11, #8]", // multiplier, left
            "ldr r10, [r11, #16]", // negative right
            "mla r8, r8, r1, r3",
            "vldrw.u32 q1, [r11, #32]", // row bias
            "vadd.i32 q0, q0, r8",
            "vadd.i32 q0, q0, q1",
            "vshl.s32 q0, r9",
            "vqrdmulh.s32 q0, q0, r5",
            "vdup.32 q1, r10",
            "vand q2, q0, q1",
            "vshr.s32 q2, q2, #31",
            "vqadd.s32 q0, q0, q2",
            "vrshl.s32 q0, r10",
            "ldrd r1, r3, [r11, #20]", // zero point, min
            "ldr r5, [r11, #28]", // max
            "vadd.i32 q0, q0, r1",
            "vdup.32 q1, r3",
            "vdup.32 q2, r5",
            "vmax.s32 q0, q0, q1",
            "vldrw.u32 q3, [r11, #48]", // targets
            "vmin.s32 q0, q0, q2",
            "ldr r0, [r11, #80]", // output
            "vstrb.32 q0, [r0, q3]",
            in("r11") block,
            inout("r1") weights.as_ptr() => _,
            inout("lr") weights.len() => _,
            out("r0") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _,
            out("r8") _, out("r9") _, out("r10") _, out("r12") _,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _,
            out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _,
            out("s12") _, out("s13") _, out("s14") _, out("s15") _,
        );
    }
}
