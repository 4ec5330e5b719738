//! Tensors in NPY files.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, ErrorKind},
    path::Path,
};

use afferent_core::{Bool, Error, ScalarType, Tensor, TensorView, bf16, f16};
use npyz::{DType, FixedSizeBytes, NpyFile, Order, WriterBuilder};

use crate::InspectError;

/// Maximum length of a header in bytes.
const MAX_HEADER_BYTES: usize = 1 << 16;

const NOT_NPY: &str = "it is not an NPY file that NumPy writes";
const TRUNCATED: &str = "it is truncated";

/// Message of an error, to which the caller adds the path.
struct Reason(String);

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<io::Error> for Reason {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<Error> for Reason {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl Reason {
    fn at(self, path: &Path) -> InspectError {
        InspectError::Npy { path: path.to_owned(), reason: self.0 }
    }
}

/// Reads the tensor in `path`. It must be in C order, with a header of at most 64 KiB.
///
/// NPY has no bf16. If the method `expects` it, numbers of `f4` are rounded, and elements of `V2`
/// (`ml_dtypes.bfloat16`) and `u2` are bit patterns. `u2` is also taken as the bits of an expected
/// f16.
///
/// # Errors
/// [`InspectError::Npy`].
pub fn read(path: &Path, expects: Option<ScalarType>) -> Result<Tensor, InspectError> {
    let read = || -> Result<Tensor, Reason> {
        let mut file = BufReader::new(File::open(path)?);
        let len = header_len(file.fill_buf()?);
        if len > MAX_HEADER_BYTES {
            let message = format!("its header has {len} bytes; the limit is {MAX_HEADER_BYTES}");
            return Err(Reason(message));
        }
        let npy = NpyFile::new(file).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => TRUNCATED.into(),
            // The message of `npyz` may quote the whole header.
            ErrorKind::InvalidData => NOT_NPY.into(),
            _ => Reason::from(error),
        })?;
        if npy.order() != Order::C && npy.shape().len() > 1 {
            return Err("it is in Fortran order; save it with np.ascontiguousarray".into());
        }
        let sizes = npy.shape().iter().map(|&size| usize::try_from(size));
        let sizes = sizes.collect::<Result<Vec<_>, _>>();
        let sizes = sizes.map_err(|error| Reason(error.to_string()))?;
        let DType::Plain(dtype) = npy.dtype() else {
            return Err("it holds records, not numbers".into());
        };
        let name = dtype.to_string();
        macro_rules! tensor {
            ($rust:ty) => {
                Tensor::new(&sizes, &npy.into_vec::<$rust>().map_err(data_error)?)?
            };
        }
        let name = name.trim_start_matches(['<', '>', '|', '=']);
        Ok(match (name, expects) {
            ("f4", Some(ScalarType::BFloat16)) => {
                let values =
                    npy.into_vec::<f32>().map_err(data_error)?.into_iter().map(bf16::from_f32);
                Tensor::new(&sizes, &values.collect::<Vec<_>>())?
            }
            ("V2", Some(ScalarType::BFloat16)) => {
                let values = npy.into_vec::<FixedSizeBytes<2>>().map_err(data_error)?;
                let values = values.into_iter().map(|bytes| bf16::from_le_bytes(bytes.0));
                Tensor::new(&sizes, &values.collect::<Vec<_>>())?
            }
            ("u2", Some(ScalarType::BFloat16)) => {
                let bits = npy.into_vec::<u16>().map_err(data_error)?;
                Tensor::new(&sizes, &bits.into_iter().map(bf16::from_bits).collect::<Vec<_>>())?
            }
            ("u2", Some(ScalarType::Half)) => {
                let bits = npy.into_vec::<u16>().map_err(data_error)?;
                Tensor::new(&sizes, &bits.into_iter().map(f16::from_bits).collect::<Vec<_>>())?
            }
            ("V2", _) => {
                let text = "dtype V2 is read as the bits of bf16, which is not expected here";
                return Err(text.into());
            }
            ("f2", _) => tensor!(f16),
            ("f4", _) => tensor!(f32),
            ("f8", _) => tensor!(f64),
            ("i1", _) => tensor!(i8),
            ("i2", _) => tensor!(i16),
            ("i4", _) => tensor!(i32),
            ("i8", _) => tensor!(i64),
            ("u1", _) => tensor!(u8),
            ("u2", _) => tensor!(u16),
            ("u4", _) => tensor!(u32),
            ("u8", _) => tensor!(u64),
            ("b1", _) => {
                let values =
                    npy.into_vec::<bool>().map_err(data_error)?.into_iter().map(Bool::from);
                Tensor::new(&sizes, &values.collect::<Vec<_>>())?
            }
            _ => return Err(Reason(format!("dtype {name} is not supported"))),
        })
    };
    read().map_err(|reason| reason.at(path))
}

fn data_error(error: io::Error) -> Reason {
    if error.kind() == ErrorKind::UnexpectedEof { TRUNCATED.into() } else { error.into() }
}

/// Declared length of the header of a file that starts with these bytes; 0 if it is not NPY.
fn header_len(start: &[u8]) -> usize {
    match *start {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => u16::from_le_bytes([a, b]).into(),
        [0x93, b'N', b'U', b'M', b'P', b'Y', _, _, a, b, c, d, ..] => {
            usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX)
        }
        _ => 0,
    }
}

/// Writes `view` in C order. bf16 is written as `f32`.
///
/// # Errors
/// [`InspectError::Npy`].
pub fn write(path: &Path, view: &TensorView<'_>) -> Result<(), InspectError> {
    let write = || -> Result<(), Reason> {
        let file = BufWriter::new(File::create(path)?);
        let shape: Vec<u64> = view.sizes().iter().map(|&size| size as u64).collect();
        let order = row_major(view);
        macro_rules! elements {
            ($rust:ty, $convert:expr) => {{
                let data = view.data::<$rust>()?;
                let options = npyz::WriteOptions::new().default_dtype().shape(&shape);
                let mut writer = options.writer(file).begin_nd()?;
                writer.extend(order.iter().map(|&at| $convert(data[at])))?;
                writer.finish()?;
            }};
        }
        match view.dtype() {
            ScalarType::Half => elements!(f16, |x| x),
            ScalarType::BFloat16 => elements!(bf16, bf16::to_f32),
            ScalarType::Float => elements!(f32, |x| x),
            ScalarType::Double => elements!(f64, |x| x),
            ScalarType::Char => elements!(i8, |x| x),
            ScalarType::Short => elements!(i16, |x| x),
            ScalarType::Int => elements!(i32, |x| x),
            ScalarType::Long => elements!(i64, |x| x),
            ScalarType::Byte => elements!(u8, |x| x),
            ScalarType::UInt16 => elements!(u16, |x| x),
            ScalarType::UInt32 => elements!(u32, |x| x),
            ScalarType::UInt64 => elements!(u64, |x| x),
            ScalarType::Bool => elements!(Bool, Bool::get),
            other => return Err(Reason(format!("NPY has no dtype for {other}"))),
        }
        Ok(())
    };
    write().map_err(|reason| reason.at(path))
}

/// Memory index of each element, in row-major order.
pub(crate) fn row_major(view: &TensorView<'_>) -> Vec<usize> {
    if view.is_contiguous() {
        return (0..view.numel()).collect();
    }
    let strides = view.strides();
    let mut at = vec![0];
    for (&size, &stride) in view.sizes().iter().zip(strides.iter()) {
        at = at.iter().flat_map(|&base| (0..size).map(move |i| base + i * stride)).collect();
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_tensors_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let check = |tensor: Tensor| {
            write(&path, &tensor.view()).unwrap();
            let again = read(&path, None).unwrap();
            assert_eq!(again.sizes(), tensor.sizes());
            assert_eq!(again.dtype(), tensor.dtype());
            again
        };
        let plain = Tensor::new(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!(check(plain.clone()).view().bytes(), plain.view().bytes());
        check(Tensor::new(&[0, 3], &[0_i64; 0]).unwrap());
        check(Tensor::new(&[], &[Bool::from(true)]).unwrap());
        let mut transposed = plain;
        transposed.set_dim_order(&[1, 0]).unwrap();
        assert_eq!(check(transposed).data::<f32>().unwrap(), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    }

    #[test]
    fn bits_of_16_bit_floats_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        // 1.0 and -2.0 as bf16, and the same bits as f16.
        let bytes = [0x80, 0x3f, 0x00, 0xc0];
        let save = |descr: &str| {
            let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}\n");
            let len = u16::try_from(text.len()).unwrap().to_le_bytes();
            let file = [&b"\x93NUMPY\x01\x00"[..], &len, text.as_bytes(), &bytes].concat();
            std::fs::write(&path, file).unwrap();
        };
        for descr in ["<V2", "|V2", "<u2"] {
            save(descr);
            let tensor = read(&path, Some(ScalarType::BFloat16)).unwrap();
            let values = tensor.data::<bf16>().unwrap().iter().map(|x| x.to_f32());
            assert_eq!(values.collect::<Vec<_>>(), [1.0, -2.0], "{descr}");
        }
        let tensor = read(&path, Some(ScalarType::Half)).unwrap();
        assert_eq!(tensor.data::<f16>().unwrap(), [0x3f80, 0xc000].map(f16::from_bits));
        assert_eq!(read(&path, None).unwrap().data::<u16>().unwrap(), [0x3f80, 0xc000]);
        save("<V2");
        let error = read(&path, Some(ScalarType::Float)).unwrap_err().to_string();
        assert!(error.ends_with("the bits of bf16, which is not expected here"), "{error}");
    }

    #[test]
    fn invalid_files_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let check = |bytes: &[u8], expected: &str| {
            std::fs::write(&path, bytes).unwrap();
            let error = read(&path, None).unwrap_err();
            assert_eq!(error.to_string(), format!("{}: {expected}", path.display()));
        };
        let header = |version: u8, len: &[u8], text: &[u8]| {
            [&b"\x93NUMPY"[..], &[version, 0], len, text].concat()
        };
        check(b"nonsense", NOT_NPY);
        check(&header(1, &60_000_u16.to_le_bytes(), &[b'('; 60_000]), NOT_NPY);
        let len = 0xFFFF_FFF0_u32;
        let expected = format!("its header has {len} bytes; the limit is {MAX_HEADER_BYTES}");
        check(&header(2, &len.to_le_bytes(), b"          "), &expected);
        check(&header(2, &100_u32.to_le_bytes(), b"{"), TRUNCATED);
        let text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n";
        check(&header(1, &(text.len() as u16).to_le_bytes(), text), TRUNCATED);
    }
}
