//! Instructions of the DSP extension of Armv7E-M.
//!
//! A word holds two 16-bit or four 8-bit elements. On other processors, tests use the same
//! functions without the instructions.

#![cfg_attr(afferent_dsp, expect(unsafe_code, reason = "calls instructions by `asm!`"))]

#[cfg(afferent_dsp)]
use core::arch::asm;

/// `value` in both halves of a word.
#[inline]
pub(crate) fn both_halves(value: i32) -> u32 {
    let half = value as u32 & 0xffff;
    half << 16 | half
}

/// Widens four 8-bit elements and adds `offset` to each: elements 0 and 2, then 1 and 3. `SXTAB16`.
#[cfg(any(test, all(afferent_dsp, not(afferent_mve))))]
#[inline]
pub(crate) fn widen(offset: u32, elements: u32) -> [u32; 2] {
    #[cfg(afferent_dsp)]
    {
        let (even, odd): (u32, u32);
        if offset == 0 {
            // SAFETY: the instruction reads and writes registers only.
            unsafe {
                asm!("sxtb16 {}, {}", lateout(reg) even, in(reg) elements,
                    options(pure, nomem, nostack, preserves_flags));
            }
            // SAFETY: as above.
            unsafe {
                asm!("sxtb16 {}, {}, ror #8", lateout(reg) odd, in(reg) elements,
                    options(pure, nomem, nostack, preserves_flags));
            }
            return [even, odd];
        }
        // SAFETY: as above.
        unsafe {
            asm!("sxtab16 {}, {}, {}", lateout(reg) even, in(reg) offset, in(reg) elements,
                options(pure, nomem, nostack, preserves_flags));
        }
        // SAFETY: as above.
        unsafe {
            asm!("sxtab16 {}, {}, {}, ror #8", lateout(reg) odd, in(reg) offset, in(reg) elements,
                options(pure, nomem, nostack, preserves_flags));
        }
        [even, odd]
    }
    #[cfg(not(afferent_dsp))]
    {
        let [a, b, c, d] = elements.to_le_bytes().map(|byte| i16::from(byte as i8));
        let [low, high] = halves(offset);
        let word = |low: i16, high: i16| u32::from(high as u16) << 16 | u32::from(low as u16);
        [
            word(a.wrapping_add(low), c.wrapping_add(high)),
            word(b.wrapping_add(low), d.wrapping_add(high)),
        ]
    }
}

/// Products of two packed rows and two filters, without the elements after the last group. A group
/// has four elements of the first row, then four of the second, widened as [`widen`] does.
#[cfg(any(test, all(afferent_dsp, not(afferent_mve))))]
#[inline]
pub(crate) fn dot_2x2(groups: &[[u32; 4]], first: &[i8], second: &[i8]) -> [[i32; 2]; 2] {
    let count = groups.len().min(first.len() / 4).min(second.len() / 4);
    #[cfg(afferent_dsp)]
    {
        let (mut a, mut b, mut c, mut d) = (0, 0, 0, 0);
        if count == 0 {
            return [[0; 2]; 2];
        }
        // SAFETY: the loop reads `count` groups of 16 bytes and `count` words of each filter, and
        // restores the registers that it saves.
        unsafe {
            asm!(
                "push {{r6, r7}}",
                "1:",
                "ldr r9, [r1], #4",
                "ldr r11, [r2], #4",
                "ldrd r6, r7, [r0], #8",
                "sxtb16 r10, r9, ror #8",
                "sxtb16 r12, r11, ror #8",
                "sxtb16 r9, r9",
                "sxtb16 r11, r11",
                "smlad r3, r6, r9, r3",
                "smlad r4, r6, r11, r4",
                "smlad r3, r7, r10, r3",
                "smlad r4, r7, r12, r4",
                "ldrd r6, r7, [r0], #8",
                "subs lr, lr, #1",
                "smlad r5, r6, r9, r5",
                "smlad r8, r6, r11, r8",
                "smlad r5, r7, r10, r5",
                "smlad r8, r7, r12, r8",
                "bne 1b",
                "pop {{r6, r7}}",
                inout("r0") groups.as_ptr() => _,
                inout("r1") first.as_ptr() => _,
                inout("r2") second.as_ptr() => _,
                inout("lr") count => _,
                inout("r3") a, inout("r4") b, inout("r5") c, inout("r8") d,
                out("r9") _, out("r10") _, out("r11") _, out("r12") _,
                options(readonly),
            );
        }
        [[a, b], [c, d]]
    }
    #[cfg(not(afferent_dsp))]
    {
        let mut sums = [[0_i32; 2]; 2];
        let words = |filter: &[i8], at: usize| word(filter, 4 * at).map(|word| widen(0, word));
        for (at, &[a0, a1, b0, b1]) in groups.iter().enumerate().take(count) {
            for (column, filter) in [first, second].into_iter().enumerate() {
                let [w0, w1] = words(filter, at).unwrap_or_default();
                for (row, [x0, x1]) in [[a0, a1], [b0, b1]].into_iter().enumerate() {
                    let sum = &mut sums[row][column];
                    *sum = smlad(x1, w1, smlad(x0, w0, *sum));
                }
            }
        }
        sums
    }
}

/// As [`dot_2x2`], of the first row alone.
#[cfg(any(test, all(afferent_dsp, not(afferent_mve))))]
#[inline]
pub(crate) fn dot_1x2(groups: &[[u32; 4]], first: &[i8], second: &[i8]) -> [i32; 2] {
    let count = groups.len().min(first.len() / 4).min(second.len() / 4);
    #[cfg(afferent_dsp)]
    {
        let (mut a, mut b) = (0, 0);
        if count == 0 {
            return [0; 2];
        }
        // SAFETY: the loop reads `count` groups of 16 bytes and `count` words of each filter.
        unsafe {
            asm!(
                "1:",
                "ldr r9, [r1], #4",
                "ldr r11, [r2], #4",
                "ldrd r5, r8, [r0], #16",
                "subs lr, lr, #1",
                "sxtb16 r10, r9, ror #8",
                "sxtb16 r12, r11, ror #8",
                "sxtb16 r9, r9",
                "sxtb16 r11, r11",
                "smlad r3, r5, r9, r3",
                "smlad r4, r5, r11, r4",
                "smlad r3, r8, r10, r3",
                "smlad r4, r8, r12, r4",
                "bne 1b",
                inout("r0") groups.as_ptr() => _,
                inout("r1") first.as_ptr() => _,
                inout("r2") second.as_ptr() => _,
                inout("lr") count => _,
                inout("r3") a, inout("r4") b,
                out("r5") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _, out("r12") _,
                options(readonly, nostack),
            );
        }
        [a, b]
    }
    #[cfg(not(afferent_dsp))]
    {
        let [row, _] = dot_2x2(groups.get(..count).unwrap_or_default(), first, second);
        row
    }
}

/// `value · multiplier · 2^(shift - 31)`, as `Requantizer::apply` rounds it.
#[cfg(afferent_dsp)]
#[inline(always)]
pub(crate) fn requantize(value: i32, multiplier: i32, shift: i32) -> i32 {
    let left = shift & !(shift >> 31);
    let right = shift.wrapping_neg();
    let right = right & !(right >> 31);
    let mut result: i32;
    // SAFETY: the instructions read and write registers only. The last shift leaves the highest bit
    // that it drops in the carry flag, which rounds; a shift by zero leaves the zero of `cmn`.
    unsafe {
        asm!(
            "lsl {value}, {value}, {left}",
            "smull {low}, {value}, {value}, {multiplier}",
            "adds {low}, {low}, #0x40000000",
            "adc {value}, {value}, #0",
            "lsls {low}, {low}, #1",
            "adc {value}, {value}, {value}",
            "cmn {right}, #0",
            "it ne",
            "addne {value}, {value}, {value}, asr #31",
            "asrs {value}, {value}, {right}",
            "adc {value}, {value}, #0",
            value = inout(reg) value => result,
            left = in(reg) left,
            right = in(reg) right,
            multiplier = in(reg) multiplier,
            low = out(reg) _,
            options(pure, nomem, nostack),
        );
    }
    result
}

/// Sums over `taps` of `(x + offset) · w` for the four output channels from `output`, which read
/// input channel `channel`.
///
/// # Safety
/// As [`four_channels`].
#[cfg_attr(not(afferent_dsp), expect(unsafe_code, reason = "as with the instructions"))]
#[inline]
pub(crate) unsafe fn four_outputs(
    taps: &[Tap],
    input: &[i8],
    weights: &[i8],
    [channel, output]: [usize; 2],
    offset: i32,
) -> [i32; 4] {
    #[cfg(afferent_dsp)]
    {
        let _ = weights;
        let (mut a, mut b, mut c, mut d) = (0, 0, 0, 0);
        if taps.is_empty() {
            return [0; 4];
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            asm!(
                "1:",
                "ldrd r9, r11, [r0], #8",
                "ldrsb r9, [r1, r9]",
                "ldr r11, [r10, r11]",
                "subs lr, lr, #1",
                "add r9, r9, r2",
                "sxtb16 r12, r11, ror #8",
                "sxtb16 r11, r11",
                "smlabb r4, r9, r12, r4",
                "smlabt r8, r9, r12, r8",
                "smlabb r3, r9, r11, r3",
                "smlabt r5, r9, r11, r5",
                "bne 1b",
                inout("r0") taps.as_ptr() => _,
                in("r1") input.as_ptr().wrapping_add(channel),
                in("r2") offset,
                in("r10") input.as_ptr().wrapping_add(output),
                inout("lr") taps.len() => _,
                inout("r3") a, inout("r4") b, inout("r5") c, inout("r8") d,
                out("r9") _, out("r11") _, out("r12") _,
                options(readonly, nostack),
            );
        }
        [a, b, c, d]
    }
    #[cfg(not(afferent_dsp))]
    {
        let mut sums = [0_i32; 4];
        for &[x, weight] in taps {
            let x = input.get(x as usize + channel).copied().unwrap_or_default();
            let chunk = weights.get(weight as usize + output..);
            let chunk = chunk.and_then(|rest| rest.first_chunk::<4>());
            for (sum, w) in sums.iter_mut().zip(chunk.copied().unwrap_or_default()) {
                *sum = sum.wrapping_add((i32::from(x) + offset) * i32::from(w));
            }
        }
        sums
    }
}

/// Positions of channel zero of one tap in the input and in the weights.
pub(crate) type Tap = [u32; 2];

/// Tap whose channel zero is element `x` of `input` and element `weight` of `weights`.
#[inline]
pub(crate) fn tap(input: &[i8], x: usize, weights: &[i8], weight: usize) -> Tap {
    #[cfg(afferent_dsp)]
    {
        // The loop adds both to the address of the input.
        let between = weights.as_ptr().addr().wrapping_sub(input.as_ptr().addr());
        [x as u32, weight.wrapping_add(between) as u32]
    }
    #[cfg(not(afferent_dsp))]
    {
        let _ = (input, weights);
        [x as u32, weight as u32]
    }
}

/// Sums over `taps` of `(x + offset) · w` for the four channels from `channel`.
///
/// # Safety
/// Each of `taps` was made from `input` and `weights`, and both have four elements there from
/// channel `channel`.
#[cfg_attr(not(afferent_dsp), expect(unsafe_code, reason = "as with the instructions"))]
#[inline]
pub(crate) unsafe fn four_channels(
    taps: &[Tap],
    input: &[i8],
    weights: &[i8],
    channel: usize,
    offset: u32,
) -> [i32; 4] {
    #[cfg(afferent_dsp)]
    {
        let _ = weights;
        let (mut a, mut b, mut c, mut d) = (0, 0, 0, 0);
        if taps.is_empty() {
            return [0; 4];
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            asm!(
                "1:",
                "ldrd r9, r11, [r0], #8",
                "ldr r9, [r1, r9]",
                "ldr r11, [r1, r11]",
                "subs lr, lr, #1",
                "sxtab16 r10, r2, r9, ror #8",
                "sxtb16 r12, r11, ror #8",
                "sxtab16 r9, r2, r9",
                "sxtb16 r11, r11",
                "smlabb r4, r10, r12, r4",
                "smlatt r8, r10, r12, r8",
                "smlabb r3, r9, r11, r3",
                "smlatt r5, r9, r11, r5",
                "bne 1b",
                inout("r0") taps.as_ptr() => _,
                in("r1") input.as_ptr().wrapping_add(channel),
                in("r2") offset,
                inout("lr") taps.len() => _,
                inout("r3") a, inout("r4") b, inout("r5") c, inout("r8") d,
                out("r9") _, out("r10") _, out("r11") _, out("r12") _,
                options(readonly, nostack),
            );
        }
        [a, b, c, d]
    }
    #[cfg(not(afferent_dsp))]
    {
        let mut sums = [0_i32; 4];
        let [low, _] = halves(offset);
        for &[x, weight] in taps {
            let at = |elements: &[i8], first: u32| {
                let chunk = elements.get(first as usize + channel..);
                chunk.and_then(|rest| rest.first_chunk::<4>()).copied().unwrap_or_default()
            };
            for (sum, (x, w)) in
                sums.iter_mut().zip(at(input, x).into_iter().zip(at(weights, weight)))
            {
                *sum = sum.wrapping_add((i32::from(x) + i32::from(low)) * i32::from(w));
            }
        }
        sums
    }
}

/// Word of the four elements from `at`.
#[cfg(not(afferent_dsp))]
#[cfg(test)]
fn word(elements: &[i8], at: usize) -> Option<u32> {
    let chunk = elements.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(chunk.map(|x| x as u8)))
}

/// Adds the products of both halves of `a` and `b` to `sum`, as `SMLAD` does.
#[cfg(all(test, not(afferent_dsp)))]
fn smlad(a: u32, b: u32, sum: i32) -> i32 {
    let ([a, b], [c, d]) = (halves(a), halves(b));
    let products = [i32::from(a) * i32::from(c), i32::from(b) * i32::from(d)];
    sum.wrapping_add(products[0]).wrapping_add(products[1])
}

#[cfg(not(afferent_dsp))]
fn halves(word: u32) -> [i16; 2] {
    [word as u16 as i16, (word >> 16) as u16 as i16]
}
