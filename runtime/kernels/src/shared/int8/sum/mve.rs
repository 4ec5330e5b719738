//! Sums with MVE: four elements in an instruction.

#![expect(unsafe_code, reason = "calls instructions by `asm!`")]

use core::arch::asm;

use super::{FRACTION_BITS, Sum};

/// Operands as the instructions read them.
#[repr(C)]
struct Block {
    min: i32,
    max: i32,
    /// Negative right shifts of the operands and of the sum.
    right: [i32; 3],
    zero_points: [i32; 2],
    /// Fixed-point multipliers of the operands and of the sum.
    multipliers: [i32; 3],
    /// Left shifts of the operands.
    left: [i32; 2],
    zero_point: i32,
}

/// Adds `a` and `b`, as [`Sum::run`]. The shift of the sum is not positive.
pub(super) fn add(sum: &Sum, a: &[i8], b: &[i8], out: &mut [i8]) {
    let [scale_a, scale_b] = sum.scales;
    let left = |shift: i32| shift.max(0).wrapping_add(FRACTION_BITS as i32);
    let block = Block {
        min: sum.range.min,
        max: sum.range.max,
        right: [scale_a.shift.min(0), scale_b.shift.min(0), sum.scale.shift],
        zero_points: sum.zero_points,
        multipliers: [scale_a.multiplier, scale_b.multiplier, sum.scale.multiplier],
        left: [left(scale_a.shift), left(scale_b.shift)],
        zero_point: sum.range.zero_point,
    };
    // SAFETY: the instructions read `block` and as many elements of `a` and `b` as all slices have,
    // and write as many of `out`. All registers that they change are listed. The saturating additions
    // round halves of the right shifts away from zero.
    unsafe {
        asm!(
            "ldrd r0, r1, [r12]", // min, max
            "vdup.32 q6, r0",
            "vdup.32 q7, r1",
            "ldrd r0, r1, [r12, #8]", // right shifts
            "vdup.32 q3, r0",
            "vdup.32 q4, r1",
            "ldr r0, [r12, #16]",
            "vdup.32 q5, r0",
            "add r12, r12, #20",
            "ldm r12, {{r0, r1, r2, r8, r9, r10, r11, r12}}",
            "wlstp.32 lr, lr, 2f",
            "1:",
            "vldrb.s32 q0, [r3], #4",
            "vsub.i32 q0, q0, r0",
            "vshl.s32 q0, r10",
            "vqrdmulh.s32 q0, q0, r2",
            "vand q2, q0, q3",
            "vshr.s32 q2, q2, #31",
            "vqadd.s32 q0, q0, q2",
            "vrshl.s32 q0, q0, q3",
            "vldrb.s32 q1, [r4], #4",
            "vsub.i32 q1, q1, r1",
            "vshl.s32 q1, r11",
            "vqrdmulh.s32 q1, q1, r8",
            "vand q2, q1, q4",
            "vshr.s32 q2, q2, #31",
            "vqadd.s32 q1, q1, q2",
            "vrshl.s32 q1, q1, q4",
            "vadd.i32 q0, q0, q1",
            "vqrdmulh.s32 q0, q0, r9",
            "vand q2, q0, q5",
            "vshr.s32 q2, q2, #31",
            "vqadd.s32 q0, q0, q2",
            "vrshl.s32 q0, q0, q5",
            "vadd.i32 q0, q0, r12",
            "vmax.s32 q0, q0, q6",
            "vmin.s32 q0, q0, q7",
            "vstrb.32 q0, [r5], #4",
            "letp lr, 1b",
            "2:",
            inout("r12") &raw const block => _,
            inout("r3") a.as_ptr() => _,
            inout("r4") b.as_ptr() => _,
            inout("r5") out.as_mut_ptr() => _,
            inout("lr") out.len().min(a.len()).min(b.len()) => _,
            out("r0") _, out("r1") _, out("r2") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("d0") _, out("d1") _, out("d2") _, out("d3") _,
            out("d4") _, out("d5") _, out("d6") _, out("d7") _,
            out("d8") _, out("d9") _, out("d10") _, out("d11") _,
            out("d12") _, out("d13") _, out("d14") _, out("d15") _,
            options(nostack),
        );
    }
}
