//! `.ptd` external data file: named tensors and named data.

use crate::{
    check::{self, Budget},
    error::{AtLocation, ErrorKind, FieldError, FieldResult, FileKind, Location, ProgramError},
    header,
    schema::*,
    segments::{NamedData, Segments},
    tensor::{LayoutFields, TensorLayout},
};
use afferent_flatbuffer::{Field, Table};

/// Checked `.ptd` file. It borrows all data from the file.
///
/// Lookup is linear; of several equal keys the first one counts.
#[derive(Debug, Clone, Copy)]
pub struct ExternalData<'a> {
    named: NamedData<'a>,
}

impl<'a> ExternalData<'a> {
    /// Checks all of `bytes`. The buffer needs no alignment.
    ///
    /// # Errors
    /// [`ProgramError`] with the invalid field.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ProgramError> {
        let sections = header::external_data_sections(bytes)?;
        let file = FileKind::ExternalData;
        let at = |error: FieldError| error.at(Location::File(file));
        let root = Table::root(sections.flatbuffer).map_err(at)?;
        if root.scalar::<u32>(FLAT_TENSOR_VERSION).map_err(at)? != 0 {
            let feature = "a schema version other than 0; export the model again";
            return Err(at(FLAT_TENSOR_VERSION.error(ErrorKind::NotSupported { feature })));
        }
        let required = |field: Field| {
            let tables = root.tables(field).and_then(|tables| field.required(tables));
            tables.map_err(at)
        };
        let table = required(FLAT_TENSOR_SEGMENTS)?;
        let segments = Segments { data: sections.segments, table };
        let named = NamedData { entries: required(FLAT_TENSOR_NAMED_DATA)?, segments };
        let mut budget = Budget::new(sections.flatbuffer.len());
        let check_tensor = |table: &Table<'a>, data| tensor(table, data).map(|_| ());
        check::check_named_data(&named, file, &mut budget, check_tensor)?;
        Ok(Self { named })
    }

    /// Number of keys.
    pub fn num_keys(&self) -> usize {
        self.named.entries.len()
    }

    /// Keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.entries().map(|(key, _)| key)
    }

    /// Keys and data in order.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.named.iter()
    }

    /// Data with this key.
    pub fn get(&self, key: &str) -> Option<&'a [u8]> {
        self.named.find(key).map(|(_, data)| data)
    }

    /// Tensor with this name and its data, which has exactly `nbytes` bytes.
    ///
    /// Returns `None` for an unknown name and for data without a tensor layout.
    pub fn tensor(&self, name: &str) -> Option<(TensorLayout<'a>, &'a [u8])> {
        let (table, data) = self.named.find(name)?;
        tensor(&table, data).ok().flatten()
    }
}

fn tensor<'a>(
    entry: &Table<'a>,
    data: &'a [u8],
) -> FieldResult<Option<(TensorLayout<'a>, &'a [u8])>> {
    let Some(table) = entry.table(NAMED_DATA_TENSOR_LAYOUT)? else { return Ok(None) };
    let fields = LayoutFields {
        dtype: LAYOUT_SCALAR_TYPE,
        sizes: LAYOUT_SIZES,
        dim_order: LAYOUT_DIM_ORDER,
    };
    let layout = TensorLayout::read(&table, &fields)?;
    let data = DATA_SEGMENT_SIZE.slice(data, 0, layout.nbytes as u64)?;
    Ok(Some((layout, data)))
}
