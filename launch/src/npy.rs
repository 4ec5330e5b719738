//! Tensors in NPY files.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, ErrorKind},
    path::Path,
};

use afferent_core::{Bool, ScalarType, Tensor, TensorView, bf16, f16};
use anyhow::{Context, anyhow, bail, ensure};
use npyz::{DType, NpyFile, Order, WriterBuilder};

/// Longest header that is read, in bytes.
const MAX_HEADER: usize = 1 << 16;

/// Reads the tensor in `path`, which must be in C order, with a header of at most 64 KiB.
///
/// NPY has no bf16: a file of `f32` becomes one where the method `wants` bf16.
pub(crate) fn read(path: &Path, wants: Option<ScalarType>) -> anyhow::Result<Tensor> {
    let read = || -> anyhow::Result<Tensor> {
        let mut file = BufReader::new(File::open(path)?);
        let len = header_len(file.fill_buf()?);
        ensure!(len <= MAX_HEADER, "its header takes {len} bytes; at most {MAX_HEADER} are read");
        let npy = NpyFile::new(file).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => anyhow!(CUT),
            // What it says of a header may be as long as that.
            ErrorKind::InvalidData => anyhow!("it is no NPY file, or not one that NumPy writes"),
            _ => error.into(),
        })?;
        if npy.order() != Order::C && npy.shape().len() > 1 {
            bail!("it is in Fortran order; save it with np.ascontiguousarray");
        }
        let sizes = npy.shape().iter().map(|&size| usize::try_from(size));
        let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
        let DType::Plain(dtype) = npy.dtype() else { bail!("it holds records, not numbers") };
        let name = dtype.to_string();
        macro_rules! tensor {
            ($rust:ty) => {
                Tensor::new(&sizes, &npy.into_vec::<$rust>().map_err(data_error)?)?
            };
        }
        let name = name.trim_start_matches(['<', '>', '|', '=']);
        Ok(match (name, wants) {
            ("f4", Some(ScalarType::BFloat16)) => {
                let values =
                    npy.into_vec::<f32>().map_err(data_error)?.into_iter().map(bf16::from_f32);
                Tensor::new(&sizes, &values.collect::<Vec<_>>())?
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
            _ => bail!("dtype {name} is not one that models take"),
        })
    };
    read().with_context(|| path.display().to_string())
}

/// Of a file that ends early.
const CUT: &str = "it is cut short";

fn data_error(error: io::Error) -> anyhow::Error {
    if error.kind() == ErrorKind::UnexpectedEof { anyhow!(CUT) } else { error.into() }
}

/// How long the header of a file with this begin says it is.
fn header_len(begin: &[u8]) -> usize {
    match *begin {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => u16::from_le_bytes([a, b]).into(),
        [0x93, b'N', b'U', b'M', b'P', b'Y', _, _, a, b, c, d, ..] => {
            usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX)
        }
        _ => 0,
    }
}

/// Writes the elements of `view` in the order of its dimensions; bf16 is written as `f32`.
pub(crate) fn write(path: &Path, view: &TensorView<'_>) -> anyhow::Result<()> {
    let write = || -> anyhow::Result<()> {
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
            other => bail!("NPY has no dtype for {other}"),
        }
        Ok(())
    };
    write().with_context(|| path.display().to_string())
}

/// Where each element lies in memory, in the order of the dimensions.
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
    fn what_is_written_is_read_again() {
        let folder = std::env::temp_dir().join(format!("afferent-npy-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.npy");
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
        let check = |bytes: &[u8], expected: &str| {
            std::fs::write(&path, bytes).unwrap();
            let error = format!("{:#}", read(&path, None).unwrap_err());
            assert_eq!(error, format!("{}: {expected}", path.display()));
        };
        let header = |version: u8, len: &[u8], text: &[u8]| {
            [&b"\x93NUMPY"[..], &[version, 0], len, text].concat()
        };
        let refused = "it is no NPY file, or not one that NumPy writes";
        check(b"nonsense", refused);
        check(&header(1, &60_000_u16.to_le_bytes(), &[b'('; 60_000]), refused);
        let len = 0xFFFF_FFF0_u32;
        let expected = format!("its header takes {len} bytes; at most {MAX_HEADER} are read");
        check(&header(2, &len.to_le_bytes(), b"          "), &expected);
        check(&header(2, &100_u32.to_le_bytes(), b"{"), CUT);
        let text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n";
        check(&header(1, &(text.len() as u16).to_le_bytes(), text), CUT);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
