//! `.bpte` bundled program: a program with test cases for its methods.

use crate::{
    check::Budget,
    error::{AtLocation, ErrorKind, FieldError, FieldResult, FileKind, Location, ProgramError},
    header,
    schema::*,
    tensor::{LayoutFields, TensorLayout},
};
use afferent_flatbuffer::{Table, TableVector};

/// Checked `.bpte` file, as ExecuTorch `BundledProgram`. It borrows all data from the file.
///
/// The contained program is not checked; parse [`BundledProgram::program`] with
/// [`Program::parse`](crate::Program::parse).
#[derive(Debug, Clone, Copy)]
pub struct BundledProgram<'a> {
    program: &'a [u8],
    suites: TableVector<'a>,
}

/// Test cases of one method.
#[derive(Debug, Clone, Copy)]
pub struct TestSuite<'a> {
    /// Name of the method. The program may lack this method.
    pub method: &'a str,
    cases: TableVector<'a>,
}

/// Inputs and expected outputs of one call.
#[derive(Debug, Clone, Copy)]
pub struct TestCase<'a> {
    inputs: TableVector<'a>,
    expected: TableVector<'a>,
}

/// Value of a test case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TestValue<'a> {
    /// Tensor and its data, which has exactly `nbytes` bytes and any alignment.
    Tensor(TensorLayout<'a>, &'a [u8]),
    /// Integer.
    Int(i64),
    /// Boolean.
    Bool(bool),
    /// Floating-point number.
    Double(f64),
}

impl<'a> BundledProgram<'a> {
    /// True if `bytes` has the file identifier of a bundled program.
    pub fn is_bundled(bytes: &[u8]) -> bool {
        header::has_identifier(bytes, FileKind::Bundled)
    }

    /// Checks all test cases in `bytes`. The buffer needs no alignment.
    ///
    /// # Errors
    /// [`ProgramError`] with the invalid field.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ProgramError> {
        header::check_identifier(bytes, FileKind::Bundled)?;
        let at = |error: FieldError| error.at(Location::File(FileKind::Bundled));
        let bundled = Self::read(bytes).map_err(at)?;
        bundled.check(&mut Budget::new(bytes.len()))?;
        Ok(bundled)
    }

    fn read(bytes: &'a [u8]) -> FieldResult<Self> {
        let root = Table::root(bytes)?;
        let program = BUNDLED_PROGRAM.required(root.bytes(BUNDLED_PROGRAM)?)?;
        Ok(Self { program, suites: root.tables_or_empty(BUNDLED_SUITES)? })
    }

    /// Bytes of the contained `.pte` program, unchecked.
    pub fn program(&self) -> &'a [u8] {
        self.program
    }

    /// Test suites of the methods, in order.
    pub fn suites(&self) -> impl Iterator<Item = TestSuite<'a>> + Clone + use<'a> {
        let suites = self.suites;
        (0..suites.len()).filter_map(move |index| TestSuite::read(suites, index).ok())
    }

    fn check(&self, budget: &mut Budget) -> Result<(), ProgramError> {
        for suite in 0..self.suites.len() {
            let suite_index = u32::try_from(suite).unwrap_or(u32::MAX);
            let at = |error: FieldError| error.at(Location::Suite(suite_index));
            let found = TestSuite::read(self.suites, suite).map_err(at)?;
            budget.spend(SUITE_METHOD_NAME, 1 + found.method.len()).map_err(at)?;
            for case in 0..found.cases.len() {
                let case_index = u32::try_from(case).unwrap_or(u32::MAX);
                let location = Location::Case { suite: suite_index, case: case_index };
                check_case(found.cases, case, budget).map_err(|error| error.at(location))?;
            }
        }
        Ok(())
    }
}

fn check_case(cases: TableVector<'_>, index: usize, budget: &mut Budget) -> FieldResult<()> {
    let case = TestCase::read(cases, index)?;
    budget.spend(cases.field, 1)?;
    for values in [case.inputs, case.expected] {
        for index in 0..values.len() {
            let work = match TestValue::read(values, index)? {
                // Running the case copies the elements.
                TestValue::Tensor(_, data) => 1 + data.len(),
                _ => 1,
            };
            budget.spend(values.field, work)?;
        }
    }
    Ok(())
}

impl<'a> TestSuite<'a> {
    fn read(suites: TableVector<'a>, index: usize) -> FieldResult<Self> {
        let table = suites.get(index)?;
        let method = SUITE_METHOD_NAME.required(table.name(SUITE_METHOD_NAME)?)?;
        Ok(Self { method, cases: table.tables_or_empty(SUITE_TEST_CASES)? })
    }

    /// Test cases in order.
    pub fn cases(&self) -> impl ExactSizeIterator<Item = TestCase<'a>> + Clone + use<'a> {
        let cases = self.cases;
        let none = TestCase { inputs: TableVector::EMPTY, expected: TableVector::EMPTY };
        (0..cases.len()).map(move |index| TestCase::read(cases, index).unwrap_or(none))
    }
}

impl<'a> TestCase<'a> {
    fn read(cases: TableVector<'a>, index: usize) -> FieldResult<Self> {
        let table = cases.get(index)?;
        let inputs = table.tables_or_empty(CASE_INPUTS)?;
        Ok(Self { inputs, expected: table.tables_or_empty(CASE_EXPECTED_OUTPUTS)? })
    }

    /// Inputs of the call.
    pub fn inputs(&self) -> impl Iterator<Item = TestValue<'a>> + Clone + use<'a> {
        values(self.inputs)
    }

    /// Outputs of eager PyTorch; empty if the file contains only inputs.
    pub fn expected(&self) -> impl Iterator<Item = TestValue<'a>> + Clone + use<'a> {
        values(self.expected)
    }
}

fn values<'a>(tables: TableVector<'a>) -> impl Iterator<Item = TestValue<'a>> + Clone + use<'a> {
    (0..tables.len()).filter_map(move |index| TestValue::read(tables, index).ok())
}

impl<'a> TestValue<'a> {
    fn read(values: TableVector<'a>, index: usize) -> FieldResult<Self> {
        let value = values.get(index)?;
        let table = BUNDLED_VALUE_VAL.required(value.table(BUNDLED_VALUE_VAL)?)?;
        Ok(match value.scalar::<u8>(BUNDLED_VALUE_TYPE)? {
            1 => {
                let layout = TensorLayout::read(&table, &LAYOUT)?;
                let data = table.bytes(BUNDLED_TENSOR_DATA)?.unwrap_or_default();
                let data = BUNDLED_TENSOR_DATA.slice(data, 0, layout.nbytes as u64)?;
                Self::Tensor(layout, data)
            }
            2 => Self::Int(table.scalar(BUNDLED_INT_VAL)?),
            3 => Self::Bool(table.scalar::<u8>(BUNDLED_BOOL_VAL)? != 0),
            4 => Self::Double(table.scalar(BUNDLED_DOUBLE_VAL)?),
            code => {
                let kind = ErrorKind::UnknownCode { code: code.into() };
                return Err(BUNDLED_VALUE_TYPE.error(kind));
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
    fn program_and_test_cases_are_read() {
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
            other => panic!("{other:?} is not a tensor"),
        };
        assert_eq!(cases[0].inputs().map(shape).collect::<Vec<_>>(), [(vec![3, 4], 48)]);
        assert_eq!(cases[0].expected().map(shape).collect::<Vec<_>>(), [(vec![3, 2], 24)]);
    }

    /// Offset of the only occurrence of `needle` outside the contained program.
    fn find(needle: &[u8]) -> usize {
        let program = BundledProgram::parse(FILE).unwrap().program();
        let start = program.as_ptr().addr() - FILE.as_ptr().addr();
        let program = start..start + program.len();
        let mut found =
            (0..FILE.len()).filter(|at| FILE[*at..].starts_with(needle) && !program.contains(at));
        let at = found.next().expect("the file contains the bytes");
        assert_eq!(found.next(), None, "the bytes occur once");
        at
    }

    fn parse_error(change: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut file = FILE.to_vec();
        change(&mut file);
        BundledProgram::parse(&file).expect_err("the file is invalid").to_string()
    }

    #[test]
    fn data_that_is_shorter_than_the_sizes_need_is_rejected() {
        // The vector with the sizes [3, 4] of the input.
        let sizes = find(&[2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
        let message = parse_error(|file| file[sizes + 4] = 200);
        let expected = "suite 0, case 0: Tensor.data needs 3200 bytes at offset 0, but only 48 bytes are available";
        assert_eq!(message, expected);
        let message = parse_error(|file| file[sizes + 7] = 0xFF);
        assert_eq!(message, "suite 0, case 0: Tensor.sizes is negative");
    }

    #[test]
    fn other_file_identifiers_are_rejected() {
        let message = parse_error(|file| file[4..8].copy_from_slice(b"ET12"));
        assert!(message.contains("not a .bpte bundled program"), "{message}");
        let message = parse_error(|file| file[4..8].copy_from_slice(b"BP09"));
        assert!(message.contains("file identifier \"BP09\""), "{message}");
        assert_eq!(Program::parse(FILE).unwrap_err(), ProgramError::Bundled);
    }

    #[test]
    fn truncated_and_damaged_files_do_not_panic() {
        let read = |file: &[u8]| {
            let Ok(bundled) = BundledProgram::parse(file) else { return 0 };
            let cases = bundled.suites().flat_map(|suite| suite.cases());
            let count = cases.map(|case| case.inputs().count() + case.expected().count()).sum();
            let _ = Program::parse(bundled.program());
            count
        };
        assert_eq!(read(FILE), 2);
        for len in 0..FILE.len() {
            // The last bytes are padding.
            assert!(read(&FILE[..len]) == 0 || len + 16 > FILE.len(), "truncated to {len} bytes");
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
