//! Builder of the WGSL source of one shader run.
//!
//! A source holds no sizes: it reads them from the uniform array `p`. So runs with other sizes share
//! its pipeline.

use std::fmt::Write;

use afferent_gpu::Access;

use crate::{
    graph::{Call, DeviceType},
    recorder::{OpResult, Recorder, Step, Target},
};

/// Threads of a workgroup.
pub(crate) const WORKGROUP: usize = 64;

/// Most numbers of a shader: a uniform array of 16 KiB, which every device has.
const MAX_PARAMS: usize = 4096;

/// Tensor that a shader reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input {
    index: usize,
    ty: DeviceType,
}

impl Input {
    /// Element at index `at`, as `f32`.
    pub(crate) fn f32(self, at: &str) -> String {
        let Self { index, ty } = self;
        if ty == DeviceType::F32 {
            format!("in{index}({at})")
        } else {
            format!("f32(in{index}({at}))")
        }
    }

    /// Element at index `at`, as `i32`.
    pub(crate) fn i32(self, at: &str) -> String {
        let Self { index, ty } = self;
        if ty == DeviceType::F32 {
            format!("i32(in{index}({at}))")
        } else {
            format!("in{index}({at})")
        }
    }

    /// Element at index `at` in the type of arithmetic `ty`, which is `f32` or `i32`.
    pub(crate) fn load(self, ty: &str, at: &str) -> String {
        if ty == "f32" { self.f32(at) } else { self.i32(at) }
    }
}

/// A shader that is being built.
pub(crate) struct Shader<'r, 'g, 'a> {
    pub(crate) recorder: &'r mut Recorder<'g, 'a>,
    /// True if it runs at load only.
    pub(crate) is_once: bool,
    bindings: Vec<(Target, Access)>,
    declarations: String,
    params: Vec<u32>,
}

impl<'r, 'g, 'a> Shader<'r, 'g, 'a> {
    pub(crate) fn new(recorder: &'r mut Recorder<'g, 'a>) -> Self {
        let (bindings, params) = (vec![], vec![]);
        Self { recorder, is_once: false, bindings, declarations: String::new(), params }
    }

    /// Adds source text outside of functions.
    pub(crate) fn declare(&mut self, text: &str) {
        self.declarations.push_str(text);
        self.declarations.push('\n');
    }

    /// Adds source text unless the shader has it.
    pub(crate) fn declare_once(&mut self, text: &str) {
        if !self.declarations.contains(text) {
            self.declare(text);
        }
    }

    /// Adds an unsigned number, and returns the expression that reads it.
    pub(crate) fn u32(&mut self, value: usize) -> String {
        self.raw(value as u32)
    }

    /// Adds a signed number, which wraps to 32 bits.
    pub(crate) fn i32(&mut self, value: i64) -> String {
        format!("bitcast<i32>({})", self.raw(value as u32))
    }

    /// Adds a floating-point number.
    pub(crate) fn f32(&mut self, value: f64) -> String {
        format!("bitcast<f32>({})", self.raw((value as f32).to_bits()))
    }

    fn raw(&mut self, value: u32) -> String {
        self.params.push(value);
        let at = self.params.len() - 1;
        format!("p[{}].{}", at / 4, ["x", "y", "z", "w"][at % 4])
    }

    /// Adds a tensor that the shader reads.
    pub(crate) fn input(&mut self, value: usize) -> OpResult<Input> {
        let ty = self.recorder.ty(value)?;
        let target = self.recorder.target(value);
        if !self.recorder.is_half(value) {
            return Ok(self.input_at(target, ty));
        }
        let load = |buffer: &str| format!("unpack2x16float({buffer}[i / 2u])[i % 2u]");
        let index = self.bind(target, "u32", "f32", load);
        Ok(Input { index, ty })
    }

    /// Adds memory that the shader reads as elements of type `ty`.
    pub(crate) fn input_at(&mut self, target: Target, ty: DeviceType) -> Input {
        let plain = |buffer: &str| format!("{buffer}[i]");
        let index = match ty {
            DeviceType::F32 => self.bind(target, "f32", "f32", plain),
            DeviceType::I32 => self.bind(target, "i32", "i32", plain),
            DeviceType::I8 => self.bind(target, "u32", "i32", |buffer| {
                format!("extractBits(bitcast<i32>({buffer}[i / 4u]), (i % 4u) * 8u, 8u)")
            }),
            DeviceType::U8 | DeviceType::Bool => self.bind(target, "u32", "i32", |buffer| {
                format!("i32(extractBits({buffer}[i / 4u], (i % 4u) * 8u, 8u))")
            }),
        };
        Input { index, ty }
    }

    /// Binds memory of elements `element` that the shader reads, and declares the function `in` with the
    /// index of the binding. It returns `load`, an expression of the buffer and the index `i`.
    fn bind(
        &mut self,
        target: Target,
        element: &str,
        result: &str,
        load: impl Fn(&str) -> String,
    ) -> usize {
        let index = self.bindings.len();
        self.bindings.push((target, Access::Read));
        let load = load(&format!("b{index}"));
        let _ = writeln!(
            self.declarations,
            "@group(0) @binding({index}) var<storage, read> b{index}: array<{element}>;\n\
             fn in{index}(i: u32) -> {result} {{ return {load}; }}"
        );
        index
    }

    /// Adds memory that the shader reads as vectors of four `f32`. Returns the name of the function that
    /// returns the vector at an index.
    pub(crate) fn vectors_at(&mut self, target: Target) -> String {
        let index = self.bind(target, "vec4<f32>", "vec4<f32>", |buffer| format!("{buffer}[i]"));
        format!("in{index}")
    }

    /// Adds the memory that the shader writes, as the array `y` of its words.
    pub(crate) fn output_at(&mut self, target: Target, ty: DeviceType) {
        let index = self.bindings.len();
        self.bindings.push((target, Access::Write));
        let element = match ty {
            DeviceType::F32 => "f32",
            DeviceType::I32 => "i32",
            _ => "u32",
        };
        let _ = writeln!(
            self.declarations,
            "@group(0) @binding({index}) var<storage, read_write> y: array<{element}>;"
        );
    }

    /// Adds memory of `f32` elements that the shader reads and writes, and returns the name of its
    /// array. A shader may have several, beside or without `y`.
    pub(crate) fn changed_at(&mut self, target: Target) -> String {
        let index = self.bindings.len();
        self.bindings.push((target, Access::Write));
        let _ = writeln!(
            self.declarations,
            "@group(0) @binding({index}) var<storage, read_write> w{index}: array<f32>;"
        );
        format!("w{index}")
    }

    /// Source that splits the index `i` of an element of a tensor of sizes `sizes`, and sums its
    /// coordinates times `strides`, which may be negative. Declares one `let` of each name.
    pub(crate) fn index(&mut self, sizes: &[usize], lets: &[(&str, Vec<i64>, i64)]) -> String {
        let strides: Vec<&[i64]> = lets.iter().map(|(_, strides, _)| &strides[..]).collect();
        let dims = collapse(sizes, &strides);
        let mut code = String::new();
        if dims.len() > 1 {
            code.push_str("var r = i;\n");
        }
        let mut sums: Vec<Vec<String>> = vec![vec![]; lets.len()];
        for (at, (size, strides)) in dims.iter().enumerate().rev() {
            let coordinate = if dims.len() == 1 {
                "i".to_owned()
            } else if at == 0 {
                "r".to_owned()
            } else {
                let size = self.u32(*size);
                let _ = writeln!(code, "let c{at} = r % {size};\nr = r / {size};");
                format!("c{at}")
            };
            for (sum, stride) in sums.iter_mut().zip(strides) {
                match stride {
                    0 => {}
                    1 => sum.push(coordinate.clone()),
                    stride => {
                        let stride = self.raw(*stride as u32);
                        sum.push(format!("{coordinate} * {stride}"));
                    }
                }
            }
        }
        for ((name, _, offset), mut sum) in lets.iter().zip(sums) {
            if *offset != 0 {
                sum.push(self.raw(*offset as u32));
            }
            let sum = if sum.is_empty() { "0u".to_owned() } else { sum.join(" + ") };
            let _ = writeln!(code, "let {name} = {sum};");
        }
        code
    }

    /// Declares `epilogue`, the functions that follow a call with an `f32` result.
    pub(crate) fn epilogue(&mut self, call: &Call) -> OpResult {
        let mut code = String::new();
        for epilogue in &call.epilogue {
            let unary = epilogue.operator.unary.ok_or("is followed by no unary function")?;
            let expression = unary(self, &epilogue.args, "f32")?;
            let _ = writeln!(code, "v = {expression};");
        }
        let body = format!("fn epilogue(x: f32) -> f32 {{ var v = x;\n{code}return v; }}");
        self.declare(&body);
        Ok(())
    }

    /// Finishes a shader in which each thread computes one element of `output`. `body` returns the
    /// element at index `i`: `f32` for an `F32` output, else `i32`.
    pub(crate) fn elements(mut self, call: &Call, output: usize, body: &str) -> OpResult {
        let (ty, numel) = (self.recorder.ty(output)?, self.recorder.numel(output)?);
        let target = self.recorder.target(output);
        if ty == DeviceType::F32 {
            self.epilogue(call)?;
        } else if !call.epilogue.is_empty() {
            return Err("is followed by a function of floating-point numbers");
        }
        self.elements_at(target, ty, numel, body)
    }

    /// As [`Shader::elements`], with memory that is no output of a call; without epilogue.
    pub(crate) fn elements_at(
        mut self,
        target: Target,
        ty: DeviceType,
        numel: usize,
        body: &str,
    ) -> OpResult {
        self.output_at(target, ty);
        let words = ty.words(numel);
        let (count, total) = (self.u32(words), self.u32(numel));
        let arithmetic = if ty == DeviceType::F32 { "f32" } else { "i32" };
        let has_epilogue = self.declarations.contains("fn epilogue(");
        self.declare(&format!("fn element(i: u32) -> {arithmetic} {{\n{body}\n}}"));
        let main = match ty {
            DeviceType::F32 if has_epilogue => "y[id] = epilogue(element(id));".to_owned(),
            DeviceType::F32 | DeviceType::I32 => "y[id] = element(id);".to_owned(),
            _ => format!(
                "var word = 0u;\nfor (var k = 0u; k < 4u; k++) {{\nlet i = id * 4u + k;\n\
                 if i < {total} {{ word |= (bitcast<u32>(element(i)) & 255u) << (k * 8u); }}\n}}\n\
                 y[id] = word;"
            ),
        };
        self.threads(words, &format!("if id >= {count} {{ return; }}\n{main}"))
    }

    /// As [`Shader::elements_at`], for the elements for which the function `is_part` of the shader
    /// returns true. The others do not change.
    pub(crate) fn parts_at(
        mut self,
        target: Target,
        ty: DeviceType,
        numel: usize,
        body: &str,
    ) -> OpResult {
        self.output_at(target, ty);
        let words = ty.words(numel);
        let (count, total) = (self.u32(words), self.u32(numel));
        let arithmetic = if ty == DeviceType::F32 { "f32" } else { "i32" };
        self.declare(&format!("fn element(i: u32) -> {arithmetic} {{\n{body}\n}}"));
        let main = if ty.is_packed() {
            format!(
                "var word = y[id];\nfor (var k = 0u; k < 4u; k++) {{\nlet i = id * 4u + k;\n\
                 if i < {total} && is_part(i) {{\n\
                 word = insertBits(word, bitcast<u32>(element(i)), k * 8u, 8u);\n}}\n}}\ny[id] = word;"
            )
        } else {
            "if is_part(id) { y[id] = element(id); }".to_owned()
        };
        self.threads(words, &format!("if id >= {count} {{ return; }}\n{main}"))
    }

    /// Finishes a shader with `count` threads; `body` is run with the index `id` of the thread, which
    /// may exceed `count`.
    pub(crate) fn threads(self, count: usize, body: &str) -> OpResult {
        let groups = count.div_ceil(WORKGROUP);
        let limit = self.recorder.limits.max_workgroups as usize;
        let x = groups.min(limit);
        let workgroups = [x, groups.div_ceil(x.max(1)), 1];
        let main = format!(
            "@compute @workgroup_size({WORKGROUP}) fn main(\
             @builtin(global_invocation_id) thread: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {{\n\
             let id = thread.x + thread.y * groups.x * {WORKGROUP}u;\n{body}\n}}"
        );
        self.finish(workgroups, &main)
    }

    /// Finishes a shader with the entry point `main`.
    pub(crate) fn finish(self, workgroups: [usize; 3], main: &str) -> OpResult {
        let Self { recorder, is_once, mut bindings, mut declarations, params } = self;
        let limit = recorder.limits.max_workgroups as usize;
        if bindings.len() > recorder.limits.max_bindings {
            return Err("needs more buffers than a shader of this device can use");
        }
        if params.len() > MAX_PARAMS {
            return Err("needs more numbers than a shader can use");
        }
        if workgroups.iter().any(|groups| *groups > limit) {
            return Err("needs more workgroups than this device has");
        }
        if workgroups.contains(&0) {
            return Ok(());
        }
        let _ = writeln!(
            declarations,
            "@group(0) @binding({}) var<uniform> p: array<vec4<u32>, {}>;\n{main}",
            bindings.len(),
            params.len().div_ceil(4).max(1)
        );
        bindings.shrink_to_fit();
        recorder.push(Step {
            call: 0,
            is_once,
            source: declarations,
            bindings,
            params,
            workgroups: workgroups.map(|groups| groups as u32),
        });
        Ok(())
    }
}

/// Removes dimensions of size 1 and joins neighbors that all strides let join.
fn collapse(sizes: &[usize], strides: &[&[i64]]) -> Vec<(usize, Vec<i64>)> {
    let mut dims: Vec<(usize, Vec<i64>)> = vec![];
    for (dim, &size) in sizes.iter().enumerate().filter(|(_, size)| **size != 1) {
        let own: Vec<i64> = strides.iter().map(|strides| strides[dim]).collect();
        match dims.last_mut() {
            Some((outer_size, outer))
                if outer.iter().zip(&own).all(|(o, s)| *o == s * size as i64) =>
            {
                *outer_size *= size;
                *outer = own;
            }
            _ => dims.push((size, own)),
        }
    }
    dims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_with_matching_strides_are_joined() {
        let check = |sizes: &[usize], strides: &[&[i64]], expected: &[(usize, &[i64])]| {
            let found = collapse(sizes, strides);
            let found: Vec<_> = found.iter().map(|(size, strides)| (*size, &strides[..])).collect();
            assert_eq!(found, expected, "{sizes:?} {strides:?}");
        };
        check(&[2, 3, 4], &[&[12, 4, 1]], &[(24, &[1])]);
        check(&[2, 1, 4], &[&[4, 9, 1]], &[(8, &[1])]);
        check(&[2, 3, 4], &[&[12, 4, 1], &[0, 4, 1]], &[(2, &[12, 0]), (12, &[1, 1])]);
        check(&[2, 3], &[&[1, 2]], &[(2, &[1]), (3, &[2])]);
        check(&[2, 3], &[&[0, 0]], &[(6, &[0])]);
        check(&[1, 1], &[&[1, 1]], &[]);
    }
}
