//! Voices of Voxtral: rows of bf16, alone or in a file of PyTorch.

use std::{fs, path::Path};

use afferent_core::bf16;

/// True if the file at `path` can be a voice.
pub(crate) fn is_voice(path: &Path) -> bool {
    let is_kind = path.extension().is_some_and(|end| end == "pt" || end == "bin");
    is_kind && fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}

/// Values of the rows of the voice at `path`, of `width` values each.
///
/// # Errors
/// The reason.
pub(super) fn read(path: &Path, width: usize) -> Result<Vec<f32>, String> {
    let file = fs::read(path).map_err(|error| error.to_string())?;
    let bytes = match path.extension().is_some_and(|end| end == "pt") {
        true => tensor_of_zip(&file).ok_or("it is no file of torch.save with one tensor")?,
        false => &*file,
    };
    let row = width * size_of::<bf16>();
    if bytes.is_empty() || !bytes.len().is_multiple_of(row) {
        return Err(format!("{} bytes are not rows of {width} bf16 values", bytes.len()));
    }
    let value = |pair: &[u8]| bf16::from_le_bytes([pair[0], pair[1]]).to_f32();
    Ok(bytes.chunks_exact(2).map(value).collect())
}

/// Bytes of the entry `…data/0` of a ZIP archive without compression.
fn tensor_of_zip(file: &[u8]) -> Option<&[u8]> {
    let u16_at =
        |at: usize| Some(usize::from(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?)));
    let u32_at = |at: usize| {
        usize::try_from(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?)).ok()
    };
    let end = file.windows(4).rposition(|four| four == b"PK\x05\x06")?;
    let mut at = u32_at(end + 16)?;
    while file.get(at..at + 4)? == b"PK\x01\x02" {
        let (name_len, more) = (u16_at(at + 28)?, u16_at(at + 30)? + u16_at(at + 32)?);
        let name = file.get(at + 46..at + 46 + name_len)?;
        if name == b"data/0" || name.ends_with(b"/data/0") {
            let (method, len, local) = (u16_at(at + 10)?, u32_at(at + 24)?, u32_at(at + 42)?);
            let start = local + 30 + u16_at(local + 26)? + u16_at(local + 28)?;
            return (method == 0).then(|| file.get(start..start.checked_add(len)?)).flatten();
        }
        at += 46 + name_len + more;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_voices_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            assert!(is_voice(&path) || bytes.is_empty());
            read(&path, 3).unwrap_err()
        };
        assert_eq!(refused("a.bin", &[0; 8]), "8 bytes are not rows of 3 bf16 values");
        assert_eq!(refused("b.bin", &[]), "0 bytes are not rows of 3 bf16 values");
        let mut zip = b"PK\x05\x06".to_vec();
        zip.resize(22, 0xff);
        assert!(refused("c.pt", &zip).contains("no file of torch.save"));
        assert!(refused("d.pt", b"PK").contains("no file of torch.save"));
    }
}
