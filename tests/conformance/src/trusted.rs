//! [`TrustedMethod`] against [`Model`]: the programs of microcontrollers give the same results.

#![expect(unsafe_code, reason = "loads the files of the repository, which the exporter wrote")]

use std::{fs, path::Path};

use afferent_core::{AlignedBytes, ScalarType, Tensor};
use afferent_kernels::KERNELS;
use afferent_runtime::{
    Input, Model, ModelFile, ModelOptions, Output, TrustedError, TrustedMethod,
};

/// Folders of programs for microcontrollers.
fn folders() -> Vec<std::path::PathBuf> {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/programs");
    let entries = fs::read_dir(programs).unwrap().map(|entry| entry.unwrap().path());
    let is_for_cortex = |path: &std::path::PathBuf| {
        path.file_name().unwrap().to_string_lossy().starts_with("cortex_m")
    };
    let mut folders: Vec<_> = entries.filter(is_for_cortex).collect();
    folders.sort();
    folders
}

/// Memory of the caller.
struct Arenas {
    tables: AlignedBytes,
    planned: AlignedBytes,
    scratch: AlignedBytes,
}

impl Arenas {
    fn new(tables: usize, planned: usize) -> Self {
        let [tables, planned, scratch] = [tables, planned, 1 << 16].map(AlignedBytes::zeroed);
        Self { tables, planned, scratch }
    }

    fn load<'a>(
        &'a mut self,
        program: &'a [u8],
        name: &str,
    ) -> Result<TrustedMethod<'a>, TrustedError> {
        let Self { tables, planned, scratch } = self;
        let (tables, planned) = (tables.as_mut_slice(), planned.as_mut_slice());
        // SAFETY: the exporter wrote the file.
        unsafe {
            TrustedMethod::load(program, name, KERNELS, tables, planned, scratch.as_mut_slice())
        }
    }
}

/// A program in aligned memory, as in flash.
fn program(folder: &Path) -> AlignedBytes {
    AlignedBytes::from(fs::read(folder.join("model.pte")).unwrap().as_slice())
}

#[test]
fn results_are_those_of_the_host() {
    let mut random = fastrand::Rng::with_seed(5);
    let folders = folders();
    assert!(folders.len() >= 4, "{folders:?}");
    for folder in folders {
        let file = ModelFile::open(folder.join("model.pte"), &[]).unwrap();
        let mut model = Model::new(file, ModelOptions::new(KERNELS));
        let (bytes, mut arenas) = (program(&folder), Arenas::new(1 << 18, 1 << 18));
        let mut method = arenas.load(bytes.as_slice(), "forward").unwrap();
        for _ in 0..3 {
            let mut input = method.input(0).unwrap();
            assert_eq!(input.dtype(), ScalarType::Float);
            let (sizes, order) = (input.sizes().to_vec(), input.dim_order().to_vec());
            input.data_mut::<f32>().unwrap().fill_with(|| random.f32() * 4.0 - 2.0);
            let elements = input.bytes_mut().unwrap().to_vec();
            let tensor = Tensor::from_bytes(ScalarType::Float, &sizes, &order, &elements).unwrap();
            method.run().unwrap();
            let outputs = model.run("forward", &[Input::Tensor(tensor.view())]).unwrap();
            let Output::Tensor(expected) = outputs.get(0).unwrap() else { panic!("no tensor") };
            let found = method.output(0).unwrap();
            let name = folder.display();
            assert_eq!(
                (found.dtype(), found.sizes()),
                (expected.dtype(), expected.sizes()),
                "{name}"
            );
            assert_eq!(found.bytes(), expected.bytes(), "{name}");
        }
    }
}

#[test]
fn faults_are_told() {
    let bytes = program(&folders()[0]);
    let check = |tables: usize, planned: usize, name: &str, expected: fn(&TrustedError) -> bool| {
        let mut arenas = Arenas::new(tables, planned);
        let error = arenas.load(bytes.as_slice(), name).err().unwrap();
        assert!(expected(&error), "{error:?}");
    };
    check(1 << 16, 1 << 18, "decode", |error| matches!(error, TrustedError::Method));
    check(64, 1 << 18, "forward", |error| matches!(error, TrustedError::Tables));
    check(1 << 16, 64, "forward", |error| matches!(error, TrustedError::Planned { needed: 65.. }));
    let mut arenas = Arenas::new(1 << 18, 1 << 18);
    // SAFETY: bytes without the identifier of a program are refused before they are read.
    let other = unsafe {
        let (tables, planned) = (arenas.tables.as_mut_slice(), arenas.planned.as_mut_slice());
        TrustedMethod::load(&[0; 64], "forward", KERNELS, tables, planned, &mut [])
    };
    assert!(matches!(other.err(), Some(TrustedError::Program)));
}
