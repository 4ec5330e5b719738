//! The official operator suite and whole models, as ExecuTorch's own exporter writes them.

use std::collections::BTreeMap;

use afferent_core::find_kernel;

use crate::{
    KERNEL_LISTS,
    archive::{archives, name, read},
    program::{Program, Verdict},
};

/// Operators that some exported programs call and no list has, with the reason. A program that
/// lacks any other fails, and so does a row whose operator has a kernel.
const WITHOUT_KERNEL: &[(&str, &str)] = &[];

/// Runs every program in the archives of a folder and prints a line for each archive.
fn check(folder: &str) {
    let files = archives(folder);
    assert!(!files.is_empty(), "data/{folder} holds programs");
    for (list, kernels) in KERNEL_LISTS {
        let (mut ok, mut broken, mut skipped) = (0, 0, BTreeMap::<String, usize>::new());
        for file in &files {
            let (mut here, mut lacking, mut faults) = (0, 0, Vec::new());
            let programs: Vec<Program> = read(file);
            for program in &programs {
                match program.check(file, kernels) {
                    Verdict::Ran(_, found) if found.is_empty() => here += 1,
                    Verdict::Ran(_, found) => {
                        faults.extend(
                            found.iter().map(|fault| format!("{}: {fault}", program.program)),
                        );
                    }
                    Verdict::Lacks(operators) => {
                        lacking += 1;
                        for operator in operators {
                            *skipped.entry(operator).or_default() += 1;
                        }
                    }
                }
            }
            let all = programs.len();
            let note =
                if lacking == 0 { String::new() } else { format!(", {lacking} without a kernel") };
            println!("{list:<10} {:<28} {here:>3} of {all}{note}", name(file));
            faults.iter().for_each(|fault| println!("           {fault}"));
            ok += here;
            broken += all - here - lacking;
        }
        let known = |operator: &str| WITHOUT_KERNEL.iter().any(|(name, _)| *name == operator);
        for (operator, count) in &skipped {
            println!("no kernel for {operator}: {count} programs");
        }
        println!("{folder}: {list}: {ok} programs equal PyTorch, {broken} differ");
        for (operator, _) in WITHOUT_KERNEL {
            let (name, overload) = operator.split_once('.').unwrap_or((operator, ""));
            assert!(find_kernel(kernels, name, overload).is_none(), "{operator} has a kernel");
        }
        let unknown: Vec<_> = skipped.keys().filter(|operator| !known(operator)).collect();
        assert_eq!(broken, 0, "programs that differ from PyTorch");
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
