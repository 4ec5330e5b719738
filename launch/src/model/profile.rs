//! The profile of `afferent model run`: an ETDump, or JSON with a mean for each instruction.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    path::Path,
    time::Instant,
};

use afferent_runtime::{
    RunObserver,
    program::{Instruction, MethodPlan},
};
use anyhow::bail;

use super::etdump::Trace;
use crate::output::Output;

/// The file that a profile goes to.
pub(super) struct ProfileFile {
    file: Output,
    is_etdump: bool,
}

/// A profile and the file that it goes to.
pub(super) struct Profile {
    file: Output,
    kind: Kind,
}

enum Kind {
    Etdump(Trace),
    Json(Means),
}

impl ProfileFile {
    /// Opens the file, whose name says which kind of profile it gets.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let is_etdump = match path.extension().and_then(|extension| extension.to_str()) {
            Some("etdp" | "etdump") => true,
            Some("json") => false,
            _ => bail!("--profile {}: the name must end in .etdp or .json", path.display()),
        };
        Ok(Self { file: Output::open(path)?, is_etdump })
    }
}

impl Profile {
    /// Loading began at `origin`, that of the method at `method`, and has ended now.
    pub(super) fn new(file: ProfileFile, origin: Instant, method: Instant) -> Self {
        let kind = match file.is_etdump {
            true => Kind::Etdump(Trace::new(origin, method)),
            false => Kind::Json(Means::default()),
        };
        Self { file: file.file, kind }
    }

    pub(super) fn observer(&self) -> &dyn RunObserver {
        match &self.kind {
            Kind::Etdump(trace) => trace,
            Kind::Json(means) => means,
        }
    }

    /// Ends a run that started at `start`.
    pub(super) fn end_run(&self, start: Instant) {
        if let Kind::Etdump(trace) = &self.kind {
            trace.end_run(start);
        }
    }

    /// Writes the file. `plan` is the method that ran.
    pub(super) fn write(self, plan: &MethodPlan<'_>) -> anyhow::Result<()> {
        let bytes = match &self.kind {
            Kind::Etdump(trace) => trace.file(plan)?,
            Kind::Json(means) => serde_json::to_vec_pretty(&means.json(plan))?,
        };
        self.file.write(&bytes)
    }
}

/// How often and how long each instruction ran.
#[derive(Default)]
struct Means {
    begun: Cell<Option<Instant>>,
    /// Calls and nanoseconds of each instruction.
    instructions: RefCell<BTreeMap<usize, (u64, u64)>>,
}

impl RunObserver for Means {
    fn begin(&self, _: usize) {
        self.begun.set(Some(Instant::now()));
    }

    fn end(&self, instruction: usize) {
        let took = self.begun.take().map_or(0, |begun| begun.elapsed().as_nanos());
        let mut instructions = self.instructions.borrow_mut();
        let (calls, nanos) = instructions.entry(instruction).or_default();
        *calls += 1;
        *nanos += u64::try_from(took).unwrap_or(u64::MAX);
    }
}

impl Means {
    fn json(&self, plan: &MethodPlan<'_>) -> serde_json::Value {
        let instructions = self.instructions.borrow();
        let rows = instructions.iter().map(|(&at, &(calls, nanos))| {
            serde_json::json!({
                "instruction": at,
                "name": name(plan, at),
                "calls": calls,
                "mean_us": nanos as f64 / 1e3 / calls as f64,
            })
        });
        serde_json::json!({"method": plan.name(), "instructions": rows.collect::<Vec<_>>()})
    }
}

fn name(plan: &MethodPlan<'_>, at: usize) -> String {
    let name = match plan.instruction(at) {
        Some(Instruction::Kernel { operator, .. }) => {
            plan.operator(operator as usize).map(|operator| operator.to_string())
        }
        Some(Instruction::Delegate { delegate, .. }) => {
            plan.delegate(delegate as usize).map(|delegate| delegate.id.to_owned())
        }
        Some(Instruction::Move { .. }) => Some("move".to_owned()),
        Some(Instruction::JumpFalse { .. }) => Some("jump_false".to_owned()),
        Some(Instruction::Free { .. }) => Some("free".to_owned()),
        None => None,
    };
    name.unwrap_or_default()
}
