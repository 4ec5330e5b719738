//! Outcomes as JUnit XML, which CI systems show.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::Outcome;

/// The outcomes as JUnit XML: a suite for each file, a test case for each case.
///
/// # Errors
/// What XML cannot hold.
pub fn junit(outcomes: &[Outcome]) -> Result<String, String> {
    let mut report = Report::new("afferent test");
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
        let suite = report.test_suites.iter_mut().find(|suite| suite.name.as_str() == outcome.file);
        match suite {
            Some(suite) => drop(suite.add_test_case(case)),
            None => {
                let mut suite = TestSuite::new(outcome.file.as_str());
                suite.add_test_case(case);
                report.add_test_suite(suite);
            }
        }
    }
    report.to_string().map_err(|error| error.to_string())
}
