//! `afferent model run` with inputs and outputs of every kind.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path, process::Command};

use afferent_core::{Bool, ScalarType, Tensor, bf16};
use afferent_inspect::npy;

/// File of an exported program.
fn data(program: &str, file: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conformance/data/programs");
    format!("{folder}/{program}/{file}")
}

/// Runs `afferent model run` and returns its output and errors; true if it succeeded.
fn run(folder: &Path, program: &str, args: &[&str]) -> (String, String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afferent"));
    command.current_dir(folder).args(["model", "run", &data(program, "model.pte")]).args(args);
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.success())
}

#[track_caller]
fn succeed(folder: &Path, program: &str, args: &[&str]) -> String {
    let (text, errors, success) = run(folder, program, args);
    assert!(success, "{errors}");
    text
}

#[track_caller]
fn fail(folder: &Path, program: &str, args: &[&str], expected: &str) {
    let (_, errors, success) = run(folder, program, args);
    assert!(!success && errors.contains(expected), "{errors}");
}

fn read(path: impl AsRef<Path>) -> Tensor {
    npy::read(path.as_ref(), None).unwrap()
}

#[track_caller]
fn close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= tolerance * b.abs().max(1.0);
    assert!(found.iter().zip(expected).all(close), "{found:?}, not {expected:?}");
}

/// Tensor of an exported case, whose file has the elements in memory order.
fn channels_last(file: &str, sizes: &[usize]) -> Tensor {
    let stored = read(data("channels_last", file));
    let bytes = stored.view().bytes().to_vec();
    Tensor::from_bytes(ScalarType::Float, sizes, &[0, 2, 3, 1], &bytes).unwrap()
}

#[test]
fn channels_last_inputs_are_files_in_c_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    npy::write(&path("x.npy"), &channels_last("0_in_0.npy", &[2, 3, 6, 4]).view()).unwrap();
    let expected = channels_last("0_out_0.npy", &[2, 2, 3, 2]);
    npy::write(&path("expected.npy"), &expected.view()).unwrap();
    let args = ["--input", "x.npy", "--output-dir", "out", "--repeat", "2"];
    succeed(folder.path(), "channels_last", &args);
    let (found, expected) = (read(path("out/output_0.npy")), read(path("expected.npy")));
    assert_eq!(found.sizes(), [2, 2, 3, 2]);
    close(found.data().unwrap(), expected.data().unwrap(), 1e-5);
}

#[test]
fn calls_of_a_program_with_state_see_what_the_last_one_left() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = [0, 1, 2].map(|at| data("counter", &format!("{at}_in_0.npy")));
    let [a, b, c] = inputs.each_ref().map(|path| path.as_str());
    let args = ["--input", a, "--next", "--input", b, "--next", "--input", c];
    succeed(folder.path(), "counter", &[&args[..], &["--output-dir", "out"]].concat());
    for call in 0..3 {
        let found = |at| read(folder.path().join(format!("out/call_{call}/output_{at}.npy")));
        let expected = |at| read(data("counter", &format!("{call}_out_{at}.npy")));
        close(found(0).data().unwrap(), expected(0).data().unwrap(), 1e-5);
        assert_eq!(found(1).data::<i64>().unwrap(), expected(1).data::<i64>().unwrap());
    }
    fail(folder.path(), "counter", &["--input", a, "--next"], "call 1");
}

#[test]
fn numbers_are_given_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let x = data("number_inputs", "0_in_0.npy");
    let args = |numbers: [&'static str; 3]| {
        let [int, double, bool] = numbers;
        ["--input", "x.npy", "--input", int, "--input", double, "--input", bool]
    };
    fs::copy(x, folder.path().join("x.npy")).unwrap();
    let expected = read(data("number_inputs", "0_out_0.npy"));
    for numbers in [["2", "1.5", "true"], ["int:2", "double:1.5", "bool:true"]] {
        let args = [&args(numbers)[..], &["--output-dir", "out"]].concat();
        succeed(folder.path(), "number_inputs", &args);
        let found = read(folder.path().join("out/output_0.npy"));
        close(found.data().unwrap(), expected.data().unwrap(), 1e-5);
    }
    for (numbers, expected) in [
        (["two", "1.5", "true"], "input 1 is \"two\", but method \"forward\" takes int 2 there"),
        (["2", "x.npy", "true"], "takes double 1.5 there: it is not a number"),
        (["2", "1.5", "1"], "takes bool true there: it is neither true nor false"),
        (["int:2.5", "1.5", "true"], "int:N needs an integer"),
    ] {
        fail(folder.path(), "number_inputs", &args(numbers), expected);
    }
}

#[test]
fn bf16_inputs_are_bits_or_f32() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let bits = read(data("network_bf16", "0_in_0.npy"));
    let values = bits.data::<u16>().unwrap().iter().map(|bits| bf16::from_bits(*bits).to_f32());
    let floats = Tensor::new(&[3, 6], &values.collect::<Vec<_>>()).unwrap();
    npy::write(&path("floats.npy"), &floats.view()).unwrap();
    let expected = read(data("network_bf16", "0_out_0.npy"));
    let expected = expected.data::<u16>().unwrap().iter();
    let expected: Vec<f32> = expected.map(|bits| bf16::from_bits(*bits).to_f32()).collect();
    let stored = data("network_bf16", "0_in_0.npy");
    for input in [stored.as_str(), "floats.npy"] {
        succeed(folder.path(), "network_bf16", &["--input", input, "--output-dir", "out"]);
        close(read(path("out/output_0.npy")).data().unwrap(), &expected, 0.02);
    }
}

#[test]
fn outputs_of_integers_and_booleans_are_files() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = [0, 1].map(|at| data("bools", &format!("0_in_{at}.npy")));
    let args = ["--input", &inputs[0], "--input", &inputs[1], "--output-dir", "out"];
    succeed(folder.path(), "bools", &args);
    for at in 0..8 {
        let found = read(folder.path().join(format!("out/output_{at}.npy")));
        let expected = read(data("bools", &format!("0_out_{at}.npy")));
        assert_eq!((found.dtype(), found.sizes()), (expected.dtype(), expected.sizes()));
        assert_eq!(found.view().bytes(), expected.view().bytes(), "output {at}");
    }
}

#[test]
fn other_dtypes_and_sizes_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, tensor: Tensor| {
        npy::write(&folder.path().join(name), &tensor.view()).unwrap();
    };
    write("double.npy", Tensor::new(&[3], &[1.0_f64, 2.0, 3.0]).unwrap());
    write("long.npy", Tensor::new(&[4], &[1.0_f32; 4]).unwrap());
    write("bool.npy", Tensor::new(&[3], &[Bool::from(true); 3]).unwrap());
    for (file, found) in [("double.npy", "f64[3]"), ("long.npy", "f32[4]"), ("bool.npy", "bool[3]")]
    {
        let expected = format!(
            "input 0 is {file:?}, but method \"forward\" takes f32[3] there: the file holds {found}"
        );
        fail(folder.path(), "counter", &["--input", file], &expected);
    }
    fail(folder.path(), "counter", &["--input", "absent.npy"], "absent.npy: No such file");
    fail(folder.path(), "counter", &[], "takes 1 inputs (f32[3]), but --input is given 0 times");
}
