//! Profile of runs as mean times of instructions.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    time::Instant,
};

use afferent_core::DelegateObserver;
use afferent_runtime::{
    RunObserver, callee,
    program::{Instruction, MethodPlan},
};
use serde::Serialize;

/// Measures how often and how long each instruction runs.
#[derive(Debug, Default)]
pub struct InstructionProfile {
    begin: Cell<Option<Instant>>,
    /// Calls and total nanoseconds of each instruction.
    instructions: RefCell<BTreeMap<usize, (u64, u64)>>,
    /// Parts of the delegate that runs.
    running: RefCell<Vec<(String, u64)>>,
    /// Total nanoseconds of the parts of each delegate.
    parts: RefCell<BTreeMap<usize, Vec<(String, u64)>>>,
}

/// Mean times of the instructions of a method.
#[derive(Debug, Serialize)]
pub struct MeanTimes {
    /// Name of the method.
    pub method: String,
    /// Instructions that have run, by index.
    pub instructions: Vec<InstructionTime>,
}

/// Mean time of an instruction.
#[derive(Debug, Serialize)]
pub struct InstructionTime {
    /// Index of the instruction.
    pub instruction: usize,
    /// Operator, backend or kind of the instruction.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Mean time of a call in microseconds.
    pub mean_us: f64,
    /// Parts of a delegate that tells their times, such as shaders, in the order of their runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartTime>,
}

/// Mean time of a part of a delegate.
#[derive(Debug, Serialize)]
pub struct PartTime {
    /// Operator, and number of the call.
    pub name: String,
    /// Mean time of a call in microseconds.
    pub mean_us: f64,
}

impl RunObserver for InstructionProfile {
    fn begin(&self, _: usize) {
        self.begin.set(Some(Instant::now()));
    }

    fn end(&self, instruction: usize) {
        let elapsed = self.begin.take().map_or(0, |begin| begin.elapsed().as_nanos());
        let mut instructions = self.instructions.borrow_mut();
        let (calls, nanos) = instructions.entry(instruction).or_default();
        *calls += 1;
        *nanos += u64::try_from(elapsed).unwrap_or(u64::MAX);
        let running = self.running.take();
        let mut parts = self.parts.borrow_mut();
        let known = parts.entry(instruction).or_default();
        for (index, (name, nanos)) in running.into_iter().enumerate() {
            match known.get_mut(index).filter(|known| known.0 == name) {
                Some(known) => known.1 += nanos,
                None => known.push((name, nanos)),
            }
        }
    }

    fn delegate_observer(&self) -> Option<&dyn DelegateObserver> {
        Some(self)
    }
}

impl DelegateObserver for InstructionProfile {
    fn part(&self, name: &str, nanos: u64) {
        self.running.borrow_mut().push((name.to_owned(), nanos));
    }
}

impl InstructionProfile {
    /// Mean times so far. `plan` is the method that ran.
    pub fn mean_times(&self, plan: &MethodPlan<'_>) -> MeanTimes {
        let instructions = self.instructions.borrow();
        let parts = self.parts.borrow();
        let mean_us = |nanos: u64, calls: u64| nanos as f64 / 1e3 / calls as f64;
        let times = instructions.iter().map(|(&at, &(calls, nanos))| InstructionTime {
            instruction: at,
            name: name(plan, at),
            calls,
            mean_us: mean_us(nanos, calls),
            parts: parts
                .get(&at)
                .into_iter()
                .flatten()
                .map(|(name, nanos)| PartTime {
                    name: name.clone(),
                    mean_us: mean_us(*nanos, calls),
                })
                .collect(),
        });
        MeanTimes { method: plan.name().to_owned(), instructions: times.collect() }
    }
}

fn name(plan: &MethodPlan<'_>, at: usize) -> String {
    match plan.instruction(at) {
        Some(Instruction::Move { .. }) => "move".to_owned(),
        Some(Instruction::JumpFalse { .. }) => "jump_false".to_owned(),
        Some(Instruction::Free { .. }) => "free".to_owned(),
        _ => callee(plan, at).unwrap_or_default(),
    }
}
