//! Scans of the Industrial I/O subsystem: types of their elements, layout, and values.

/// Type of an element of a scan, such as `le:s16/32>>0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ElementType {
    is_big_endian: bool,
    is_signed: bool,
    /// Bits of the value.
    bits: u32,
    /// Bytes of the element: 1, 2, 4 or 8.
    bytes: usize,
    /// Bits below the value.
    shift: u32,
}

impl ElementType {
    /// Parses the content of a file such as `scan_elements/in_accel_x_type`.
    ///
    /// # Errors
    /// The text, and what would be accepted.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let found = Self::parts(text).filter(|found| {
            let storage = 8 * found.bytes as u32;
            found.bits > 0 && found.shift.checked_add(found.bits).is_some_and(|end| end <= storage)
        });
        found.ok_or_else(|| {
            format!("{text:?} is not a type of one value, such as `le:s16/32>>0`, of up to 64 bits")
        })
    }

    fn parts(text: &str) -> Option<Self> {
        let (order, rest) = text.trim().split_once(':')?;
        let (sign, rest) = rest.split_at_checked(1)?;
        let (bits, rest) = rest.split_once('/')?;
        let (storage, shift) = rest.split_once(">>").unwrap_or((rest, "0"));
        let bytes = match storage {
            "8" => 1,
            "16" => 2,
            "32" => 4,
            "64" => 8,
            _ => return None,
        };
        Some(Self {
            is_big_endian: one_of(order, "be", "le")?,
            is_signed: one_of(sign, "s", "u")?,
            bits: bits.parse().ok()?,
            bytes,
            shift: shift.parse().ok()?,
        })
    }

    /// Value of an element of this type.
    fn value(self, element: &[u8]) -> i128 {
        let fold = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
        let stored = match self.is_big_endian {
            true => element.iter().fold(0, fold),
            false => element.iter().rev().fold(0, fold),
        };
        let above = 64 - self.bits;
        let value = stored >> self.shift << above;
        match self.is_signed {
            true => i128::from(value.cast_signed() >> above),
            false => i128::from(value >> above),
        }
    }
}

/// True for the word `yes`, false for `no`.
fn one_of(word: &str, yes: &str, no: &str) -> Option<bool> {
    match word {
        word if word == yes => Some(true),
        word if word == no => Some(false),
        _ => None,
    }
}

/// Element of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element {
    offset: usize,
    kind: ElementType,
}

impl Element {
    /// Value in a scan; 0 if the scan is too short.
    pub(crate) fn value(&self, scan: &[u8]) -> i128 {
        let element = scan.get(self.offset..self.offset + self.kind.bytes);
        element.map_or(0, |element| self.kind.value(element))
    }
}

/// Lays out the enabled elements, each with its index and type. Returns them in the given order, and the
/// size of a scan in bytes.
///
/// The kernel sorts elements by index, aligns each to its size, and the scan to its largest element.
pub(crate) fn layout(enabled: &[(u32, ElementType)]) -> (Vec<Element>, usize) {
    let mut order: Vec<usize> = (0..enabled.len()).collect();
    order.sort_by_key(|&at| enabled[at].0);
    let mut elements: Vec<Element> =
        enabled.iter().map(|&(_, kind)| Element { offset: 0, kind }).collect();
    let (mut end, mut largest) = (0_usize, 1);
    for at in order {
        let bytes = elements[at].kind.bytes;
        elements[at].offset = end.next_multiple_of(bytes);
        end = elements[at].offset + bytes;
        largest = largest.max(bytes);
    }
    (elements, end.next_multiple_of(largest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_order_sign_bits_and_shift() {
        let check = |text: &str, bytes: &[u8], expected: i128| {
            let kind = ElementType::parse(text).unwrap();
            assert_eq!(kind.bytes, bytes.len(), "{text}");
            assert_eq!(kind.value(bytes), expected, "{text} {bytes:?}");
        };
        check("le:s16/32>>0", &[0xfe, 0xff, 0xff, 0xff], -2);
        check("le:s16/32>>0", &[0xfe, 0xff, 0, 0], -2);
        check("le:s16/16>>0", &[0x18, 0xfc], -1000);
        check("be:s16/16>>0", &[0xfc, 0x18], -1000);
        check("le:u16/16>>0", &[0x18, 0xfc], 64_536);
        check("le:s12/16>>4", &[0x0f, 0x80], -2048);
        check("be:s12/16>>4", &[0x7f, 0xff], 2047);
        check("be:u12/16>>4", &[0xff, 0xf0], 4095);
        check("le:s14/16>>2\n", &[0x04, 0], 1);
        check("be:s20/32>>12", &[0xff, 0xff, 0xe0, 0], -2);
        check("le:u8/8>>0", &[200], 200);
        check("le:s8/8", &[200], -56);
        check("le:s64/64>>0", &i64::MIN.to_le_bytes(), i64::MIN.into());
        check("le:u64/64>>0", &[255; 8], u64::MAX.into());
    }

    #[test]
    fn other_types_are_refused() {
        for text in [
            "",
            "le",
            "le:",
            "le:s",
            "le:s16",
            "xe:s16/16>>0",
            "le:f32/32>>0",
            "le:s16/24>>0",
            "le:s16/16X3>>0",
            "le:s17/16>>0",
            "le:s16/16>>1",
            "le:s0/16>>0",
            "le:s-1/16>>0",
            "le:s16/16>>-1",
            "le:s16/16>>4294967295",
            "le:s4294967295/64>>1",
            "le:é16/16>>0",
        ] {
            let told = ElementType::parse(text).unwrap_err();
            assert!(told.contains("le:s16/32>>0"), "{text}: {told}");
        }
    }

    #[test]
    fn elements_are_sorted_by_index_and_aligned_to_their_size() {
        let check = |elements: &[(u32, &str)], offsets: &[usize], size: usize| {
            let kinds = elements.iter().map(|(index, kind)| (*index, ElementType::parse(kind)));
            let kinds: Vec<_> = kinds.map(|(index, kind)| (index, kind.unwrap())).collect();
            let (found, found_size) = layout(&kinds);
            let found: Vec<usize> = found.iter().map(|element| element.offset).collect();
            assert_eq!((found.as_slice(), found_size), (offsets, size), "{elements:?}");
        };
        let (s16, s32, s64, s8) = ("le:s16/16", "le:s16/32", "le:s64/64", "le:s8/8");
        check(&[(0, s32), (1, s32), (2, s32), (3, s64)], &[0, 4, 8, 16], 24);
        check(&[(0, s16), (1, s16), (2, s16), (3, s64)], &[0, 2, 4, 8], 16);
        check(&[(5, s16), (3, s16), (4, s16)], &[4, 0, 2], 6);
        check(&[(0, s8), (1, s32), (2, s8)], &[0, 4, 8], 12);
        check(&[(7, s64), (0, s8)], &[8, 0], 16);
        check(&[], &[], 0);
    }

    #[test]
    fn a_short_scan_gives_zero() {
        let (elements, _) = layout(&[(0, ElementType::parse("le:s16/16").unwrap())]);
        assert_eq!(elements[0].value(&[1]), 0);
        assert_eq!(elements[0].value(&[1, 0]), 1);
    }
}
