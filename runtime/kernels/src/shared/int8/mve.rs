//! Depthwise sums and requantization with MVE.

#![expect(unsafe_code, reason = "calls instructions by `asm!`")]

use core::arch::asm;

use super::{dsp::Tap, per_channel::PerChannel};

/// Operands of all output channels, as the instructions read them.
#[repr(C)]
struct Block {
    taps: *const Tap,
    count: usize,
    /// Groups of eight channels that are left.
    groups: usize,
    first_input: *const i8,
    /// Not zero if all channels read one input channel.
    is_shared: u32,
    zero_point: i32,
    min: i32,
    max: i32,
    /// Sums of the channels in order.
    sums: [i32; 8],
}

/// Computes the output channels of one position in groups of eight, without a rest. Each reads the
/// input channel with its number, or all read the only one.
///
/// # Safety
/// Each of `taps`, at least one, was made from `input` and its weights, and both have as many
/// channels there as `out`. `bias` and the parameters have as many elements.
pub(crate) unsafe fn depthwise(
    taps: &[Tap],
    input: &[i8],
    parameters: &PerChannel<'_>,
    bias: &[i32],
    is_shared: bool,
    out: &mut [i8],
) {
    let mut block = Block {
        taps: taps.as_ptr(),
        count: taps.len(),
        groups: out.len() / 8,
        first_input: input.as_ptr(),
        is_shared: is_shared.into(),
        zero_point: parameters.range.zero_point,
        min: parameters.range.min,
        max: parameters.range.max,
        sums: [0; 8],
    };
    if block.groups == 0 {
        return;
    }
    // SAFETY: guaranteed by the caller. All registers that the instructions change are listed. Even
    // channels are in q2, odd ones in q3.
    unsafe {
        asm!(
            "5:",
            "ldrd r1, lr, [r0]", // taps, their number
            "ldr r3, [r0, #16]",
            "cmp r3, #0",
            "bne 3f",
            "vld20.32 {{q2, q3}}, [r11]",
            "vld21.32 {{q2, q3}}, [r11]!",
            "dls lr, lr",
            "1:",
            "ldrd r3, r4, [r1], #8",
            "add r3, r3, r2",
            "add r4, r4, r2",
            "vldrb.s16 q0, [r3]",
            "vadd.i16 q0, q0, r8",
            "vldrb.s16 q1, [r4]",
            "vmullb.s16 q4, q0, q1",
            "vadd.i32 q2, q2, q4",
            "vmullt.s16 q5, q0, q1",
            "vadd.i32 q3, q3, q5",
            "le lr, 1b",
            "b 4f",
            "3:",
            "vldrw.u32 q2, [r11], #16",
            "vldrw.u32 q3, [r11], #16",
            "ldr r12, [r0, #12]", // the only input channel
            "dls lr, lr",
            "2:",
            "ldrd r3, r4, [r1], #8",
            "ldrsb r3, [r12, r3]",
            "add r4, r4, r2",
            "vldrb.s32 q0, [r4]",
            "add r3, r3, r8",
            "vmla.s32 q2, q0, r3",
            "vldrb.s32 q1, [r4, #4]",
            "vmla.s32 q3, q1, r3",
            "le lr, 2b",
            "add r3, r0, #32", // even and odd channels
            "vstrw.32 q2, [r3]",
            "vstrw.32 q3, [r3, #16]",
            "vld20.32 {{q2, q3}}, [r3]",
            "vld21.32 {{q2, q3}}, [r3]",
            "4:",
            "vld20.32 {{q4, q5}}, [r9]",
            "vld21.32 {{q4, q5}}, [r9]!", // multipliers
            "vld20.32 {{q6, q7}}, [r10]",
            "vld21.32 {{q6, q7}}, [r10]!", // shifts
            "vmov.i32 q1, #0",
            "vmax.s32 q0, q6, q1",
            "vshl.s32 q2, q2, q0",
            "vmax.s32 q0, q7, q1",
            "vshl.s32 q3, q3, q0",
            "vqrdmulh.s32 q2, q2, q4",
            "vqrdmulh.s32 q3, q3, q5",
            "vmin.s32 q6, q6, q1",
            "vmin.s32 q7, q7, q1",
            "vand q0, q2, q6",
            "vand q1, q3, q7",
            "vshr.s32 q0, q0, #31",
            "vshr.s32 q1, q1, #31",
            "vqadd.s32 q2, q2, q0",
            "vqadd.s32 q3, q3, q1",
            "vrshl.s32 q2, q2, q6",
            "vrshl.s32 q3, q3, q7",
            "ldrd r1, r3, [r0, #20]", // zero point, min
            "ldr r4, [r0, #28]", // max
            "vadd.i32 q2, q2, r1",
            "vadd.i32 q3, q3, r1",
            "vqmovnb.s32 q0, q2",
            "vqmovnt.s32 q0, q3",
            "vdup.16 q1, r3",
            "vmax.s16 q0, q0, q1",
            "vdup.16 q1, r4",
            "vmin.s16 q0, q0, q1",
            "vstrb.16 q0, [r5], #8",
            "ldr r3, [r0, #8]", // groups
            "adds r2, r2, #8",
            "subs r3, r3, #1",
            "str r3, [r0, #8]",
            "bne 5b",
            in("r0") &raw mut block,
            inout("r2") input.as_ptr() => _,
            inout("r5") out.as_mut_ptr() => _,
            in("r8") parameters.input_offset,
            inout("r9") parameters.multipliers.as_ptr() => _,
            inout("r10") parameters.shifts.as_ptr() => _,
            inout("r11") bias.as_ptr() => _,
            out("r1") _, out("r3") _, out("r4") _, out("r12") _, out("lr") _,
            out("d0") _, out("d1") _, out("d2") _, out("d3") _,
            out("d4") _, out("d5") _, out("d6") _, out("d7") _,
            out("d8") _, out("d9") _, out("d10") _, out("d11") _,
            out("d12") _, out("d13") _, out("d14") _, out("d15") _,
            options(nostack),
        );
    }
}
