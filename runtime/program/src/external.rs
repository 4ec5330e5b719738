//! A `.ptd` file: tensors and data with names.

use crate::{
    check::{self, Budget},
    error::{At, Defect, Fault, FileKind, Place, ProgramError, Read},
    header,
    schema::*,
    segments::{NamedData, Segments},
    tensor::{LayoutFields, TensorLayout},
};
use afferent_flatbuffer::{Field, Table};

/// A checked `.ptd` file. It borrows everything from the file.
///
/// Keys are searched from the first to the last; of equal ones the first counts.
#[derive(Debug, Clone, Copy)]
pub struct ExternalData<'a> {
    named: NamedData<'a>,
}

impl<'a> ExternalData<'a> {
    /// Checks all of `bytes`, which need no alignment.
    ///
    /// # Errors
    /// [`ProgramError`] says which field is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ProgramError> {
        let parts = header::external_data(bytes)?;
        let file = FileKind::ExternalData;
        let at = |defect: Defect| defect.at(Place::File(file));
        let root = Table::root(parts.flatbuffer).map_err(at)?;
        if root.number::<u32>(FLAT_TENSOR_VERSION).map_err(at)? != 0 {
            let what = "a schema version other than 0; export the model again";
            return Err(at(FLAT_TENSOR_VERSION.fault(Fault::NotSupported { what })));
        }
        let required = |field: Field| {
            let tables = root.tables(field).and_then(|tables| field.required(tables));
            tables.map_err(at)
        };
        let segments = Segments { data: parts.segments, table: required(FLAT_TENSOR_SEGMENTS)? };
        let named = NamedData { entries: required(FLAT_TENSOR_NAMED_DATA)?, segments };
        let mut budget = Budget::new(parts.flatbuffer.len());
        let tensor = |table: &Table<'a>, data| tensor(table, data).map(|_| ());
        check::named_data(&named, file, &mut budget, tensor)?;
        Ok(Self { named })
    }

    /// Number of keys.
    pub fn num_keys(&self) -> usize {
        self.named.entries.len()
    }

    /// The keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.entries().map(|(key, _)| key)
    }

    /// All data in order: keys and bytes.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.named.iter()
    }

    /// The data with this key.
    pub fn get(&self, key: &str) -> Option<&'a [u8]> {
        self.named.find(key).map(|(_, data)| data)
    }

    /// The tensor with this name, with exactly as many bytes as its sizes need; `None` also for
    /// data that is no tensor.
    pub fn tensor(&self, name: &str) -> Option<(TensorLayout<'a>, &'a [u8])> {
        let (table, data) = self.named.find(name)?;
        tensor(&table, data).ok().flatten()
    }
}

fn tensor<'a>(entry: &Table<'a>, data: &'a [u8]) -> Read<Option<(TensorLayout<'a>, &'a [u8])>> {
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
