//! The operator suite of ExecuTorch and whole models.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use afferent_core::find_kernel;

use crate::{
    List,
    archive::{archives, name, read},
    kernel_lists,
    program::{Program, Verdict},
};

/// Operators of exported programs without a kernel, with the reason. The test fails if any other
/// operator has no kernel, or if one of these has a kernel.
const WITHOUT_KERNEL: &[(&str, &str)] = &[];

/// Exported programs of an archive.
struct Group {
    file: PathBuf,
    programs: Vec<Program>,
}

/// Results of the programs of a folder with one kernel list.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    /// Operators without a kernel, with the number of programs that call them.
    missing: BTreeMap<String, usize>,
}

/// Reads the programs of a folder. Prints the number of exported programs, and the export errors of
/// the others.
fn programs(folder: &str) -> Vec<Group> {
    let files = archives(folder);
    assert!(!files.is_empty(), "data/{folder} has no archives");
    let (mut total, mut tests, mut reasons) = (0, BTreeSet::new(), BTreeMap::<_, Vec<_>>::new());
    let mut groups = Vec::new();
    for file in files {
        let found: Vec<Program> = read(&file);
        total += found.len();
        tests.extend(found.iter().map(|x| format!("{}/{}", name(&file), x.test())));
        let (programs, not_exported): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|program| program.refused.is_none());
        for program in not_exported {
            let reason = program.refused.unwrap_or_default();
            reasons.entry(reason).or_default().push(program.program);
        }
        groups.push(Group { file, programs });
    }
    let exported: usize = groups.iter().map(|group| group.programs.len()).sum();
    println!("{folder}: {exported} of {total} programs of {} tests export", tests.len());
    for (reason, names) in &reasons {
        println!("  {} do not: {reason}: {}", names.len(), names.join(", "));
    }
    groups
}

/// Runs the programs of an archive and prints its row.
fn check_group(list: &List, group: &Group, tally: &mut Tally) {
    let (mut passed, mut without_kernel, mut failures) = (0, 0, Vec::new());
    for program in &group.programs {
        match program.check(&group.file, list.kernels) {
            Verdict::Ran(_, found) if found.is_empty() => passed += 1,
            Verdict::Ran(_, found) => {
                failures
                    .extend(found.iter().map(|failure| format!("{}: {failure}", program.program)));
            }
            Verdict::MissingKernels(operators) => {
                without_kernel += 1;
                for operator in operators {
                    *tally.missing.entry(operator).or_default() += 1;
                }
            }
        }
    }
    let total = group.programs.len();
    let note = match without_kernel {
        0 => String::new(),
        count => format!(", {count} without a kernel"),
    };
    println!("{:<10} {:<28} {passed:>3} of {total}{note}", list.name, name(&group.file));
    failures.iter().for_each(|failure| println!("           {failure}"));
    tally.passed += passed;
    tally.failed += total - passed - without_kernel;
}

/// Runs all programs of a folder with each kernel list.
fn check(folder: &str) {
    let groups = programs(folder);
    for list in kernel_lists() {
        let mut tally = Tally::default();
        list.run(|| groups.iter().for_each(|group| check_group(&list, group, &mut tally)));
        for (operator, count) in &tally.missing {
            println!("no kernel for {operator}: {count} programs");
        }
        println!(
            "{folder}: {}: {} programs match PyTorch, {} differ",
            list.name, tally.passed, tally.failed
        );
        for (operator, _) in WITHOUT_KERNEL {
            let (name, overload) = operator.split_once('.').unwrap_or((operator, ""));
            assert!(find_kernel(list.kernels, name, overload).is_none(), "{operator} has a kernel");
        }
        let known = |operator: &str| WITHOUT_KERNEL.iter().any(|(name, _)| *name == operator);
        let unknown: Vec<_> = tally.missing.keys().filter(|operator| !known(operator)).collect();
        assert_eq!(tally.failed, 0, "programs that differ from PyTorch");
        assert!(unknown.is_empty(), "operators without a kernel: {unknown:?}");
    }
}

#[test]
fn operator_suite_matches_pytorch() {
    check("suite");
}

#[test]
fn models_match_pytorch() {
    check("models");
}

#[test]
fn xnnpack_programs_match_pytorch() {
    check("xnnpack");
}

#[test]
fn xnnpack_dynamic_quantized_programs_match_the_official_runtime() {
    check("xnnpack_dynamic_int8_per_channel");
}

#[test]
fn xnnpack_per_channel_quantized_programs_match_the_official_runtime() {
    check("xnnpack_static_int8_per_channel");
}

#[test]
fn xnnpack_per_tensor_quantized_programs_match_the_official_runtime() {
    check("xnnpack_static_int8_per_tensor");
}

#[test]
fn xnnpack_extra_programs_match_the_official_runtime() {
    check("xnnpack_extra");
}
