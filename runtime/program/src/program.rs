//! `.pte` program: methods and named data.

use crate::{
    check,
    error::{AtLocation, FieldResult, FileKind, Location, ProgramError},
    header,
    plan::MethodPlan,
    schema::*,
    segments::{NamedData, Segments},
};
use afferent_flatbuffer::{Field, Table, TableVector};

/// Checked `.pte` program, as ExecuTorch `Program`. It borrows all data from the file.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    root: Table<'a>,
    plans: TableVector<'a>,
    segments: Segments<'a>,
    named: TableVector<'a>,
}

impl<'a> Program<'a> {
    /// Checks all of `bytes`. The buffer needs no alignment.
    ///
    /// # Errors
    /// [`ProgramError`] with the invalid field.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ProgramError> {
        let sections = header::program_sections(bytes)?;
        let location = Location::File(FileKind::Program);
        let program = Self::read(sections).map_err(|error| error.at(location))?;
        check::check_program(&program, sections.flatbuffer.len())?;
        Ok(program)
    }

    fn read(sections: header::Sections<'a>) -> FieldResult<Self> {
        let root = Table::root(sections.flatbuffer)?;
        let table = root.tables_or_empty(PROGRAM_SEGMENTS)?;
        Ok(Self {
            root,
            plans: PROGRAM_EXECUTION_PLAN.required(root.tables(PROGRAM_EXECUTION_PLAN)?)?,
            segments: Segments { data: sections.segments, table },
            named: root.tables_or_empty(PROGRAM_NAMED_DATA)?,
        })
    }

    /// Number of methods.
    pub fn num_methods(&self) -> usize {
        self.plans.len()
    }

    /// Methods in order.
    pub fn methods(&self) -> impl Iterator<Item = MethodPlan<'a>> + Clone + use<'a> {
        let program = *self;
        (0..self.plans.len()).filter_map(move |index| MethodPlan::read(&program, index).ok())
    }

    /// Names of the methods in order.
    pub fn method_names(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.methods().map(|method| method.name())
    }

    /// Method with this name.
    pub fn method(&self, name: &str) -> Option<MethodPlan<'a>> {
        self.methods().find(|method| method.name() == name)
    }

    /// Named data with this key, such as the weights of a delegate.
    ///
    /// Lookup is linear; of several equal keys the first one counts.
    pub fn named_data(&self, key: &str) -> Option<&'a [u8]> {
        self.named_entries().find(key).map(|(_, data)| data)
    }

    /// Number of entries of the named data.
    pub fn num_named_data(&self) -> usize {
        self.named.len()
    }

    /// Keys of the named data, in order.
    pub fn named_data_keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.named_data_entries().map(|(key, _)| key)
    }

    /// Keys and bytes of the named data, in order.
    pub fn named_data_entries(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.named_entries().iter()
    }

    /// Size of the flatbuffer in bytes, without the segments.
    pub fn flatbuffer_len(&self) -> usize {
        self.root.buffer_len()
    }

    /// Segments in order: constants, named data, delegate blobs.
    pub fn segment_entries(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let segments = self.segments;
        let to_u32 = |index| u32::try_from(index).unwrap_or(u32::MAX);
        (0..segments.table.len())
            .filter_map(move |index| segments.get(PROGRAM_SEGMENTS, to_u32(index)).ok())
    }

    pub(crate) fn named_entries(&self) -> NamedData<'a> {
        NamedData { entries: self.named, segments: self.segments }
    }

    pub(crate) fn root(&self) -> &Table<'a> {
        &self.root
    }

    pub(crate) fn plans(&self) -> TableVector<'a> {
        self.plans
    }

    pub(crate) fn segments(&self) -> Segments<'a> {
        self.segments
    }

    /// First `len` bytes of the constant at `index`.
    pub(crate) fn constant(&self, index: u32, len: u64) -> FieldResult<&'a [u8]> {
        let inline = self.root.tables_or_empty(PROGRAM_CONSTANT_BUFFER)?;
        if !inline.is_empty() {
            let index = TENSOR_DATA_BUFFER_IDX.index(index, inline.len())?;
            let storage = inline.get(index as usize)?.bytes(BUFFER_STORAGE)?;
            return BUFFER_STORAGE.slice(storage.unwrap_or_default(), 0, len);
        }
        let table = self.root.table(PROGRAM_CONSTANT_SEGMENT)?;
        self.subsegment(&PROGRAM_CONSTANT_SEGMENT.required(table)?, index, len)
    }

    /// First `len` bytes of the initial value at `index` of mutable data segment `segment`.
    pub(crate) fn mutable_data(&self, segment: u64, index: u32, len: u64) -> FieldResult<&'a [u8]> {
        let segments = self.root.tables_or_empty(PROGRAM_MUTABLE_DATA_SEGMENTS)?;
        let segment = i64::try_from(segment).unwrap_or(i64::MAX);
        let segment = EXTRA_MUTABLE_SEGMENTS_IDX.index(segment, segments.len())?;
        self.subsegment(&segments.get(segment as usize)?, index, len)
    }

    fn subsegment(&self, table: &Table<'a>, index: u32, len: u64) -> FieldResult<&'a [u8]> {
        let data = self.segments.get(SUBSEGMENT_INDEX, table.scalar(SUBSEGMENT_INDEX)?)?;
        let offsets = table.vector::<u64>(SUBSEGMENT_OFFSETS)?;
        let offsets = SUBSEGMENT_OFFSETS.required(offsets)?;
        let index = TENSOR_DATA_BUFFER_IDX.index(index, offsets.len())?;
        let start = offsets.get(index as usize).unwrap_or(u64::MAX);
        SUBSEGMENT_OFFSETS.slice(data, start, len)
    }

    /// Delegate blob that is stored in the flatbuffer.
    pub(crate) fn inline_delegate_data(&self, field: Field, index: u32) -> FieldResult<&'a [u8]> {
        let blobs = self.root.tables_or_empty(PROGRAM_BACKEND_DELEGATE_DATA)?;
        let index = field.index(index, blobs.len())?;
        let data = blobs.get(index as usize)?.bytes(INLINE_DATA_DATA)?;
        INLINE_DATA_DATA.required(data)
    }
}
