//! Products with MVE: sixteen multiplications in an instruction.

#![expect(unsafe_code, reason = "calls instructions by `asm!`")]

use core::arch::asm;

use super::{Filters, Scales};
use crate::shared::int8::requantize::Requantizer;

pub(crate) const ROWS: usize = 4;

/// Rows are not packed.
pub(crate) fn packed_words(_len: usize) -> usize {
    0
}

/// Operands of all filters, as the instructions read them.
#[repr(C)]
struct Block {
    offset: i32,
    zero_point: i32,
    min: i32,
    max: i32,
    row_bias: [i32; ROWS],
    /// Offsets of the results from the address of the output.
    targets: [u32; ROWS],
    rows: [*const i8; ROWS],
    weights: *const i8,
    len: usize,
    /// Parameters of the present filter, and the bytes from one filter to the next.
    bias: *const i32,
    bias_step: usize,
    multiplier: *const i32,
    shift: *const i32,
    step: usize,
    /// Filters that are left.
    count: usize,
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
    let (per_tensor, zero);
    let (multiplier, shift, step) = match filters.scales {
        Scales::PerTensor(Requantizer { multiplier, shift }) => {
            per_tensor = [multiplier, shift];
            (&raw const per_tensor[0], &raw const per_tensor[1], 0)
        }
        Scales::PerChannel { multipliers, shifts } => {
            if multipliers.len() < channels || shifts.len() < channels {
                return;
            }
            (multipliers.as_ptr(), shifts.as_ptr(), size_of::<i32>())
        }
    };
    if channels == 0 || is_short || ends.max().is_none_or(|end| end > out.len()) {
        return;
    }
    let (bias, bias_step) = match filters.bias.filter(|bias| bias.len() >= channels) {
        Some(bias) => (bias.as_ptr(), size_of::<i32>()),
        None => {
            zero = 0;
            (&raw const zero, 0)
        }
    };
    let mut block = Block {
        offset: filters.input_offset,
        zero_point: filters.output.zero_point,
        min: filters.output.min,
        max: filters.output.max,
        row_bias: rows.map(|row| filters.row_bias(row)),
        targets: targets.map(|target| target as u32),
        rows: rows.map(<[i8]>::as_ptr),
        weights: filters.weights.as_ptr(),
        len: filters.len,
        bias,
        bias_step,
        multiplier,
        shift,
        step,
        count: channels,
        out: out.as_mut_ptr(),
    };
    // SAFETY: the rows have at least as many elements as a filter, there are as many filters and
    // parameters as channels, and each target plus the number of channels is in the output.
    unsafe { multiply_filters(&mut block) };
}

/// Multiplies four rows with all filters.
///
/// # Safety
/// Each row of `block` has `len` elements, there are `count` filters with parameters, and each
/// target plus the index of a filter is in the memory that begins at `out`.
unsafe fn multiply_filters(block: &mut Block) {
    // SAFETY: guaranteed by the caller. All registers that the instructions change are listed.
    unsafe {
        asm!(
            "ldrd r1, r3, [r11, #8]", // min, max
            "vdup.32 q4, r1",
            "vdup.32 q5, r3",
            "vldrw.u32 q6, [r11, #16]", // row bias
            "vldrw.u32 q3, [r11, #32]", // targets
            "3:",
            "ldrd r1, lr, [r11, #64]", // weights, len
            "ldrd r3, r5, [r11, #48]",
            "ldrd r9, r10, [r11, #56]",
            "movs r0, #0",
            "movs r2, #0",
            "movs r4, #0",
            "mov r8, #0",
            "add r12, r1, lr",
            "str r12, [r11, #64]",
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
            "vmov q0[2], q0[0], r0, r4",
            "vmov q0[3], q0[1], r2, r12",
            "ldrd r1, r2, [r11, #72]", // bias, its step
            "ldrd r3, r4, [r11, #80]", // multiplier, shift
            "ldrd r5, r0, [r11, #88]", // step, count
            "ldr r9, [r1]",
            "add r1, r1, r2",
            "str r1, [r11, #72]",
            "ldr r10, [r11]", // offset
            "ldr r1, [r3]",
            "ldr r2, [r4]",
            "add r3, r3, r5",
            "add r4, r4, r5",
            "strd r3, r4, [r11, #80]",
            "mla r8, r8, r10, r9",
            "and r9, r2, r2, asr #31", // negative right shift
            "bic r2, r2, r2, asr #31", // left shift
            "vadd.i32 q0, q0, r8",
            "vadd.i32 q0, q0, q6",
            "vshl.s32 q0, r2",
            "vqrdmulh.s32 q0, q0, r1",
            "vdup.32 q1, r9",
            "vand q2, q0, q1",
            "vshr.s32 q2, q2, #31",
            "vqadd.s32 q0, q0, q2",
            "vrshl.s32 q0, r9",
            "ldr r1, [r11, #4]", // zero point
            "vadd.i32 q0, q0, r1",
            "vmax.s32 q0, q0, q4",
            "vmin.s32 q0, q0, q5",
            "ldr r1, [r11, #96]", // output
            "vstrb.32 q0, [r1, q3]",
            "adds r1, r1, #1",
            "str r1, [r11, #96]",
            "subs r0, r0, #1",
            "str r0, [r11, #92]",
            "bne 3b",
            in("r11") block,
            out("r0") _, out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _,
            out("r8") _, out("r9") _, out("r10") _, out("r12") _, out("lr") _,
            out("d0") _, out("d1") _, out("d2") _, out("d3") _,
            out("d4") _, out("d5") _, out("d6") _, out("d7") _,
            out("d8") _, out("d9") _, out("d10") _, out("d11") _,
            out("d12") _, out("d13") _,
            options(nostack),
        );
    }
}
