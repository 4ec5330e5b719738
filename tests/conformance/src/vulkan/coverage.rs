//! Operators of the backend that the exported programs call.

use std::{collections::BTreeSet, fs};

use super::suite::Entry;
use crate::{
    archive::{archives, read},
    data,
};

/// Operators that no exported program calls, with the reason.
const UNUSED: &[(&str, &str)] = &[
    ("_assert_scalar.default", "the exporter removes assertions"),
    ("aten._assert_scalar.default", "the exporter removes assertions"),
    ("aten._to_copy.default", "written as `dim_order_ops._to_dim_order_copy`"),
    ("aten.alias_copy.default", "the exporter removes it"),
    ("aten.copy.default", "the exporter removes it"),
    ("aten.hardsigmoid.default", "not in the registry of ExecuTorch 1.5.1"),
    ("aten.max_pool2d.default", "written as `max_pool2d_with_indices`"),
    ("aten.maximum.default", "not in the registry of ExecuTorch 1.5.1"),
    ("aten.ne.Tensor", "not in the registry of ExecuTorch 1.5.1"),
    ("aten.ones.default", "written as `full`"),
    ("aten.ones_like.default", "written as `full_like`"),
    ("aten.permute.default", "written as `permute_copy`"),
    ("aten.sym_constrain_range_for_size.default", "the exporter removes assertions"),
    ("aten.sym_size.int", "written without namespace"),
    ("aten.t_copy.default", "written as `permute_copy`"),
    ("aten.zeros.default", "written as `full`"),
    ("aten.zeros_like.default", "written as `full_like`"),
    ("custom_sdpa.default", "the exporter fuses it into `sdpa_with_kv_cache`"),
    ("et_vk.adamw_step.default", "written without namespace"),
    ("eq", "only assertions compare sizes"),
    ("ge", "only assertions compare sizes"),
    ("gt", "only assertions compare sizes"),
    ("le", "only assertions compare sizes"),
    ("llama.custom_sdpa.default", "the exporter fuses it into `sdpa_with_kv_cache`"),
    ("llama.sdpa_with_kv_cache.default", "written without namespace"),
    ("llama.update_cache.default", "written without namespace"),
    ("lt", "only assertions compare sizes"),
    ("sym_constrain_range_for_size.default", "the exporter removes assertions"),
    ("aten.hardshrink.default", "the exporter decomposes it"),
    ("aten.scalar_tensor.default", "the exporter makes it a constant"),
    ("dim_order_ops._clone_dim_order.default", "the exporter removes it"),
    (
        "quantized_decomposed.embedding_4bit.dtype",
        "the exporter fuses it into `et_vk.embedding_q4gsw`",
    ),
];

/// Names among `known` that are strings of a flatbuffer in `bytes`.
fn names<'a>(bytes: &[u8], known: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let lens = bytes.windows(4).map(|len| u32::from_le_bytes([len[0], len[1], len[2], len[3]]));
    let texts =
        lens.enumerate().filter(|(_, len)| (1..100).contains(len)).filter_map(|(at, len)| {
            let text = bytes.get(at + 4..at + 4 + len as usize)?;
            str::from_utf8(text).ok()
        });
    texts.filter_map(|text| known.get(text).copied()).collect()
}

#[test]
fn exported_programs_call_all_operators() {
    let known: BTreeSet<_> = afferent_backend_vulkan::operators().collect();
    let folders = fs::read_dir(data().join("vulkan")).expect("the folder exists");
    let files = folders.map(|entry| entry.expect("readable").path().join("model.pte"));
    let mut called = BTreeSet::new();
    for file in files {
        called.extend(names(&fs::read(file).expect("a program"), &known));
    }
    for path in archives("vulkan_suite") {
        for bytes in read::<Entry>(&path).iter().filter_map(Entry::bytes) {
            called.extend(names(&bytes, &known));
        }
    }
    println!("{} of {} operators are called by exported programs", called.len(), known.len());
    let reasons = UNUSED.iter().map(|(name, reason)| format!("{name}: {reason}"));
    reasons.for_each(|line| println!("  no program calls {line}"));
    let unused: BTreeSet<_> = UNUSED.iter().map(|(name, _)| *name).collect();
    let missing: Vec<_> =
        known.difference(&called).filter(|name| !unused.contains(*name)).collect();
    assert!(missing.is_empty(), "operators without a program and without a reason: {missing:?}");
    let stale: Vec<_> =
        unused.iter().filter(|name| !known.contains(*name) || called.contains(*name)).collect();
    assert!(stale.is_empty(), "the list of unused operators has others: {stale:?}");
}
