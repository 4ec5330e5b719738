//! Programs for all features of the format, one folder of `data/programs` each.

use std::{fs, path::Path};

use crate::{
    data, kernel_lists,
    program::{Program, Verdict},
};

/// Reads the program of a folder.
pub(crate) fn read(folder: &Path) -> Program {
    let text = fs::read_to_string(folder.join("cases.json")).expect("a program has `cases.json`");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
}

#[test]
fn programs_match_pytorch() {
    let mut folders: Vec<_> = fs::read_dir(data().join("programs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("cases.json").exists())
        .collect();
    folders.sort();
    assert!(folders.len() >= 10, "the data has too few programs");
    let (mut ran, mut broken) = (0, 0);
    let programs: Vec<_> = folders.iter().map(|folder| read(folder)).collect();
    let lists = kernel_lists();
    for list in &lists {
        for (program, folder) in programs.iter().zip(&folders) {
            let verdict = list.run(|| program.check(folder, list.kernels));
            let (cases, failures) = match verdict {
                Verdict::Ran(cases, failures) => (cases, failures),
                Verdict::MissingKernels(operators) => {
                    (0, vec![format!("no kernel for {operators:?}")])
                }
            };
            let verdict = if failures.is_empty() { "ok" } else { "FAILED" };
            println!("{:<10} {:<24} {cases:>3} cases  {verdict}", list.name, program.program);
            for failure in &failures {
                println!("           {failure}");
            }
            ran += cases;
            broken += usize::from(!failures.is_empty());
        }
    }
    println!(
        "programs: {} with {} cases on {} kernel lists, {broken} differ from PyTorch",
        folders.len(),
        ran / lists.len(),
        lists.len()
    );
    assert_eq!(broken, 0, "programs that differ from PyTorch");
}
