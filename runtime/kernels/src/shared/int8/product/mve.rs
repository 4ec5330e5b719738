//! Products with MVE: sixteen multiplications in an instruction.

#![expect(unsafe_code, reason = "calls instructions by `asm!`")]

use core::arch::asm;

use super::{Filters, Scales};

pub(crate) const ROWS: usize = 4;

/// Filters that are multiplied at once if they have no parameters of their own.
const COMMON: usize = 16;

/// Rows are not packed.
pub(crate) fn packed_words(_len: usize) -> usize {
    0
}

/// Operands of all filters, as the instructions read them.
#[repr(C)]
struct Block {
    /// Registers of an empty product: four sums, the sum of the weights, and the addresses of the
    /// rows, in the order of the registers.
    start: [usize; STATE],
    /// Parameters of the present filter, filters that are left, and the address of its first result.
    bias: *const i32,
    multiplier: *const i32,
    shift: *const i32,
    count: usize,
    out: *mut i8,
    offset: i32,
    weights: *const i8,
    len: usize,
    zero_point: i32,
    min: i32,
    max: i32,
    /// Not zero if all rows are the same one, which is then multiplied once.
    is_single: u32,
    row_bias: [i32; ROWS],
    /// Offsets of the results of the rows.
    targets: [usize; ROWS],
}

/// Registers r0, r2, r3, r4, r5, r8, r9, r10, r12.
const STATE: usize = 9;
/// Registers of the rows among them.
const STATE_ROWS: [usize; ROWS] = [2, 4, 6, 7];

/// As [`Filters::multiply`].
pub(crate) fn multiply(
    filters: &Filters<'_>,
    rows: &[i8],
    target: usize,
    step: usize,
    out: &mut [i8],
) {
    let channels = filters.channels();
    let count = rows.len().checked_div(filters.len).unwrap_or_default();
    let end = count.saturating_sub(1).checked_mul(step).and_then(|end| end.checked_add(target));
    if count == 0 || end.and_then(|end| end.checked_add(channels)).is_none_or(|end| end > out.len())
    {
        return;
    }
    let (mut common, mut at_once) = ([[0; COMMON]; 3], channels);
    if let Scales::PerTensor(requantizer) = filters.scales {
        common[1] = [requantizer.multiplier; COMMON];
        common[2] = [requantizer.shift; COMMON];
    }
    if filters.bias.is_none() || matches!(filters.scales, Scales::PerTensor(_)) {
        at_once = COMMON;
    }
    for start in (0..channels).step_by(at_once.max(1)) {
        let part = filters.slice(start, channels.min(start + at_once));
        let bias = part.bias.unwrap_or(&common[0]);
        let (multipliers, shifts) = match part.scales {
            Scales::PerChannel { multipliers, shifts } => (multipliers, shifts),
            Scales::PerTensor(_) => (&common[1][..], &common[2][..]),
        };
        let least = bias.len().min(multipliers.len()).min(shifts.len());
        if least >= part.channels() {
            // SAFETY: there are as many parameters as filters, and the end of the results of the
            // last row is in `out`.
            unsafe {
                multiply_rows(&part, [bias, multipliers, shifts], rows, target + start, step, out)
            };
        }
    }
}

/// Multiplies all rows with `filters`, whose bias, multipliers and shifts are `parameters`.
///
/// # Safety
/// There are as many parameters as filters, and `out` holds as many elements from `target` and from
/// each further `step` for each row.
unsafe fn multiply_rows(
    filters: &Filters<'_>,
    [bias, multipliers, shifts]: [&[i32]; 3],
    rows: &[i8],
    target: usize,
    step: usize,
    out: &mut [i8],
) {
    let mut block = Block {
        start: [0; STATE],
        bias: bias.as_ptr(),
        multiplier: multipliers.as_ptr(),
        shift: shifts.as_ptr(),
        count: 0,
        out: out.as_mut_ptr().wrapping_add(target),
        offset: filters.input_offset,
        weights: filters.weights.as_ptr(),
        len: filters.len,
        zero_point: filters.output.zero_point,
        min: filters.output.min,
        max: filters.output.max,
        is_single: 0,
        row_bias: [0; ROWS],
        targets: [0; ROWS],
    };
    for rows in rows.chunks((ROWS * filters.len).max(1)) {
        let (mut at, mut result) = (0, 0);
        for row in 0..ROWS {
            block.start[STATE_ROWS[row]] = rows.as_ptr().wrapping_add(at).addr();
            block.targets[row] = result;
            if filters.filter_offset != 0 {
                let row_elements = rows.get(at..at + filters.len).unwrap_or_default();
                block.row_bias[row] = filters.row_bias(row_elements);
            }
            // The last row of a smaller block repeats.
            if at + 2 * filters.len <= rows.len() {
                (at, result) = (at + filters.len, result + step);
            }
        }
        block.count = filters.channels();
        block.is_single = (result == 0).into();
        let Block { bias, multiplier, shift, out, weights, .. } = block;
        // SAFETY: guaranteed by the caller; each row has as many elements as a filter.
        unsafe { multiply_filters(&mut block) };
        (block.bias, block.multiplier, block.shift, block.weights) =
            (bias, multiplier, shift, weights);
        block.out = out.wrapping_add(ROWS * step);
    }
}

/// Multiplies four rows with all filters.
///
/// # Safety
/// Each row of `block` has `len` elements, there are `count` filters with parameters, at least one,
/// and each target plus the index of a filter is in the memory that begins at `out`.
unsafe fn multiply_filters(block: &mut Block) {
    let middle = (&raw mut *block).wrapping_byte_add(size_of::<[usize; STATE]>());
    // SAFETY: guaranteed by the caller. All registers that the instructions change are listed. The
    // flags of the first comparison last to the end.
    unsafe {
        asm!(
            "ldrd r1, r2, [r11, #32]", // zero point, min
            "ldrd r3, r4, [r11, #40]", // max, is single
            "vdup.32 q7, r1",
            "vdup.32 q4, r2",
            "vdup.32 q5, r3",
            "vldrw.u32 q6, [r11, #48]", // row bias
            "vldrw.u32 q3, [r11, #64]", // targets
            "cmp r4, #0",
            "3:",
            "ldrd r1, lr, [r11, #24]", // weights, len
            "add r12, r1, lr",
            "str r12, [r11, #24]",
            "ldmdb r11, {{r0, r2, r3, r4, r5, r8, r9, r10, r12}}",
            "bne 4f",
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
            "ldm r11, {{r1, r3, r4, r5, r9, lr}}",
            "ldr r0, [r1], #4", // bias
            "ldr r2, [r3], #4", // multiplier
            "ldr r12, [r4], #4", // shift
            "mla r8, r8, lr, r0",
            "and r0, r12, r12, asr #31", // negative right shift
            "bic r12, r12, r12, asr #31", // left shift
            "vadd.i32 q0, q0, r8",
            "vadd.i32 q0, q0, q6",
            "vshl.s32 q0, r12",
            "vqrdmulh.s32 q0, q0, r2",
            "vdup.32 q1, r0",
            "vand q2, q0, q1",
            "vshr.s32 q2, q2, #31",
            "vqadd.s32 q0, q0, q2",
            "vrshl.s32 q0, r0",
            "vadd.i32 q0, q0, q7",
            "vmax.s32 q0, q0, q4",
            "vmin.s32 q0, q0, q5",
            "vstrb.32 q0, [r9, q3]",
            "add r9, r9, #1",
            "sub r5, r5, #1",
            "stm r11, {{r1, r3, r4, r5, r9}}",
            "cbz r5, 6f",
            "b 3b",
            "4:", // one row
            "wlstp.8 lr, lr, 5f",
            "7:",
            "vldrb.u8 q0, [r1], #16",
            "vldrb.u8 q1, [r3], #16",
            "vaddva.s8 r8, q0",
            "vmladava.s8 r0, q0, q1",
            "letp lr, 7b",
            "5:",
            "mov r2, r0",
            "mov r4, r0",
            "mov r12, r0",
            "b 2b",
            "6:",
            in("r11") middle,
            out("r0") _, out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _,
            out("r8") _, out("r9") _, out("r10") _, out("r12") _, out("lr") _,
            out("d0") _, out("d1") _, out("d2") _, out("d3") _,
            out("d4") _, out("d5") _, out("d6") _, out("d7") _,
            out("d8") _, out("d9") _, out("d10") _, out("d11") _,
            out("d12") _, out("d13") _, out("d14") _, out("d15") _,
            options(nostack),
        );
    }
}
