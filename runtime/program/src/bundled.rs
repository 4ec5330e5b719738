//! A `.bpte` bundled program: a program with test cases for its methods.

use crate::{
    check::Budget,
    error::{At, Defect, Fault, FileKind, Place, ProgramError, Read},
    header,
    schema::*,
    tensor::{LayoutFields, TensorLayout},
};
use afferent_flatbuffer::{Table, Tables};

/// A checked `.bpte` file, as ExecuTorch `BundledProgram`. It borrows everything from the file.
///
/// The program in it is not looked at: [`Program::parse`](crate::Program::parse) reads
/// [`BundledProgram::program`].
#[derive(Debug, Clone, Copy)]
pub struct BundledProgram<'a> {
    program: &'a [u8],
    suites: Tables<'a>,
}

/// The test cases of one method.
#[derive(Debug, Clone, Copy)]
pub struct TestSuite<'a> {
    /// Name of the method; whether the program has it is not checked.
    pub method: &'a str,
    cases: Tables<'a>,
}

/// Inputs of one call, and what it should give.
#[derive(Debug, Clone, Copy)]
pub struct TestCase<'a> {
    inputs: Tables<'a>,
    expected: Tables<'a>,
}

/// A value of a test case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TestValue<'a> {
    /// A tensor and its elements: exactly as many bytes as the sizes need, of any alignment.
    Tensor(TensorLayout<'a>, &'a [u8]),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating-point number.
    Double(f64),
}

impl<'a> BundledProgram<'a> {
    /// Whether `bytes` look like a bundled program and not like a bare one.
    pub fn is_bundled(bytes: &[u8]) -> bool {
        header::is(bytes, FileKind::Bundled)
    }

    /// Checks all test cases in `bytes`, which need no alignment.
    ///
    /// # Errors
    /// [`ProgramError`] says which field is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ProgramError> {
        header::magic(bytes, FileKind::Bundled)?;
        let at = |defect: Defect| defect.at(Place::File(FileKind::Bundled));
        let bundled = Self::read(bytes).map_err(at)?;
        bundled.check(&mut Budget::new(bytes.len()))?;
        Ok(bundled)
    }

    fn read(bytes: &'a [u8]) -> Read<Self> {
        let root = Table::root(bytes)?;
        let program = BUNDLED_PROGRAM.required(root.bytes(BUNDLED_PROGRAM)?)?;
        Ok(Self { program, suites: root.tables_or_empty(BUNDLED_SUITES)? })
    }

    /// The bytes of the `.pte` program, not checked.
    pub fn program(&self) -> &'a [u8] {
        self.program
    }

    /// The test cases by method, in order.
    pub fn suites(&self) -> impl Iterator<Item = TestSuite<'a>> + Clone + use<'a> {
        let suites = self.suites;
        (0..suites.len()).filter_map(move |index| TestSuite::read(suites, index).ok())
    }

    fn check(&self, budget: &mut Budget) -> Result<(), ProgramError> {
        for suite in 0..self.suites.len() {
            let number = u32::try_from(suite).unwrap_or(u32::MAX);
            let at = |defect: Defect| defect.at(Place::Suite(number));
            let found = TestSuite::read(self.suites, suite).map_err(at)?;
            budget.spend(SUITE_METHOD_NAME, 1 + found.method.len()).map_err(at)?;
            for case in 0..found.cases.len() {
                let case_number = u32::try_from(case).unwrap_or(u32::MAX);
                let place = Place::Case { suite: number, case: case_number };
                check_case(found.cases, case, budget).map_err(|defect| defect.at(place))?;
            }
        }
        Ok(())
    }
}

fn check_case(cases: Tables<'_>, index: usize, budget: &mut Budget) -> Read<()> {
    let case = TestCase::read(cases, index)?;
    budget.spend(cases.field, 1)?;
    for values in [case.inputs, case.expected] {
        for index in 0..values.len() {
            let work = match TestValue::read(values, index)? {
                // Whoever runs the case copies the elements.
                TestValue::Tensor(_, data) => 1 + data.len(),
                _ => 1,
            };
            budget.spend(values.field, work)?;
        }
    }
    Ok(())
}

impl<'a> TestSuite<'a> {
    fn read(suites: Tables<'a>, index: usize) -> Read<Self> {
        let table = suites.get(index)?;
        let method = SUITE_METHOD_NAME.required(table.name(SUITE_METHOD_NAME)?)?;
        Ok(Self { method, cases: table.tables_or_empty(SUITE_TEST_CASES)? })
    }

    /// The cases in order.
    pub fn cases(&self) -> impl ExactSizeIterator<Item = TestCase<'a>> + Clone + use<'a> {
        let cases = self.cases;
        let none = TestCase { inputs: Tables::EMPTY, expected: Tables::EMPTY };
        (0..cases.len()).map(move |index| TestCase::read(cases, index).unwrap_or(none))
    }
}

impl<'a> TestCase<'a> {
    fn read(cases: Tables<'a>, index: usize) -> Read<Self> {
        let table = cases.get(index)?;
        let inputs = table.tables_or_empty(CASE_INPUTS)?;
        Ok(Self { inputs, expected: table.tables_or_empty(CASE_EXPECTED_OUTPUTS)? })
    }

    /// What the method is called with.
    pub fn inputs(&self) -> impl Iterator<Item = TestValue<'a>> + Clone + use<'a> {
        values(self.inputs)
    }

    /// What eager PyTorch gave; empty where the bundle holds inputs only.
    pub fn expected(&self) -> impl Iterator<Item = TestValue<'a>> + Clone + use<'a> {
        values(self.expected)
    }
}

fn values<'a>(tables: Tables<'a>) -> impl Iterator<Item = TestValue<'a>> + Clone + use<'a> {
    (0..tables.len()).filter_map(move |index| TestValue::read(tables, index).ok())
}

impl<'a> TestValue<'a> {
    fn read(values: Tables<'a>, index: usize) -> Read<Self> {
        let value = values.get(index)?;
        let table = BUNDLED_VALUE_VAL.required(value.table(BUNDLED_VALUE_VAL)?)?;
        Ok(match value.number::<u8>(BUNDLED_VALUE_TYPE)? {
            1 => {
                let layout = TensorLayout::read(&table, &LAYOUT)?;
                let data = table.bytes(BUNDLED_TENSOR_DATA)?.unwrap_or_default();
                let data = BUNDLED_TENSOR_DATA.slice(data, 0, layout.nbytes as u64)?;
                Self::Tensor(layout, data)
            }
            2 => Self::Int(table.number(BUNDLED_INT_VAL)?),
            3 => Self::Bool(table.number::<u8>(BUNDLED_BOOL_VAL)? != 0),
            4 => Self::Double(table.number(BUNDLED_DOUBLE_VAL)?),
            code => {
                let fault = Fault::UnknownCode { code: code.into() };
                return Err(BUNDLED_VALUE_TYPE.fault(fault));
            }
        })
    }
}

const LAYOUT: LayoutFields = LayoutFields {
    dtype: BUNDLED_TENSOR_SCALAR_TYPE,
    sizes: BUNDLED_TENSOR_SIZES,
    dim_order: BUNDLED_TENSOR_DIM_ORDER,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Program;

    const FILE: &[u8] =
        include_bytes!("../../../tests/conformance/data/programs/bundled/model.bpte");

    #[test]
    fn a_bundle_gives_its_program_and_its_cases() {
        assert!(BundledProgram::is_bundled(FILE));
        let bundled = BundledProgram::parse(FILE).unwrap();
        assert_eq!(Program::parse(bundled.program()).unwrap().num_methods(), 1);
        let suites: Vec<_> = bundled.suites().collect();
        assert_eq!(suites.len(), 1);
        assert_eq!(suites[0].method, "forward");
        let cases: Vec<_> = suites[0].cases().collect();
        assert_eq!(cases.len(), 1);
        let shape = |value: TestValue<'_>| match value {
            TestValue::Tensor(layout, data) => {
                (layout.sizes.iter().collect::<Vec<_>>(), data.len())
            }
            other => panic!("{other:?} is a tensor"),
        };
        assert_eq!(cases[0].inputs().map(shape).collect::<Vec<_>>(), [(vec![3, 4], 48)]);
        assert_eq!(cases[0].expected().map(shape).collect::<Vec<_>>(), [(vec![3, 2], 24)]);
    }

    /// Where the bytes of `needle` stand in the test cases, once.
    fn find(needle: &[u8]) -> usize {
        let program = BundledProgram::parse(FILE).unwrap().program();
        let start = program.as_ptr().addr() - FILE.as_ptr().addr();
        let program = start..start + program.len();
        let mut found =
            (0..FILE.len()).filter(|at| FILE[*at..].starts_with(needle) && !program.contains(at));
        let at = found.next().expect("the file holds it");
        assert_eq!(found.next(), None, "it stands there once");
        at
    }

    fn refused(change: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut file = FILE.to_vec();
        change(&mut file);
        BundledProgram::parse(&file).expect_err("it is hostile").to_string()
    }

    #[test]
    fn data_shorter_than_its_sizes_is_refused() {
        // The sizes [3, 4] of the input stand as a vector of two numbers.
        let sizes = find(&[2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
        let message = refused(|file| file[sizes + 4] = 200);
        let expected =
            "suite 0, case 0: Tensor.data needs 3200 bytes from byte 0 on, but there are 48";
        assert_eq!(message, expected);
        let message = refused(|file| file[sizes + 7] = 0xFF);
        assert_eq!(message, "suite 0, case 0: Tensor.sizes is negative");
    }

    #[test]
    fn other_files_are_refused() {
        let message = refused(|file| file[4..8].copy_from_slice(b"ET12"));
        assert!(message.contains("not a .bpte bundled program"), "{message}");
        let message = refused(|file| file[4..8].copy_from_slice(b"BP09"));
        assert!(message.contains("format version \"BP09\""), "{message}");
        assert_eq!(Program::parse(FILE).unwrap_err(), ProgramError::Bundled);
    }

    #[test]
    fn no_cut_and_no_byte_makes_it_panic() {
        let read = |file: &[u8]| {
            let Ok(bundled) = BundledProgram::parse(file) else { return 0 };
            let cases = bundled.suites().flat_map(|suite| suite.cases());
            let count = cases.map(|case| case.inputs().count() + case.expected().count()).sum();
            let _ = Program::parse(bundled.program());
            count
        };
        assert_eq!(read(FILE), 2);
        for len in 0..FILE.len() {
            // The last bytes fill up the alignment.
            assert!(read(&FILE[..len]) == 0 || len + 16 > FILE.len(), "cut to {len} bytes");
        }
        let mut file = FILE.to_vec();
        for at in 0..file.len() {
            for flip in [0x01, 0x80, 0xFF] {
                file[at] ^= flip;
                assert!(read(&file) <= 4 * file.len());
                file[at] ^= flip;
            }
        }
    }
}
