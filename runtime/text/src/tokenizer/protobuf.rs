//! Protobuf wire format, as far as SentencePiece models use it.

/// Value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// Varint: an integer, an enum or a boolean.
    Int(u64),
    /// 32-bit value.
    Float(f32),
    /// Length-delimited value: a string, bytes or a message.
    Bytes(&'a [u8]),
    /// 64-bit value, which SentencePiece does not use.
    Double,
}

/// Iterator over the fields of a message, as field number and value.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    /// `None` if the message is truncated or invalid.
    type Item = Option<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Int(self.varint()?),
            1 => {
                self.take(8)?;
                Value::Double
            }
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(len)?)
            }
            5 => Value::Float(f32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((key >> 3, value))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_invalid_ones_rejected() {
        let fields = |bytes| Fields(bytes).collect::<Option<Vec<_>>>();
        assert_eq!(
            fields(&[0x0a, 2, b'a', b'b', 0x15, 0, 0, 0x80, 0x3f, 0x18, 0xac, 2]),
            Some(vec![(1, Value::Bytes(b"ab")), (2, Value::Float(1.0)), (3, Value::Int(300))])
        );
        assert_eq!(fields(&[]), Some(vec![]));
        for invalid in [&[0x0a, 2, b'a'][..], &[0x15, 0], &[0x18, 0x80], &[0x0b], &[0xff; 12]] {
            assert_eq!(fields(invalid), None, "{invalid:?}");
        }
    }
}
