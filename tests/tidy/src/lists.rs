//! Every kernel and node is in the list of its folder. Lists are in alphabetical order.

use crate::{
    code::{code, has_word},
    tree,
};

/// Folder of the operator namespaces. `aten.rs` lists the files in `aten/`.
const KERNELS: &str = "runtime/kernels/src/";

#[test]
fn kernels_are_in_the_list_of_their_namespace() {
    let texts: Vec<(&str, &str)> =
        tree::texts(".rs").filter(|(path, _)| path.starts_with(KERNELS)).collect();
    let is_list = |text: &str| text.contains("const KERNELS: &[&[Kernel]] =");
    let mut lists = 0;
    let mut faults = Vec::new();
    for (path, list) in texts.iter().filter(|(_, text)| is_list(text)) {
        let folder = path.replace(".rs", "/");
        let in_folder = texts.iter().filter_map(|(path, _)| path.strip_prefix(&folder));
        let names: Vec<&str> = in_folder.filter_map(|file| file.strip_suffix(".rs")).collect();
        faults.extend(kernel_faults(path, list, &names));
        lists += 1;
    }
    assert!(lists >= 3, "no kernel lists in {KERNELS}");
    tree::expect_none(faults);
}

#[test]
fn nodes_are_in_the_list_of_their_crate() {
    let mut faults = Vec::new();
    for (path, list) in tree::texts("/src/lib.rs").filter(|(path, _)| path.starts_with("nodes/")) {
        let folder = path.replace("lib.rs", "");
        let files = tree::texts(".rs").filter(|(path, _)| path.starts_with(&folder));
        let files: Vec<(&str, &str)> = files.collect();
        faults.extend(node_faults(path, list, &files));
    }
    tree::expect_none(faults);
}

/// Checks the kernel list `list` of a folder that contains the files `names`.
fn kernel_faults(path: &str, list: &str, names: &[&str]) -> Vec<String> {
    let list = code(list);
    let modules = between(&list, "mod ", ";");
    let part = |character: char| !(character.is_alphanumeric() || character == '_');
    let before = list.match_indices("::KERNELS").map(|(at, _)| &list[..at]);
    let lists: Vec<&str> = before.filter_map(|text| text.rsplit(part).next()).collect();
    let mut faults = Vec::new();
    for name in names {
        if !modules.contains(name) {
            faults.push(format!("{path}: lacks `mod {name};`"));
        }
        if !lists.contains(name) {
            faults.push(format!("{path}: lacks `{name}::KERNELS`"));
        }
    }
    for names in [&modules, &lists] {
        faults.extend(not_sorted(path, names));
    }
    faults
}

/// Checks the node list `list` and the files of its crate.
fn node_faults(path: &str, list: &str, files: &[(&str, &str)]) -> Vec<String> {
    let list = code(list);
    let nodes: Vec<&str> = between(&list, "NodeDef::of::<", ">");
    let nodes: Vec<&str> =
        nodes.into_iter().map(|node| node.rsplit("::").next().unwrap_or(node)).collect();
    let mut faults: Vec<String> = not_sorted(path, &nodes).into_iter().collect();
    let mut found = Vec::new();
    for (path, text) in files {
        let all = code(text);
        let code = all.split("mod tests {").next().unwrap_or_default();
        for node in between(code, "impl Node for ", " {") {
            found.push(node.to_owned());
            if !nodes.contains(&node) {
                faults.push(format!("{path}: `{node}` is not in NODES"));
            }
            if !text.contains("ports! {") {
                faults.push(format!("{path}: `{node}` does not declare its ports with `ports!`"));
            }
        }
    }
    let absent = nodes.iter().filter(|node| !found.iter().any(|other| other == *node));
    faults.extend(absent.map(|node| format!("{path}: no file has `impl Node for {node}`")));
    if !found.is_empty() && !has_word(&list, "NODES") {
        faults.push(format!("{path}: has no list NODES"));
    }
    faults
}

fn not_sorted(path: &str, names: &[&str]) -> Option<String> {
    let pair = names.windows(2).find(|pair| pair[0] >= pair[1])?;
    Some(format!("{path}: `{}` must come after `{}`", pair[0], pair[1]))
}

/// Texts between `open` and the next `close`.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    text.split(open).skip(1).filter_map(|rest| Some(rest.split_once(close)?.0)).collect()
}

#[test]
fn wrong_kernel_lists_are_found() {
    let list =
        "mod abs;\nmod add;\nconst KERNELS: &[&[Kernel]] =\n    &[abs::KERNELS, add::KERNELS];";
    let check = |list: &str, names: &[&str], expected: &[&str]| {
        assert_eq!(kernel_faults("aten.rs", list, names), expected, "{list}");
    };
    check(list, &["abs", "add"], &[]);
    check(
        list,
        &["abs", "add", "mul"],
        &["aten.rs: lacks `mod mul;`", "aten.rs: lacks `mul::KERNELS`"],
    );
    check(
        &list.replace("[abs::KERNELS, ", "["),
        &["abs", "add"],
        &["aten.rs: lacks `abs::KERNELS`"],
    );
    let swapped = list.replace("abs::KERNELS, add::KERNELS", "add::KERNELS, abs::KERNELS");
    check(&swapped, &["abs", "add"], &["aten.rs: `add` must come after `abs`"]);
}

#[test]
fn wrong_node_lists_are_found() {
    let list = "pub const NODES: &[NodeEntry] = &[NodeDef::of::<Vad>];";
    let good = "ports! {\n}\nimpl Node for Vad {}\nmod tests {\nimpl Node for Fake {} }";
    let check = |list: &str, file: &str, expected: usize| {
        let faults = node_faults("lib.rs", list, &[("vad.rs", file)]);
        assert_eq!(faults.len(), expected, "{faults:?}");
    };
    check(list, good, 0);
    check(list, &good.replace("ports!", "gates!"), 1);
    check(list, "ports! {\n}\nimpl Node for Vad {}\nimpl Node for Asr {}", 1);
    check(&list.replace("Vad", "Tts"), good, 2);
    check("", good, 2);
    check("", "", 0);
}
