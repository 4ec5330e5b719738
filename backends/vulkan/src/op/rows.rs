//! Shaders that work on rows of elements: one thread for each row on a CPU device, one workgroup on
//! a GPU, which combines the values of its threads by subgroups where the device has them.

use afferent_gpu::DeviceKind;

use crate::{
    recorder::OpResult,
    shader::{Shader, WORKGROUP},
};

const ONE_LANE: &str = "const LANES = 1u;
fn sum_lanes(v: f32, lane: u32) -> f32 { return v; }
fn max_lanes(v: f32, lane: u32) -> f32 { return v; }";

/// Finishes a shader over `rows` rows. `body` runs for each `row` in `LANES` threads, numbered by
/// `lane`; `sum_lanes(v, lane)` and `max_lanes(v, lane)` combine the values of the lanes.
pub(super) fn finish(mut shader: Shader<'_, '_, '_>, rows: usize, body: &str) -> OpResult {
    let count = shader.u32(rows);
    if shader.recorder.limits.kind == DeviceKind::Cpu {
        shader.declare(ONE_LANE);
        let body =
            format!("let row = id;\nlet lane = 0u;\nif row >= {count} {{ return; }}\n{body}");
        return shader.threads(rows, &body);
    }
    let (lanes, builtins, start) = match shader.recorder.limits.has_subgroups {
        true => (lanes_of_subgroups(), SUBGROUP_BUILTINS, SUBGROUP_START),
        false => (lanes_in_memory(), "", ""),
    };
    shader.declare(&format!(
        "const LANES = {WORKGROUP}u;\nvar<workgroup> lanes: array<f32, {WORKGROUP}>;\n{lanes}"
    ));
    let x = rows.min(shader.recorder.limits.max_workgroups as usize);
    let groups = [x, rows.div_ceil(x.max(1)), 1];
    let main = format!(
        "@compute @workgroup_size({WORKGROUP}) fn main(@builtin(workgroup_id) group: vec3<u32>, \
         @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32{builtins}) {{\n\
         let row = group.x + group.y * groups.x;\nif row >= {count} {{ return; }}\n{start}{body}\n}}"
    );
    shader.finish(groups, &main)
}

/// Functions that combine the values of the threads by halves, in memory of the workgroup.
fn lanes_in_memory() -> String {
    let combine = |name: &str, join: &str| {
        format!(
            "fn {name}(v: f32, lane: u32) -> f32 {{
    lanes[lane] = v;
    workgroupBarrier();
    for (var s = LANES / 2u; s > 0u; s = s / 2u) {{
        if lane < s {{ let a = lanes[lane]; let b = lanes[lane + s]; lanes[lane] = {join}; }}
        workgroupBarrier();
    }}
    let result = lanes[0];
    workgroupBarrier();
    return result;
}}\n"
        )
    };
    combine("sum_lanes", "a + b") + &combine("max_lanes", "max(a, b)")
}

const SUBGROUP_BUILTINS: &str = ", @builtin(subgroup_invocation_id) subgroup_lane: u32, \
     @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32";

const SUBGROUP_START: &str = "position = vec3<u32>(subgroup_lane, subgroup, subgroups);\n";

/// As [`lanes_in_memory`]: each subgroup combines its values, and each thread the results of the
/// subgroups.
fn lanes_of_subgroups() -> String {
    let combine = |name: &str, join: &str, function: &str| {
        format!(
            "fn {name}(v: f32, lane: u32) -> f32 {{
    let part = {function}(v);
    if position.x == 0u {{ lanes[position.y] = part; }}
    workgroupBarrier();
    var a = lanes[0];
    for (var s = 1u; s < position.z; s++) {{ let b = lanes[s]; a = {join}; }}
    workgroupBarrier();
    return a;
}}\n"
        )
    };
    let sum = combine("sum_lanes", "a + b", "subgroupAdd");
    let max = combine("max_lanes", "max(a, b)", "subgroupMax");
    format!(
        "// Index of the thread in its subgroup, of the subgroup, and number of subgroups.\nvar<private> position: vec3<u32>;\n{sum}{max}"
    )
}
