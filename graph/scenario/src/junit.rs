//! Outcomes as JUnit XML for CI systems.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::Outcome;

/// Formats the outcomes as JUnit XML, with a test suite for each file and a test case for each
/// case.
///
/// # Errors
/// If a text cannot be represented in XML.
pub fn junit(outcomes: &[Outcome]) -> Result<String, String> {
    let mut suites: Vec<TestSuite> = Vec::new();
    for outcome in outcomes {
        let mut case = TestCase::new(outcome.name.as_str(), TestCaseStatus::success());
        if let [first, ..] = outcome.faults.as_slice() {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(first.diagnostic.message.as_str());
            status.set_type("expectation");
            status.set_description(outcome.render(false));
            case.status = status;
        }
        case.set_classname(outcome.file.as_str());
        case.set_time(outcome.real);
        case.extra.insert("file".into(), outcome.file.as_str().into());
        case.extra.insert("line".into(), outcome.line.to_string().into());
        let known = suites.iter().position(|suite| suite.name.as_str() == outcome.file);
        let suite = known.unwrap_or_else(|| {
            suites.push(TestSuite::new(outcome.file.as_str()));
            suites.len() - 1
        });
        suites[suite].add_test_case(case);
    }
    let mut report = Report::new("afferent test");
    // The report computes its totals when suites are added, so the suites must be complete.
    report.add_test_suites(suites);
    report.to_string().map_err(|error| error.to_string())
}
