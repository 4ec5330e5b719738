//! Depthwise sums and requantization with MVE.

#![expect(unsafe_code, reason = "calls instructions by `asm!`")]

use core::arch::asm;

use super::{dsp::Tap, per_channel::PerChannel};

/// Operands of eight output channels, as the instructions read them.
#[repr(C)]
struct Block {
    taps: *const Tap,
    input: *const i8,
    bias: *const i32,
    multipliers: *const i32,
    shifts: *const i32,
    offset: i32,
    zero_point: i32,
    min: i32,
    max: i32,
    out: *mut i8,
}

/// Bias of channels without one.
static NO_BIAS: [i32; 8] = [0; 8];

/// Computes the output channels of one position in groups of eight, and returns their number. Each
/// output channel reads the input channel with its number.
///
/// # Safety
/// Each of `taps` was made from `input` and its weights, and both have as many channels there as
/// `out`.
pub(crate) unsafe fn depthwise(
    taps: &[Tap],
    input: &[i8],
    parameters: &PerChannel<'_>,
    out: &mut [i8],
) -> usize {
    let channels = out.len().min(parameters.multipliers.len()).min(parameters.shifts.len());
    let bias = parameters.bias.filter(|bias| bias.len() >= channels);
    if taps.is_empty() {
        return 0;
    }
    let mut block = Block {
        taps: taps.as_ptr(),
        input: input.as_ptr(),
        bias: bias.map_or(NO_BIAS.as_ptr(), <[i32]>::as_ptr),
        multipliers: parameters.multipliers.as_ptr(),
        shifts: parameters.shifts.as_ptr(),
        offset: parameters.input_offset,
        zero_point: parameters.range.zero_point,
        min: parameters.range.min,
        max: parameters.range.max,
        out: out.as_mut_ptr(),
    };
    for _ in 0..channels / 8 {
        // SAFETY: guaranteed by the caller; there are eight more channels.
        unsafe { eight_channels(&block, taps.len()) };
        block.input = block.input.wrapping_add(8);
        block.multipliers = block.multipliers.wrapping_add(8);
        block.shifts = block.shifts.wrapping_add(8);
        block.out = block.out.wrapping_add(8);
        if bias.is_some() {
            block.bias = block.bias.wrapping_add(8);
        }
    }
    channels / 8 * 8
}

/// Computes eight output channels. Even channels are in q2, odd ones in q3.
///
/// # Safety
/// As [`depthwise`], for the addresses of `block`.
#[inline]
unsafe fn eight_channels(block: &Block, taps: usize) {
    // SAFETY: guaranteed by the caller. All registers that the instructions change are listed.
    unsafe {
        asm!(
            "ldrd r1, r2, [r0]", // taps, input
            "ldr r3, [r0, #8]", // bias
            "vld20.32 {{q2, q3}}, [r3]",
            "vld21.32 {{q2, q3}}, [r3]",
            "ldr r5, [r0, #20]", // offset
            "dls lr, lr",
            "1:",
            "ldrd r3, r4, [r1], #8",
            "add r3, r3, r2",
            "add r4, r4, r2",
            "vldrb.s16 q0, [r3]",
            "vadd.i16 q0, q0, r5",
            "vldrb.s16 q1, [r4]",
            "vmullb.s16 q4, q0, q1",
            "vadd.i32 q2, q2, q4",
            "vmullt.s16 q5, q0, q1",
            "vadd.i32 q3, q3, q5",
            "le lr, 1b",
            "ldrd r4, r3, [r0, #12]", // multipliers, shifts
            "vld20.32 {{q4, q5}}, [r4]",
            "vld21.32 {{q4, q5}}, [r4]", // multipliers
            "vld20.32 {{q6, q7}}, [r3]",
            "vld21.32 {{q6, q7}}, [r3]",
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
            "ldrd r1, r2, [r0, #24]", // zero point, min
            "ldrd r3, r4, [r0, #32]", // max, out
            "vadd.i32 q2, q2, r1",
            "vadd.i32 q3, q3, r1",
            "vqmovnb.s32 q0, q2",
            "vqmovnt.s32 q0, q3",
            "vdup.16 q1, r2",
            "vmax.s16 q0, q0, q1",
            "vdup.16 q1, r3",
            "vmin.s16 q0, q0, q1",
            "vstrb.16 q0, [r4]",
            in("r0") block,
            inout("lr") taps => _,
            out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _,
            out("d0") _, out("d1") _, out("d2") _, out("d3") _,
            out("d4") _, out("d5") _, out("d6") _, out("d7") _,
            out("d8") _, out("d9") _, out("d10") _, out("d11") _,
            out("d12") _, out("d13") _, out("d14") _, out("d15") _,
            options(nostack),
        );
    }
}
