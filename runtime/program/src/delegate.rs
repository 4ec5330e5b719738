//! The operators and the delegates of a method.

use core::fmt;

use afferent_core::CompileSpec;

use crate::{
    error::{Fault, Read},
    plan::MethodPlan,
    schema::*,
};
use afferent_flatbuffer::{Table, Tables};

/// An operator of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator<'a> {
    /// Name with namespace, for example `aten::add`.
    pub name: &'a str,
    /// Overload, for example `out`; often empty.
    pub overload: &'a str,
}

impl fmt::Display for Operator<'_> {
    /// `name.overload`, or the name alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.overload.is_empty() { Ok(()) } else { write!(f, ".{}", self.overload) }
    }
}

impl<'a> Operator<'a> {
    pub(crate) fn read(table: &Table<'a>) -> Read<Self> {
        let name = OPERATOR_NAME.required(table.name(OPERATOR_NAME)?)?;
        Ok(Self { name, overload: table.name(OPERATOR_OVERLOAD)?.unwrap_or_default() })
    }
}

/// A part of a method that a backend runs, as ExecuTorch `BackendDelegate`.
#[derive(Debug, Clone, Copy)]
pub struct DelegatePlan<'a> {
    /// Name of the backend, for example `XnnpackBackend`.
    pub id: &'a str,
    /// What the backend compiled.
    pub blob: &'a [u8],
    specs: Tables<'a>,
}

impl<'a> DelegatePlan<'a> {
    pub(crate) fn read(plan: &MethodPlan<'a>, index: usize) -> Read<Self> {
        let table = plan.delegate_tables().get(index)?;
        let processed = DELEGATE_PROCESSED.required(table.table(DELEGATE_PROCESSED)?)?;
        let place = processed.number::<u32>(DATA_REFERENCE_INDEX)?;
        let program = plan.program();
        let blob = match processed.number::<u8>(DATA_REFERENCE_LOCATION)? {
            0 => program.inline_delegate_data(DATA_REFERENCE_INDEX, place)?,
            1 => program.segments().get(DATA_REFERENCE_INDEX, place)?,
            code => {
                let fault = Fault::UnknownCode { code: code.into() };
                return Err(DATA_REFERENCE_LOCATION.fault(fault));
            }
        };
        let id = DELEGATE_ID.required(table.name(DELEGATE_ID)?)?;
        Ok(Self { id, blob, specs: table.tables_or_empty(DELEGATE_COMPILE_SPECS)? })
    }

    /// Number of settings.
    pub fn num_compile_specs(&self) -> usize {
        self.specs.len()
    }

    /// The setting at `index`, if there is one.
    pub fn compile_spec(&self, index: usize) -> Option<CompileSpec<'a>> {
        self.read_compile_spec(index).ok()
    }

    /// The settings that the exporter recorded for the backend, in order.
    pub fn compile_specs(&self) -> impl Iterator<Item = CompileSpec<'a>> + Clone + use<'a> {
        let delegate = *self;
        (0..self.num_compile_specs()).filter_map(move |index| delegate.compile_spec(index))
    }

    pub(crate) fn read_compile_spec(&self, index: usize) -> Read<CompileSpec<'a>> {
        let spec = self.specs.get(index)?;
        Ok(CompileSpec {
            key: COMPILE_SPEC_KEY.required(spec.name(COMPILE_SPEC_KEY)?)?,
            value: spec.bytes(COMPILE_SPEC_VALUE)?.unwrap_or_default(),
        })
    }
}
