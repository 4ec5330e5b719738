//! Options and table columns of commands that compare outputs.

use afferent_inspect::{Difference, ElementDifference, Tolerance};
use clap::Args;

use crate::table::figure;

/// Tolerance of a comparison: `atol + rtol * |expected|`.
#[derive(Args, Clone, Copy, Default)]
pub(super) struct ToleranceArgs {
    /// Relative tolerance. Default as in torch.testing.assert_close: 1e-3 for f16, 0.016 for bf16,
    /// 1.3e-6 for f32, 1e-7 for f64, 0 for other dtypes
    #[arg(long, value_parser = tolerance)]
    rtol: Option<f64>,
    /// Absolute tolerance. Default as in torch.testing.assert_close: 1e-5 for f16, bf16 and f32,
    /// 1e-7 for f64, 0 for other dtypes
    #[arg(long, value_parser = tolerance)]
    atol: Option<f64>,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| "it must be a finite number of at least 0".to_owned())
}

impl ToleranceArgs {
    pub(super) fn tolerance(self) -> Tolerance {
        let Self { rtol, atol } = self;
        Tolerance { rtol, atol }
    }
}

/// Column headers of a [`Difference`].
pub(super) const COLUMNS: [&str; 9] =
    ["shape", "max abs", "mean abs", "max rel", "SNR dB", "cosine", "outside", "first at", ""];

/// One cell for each of [`COLUMNS`].
pub(super) fn cells(difference: &Difference) -> [String; 9] {
    let (at, values) = match &difference.first {
        Some(ElementDifference { index, found, expected }) => {
            (format!("{index:?}"), format!("{found} for {expected}"))
        }
        None => ("-".to_owned(), String::new()),
    };
    [
        difference.shape.clone(),
        figure(difference.max_abs),
        figure(difference.mean_abs),
        figure(difference.max_rel),
        figure(difference.snr_db),
        format!("{:.6}", difference.cosine),
        format!("{} of {}", difference.outside, difference.elements),
        at,
        values,
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct TestCommand {
        #[command(flatten)]
        tolerance: ToleranceArgs,
    }

    #[test]
    fn a_tolerance_is_finite_and_not_negative() {
        let parse = |option: &str, text: &str| {
            let command = TestCommand::try_parse_from(["x", &format!("{option}={text}")]);
            command.map(|command| command.tolerance)
        };
        assert_eq!(parse("--rtol", "1e-3").unwrap().rtol, Some(1e-3));
        assert_eq!(parse("--atol", "0").unwrap().atol, Some(0.0));
        for text in ["nan", "inf", "-1e-3", "few"] {
            let rejected = ["--rtol", "--atol"].map(|option| parse(option, text).is_err());
            assert_eq!(rejected, [true; 2], "{text}");
        }
    }
}
