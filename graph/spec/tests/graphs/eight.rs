//! One file with eight faults shows all of them in one pass.

use std::path::Path;

use afferent_graph::OpenCx;
use afferent_spec::{LoadOptions, load_and_check};

use crate::catalog::catalog;

#[test]
fn eight_faults_are_told_at_once() {
    let file = Path::new("tests/data/eight_faults.yaml");
    let faults = load_and_check(file, &LoadOptions::default(), &catalog(), &OpenCx::default());
    let expected = include_str!("../data/eight_faults.txt");
    assert_eq!(format!("{}\n", faults.unwrap_err()), expected);
}
