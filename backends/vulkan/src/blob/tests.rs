//! Blobs with the traps of the format, and damaged ones.

use std::cell::RefCell;

use afferent_core::{BlobEntry, DelegateSource, Error};
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

use super::parse;
use crate::{
    backend::Vulkan,
    graph::{DataType, Graph, Value},
};

/// Value of a blob that a test writes.
#[derive(Clone)]
enum Written {
    Int(i64),
    /// Element type, sizes, constant; `None` leaves the field out.
    Tensor(i8, Vec<u32>, Option<i32>),
    Values(Vec<i32>),
}

const F32: i8 = 5;

/// Blob that a test writes.
#[derive(Clone)]
struct Blob {
    values: Vec<Written>,
    calls: Vec<(&'static str, Vec<i32>)>,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    /// Offset, length and name of each constant.
    constants: Vec<(u64, u64, &'static str)>,
    /// Bytes after the flatbuffer.
    data: Vec<u8>,
    identifier: &'static str,
}

const fn slot(field: u16) -> u16 {
    4 + 2 * field
}

impl Blob {
    /// `y = relu(x + w)` with a constant `w` of four elements.
    fn sum() -> Self {
        let tensor = |constant| Written::Tensor(F32, vec![4], Some(constant));
        Self {
            values: vec![tensor(-1), tensor(0), Written::Int(1), tensor(-1), tensor(-1)],
            calls: vec![("aten.add.Tensor", vec![0, 1, 2, 3]), ("aten.relu.default", vec![3, 4])],
            inputs: vec![0],
            outputs: vec![4],
            constants: vec![(0, 16, "")],
            data: [1.0_f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect(),
            identifier: "VK00",
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut b = FlatBufferBuilder::new();
        let values: Vec<_> = self.values.iter().map(|value| write_value(&mut b, value)).collect();
        let values = b.create_vector(&values);
        let mut calls = vec![];
        for (name, args) in &self.calls {
            let (name, args) = (b.create_string(name), b.create_vector(args));
            let table = b.start_table();
            b.push_slot_always(slot(1), name);
            b.push_slot_always(slot(2), args);
            calls.push(b.end_table(table));
        }
        let calls = b.create_vector(&calls);
        let mut constants = vec![];
        for (offset, length, name) in &self.constants {
            let name = b.create_string(name);
            let table = b.start_table();
            b.push_slot_always(slot(0), *offset);
            b.push_slot_always(slot(1), *length);
            b.push_slot_always(slot(2), name);
            constants.push(b.end_table(table));
        }
        let constants = b.create_vector(&constants);
        let (inputs, outputs) = (b.create_vector(&self.inputs), b.create_vector(&self.outputs));
        let root = b.start_table();
        b.push_slot_always(slot(1), calls);
        b.push_slot_always(slot(2), values);
        b.push_slot_always(slot(3), inputs);
        b.push_slot_always(slot(4), outputs);
        b.push_slot_always(slot(5), constants);
        let root = b.end_table(root);
        b.finish(root, Some(self.identifier));
        let flatbuffer = b.finished_data();
        // A size of 0 bytes of constants is the rest of the blob.
        let mut header = vec![0; 32];
        header[4..8].copy_from_slice(b"VH00");
        header[8..10].copy_from_slice(&30_u16.to_le_bytes());
        header[10..14].copy_from_slice(&32_u32.to_le_bytes());
        header[14..18].copy_from_slice(&(flatbuffer.len() as u32).to_le_bytes());
        header[18..22].copy_from_slice(&(32 + flatbuffer.len() as u32).to_le_bytes());
        [&header, flatbuffer, &self.data].concat()
    }
}

type Table = WIPOffset<flatbuffers::TableFinishedWIPOffset>;

fn write_value(b: &mut FlatBufferBuilder<'_>, value: &Written) -> Table {
    let (kind, content): (u8, Table) = match value {
        Written::Int(int) => {
            let table = b.start_table();
            b.push_slot_always(slot(0), *int);
            (2, b.end_table(table))
        }
        Written::Tensor(datatype, dims, constant) => {
            let dims = b.create_vector(dims);
            let table = b.start_table();
            b.push_slot_always(slot(0), *datatype);
            b.push_slot_always(slot(1), dims);
            if let Some(constant) = constant {
                b.push_slot_always(slot(2), *constant);
            }
            (5, b.end_table(table))
        }
        Written::Values(items) => {
            let items = b.create_vector(items);
            let table = b.start_table();
            b.push_slot_always(slot(0), items);
            (9, b.end_table(table))
        }
    };
    let content: WIPOffset<UnionWIPOffset> = content.as_union_value();
    let table = b.start_table();
    b.push_slot_always(slot(0), kind);
    b.push_slot_always(slot(1), content);
    b.end_table(table)
}

/// Parses `bytes`; named data has one entry, and missing operators are collected.
fn parse_bytes<'a>(bytes: &'a [u8], missing: &RefCell<Vec<String>>) -> Result<Graph<'a>, Error> {
    let missing = |name: &str| missing.borrow_mut().push(name.to_owned());
    parse(&DelegateSource {
        blob: bytes,
        spec: &|_| None,
        named_data: &|key| (key == "weights").then_some(&[0; 16][..]),
        missing_operator: &missing,
        memory_limit: 1 << 20,
        weight_cache: None,
    })
}

fn parse_ok(blob: &Blob, check: impl FnOnce(&Graph<'_>)) {
    let bytes = blob.bytes();
    check(&parse_bytes(&bytes, &RefCell::default()).unwrap());
}

#[test]
fn an_absent_constant_id_is_constant_0() {
    let mut blob = Blob::sum();
    blob.values[1] = Written::Tensor(F32, vec![4], None);
    parse_ok(&blob, |graph| {
        let Value::Tensor(spec) = &graph.values[1] else { panic!("no tensor") };
        assert_eq!(spec.constant, Some(&blob.data[..]));
        assert_eq!(graph.tensor(0).unwrap().constant, None);
    });
}

#[test]
fn constants_are_named_padded_and_narrow() {
    let mut blob = Blob::sum();
    blob.constants[0] = (u64::MAX, 16, "weights");
    parse_ok(&blob, |graph| assert_eq!(graph.tensor(1).unwrap().constant, Some(&[0; 16][..])));
    // Constants have more bytes than their dims; 64-bit elements are stored in 32 bits.
    blob = Blob::sum();
    blob.values[1] = Written::Tensor(7, vec![3], Some(0));
    parse_ok(&blob, |graph| {
        let spec = graph.tensor(1).unwrap();
        assert_eq!((spec.datatype, spec.constant), (DataType::I64, Some(&blob.data[..12])));
    });
}

#[test]
fn faults_name_their_entry() {
    let check = |change: fn(&mut Blob), entry: BlobEntry, index: u32, part: &str| {
        let mut blob = Blob::sum();
        change(&mut blob);
        let bytes = blob.bytes();
        match parse_bytes(&bytes, &RefCell::default()) {
            Err(error @ Error::InvalidBlob { entry: found, index: at, .. }) => {
                assert_eq!((found, at), (entry, index), "{error}");
                assert!(error.to_string().contains(part), "{error}");
            }
            found => panic!("{part}: {found:?}"),
        }
    };
    use BlobEntry::{Graph, Node, Value};
    check(|b| b.values[1] = Written::Tensor(F32, vec![5], Some(0)), Value, 1, "fewer bytes");
    check(|b| b.values[1] = Written::Tensor(9, vec![4], Some(0)), Value, 1, "element type");
    check(|b| b.values[1] = Written::Tensor(F32, vec![4], Some(7)), Value, 1, "does not exist");
    check(
        |b| b.values[0] = Written::Tensor(F32, vec![1; 9], Some(-1)),
        Value,
        0,
        "eight dimensions",
    );
    check(
        |b| b.values[0] = Written::Tensor(F32, vec![u32::MAX; 2], Some(-1)),
        Value,
        0,
        "gigabytes",
    );
    check(|b| b.constants[0] = (4, 16, ""), Value, 1, "exceeds the blob");
    check(|b| b.constants[0] = (u64::MAX, 16, "other"), Value, 1, ".ptd");
    check(|b| b.constants[0] = (u64::MAX, 17, "weights"), Value, 1, "exceeds the blob");
    check(|b| b.values[2] = Written::Values(vec![99]), Value, 2, "does not exist");
    check(|b| b.values.push(Written::Values(vec![5])), Value, 5, "list of lists");
    check(|b| b.calls[0].1[0] = 99, Node, 0, "does not exist");
    check(|b| b.calls[0].1.truncate(2), Node, 0, "another number of arguments");
    check(|b| b.calls.swap(0, 1), Node, 0, "no earlier node writes");
    check(|b| b.calls[1].1[1] = 1, Node, 1, "writes a constant");
    check(|b| b.inputs = vec![0, 0], Value, 0, "input twice");
    check(|b| b.inputs = vec![2], Value, 2, "no tensor");
    check(|b| b.outputs = vec![77], Graph, 0, "does not exist");
}

#[test]
fn all_missing_operators_are_reported() {
    let mut blob = Blob::sum();
    blob.calls[0].0 = "aten.fancy.default";
    blob.calls[1].0 = "aten.other.default";
    blob.calls.push(("aten.fancy.default", vec![]));
    let (bytes, missing) = (blob.bytes(), RefCell::default());
    let error = parse_bytes(&bytes, &missing).map(drop);
    assert!(matches!(error, Err(Error::NotSupported { .. })), "{error:?}");
    assert_eq!(*missing.borrow(), ["aten.fancy.default", "aten.other.default"]);
}

#[test]
fn other_bytes_are_no_blob() {
    let blob = Blob { identifier: "VK01", ..Blob::sum() };
    for bytes in
        [vec![], b"ordinary bytes".to_vec(), blob.bytes(), Blob::sum().bytes()[..31].to_vec()]
    {
        let error = parse_bytes(&bytes, &RefCell::default()).map(drop);
        assert!(matches!(error, Err(Error::DelegateInvalidCompatibility { .. })), "{error:?}");
    }
}

/// 450 blobs with flipped bits or cut ends give a delegate or an error.
#[test]
fn damaged_blobs_do_not_panic() {
    use afferent_core::Backend;
    let Some(gpu) = crate::testing::gpu() else { return };
    let backend = Vulkan::new(gpu);
    let whole = Blob::sum().bytes();
    let mut random = fastrand::Rng::with_seed(7);
    let mut loaded = 0;
    for number in 0..450 {
        let mut bytes = whole.clone();
        if number % 3 == 0 {
            bytes.truncate(random.usize(..bytes.len()));
        } else {
            for _ in 0..=random.usize(..4) {
                let at = random.usize(..bytes.len());
                bytes[at] ^= 1 << random.u8(..8);
            }
        }
        let source = DelegateSource {
            blob: &bytes,
            spec: &|_| None,
            named_data: &|_| None,
            missing_operator: &|_| (),
            memory_limit: 1 << 24,
            weight_cache: None,
        };
        loaded += usize::from(backend.init(&source).is_ok());
    }
    assert!(loaded > 0, "no blob was damaged lightly");
}
