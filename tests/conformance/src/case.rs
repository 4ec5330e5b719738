//! JSON of a case, and comparison of tensors within a tolerance.

use std::{fs, path::Path};

use afferent_core::{CONTIGUOUS_DIM_ORDER, ScalarType, Tensor, TensorView, bf16, f16};
use serde::{Deserialize, Deserializer, de::Error as _};

/// Tolerance of a result: `atol + rtol * |expected|`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct Tolerance {
    /// Absolute part.
    #[serde(default)]
    pub atol: f64,
    /// Relative part.
    #[serde(default)]
    pub rtol: f64,
}

/// Value of a case: an argument, an input or an expected output.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the README describes each of them")]
pub enum Value {
    Tensor(TensorJson),
    Tensors(Vec<Option<TensorJson>>),
    Int(i64),
    #[serde(deserialize_with = "number")]
    Double(f64),
    Bool(bool),
    Str(String),
    None(bool),
    Ints(Vec<i64>),
    #[serde(deserialize_with = "numbers")]
    Doubles(Vec<f64>),
    Bools(Vec<bool>),
    Scalar(Box<Value>),
    Dtype(String),
    MemoryFormat(i64),
    Out(TensorJson),
    Outs(Vec<TensorJson>),
}

/// Tensor of a case. An output argument has neither `data` nor `file`.
#[derive(Debug, Clone, Deserialize)]
pub struct TensorJson {
    /// Short name of the dtype.
    pub dtype: String,
    /// Sizes.
    pub sizes: Vec<usize>,
    /// Dim order, row-major by default.
    pub dim_order: Option<Vec<u8>>,
    /// Elements in memory order, as hexadecimal bytes.
    pub data: Option<String>,
    /// NPY file with the elements in memory order.
    pub file: Option<String>,
    /// Sums of blocks of 16 elements that are contiguous in memory, in place of the elements of a
    /// long output: `f32`, in memory order, as hexadecimal bytes.
    pub sums: Option<String>,
}

/// Elements of a long output in each of its sums.
const SUM_BLOCK: usize = 16;

impl TensorJson {
    /// Creates the tensor, of zeros if the case has no elements. Files are in `folder`.
    ///
    /// # Panics
    /// Panics if the data of the case is malformed.
    pub fn tensor(&self, folder: &Path) -> Tensor {
        let dtype = ScalarType::from_name(&self.dtype).expect("the dtype is known");
        let rank = self.sizes.len();
        let order = self.dim_order.clone().unwrap_or_else(|| CONTIGUOUS_DIM_ORDER[..rank].to_vec());
        let bytes = match (&self.data, &self.file) {
            (Some(hex), _) => from_hex(hex),
            (_, Some(file)) => npy_elements(&folder.join(file)),
            _ => vec![0; self.sizes.iter().product::<usize>() * dtype.size()],
        };
        Tensor::from_bytes(dtype, &self.sizes, &order, &bytes).expect("the data fits the sizes")
    }

    /// Returns true if the case has sums in place of the elements.
    #[cfg(test)]
    pub(crate) fn is_summed(&self) -> bool {
        self.sums.is_some()
    }

    /// Number of elements of a result that exceed `tolerance`; 0 if the case has sums only.
    #[cfg(test)]
    pub(crate) fn count_outliers(
        &self,
        found: &TensorView<'_>,
        folder: &Path,
        tolerance: Tolerance,
    ) -> usize {
        if self.is_summed() {
            return 0;
        }
        let expected = to_f64(&self.tensor(folder).view());
        let pairs = to_f64(found).into_iter().zip(expected);
        let exceeds = |a: f64, b: f64| (a - b).abs() > tolerance.atol + tolerance.rtol * b.abs();
        pairs.filter(|(a, b)| exceeds(*a, *b)).count()
    }

    /// Compares a result with this expected output. Files are in `folder`.
    ///
    /// # Errors
    /// Describes the first difference.
    pub fn compare(
        &self,
        found: &TensorView<'_>,
        folder: &Path,
        tolerance: Tolerance,
    ) -> Result<(), String> {
        let expected = self.tensor(folder);
        let Some(sums) = &self.sums else { return compare(found, &expected.view(), tolerance) };
        check_shape(found, &expected.view())?;
        let sums = from_hex(sums);
        let sums =
            sums.chunks_exact(4).map(|sum| f32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]));
        let elements = to_f64(found);
        if elements.len().div_ceil(SUM_BLOCK) != sums.len() {
            return Err(format!("{} sums for {} elements", sums.len(), elements.len()));
        }
        for (at, (block, expected)) in elements.chunks(SUM_BLOCK).zip(sums).enumerate() {
            let (sum, expected) = (block.iter().sum::<f64>(), f64::from(expected));
            let magnitude: f64 = block.iter().map(|x| x.abs()).sum();
            let allowed = SUM_BLOCK as f64 * tolerance.atol + (tolerance.rtol + 1e-7) * magnitude;
            let is_equal = sum == expected || (sum.is_nan() && expected.is_nan());
            let is_close = (sum - expected).abs() <= allowed;
            if !is_equal && !is_close {
                return Err(format!(
                    "the sum of elements {} to {} in memory is {sum}, expected {expected}",
                    at * SUM_BLOCK,
                    at * SUM_BLOCK + block.len()
                ));
            }
        }
        Ok(())
    }
}

/// Deserializes a number, or the string of a value without a JSON representation.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Plain(f64),
        Word(String),
    }
    match Number::deserialize(deserializer)? {
        Number::Plain(value) => Ok(value),
        Number::Word(word) => word.parse().map_err(D::Error::custom),
    }
}

/// Deserializes a list like [`number`].
fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    #[derive(Deserialize)]
    struct Number(#[serde(deserialize_with = "number")] f64);
    Ok(Vec::<Number>::deserialize(deserializer)?.into_iter().map(|number| number.0).collect())
}

/// Decodes hexadecimal digits.
///
/// # Panics
/// Panics on any other character.
pub(crate) fn from_hex(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Elements of an NPY file. The case has the sizes and the dtype.
fn npy_elements(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"), "{} is not an NPY file", path.display());
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[10 + header..].to_vec()
}

/// Compares a result with the expected tensor.
///
/// # Errors
/// Describes the first difference.
pub fn compare(
    found: &TensorView<'_>,
    expected: &TensorView<'_>,
    tolerance: Tolerance,
) -> Result<(), String> {
    check_shape(found, expected)?;
    let (found, expected) = (to_f64(found), to_f64(expected));
    for (at, (&a, &b)) in found.iter().zip(&expected).enumerate() {
        let is_equal = a == b || (a.is_nan() && b.is_nan());
        let is_close = (a - b).abs() <= tolerance.atol + tolerance.rtol * b.abs();
        if !is_equal && !is_close {
            return Err(format!("element {at} in memory is {a}, expected {b}"));
        }
    }
    Ok(())
}

/// Compares dtypes, sizes and dim orders.
fn check_shape(found: &TensorView<'_>, expected: &TensorView<'_>) -> Result<(), String> {
    if found.dtype() != expected.dtype() || found.sizes() != expected.sizes() {
        let shape = |view: &TensorView<'_>| format!("{}{:?}", view.dtype(), view.sizes());
        return Err(format!("found {}, expected {}", shape(found), shape(expected)));
    }
    // The order of dimensions of size 1 is irrelevant.
    let order = |view: &TensorView<'_>| -> Vec<u8> {
        let sizes = view.sizes();
        let order = view.dim_order().iter().copied();
        order.filter(|dim| sizes[usize::from(*dim)] != 1).collect()
    };
    if found.numel() > 1 && order(found) != order(expected) {
        return Err(format!(
            "dim order {:?}, expected {:?}",
            found.dim_order(),
            expected.dim_order()
        ));
    }
    Ok(())
}

/// Elements as `f64`. 64-bit integers are split into two 32-bit halves, which are exact.
fn to_f64(view: &TensorView<'_>) -> Vec<f64> {
    macro_rules! convert {
        ($rust:ty, $convert:expr) => {
            view.data::<$rust>().expect("the dtype was matched").iter().map($convert).collect()
        };
    }
    match view.dtype() {
        ScalarType::Float => convert!(f32, |&x| f64::from(x)),
        ScalarType::Double => convert!(f64, |&x| x),
        ScalarType::ComplexFloat => {
            let part = |part: &[u8]| f32::from_le_bytes(part.try_into().unwrap_or_default());
            view.bytes().chunks_exact(4).map(part).map(f64::from).collect()
        }
        ScalarType::ComplexDouble => {
            let part = |part: &[u8]| f64::from_le_bytes(part.try_into().unwrap_or_default());
            view.bytes().chunks_exact(8).map(part).collect()
        }
        ScalarType::Half => convert!(f16, |x| x.to_f64()),
        ScalarType::BFloat16 => convert!(bf16, |x| x.to_f64()),
        ScalarType::Long | ScalarType::UInt64 => {
            let halves = view.bytes().chunks_exact(4);
            halves
                .map(|half| f64::from(u32::from_le_bytes(half.try_into().unwrap_or_default())))
                .collect()
        }
        ScalarType::Int => convert!(i32, |&x| f64::from(x)),
        ScalarType::Short => convert!(i16, |&x| f64::from(x)),
        ScalarType::UInt16 => convert!(u16, |&x| f64::from(x)),
        ScalarType::UInt32 => convert!(u32, |&x| f64::from(x)),
        ScalarType::Bool => convert!(afferent_core::Bool, |x| f64::from(u8::from(x.get()))),
        _ if view.dtype() == ScalarType::Char => convert!(i8, |&x| f64::from(x)),
        _ => view.bytes().iter().map(|&byte| f64::from(byte)).collect(),
    }
}

#[test]
fn sums_reveal_one_wrong_element() {
    let long = |numbers: &[f32]| Tensor::new(&[numbers.len()], numbers).unwrap();
    let json = TensorJson {
        dtype: "f32".into(),
        sizes: vec![18],
        dim_order: None,
        data: None,
        file: None,
        sums: Some("00008041".to_owned() + "00000040"), // 16 and 2
    };
    let tolerance = Tolerance { atol: 1e-5, rtol: 1e-5 };
    let check = |numbers: &[f32]| json.compare(&long(numbers).view(), Path::new(""), tolerance);
    let mut numbers = [1.0; 18];
    assert_eq!(check(&numbers), Ok(()));
    assert!(check(&numbers[1..]).is_err());
    for at in [0, 15, 17] {
        numbers[at] = 1.001;
        assert!(check(&numbers).is_err(), "element {at}");
        numbers[at] = f32::NAN;
        assert!(check(&numbers).is_err(), "element {at}");
        numbers[at] = 1.0;
    }
}
