//! The official operator suite and whole models, as ExecuTorch's own exporter writes them.

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

/// Operators that some exported programs call and no list has, with the reason. A program that
/// lacks any other fails, and so does a row whose operator has a kernel.
const WITHOUT_KERNEL: &[(&str, &str)] = &[];

/// The programs of an archive that were exported, and its name.
struct Group {
    file: PathBuf,
    programs: Vec<Program>,
}

/// What became of the programs of a folder on one list.
#[derive(Default)]
struct Tally {
    ok: usize,
    broken: usize,
    /// Operators without a kernel, and how many programs call them.
    lacking: BTreeMap<String, usize>,
}

/// The programs of a folder. Prints how many of how many were exported, and why the others were not.
fn programs(folder: &str) -> Vec<Group> {
    let files = archives(folder);
    assert!(!files.is_empty(), "data/{folder} holds programs");
    let (mut all, mut tests, mut reasons) = (0, BTreeSet::new(), BTreeMap::<_, Vec<_>>::new());
    let mut groups = Vec::new();
    for file in files {
        let found: Vec<Program> = read(&file);
        all += found.len();
        tests.extend(found.iter().map(|x| format!("{}/{}", name(&file), x.test())));
        let (programs, refused): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|program| program.refused.is_none());
        for program in refused {
            let reason = program.refused.unwrap_or_default();
            reasons.entry(reason).or_default().push(program.program);
        }
        groups.push(Group { file, programs });
    }
    let exported: usize = groups.iter().map(|group| group.programs.len()).sum();
    println!("{folder}: {exported} of {all} programs of {} tests export", tests.len());
    for (reason, names) in &reasons {
        println!("  {} do not: {reason}: {}", names.len(), names.join(", "));
    }
    groups
}

/// Runs the programs of an archive and prints its line.
fn check_group(list: &List, group: &Group, tally: &mut Tally) {
    let (mut here, mut lacking, mut faults) = (0, 0, Vec::new());
    for program in &group.programs {
        match program.check(&group.file, list.kernels) {
            Verdict::Ran(_, found) if found.is_empty() => here += 1,
            Verdict::Ran(_, found) => {
                faults.extend(found.iter().map(|fault| format!("{}: {fault}", program.program)));
            }
            Verdict::Lacks(operators) => {
                lacking += 1;
                for operator in operators {
                    *tally.lacking.entry(operator).or_default() += 1;
                }
            }
        }
    }
    let all = group.programs.len();
    let note = if lacking == 0 { String::new() } else { format!(", {lacking} without a kernel") };
    println!("{:<10} {:<28} {here:>3} of {all}{note}", list.name, name(&group.file));
    faults.iter().for_each(|fault| println!("           {fault}"));
    tally.ok += here;
    tally.broken += all - here - lacking;
}

/// Runs every program in the archives of a folder on every list.
fn check(folder: &str) {
    let groups = programs(folder);
    for list in kernel_lists() {
        let mut tally = Tally::default();
        list.run(|| groups.iter().for_each(|group| check_group(&list, group, &mut tally)));
        for (operator, count) in &tally.lacking {
            println!("no kernel for {operator}: {count} programs");
        }
        println!(
            "{folder}: {}: {} programs equal PyTorch, {} differ",
            list.name, tally.ok, tally.broken
        );
        for (operator, _) in WITHOUT_KERNEL {
            let (name, overload) = operator.split_once('.').unwrap_or((operator, ""));
            assert!(find_kernel(list.kernels, name, overload).is_none(), "{operator} has a kernel");
        }
        let known = |operator: &str| WITHOUT_KERNEL.iter().any(|(name, _)| *name == operator);
        let unknown: Vec<_> = tally.lacking.keys().filter(|operator| !known(operator)).collect();
        assert_eq!(tally.broken, 0, "programs that differ from PyTorch");
        assert!(unknown.is_empty(), "operators without a kernel: {unknown:?}");
    }
}

#[test]
fn the_operator_suite_gives_what_pytorch_gives() {
    check("suite");
}

#[test]
fn models_give_what_pytorch_gives() {
    check("models");
}

#[test]
fn programs_for_xnnpack_give_what_pytorch_gives() {
    check("xnnpack");
}

#[test]
fn dynamically_quantised_programs_give_what_the_official_runtime_gives() {
    check("xnnpack_dynamic_int8_per_channel");
}

#[test]
fn programs_quantised_by_channel_give_what_the_official_runtime_gives() {
    check("xnnpack_static_int8_per_channel");
}

#[test]
fn programs_quantised_by_tensor_give_what_the_official_runtime_gives() {
    check("xnnpack_static_int8_per_tensor");
}

#[test]
fn programs_of_few_bits_give_what_the_official_runtime_gives() {
    check("xnnpack_few_bits");
}
