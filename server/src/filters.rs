//! Filters of the templates: how times, durations and numbers read, and how text from a runner is
//! made visible. The functions below are pure; askama escapes what they give.

use std::fmt::Display;

use askama::Values;
use chrono::{DateTime, Utc};

/// Shows what would otherwise change how the text around it reads: control characters and the
/// marks that reverse the direction of text become `\u{…}`. Tabs and line feeds stay.
#[askama::filter_fn]
pub fn visible(text: impl Display, _: &dyn Values) -> askama::Result<String> {
    Ok(make_visible(&text.to_string()))
}

/// `1,234,567`.
#[askama::filter_fn]
pub fn grouped(number: impl Display, _: &dyn Values) -> askama::Result<String> {
    Ok(group_digits(&number.to_string()))
}

/// `2026-11-30 05:11 UTC`.
#[askama::filter_fn]
pub fn utc(time: &DateTime<Utc>, _: &dyn Values) -> askama::Result<String> {
    Ok(time.format("%Y-%m-%d %H:%M UTC").to_string())
}

/// `2026-11-30T05:11:45Z`, for the attribute `datetime`.
#[askama::filter_fn]
pub fn iso(time: &DateTime<Utc>, _: &dyn Values) -> askama::Result<String> {
    Ok(time.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// `0.25 s`, `3 min 20 s`.
#[askama::filter_fn]
pub fn seconds(value: &f64, _: &dyn Values) -> askama::Result<String> {
    Ok(say_seconds(*value))
}

/// See [`visible`].
#[must_use]
pub fn make_visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_disturbing(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Control characters but tab and line feed, and marks of text direction.
fn is_disturbing(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{2028}' | '\u{2029}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // No characters at all, and forbidden in a feed.
        '\u{fffe}' | '\u{ffff}' => true,
        other => other.is_control(),
    }
}

/// `1,234,567` of a number in digits.
#[must_use]
pub fn group_digits(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let mut grouped = String::from(sign);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// See [`seconds`].
#[must_use]
pub fn say_seconds(value: f64) -> String {
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    if value < 0.001 {
        return "under 1 ms".to_owned();
    }
    if value < 1.0 {
        return format!("{:.0} ms", value * 1000.0);
    }
    if value < 60.0 {
        return format!("{value:.1} s");
    }
    let whole = chrono::Duration::milliseconds((value * 1000.0).min(1e15) as i64);
    say_duration(whole)
}

/// The two largest units: `3 min 20 s`, `2 h 5 min`, `8 d 3 h`.
#[must_use]
pub fn say_duration(duration: chrono::Duration) -> String {
    let seconds = duration.num_seconds().max(0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Four significant digits: `0.5213`, `1.2e-7`, `3.4e8`; `nan`, `inf` and `-inf` in words.
#[must_use]
pub fn say_figure(value: f64) -> String {
    if !value.is_finite() {
        return protocol::Number(value).to_string().to_lowercase();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if !(1e-3..1e6).contains(&size) {
        let text = format!("{value:.3e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{exponent}", trim_zeros(digits));
    }
    let decimals = (3.0 - size.log10().floor()).max(0.0) as usize;
    trim_zeros(&format!("{value:.decimals$}")).to_owned()
}

/// Eight decimals, cut towards zero.
#[must_use]
pub fn say_likeness(value: f64) -> String {
    if !value.is_finite() {
        return say_figure(value);
    }
    trim_zeros(&format!("{:.8}", (value * 1e8).trunc() / 1e8)).to_owned()
}

fn trim_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// `17 KiB`, `1.4 GiB`.
#[must_use]
pub fn say_bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 10.0 {
        format!("{value:.1} {}", units[unit])
    } else {
        format!("{value:.0} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_reverse_or_erase_what_is_around_it() {
        assert_eq!(make_visible("a\u{202e}b\u{1b}[2Jc\rd"), "a\\u{202e}b\\u{1b}[2Jc\\u{d}d");
        assert_eq!(make_visible("two\nlines\tשלום é"), "two\nlines\tשלום é");
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        for (number, text) in
            [("0", "0"), ("999", "999"), ("1000", "1,000"), ("-1234567", "-1,234,567")]
        {
            assert_eq!(group_digits(number), text);
        }
    }

    #[test]
    fn figures_have_four_digits_and_only_one_is_one() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.836_177, "1.836"),
            (37.0, "37"),
            (12_345.678, "12346"),
            (1.2e-7, "1.2e-7"),
            (4.0321e-7, "4.032e-7"),
            (1.2e7, "1.2e7"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(say_figure(value), text);
        }
        for (value, text) in
            [(1.0, "1"), (0.999_999_999_9, "0.99999999"), (0.98, "0.98"), (-0.5, "-0.5")]
        {
            assert_eq!(say_likeness(value), text);
        }
    }

    #[test]
    fn durations_have_their_two_largest_units() {
        for (seconds, text) in [
            (0.0, "under 1 ms"),
            (0.25, "250 ms"),
            (3.26, "3.3 s"),
            (200.0, "3 min 20 s"),
            (7_500.0, "2 h 5 min"),
            (702_000.0, "8 d 3 h"),
            (f64::INFINITY, "unknown"),
        ] {
            assert_eq!(say_seconds(seconds), text);
        }
        assert_eq!(say_bytes(17), "17 bytes");
        assert_eq!(say_bytes(1_503_238_553), "1.4 GiB");
    }
}
