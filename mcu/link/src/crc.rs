//! CRC-16/IBM-3740, also known as CRC-16/CCITT-FALSE.

/// Remainders of the four upper bits.
static TABLE: [u16; 16] = {
    let mut table = [0; 16];
    let mut at = 0;
    while at < 16 {
        let (mut remainder, mut bit) = ((at as u16) << 12, 0);
        while bit < 4 {
            let carry = remainder & 0x8000 != 0;
            remainder = (remainder << 1) ^ if carry { 0x1021 } else { 0 };
            bit += 1;
        }
        table[at] = remainder;
        at += 1;
    }
    table
};

/// Checksum of `bytes`.
pub(crate) fn crc(bytes: &[u8]) -> u16 {
    let step = |sum: u16, nibble: u8| {
        (sum << 4) ^ TABLE[usize::from(sum >> 12) ^ usize::from(nibble & 15)]
    };
    bytes.iter().fold(0xffff, |sum, &byte| step(step(sum, byte >> 4), byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_catalog() {
        assert_eq!(crc(b"123456789"), 0x29b1);
        assert_eq!(crc(b""), 0xffff);
    }
}
