//! The profile of `afferent model run`: an ETDump, or JSON with a mean for each instruction.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use afferent_runtime::{
    RunObserver,
    program::{Instruction, MethodPlan},
};
use anyhow::{Context, bail};

use super::etdump::Trace;

/// A profile and the file that it goes to.
pub(super) struct Profile {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    Etdump(Trace),
    Json(Means),
}

/// The kind of profile that a file name asks for: whether it is an ETDump.
pub(super) fn is_etdump(path: &Path) -> anyhow::Result<bool> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("etdp" | "etdump") => Ok(true),
        Some("json") => Ok(false),
        _ => bail!("--profile {}: the name must end in .etdp or .json", path.display()),
    }
}

impl Profile {
    /// Loading began at `origin`, that of the method at `method`, and has ended now.
    pub(super) fn new(path: &Path, origin: Instant, method: Instant) -> anyhow::Result<Self> {
        let kind = match is_etdump(path)? {
            true => Kind::Etdump(Trace::new(origin, method)),
            false => Kind::Json(Means::default()),
        };
        Ok(Self { path: path.to_owned(), kind })
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
    pub(super) fn write(&self, plan: &MethodPlan<'_>) -> anyhow::Result<()> {
        let bytes = match &self.kind {
            Kind::Etdump(trace) => trace.file(plan)?,
            Kind::Json(means) => serde_json::to_vec_pretty(&means.json(plan))?,
        };
        fs::write(&self.path, bytes)
            .with_context(|| format!("cannot write {}", self.path.display()))
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
