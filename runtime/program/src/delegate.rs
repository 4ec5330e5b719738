//! Operators and delegates of a method.

use core::fmt;

use afferent_core::CompileSpec;

use crate::{
    error::{ErrorKind, FieldResult},
    plan::MethodPlan,
    schema::*,
};
use afferent_flatbuffer::{Table, TableVector};

/// Operator of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator<'a> {
    /// Name with namespace, such as `aten::add`.
    pub name: &'a str,
    /// Overload, such as `out`; may be empty.
    pub overload: &'a str,
}

impl fmt::Display for Operator<'_> {
    /// `name.overload`, or the name alone if there is no overload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.overload.is_empty() { Ok(()) } else { write!(f, ".{}", self.overload) }
    }
}

impl<'a> Operator<'a> {
    pub(crate) fn read(table: &Table<'a>) -> FieldResult<Self> {
        let name = OPERATOR_NAME.required(table.name(OPERATOR_NAME)?)?;
        Ok(Self { name, overload: table.name(OPERATOR_OVERLOAD)?.unwrap_or_default() })
    }
}

/// Partition of a method that a backend runs, as ExecuTorch `BackendDelegate`.
#[derive(Debug, Clone, Copy)]
pub struct DelegatePlan<'a> {
    /// Name of the backend, such as `XnnpackBackend`.
    pub id: &'a str,
    /// Compiled blob of the backend.
    pub blob: &'a [u8],
    specs: TableVector<'a>,
}

impl<'a> DelegatePlan<'a> {
    pub(crate) fn read(plan: &MethodPlan<'a>, index: usize) -> FieldResult<Self> {
        let table = plan.delegate_tables().get(index)?;
        let processed = DELEGATE_PROCESSED.required(table.table(DELEGATE_PROCESSED)?)?;
        let data_index = processed.scalar::<u32>(DATA_REFERENCE_INDEX)?;
        let program = plan.program();
        let blob = match processed.scalar::<u8>(DATA_REFERENCE_LOCATION)? {
            0 => program.inline_delegate_data(DATA_REFERENCE_INDEX, data_index)?,
            1 => program.segments().get(DATA_REFERENCE_INDEX, data_index)?,
            code => {
                let kind = ErrorKind::UnknownCode { code: code.into() };
                return Err(DATA_REFERENCE_LOCATION.error(kind));
            }
        };
        let id = DELEGATE_ID.required(table.name(DELEGATE_ID)?)?;
        Ok(Self { id, blob, specs: table.tables_or_empty(DELEGATE_COMPILE_SPECS)? })
    }

    /// Number of compile specs.
    pub fn num_compile_specs(&self) -> usize {
        self.specs.len()
    }

    /// Compile spec at `index`.
    pub fn compile_spec(&self, index: usize) -> Option<CompileSpec<'a>> {
        self.read_compile_spec(index).ok()
    }

    /// Compile specs, the backend options recorded by the exporter, in order.
    pub fn compile_specs(&self) -> impl Iterator<Item = CompileSpec<'a>> + Clone + use<'a> {
        let delegate = *self;
        (0..self.num_compile_specs()).filter_map(move |index| delegate.compile_spec(index))
    }

    pub(crate) fn read_compile_spec(&self, index: usize) -> FieldResult<CompileSpec<'a>> {
        let spec = self.specs.get(index)?;
        Ok(CompileSpec {
            key: COMPILE_SPEC_KEY.required(spec.name(COMPILE_SPEC_KEY)?)?,
            value: spec.bytes(COMPILE_SPEC_VALUE)?.unwrap_or_default(),
        })
    }
}
