//! Numbers as C++ prints them: six digits that count.

/// Digits that count.
const DIGITS: i32 = 6;

/// A number with at most six digits that count, and no zeros at its end.
pub(super) fn shown(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    // Rounding may carry into another digit, so the exponent is that of what is rounded.
    let rounded = format!("{value:.*e}", (DIGITS - 1) as usize);
    let (digits, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let precision = (DIGITS - 1 - exponent) as usize;
        return trimmed(&format!("{value:.precision$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

fn trimmed(text: &str) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_those_of_cpp() {
        for (value, text) in [
            (0.0, "0"),
            (122.872, "122.872"),
            (53.229_24, "53.2292"),
            (0.000_050_025, "5.0025e-05"),
            (0.001_271_65, "0.00127165"),
            (f64::MAX, "1.79769e+308"),
            (123_456.7, "123457"),
            (999_999.9, "1e+06"),
            (16.0, "16"),
        ] {
            assert_eq!(shown(value), text);
        }
    }
}
