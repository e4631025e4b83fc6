//! What is common to the messages of one failure in two processes. Failing cases cluster by stage,
//! outcome, error class, operator and this.

/// First line with addresses, numbers and absolute paths replaced, at most 300 characters.
#[must_use]
pub fn normalise(message: &str) -> String {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    let mut out = String::new();
    let mut rest = line;
    let mut before = ' ';
    while let Some(next) = rest.chars().next() {
        let (replacement, length) = if let Some(length) = address_length(rest) {
            ("<address>", length)
        } else if !before.is_alphanumeric() && !continues_path(before) {
            match path_length(rest) {
                Some(length) => ("<path>", length),
                None => number_length(rest, before).map_or(("", 0), |length| ("<n>", length)),
            }
        } else {
            number_length(rest, before).map_or(("", 0), |length| ("<n>", length))
        };
        if length == 0 {
            out.push(next);
            rest = &rest[next.len_utf8()..];
            before = next;
        } else {
            out.push_str(replacement);
            rest = &rest[length..];
            before = '>';
        }
    }
    out.chars().take(300).collect()
}

/// Characters after which `/` continues something rather than starting a path.
fn continues_path(before: char) -> bool {
    matches!(before, '/' | '.' | '_' | '-' | '>')
}

fn address_length(text: &str) -> Option<usize> {
    let digits = text.strip_prefix("0x")?;
    let count = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
    (count > 0).then_some(2 + count)
}

fn path_length(text: &str) -> Option<usize> {
    if !text.starts_with('/') {
        return None;
    }
    let length = text
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+')))
        .unwrap_or(text.len());
    (text[1..length].contains('/')).then_some(length)
}

/// A number, but not the digits inside a name such as `float32` or `conv2d`.
fn number_length(text: &str, before: char) -> Option<usize> {
    if before.is_alphanumeric() || before == '_' {
        return None;
    }
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 {
        return None;
    }
    let after = &text[count..];
    let fraction = after
        .strip_prefix('.')
        .map(|digits| digits.bytes().take_while(u8::is_ascii_digit).count())
        .filter(|digits| *digits > 0)
        .map_or(0, |digits| digits + 1);
    let after = &after[fraction..];
    let exponent = after.strip_prefix(['e', 'E']).map_or(0, |power| {
        let sign = usize::from(power.starts_with(['+', '-']));
        let digits = power[sign..].bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 { 0 } else { 1 + sign + digits }
    });
    Some(count + fraction + exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_processes_is_replaced_and_names_stay() {
        for (message, line) in [
            ("", ""),
            ("\n  \nsecond", "second"),
            ("1 of 3 elements differ", "<n> of <n> elements differ"),
            ("max abs error 1.5e-07 over 0.25", "max abs error <n> over <n>"),
            ("at 0x7ffd0123 in worker 17", "at <address> in worker <n>"),
            ("/tmp/a1/b.py:33: bad float32", "<path>:<n>: bad float32"),
            ("aten::conv2d and aten::_fft_r2c", "aten::conv2d and aten::_fft_r2c"),
            ("shape [2,3] and/or (4)", "shape [<n>,<n>] and/or (<n>)"),
            ("first\nsecond 2", "first"),
            ("größe 3 über", "größe <n> über"),
        ] {
            assert_eq!(normalise(message), line);
        }
    }
}
