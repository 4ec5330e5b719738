//! ETDump: profile in the format of ExecuTorch's developer tools.
//!
//! Source: `devtools/etdump/etdump_schema_flatcc.fbs`, and files that the ExecuTorch runtime
//! writes. The block `Default` has the events of loading, and a block `Execute` those of each run.
//! A kernel call gives two events, `native_call_NAME.OVERLOAD` and `OPERATOR_CALL`, with equal
//! times. Events of an instruction have its index, which the Inspector maps to the debug handle in
//! an ETRecord; events of the whole method have chain index -1. Parts of a delegate, such as shaders,
//! have no name but an identifier of the delegate, and follow each other from its begin. Times are nanoseconds since loading
//! began. There are no allocation events: the Inspector rejects them, and a run allocates nothing.

use std::{
    cell::{Cell, RefCell},
    time::Instant,
};

use afferent_core::DelegateObserver;
use afferent_runtime::{
    RunObserver,
    program::{Instruction, MethodPlan},
};
use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, WIPOffset};

use crate::InspectError;

/// Maximum number of instructions of all runs. The tools cannot handle larger files.
const MAX_EVENTS: usize = 4_000_000;

/// Begin and end in nanoseconds since loading began.
type Span = (u64, u64);

/// Records the begin and end of each instruction of each run.
pub struct EtDumpRecorder {
    origin: Instant,
    /// Loading of the program and the method, and of the method alone.
    loads: [Span; 2],
    begin: Cell<u64>,
    runs: RefCell<Vec<Run>>,
    /// Instructions of the active run.
    current: RefCell<Vec<Instructed>>,
    /// Parts of the delegate that runs.
    parts: RefCell<Vec<(String, u64)>>,
    events: Cell<usize>,
}

struct Run {
    span: Span,
    instructions: Vec<Instructed>,
}

/// A run of an instruction.
struct Instructed {
    instruction: usize,
    span: Span,
    /// Names of the parts of a delegate, with their nanoseconds.
    parts: Vec<(String, u64)>,
}

impl RunObserver for EtDumpRecorder {
    fn begin(&self, _: usize) {
        self.begin.set(nanos(self.origin));
    }

    fn end(&self, instruction: usize) {
        let end = nanos(self.origin);
        let parts = self.parts.take();
        self.events.set(self.events.get() + 1 + parts.len());
        if self.events.get() <= MAX_EVENTS {
            let span = (self.begin.get(), end);
            self.current.borrow_mut().push(Instructed { instruction, span, parts });
        }
    }

    fn delegate_observer(&self) -> Option<&dyn DelegateObserver> {
        Some(self)
    }
}

impl DelegateObserver for EtDumpRecorder {
    fn part(&self, name: &str, nanos: u64) {
        self.parts.borrow_mut().push((name.to_owned(), nanos));
    }
}

/// Nanoseconds from `origin` until now.
fn nanos(origin: Instant) -> u64 {
    since(origin, Instant::now())
}

fn since(origin: Instant, time: Instant) -> u64 {
    u64::try_from(time.saturating_duration_since(origin).as_nanos()).unwrap_or(u64::MAX)
}

impl EtDumpRecorder {
    /// Starts recording right after loading. Loading of the program began at `origin`, and of the
    /// method at `method`.
    pub fn new(origin: Instant, method: Instant) -> Self {
        let end = nanos(origin);
        Self {
            origin,
            loads: [(0, end), (since(origin, method), end)],
            begin: Cell::default(),
            runs: RefCell::default(),
            current: RefCell::default(),
            parts: RefCell::default(),
            events: Cell::default(),
        }
    }

    /// Ends the run that started at `start`.
    pub fn end_run(&self, start: Instant) {
        let span = (since(self.origin, start), nanos(self.origin));
        let instructions = self.current.take();
        self.runs.borrow_mut().push(Run { span, instructions });
    }

    /// Serializes the recorded runs. `plan` is the method that ran.
    ///
    /// # Errors
    /// [`InspectError::TooManyEvents`].
    pub fn to_bytes(&self, plan: &MethodPlan<'_>) -> Result<Vec<u8>, InspectError> {
        if self.events.get() > MAX_EVENTS {
            let (events, limit) = (self.events.get(), MAX_EVENTS);
            return Err(InspectError::TooManyEvents { events, limit });
        }
        let mut writer = Writer::default();
        let [load, init] = self.loads;
        let events = [
            writer.event("Method::init", WHOLE_METHOD, init),
            writer.event("Program::load_method", WHOLE_METHOD, load),
        ];
        writer.block("Default", &events);
        for run in self.runs.borrow().iter() {
            let mut events = Vec::with_capacity(2 * run.instructions.len() + 1);
            for Instructed { instruction, span, parts } in &run.instructions {
                let location = (0, i32::try_from(*instruction).unwrap_or(i32::MAX));
                let mut start = span.0;
                for (name, nanos) in parts {
                    let end = start.saturating_add(*nanos);
                    events.push(writer.part(name, location, (start, end)));
                    start = end;
                }
                let names = names(plan, *instruction);
                events.extend(names.iter().map(|name| writer.event(name, location, *span)));
            }
            events.push(writer.event("Method::execute", WHOLE_METHOD, run.span));
            writer.block("Execute", &events);
        }
        Ok(writer.finish())
    }
}

/// Event names of an instruction.
fn names(plan: &MethodPlan<'_>, instruction: usize) -> Vec<String> {
    let call = match plan.instruction(instruction) {
        Some(Instruction::Kernel { operator, .. }) => {
            let name = plan.operator(operator as usize).map(|operator| operator.to_string());
            let name = name.unwrap_or_default();
            let name = name.split_once("::").map_or(name.as_str(), |(_, name)| name);
            return vec![format!("native_call_{name}"), "OPERATOR_CALL".to_owned()];
        }
        Some(Instruction::Delegate { .. }) => "DELEGATE_CALL",
        Some(Instruction::Move { .. }) => "MOVE_CALL",
        Some(Instruction::JumpFalse { .. }) => "JF_CALL",
        Some(Instruction::Free { .. }) => "FREE_CALL",
        None => return Vec::new(),
    };
    vec![call.to_owned()]
}

/// Chain index and instruction of an event of the whole method.
const WHOLE_METHOD: (i32, i32) = (-1, 0);

type Table = WIPOffset<TableFinishedWIPOffset>;

/// Vtable offset of field number `field` of a table.
const fn slot(field: u16) -> u16 {
    4 + 2 * field
}

#[derive(Default)]
struct Writer {
    builder: FlatBufferBuilder<'static>,
    blocks: Vec<Table>,
}

impl Writer {
    /// Writes a table `Event` with a `ProfileEvent`.
    fn event(&mut self, name: &str, location: (i32, i32), span: Span) -> Table {
        self.profile_event(slot(0), name, location, span)
    }

    /// As [`event`](Self::event), for a part of a delegate.
    fn part(&mut self, name: &str, location: (i32, i32), span: Span) -> Table {
        self.profile_event(slot(4), name, location, span)
    }

    fn profile_event(
        &mut self,
        name_slot: u16,
        name: &str,
        (chain, instruction): (i32, i32),
        span: Span,
    ) -> Table {
        let builder = &mut self.builder;
        let name = builder.create_shared_string(name);
        let start = builder.start_table();
        builder.push_slot_always(name_slot, name);
        builder.push_slot(slot(1), chain, 0_i32);
        builder.push_slot(slot(2), instruction, -1_i32);
        builder.push_slot(slot(6), span.0, 0_u64);
        builder.push_slot(slot(7), span.1, 0_u64);
        let profile = builder.end_table(start);
        let start = builder.start_table();
        builder.push_slot_always(slot(0), profile);
        builder.end_table(start)
    }

    /// Writes a table `RunData`.
    fn block(&mut self, name: &str, events: &[Table]) {
        let builder = &mut self.builder;
        let (name, events) = (builder.create_shared_string(name), builder.create_vector(events));
        let start = builder.start_table();
        builder.push_slot_always(slot(0), name);
        builder.push_slot_always(slot(3), events);
        self.blocks.push(builder.end_table(start));
    }

    /// Writes the size-prefixed root table `ETDump`.
    fn finish(mut self) -> Vec<u8> {
        let blocks = self.builder.create_vector(&self.blocks);
        let start = self.builder.start_table();
        self.builder.push_slot_always(slot(0), 0_u32);
        self.builder.push_slot_always(slot(1), blocks);
        let root = self.builder.end_table(start);
        self.builder.finish_size_prefixed(root, Some("ED00"));
        self.builder.finished_data().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use afferent_kernels::KERNELS;
    use afferent_runtime::{Input, Model, ModelOptions, RunOptions};

    use super::*;

    /// Reader of a table, independent of the `flatbuffers` crate.
    #[derive(Clone, Copy)]
    struct Reader<'a> {
        file: &'a [u8],
        at: usize,
    }

    impl<'a> Reader<'a> {
        fn number<const N: usize>(file: &[u8], at: usize) -> [u8; N] {
            file[at..at + N].try_into().unwrap()
        }

        fn target(file: &'a [u8], at: usize) -> usize {
            at + u32::from_le_bytes(Self::number(file, at)) as usize
        }

        /// Offset of field number `field`; `None` if it is absent.
        fn field(self, field: usize) -> Option<usize> {
            let distance = i32::from_le_bytes(Self::number(self.file, self.at));
            let vtable = usize::try_from(self.at as i64 - i64::from(distance)).unwrap();
            let u16 = |at| usize::from(u16::from_le_bytes(Self::number(self.file, at)));
            let offset = if 4 + 2 * field < u16(vtable) { u16(vtable + 4 + 2 * field) } else { 0 };
            (offset > 0).then_some(self.at + offset)
        }

        fn i32(self, field: usize) -> i32 {
            let at = self.field(field).expect("the field is there");
            i32::from_le_bytes(Self::number(self.file, at))
        }

        fn u64(self, field: usize) -> u64 {
            self.field(field).map_or(0, |at| u64::from_le_bytes(Self::number(self.file, at)))
        }

        fn str(self, field: usize) -> &'a str {
            let at = Self::target(self.file, self.field(field).unwrap());
            let len = u32::from_le_bytes(Self::number(self.file, at)) as usize;
            str::from_utf8(&self.file[at + 4..at + 4 + len]).unwrap()
        }

        fn table(self, field: usize) -> Self {
            Self { at: Self::target(self.file, self.field(field).unwrap()), ..self }
        }

        fn tables(self, field: usize) -> Vec<Self> {
            let at = Self::target(self.file, self.field(field).unwrap());
            let len = u32::from_le_bytes(Self::number(self.file, at)) as usize;
            let starts = (0..len).map(|index| Self::target(self.file, at + 4 + 4 * index));
            starts.map(|at| Self { at, ..self }).collect()
        }
    }

    /// ETDump of two runs of a program.
    fn record(program: &str, inputs: &[Input<'_>]) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/data/programs");
        let origin = Instant::now();
        let path = format!("{folder}/{program}/model.pte");
        let mut model = Model::open(path, ModelOptions::new(KERNELS)).unwrap();
        let recorder = EtDumpRecorder::new(origin, origin);
        let options = RunOptions { observer: Some(&recorder), ..RunOptions::default() };
        for _ in 0..2 {
            let start = Instant::now();
            model.run_with("forward", inputs, &options).unwrap();
            recorder.end_run(start);
        }
        recorder.to_bytes(&model.file().method("forward").unwrap()).unwrap()
    }

    #[test]
    fn an_etdump_has_the_events_of_loading_and_of_each_run() {
        let zeros = afferent_core::Tensor::zeros(afferent_core::ScalarType::Float, &[4]);
        let file = record("add", &[Input::Tensor(zeros.view()), Input::Tensor(zeros.view())]);
        let size = u32::from_le_bytes(Reader::number(&file, 0)) as usize;
        assert_eq!((size, &file[8..12]), (file.len() - 4, &b"ED00"[..]));
        let root = Reader { file: &file, at: Reader::target(&file, 4) };
        let blocks = root.tables(1);
        let names: Vec<_> = blocks.iter().map(|block| block.str(0)).collect();
        assert_eq!(names, ["Default", "Execute", "Execute"]);
        let events = |block: Reader<'_>| -> Vec<(String, i32, i32)> {
            let events = block.tables(3).into_iter().map(|event| event.table(0));
            let row = |event: Reader<'_>| {
                assert!(event.u64(6) <= event.u64(7) && event.u64(7) > 0);
                // A chain index of 0 is the default, which is not written.
                let chain = event.field(1).map_or(0, |_| event.i32(1));
                (event.str(0).to_owned(), chain, event.i32(2))
            };
            events.map(row).collect()
        };
        let expected = |rows: &[(&str, i32, i32)]| -> Vec<(String, i32, i32)> {
            rows.iter().map(|&(name, chain, at)| (name.to_owned(), chain, at)).collect()
        };
        let loads = [("Method::init", -1, 0), ("Program::load_method", -1, 0)];
        assert_eq!(events(blocks[0]), expected(&loads));
        let run =
            [("native_call_add.out", 0, 0), ("OPERATOR_CALL", 0, 0), ("Method::execute", -1, 0)];
        assert_eq!(events(blocks[1]), expected(&run));
        assert_eq!(events(blocks[2]), expected(&run));
        let whole = blocks[1].tables(3)[2].table(0);
        let call = blocks[1].tables(3)[0].table(0);
        assert!(whole.u64(6) <= call.u64(6) && call.u64(7) <= whole.u64(7));
        assert!(whole.u64(7) <= blocks[2].tables(3)[0].table(0).u64(6), "runs follow each other");
    }

    #[test]
    fn parts_of_a_delegate_follow_each_other() {
        let origin = Instant::now();
        let recorder = EtDumpRecorder::new(origin, origin);
        recorder.begin(0);
        recorder.part("linear #3", 500);
        recorder.part("relu #4", 700);
        recorder.end(0);
        recorder.end_run(origin);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/data/programs");
        let file = afferent_runtime::ModelFile::open(format!("{folder}/add/model.pte"), &[]);
        let file = recorder.to_bytes(&file.unwrap().method("forward").unwrap()).unwrap();
        let root = Reader { file: &file, at: Reader::target(&file, 4) };
        let events = root.tables(1)[1].tables(3);
        let [first, second] = [0, 1].map(|index| events[index].table(0));
        assert_eq!((first.str(4), second.str(4)), ("linear #3", "relu #4"));
        assert_eq!((first.field(0), first.i32(2)), (None, 0), "no name, but the instruction");
        assert_eq!((first.u64(7) - first.u64(6), second.u64(6)), (500, first.u64(7)));
        assert_eq!(second.u64(7) - second.u64(6), 700);
    }
}
