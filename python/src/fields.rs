//! The fields of a payload as Python values, from and to little-endian CDR.

use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyString, PyTuple},
};

use crate::{
    error,
    layout::{Count, Field, Layout, Scalar, Type},
};

/// CDR header: little endian, no options.
const CDR_LE: [u8; 4] = [0, 1, 0, 0];

/// Reads the fields that `layout` describes.
pub(crate) fn read<'py>(
    py: Python<'py>,
    layout: &Layout,
    bytes: &[u8],
) -> PyResult<Bound<'py, PyDict>> {
    let body = bytes.strip_prefix(&CDR_LE).ok_or_else(|| error::message("it is not CDR"))?;
    let mut reader = Reader { body, at: 0 };
    reader.fields(py, &layout.fields)
}

struct Reader<'b> {
    body: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn take(&mut self, len: usize) -> PyResult<&'b [u8]> {
        let end = self.at.saturating_add(len);
        let bytes = self.body.get(self.at..end);
        self.at = end;
        bytes.ok_or_else(|| error::message("it ends too early"))
    }

    fn align(&mut self, size: usize) {
        self.at = self.at.next_multiple_of(size);
    }

    fn len(&mut self) -> PyResult<usize> {
        self.align(4);
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().unwrap_or_default()) as usize)
    }

    fn fields<'py>(&mut self, py: Python<'py>, fields: &[Field]) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for field in fields {
            dict.set_item(&field.name, self.field(py, field)?)?;
        }
        Ok(dict)
    }

    fn field<'py>(&mut self, py: Python<'py>, field: &Field) -> PyResult<Bound<'py, PyAny>> {
        let count = match field.count {
            Count::One => return self.value(py, &field.ty),
            Count::Fixed(count) => count,
            Count::Any => self.len()?,
        };
        if let (Type::Scalar(scalar), Count::Any) = (&field.ty, field.count) {
            if count > 0 {
                self.align(scalar.size());
            }
            let bytes = PyBytes::new(py, self.take(count.saturating_mul(scalar.size()))?);
            return py.import("numpy")?.call_method1("frombuffer", (bytes, scalar.numpy()));
        }
        let values = (0..count).map(|_| self.value(py, &field.ty));
        let values = values.collect::<PyResult<Vec<_>>>()?;
        match field.count {
            Count::Fixed(_) => Ok(PyTuple::new(py, values)?.into_any()),
            _ => Ok(PyList::new(py, values)?.into_any()),
        }
    }

    fn value<'py>(&mut self, py: Python<'py>, ty: &Type) -> PyResult<Bound<'py, PyAny>> {
        match ty {
            Type::Scalar(scalar) => self.scalar(py, *scalar),
            Type::Text => {
                let len = self.len()?;
                let bytes = self.take(len)?;
                let text = str::from_utf8(bytes.strip_suffix(&[0]).unwrap_or(bytes));
                let text = text.map_err(error::message)?;
                Ok(PyString::new(py, text).into_any())
            }
            Type::Struct(fields) => {
                let fields = self.fields(py, fields)?;
                py.import("types")?.call_method("SimpleNamespace", (), Some(&fields))
            }
        }
    }

    fn scalar<'py>(&mut self, py: Python<'py>, scalar: Scalar) -> PyResult<Bound<'py, PyAny>> {
        self.align(scalar.size());
        let bytes = self.take(scalar.size())?;
        macro_rules! number {
            ($ty:ty) => {
                <$ty>::from_le_bytes(bytes.try_into().unwrap_or_default())
                    .into_pyobject(py)?
                    .into_any()
            };
        }
        Ok(match scalar {
            Scalar::Bool => (bytes != [0]).into_pyobject(py)?.to_owned().into_any(),
            Scalar::U8 => number!(u8),
            Scalar::I8 => number!(i8),
            Scalar::U16 => number!(u16),
            Scalar::I16 => number!(i16),
            Scalar::U32 => number!(u32),
            Scalar::I32 => number!(i32),
            Scalar::U64 => number!(u64),
            Scalar::I64 => number!(i64),
            Scalar::F32 => number!(f32),
            Scalar::F64 => number!(f64),
        })
    }
}

/// Writes the values of `fields` as CDR. A field without a value is zero or empty; a value without a
/// field is an error.
pub(crate) fn write(layout: &Layout, values: &Bound<'_, PyDict>) -> PyResult<Vec<u8>> {
    let mut writer = Writer { bytes: CDR_LE.to_vec() };
    writer.fields(&layout.fields, values, "")?;
    Ok(writer.bytes)
}

struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn align(&mut self, size: usize) {
        let at = self.bytes.len() - CDR_LE.len();
        self.bytes.resize(at.next_multiple_of(size) + CDR_LE.len(), 0);
    }

    fn len(&mut self, len: usize) -> PyResult<()> {
        self.align(4);
        let len = u32::try_from(len).map_err(|_| error::message("a list is too long"))?;
        self.bytes.extend(len.to_le_bytes());
        Ok(())
    }

    fn fields(&mut self, fields: &[Field], values: &Bound<'_, PyDict>, path: &str) -> PyResult<()> {
        for name in values.keys() {
            let name: String = name.extract()?;
            if !fields.iter().any(|field| field.name == name) {
                let known: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
                let known = known.join(", ");
                return Err(error::message(format!(
                    "there is no field {path}{name}; the fields are {known}"
                )));
            }
        }
        for field in fields {
            let value = values.get_item(&field.name)?;
            let path = format!("{path}{}", field.name);
            self.field(field, value.as_ref(), &path)?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &Field,
        value: Option<&Bound<'_, PyAny>>,
        path: &str,
    ) -> PyResult<()> {
        if field.count == Count::One {
            return self.value(&field.ty, value, path);
        }
        let items: Vec<Bound<'_, PyAny>> = match value {
            Some(value) if value.is_instance_of::<PyString>() => {
                return Err(wrong(path, "a list", value));
            }
            Some(value) => {
                let items = value.try_iter().map_err(|_| wrong(path, "a list", value))?;
                items.collect::<PyResult<_>>()?
            }
            None => Vec::new(),
        };
        match field.count {
            Count::Fixed(count) if value.is_none() => {
                return (0..count).try_for_each(|_| self.value(&field.ty, None, path));
            }
            Count::Fixed(count) if items.len() != count => {
                let found = items.len();
                let message = format!("the field {path} has {count} values, not {found}");
                return Err(error::message(message));
            }
            Count::Fixed(_) | Count::One => {}
            Count::Any => self.len(items.len())?,
        }
        items.iter().try_for_each(|item| self.value(&field.ty, Some(item), path))
    }

    fn value(&mut self, ty: &Type, value: Option<&Bound<'_, PyAny>>, path: &str) -> PyResult<()> {
        match ty {
            Type::Scalar(scalar) => self.scalar(*scalar, value, path),
            Type::Text => {
                let text = match value {
                    Some(value) => {
                        value.extract::<String>().map_err(|_| wrong(path, "a text", value))?
                    }
                    None => String::new(),
                };
                self.len(text.len() + 1)?;
                self.bytes.extend(text.as_bytes());
                self.bytes.push(0);
                Ok(())
            }
            Type::Struct(fields) => {
                let path = format!("{path}.");
                let Some(value) = value else {
                    return fields.iter().try_for_each(|field| self.field(field, None, &path));
                };
                let values = match value.cast::<PyDict>() {
                    Ok(dict) => dict.clone(),
                    Err(_) => value.getattr("__dict__")?.cast_into::<PyDict>()?,
                };
                self.fields(fields, &values, &path)
            }
        }
    }

    fn scalar(
        &mut self,
        scalar: Scalar,
        value: Option<&Bound<'_, PyAny>>,
        path: &str,
    ) -> PyResult<()> {
        self.align(scalar.size());
        let Some(value) = value else {
            self.bytes.extend(vec![0; scalar.size()]);
            return Ok(());
        };
        macro_rules! number {
            ($ty:ty) => {{
                let number: $ty =
                    value.extract().map_err(|_| wrong(path, stringify!($ty), value))?;
                self.bytes.extend(number.to_le_bytes());
            }};
        }
        match scalar {
            Scalar::Bool => {
                let value: bool = value.extract().map_err(|_| wrong(path, "a bool", value))?;
                self.bytes.push(u8::from(value));
            }
            Scalar::U8 => number!(u8),
            Scalar::I8 => number!(i8),
            Scalar::U16 => number!(u16),
            Scalar::I16 => number!(i16),
            Scalar::U32 => number!(u32),
            Scalar::I32 => number!(i32),
            Scalar::U64 => number!(u64),
            Scalar::I64 => number!(i64),
            Scalar::F32 => number!(f32),
            Scalar::F64 => number!(f64),
        }
        Ok(())
    }
}

fn wrong(path: &str, needed: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let found = value.repr().map_or_else(|_| "it".to_owned(), |text| text.to_string());
    error::message(format!("the field {path} is {needed}, not {found}"))
}
