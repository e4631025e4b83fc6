//! A worker's log as lines of coloured text. Only colours and weights are understood; every other
//! escape sequence is taken out, and every other control character is made visible, so that a log
//! can change nothing but its own looks.

use crate::filters::make_visible;

/// Text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Class names of `style.css`; empty for plain text.
    pub class: String,
    /// The text, still to be escaped.
    pub text: String,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// From 1; nothing in a part whose beginning is not known.
    pub number: Option<usize>,
    /// Its parts.
    pub spans: Vec<Span>,
    /// Whether it looks like the line that says what went wrong.
    pub is_hit: bool,
}

#[derive(Debug, Clone, Default)]
struct Style {
    bold: bool,
    dim: bool,
    colour: Option<u8>,
}

impl Style {
    fn class(&self) -> String {
        let mut names = Vec::new();
        if self.bold {
            names.push("ansi-bold".to_owned());
        }
        if self.dim {
            names.push("ansi-dim".to_owned());
        }
        names.extend(self.colour.map(|colour| format!("ansi-{colour}")));
        names.join(" ")
    }

    fn apply(&mut self, codes: &str) {
        let mut codes = codes.split([';', ':']).map(|code| code.parse::<u16>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                22 => (self.bold, self.dim) = (false, false),
                30..=37 => self.colour = u8::try_from(code - 30).ok(),
                90..=97 => self.colour = u8::try_from(code - 90).ok(),
                39 => self.colour = None,
                // A colour out of 256 or of millions: its parameters are taken and not shown.
                38 | 48 => match codes.next() {
                    Some(5) => drop(codes.next()),
                    Some(2) => drop(codes.by_ref().take(3).count()),
                    Some(_) | None => {}
                },
                _ => {}
            }
        }
    }
}

/// The end of a log, whose line numbers are not known.
#[must_use]
pub fn lines_of_tail(log: &str) -> Vec<Line> {
    lines(log).into_iter().map(|line| Line { number: None, ..line }).collect()
}

/// Cuts a log into lines and styles.
#[must_use]
pub fn lines(log: &str) -> Vec<Line> {
    let mut style = Style::default();
    let mut found_hit = false;
    let text = log.replace("\r\n", "\n");
    let text = text.strip_suffix('\n').unwrap_or(&text);
    if text.is_empty() {
        return Vec::new();
    }
    text.split('\n')
        .enumerate()
        .map(|(place, line)| {
            let spans = spans(line, &mut style);
            let is_hit = !found_hit && says_what_went_wrong(&spans);
            found_hit |= is_hit;
            Line { number: Some(place + 1), spans, is_hit }
        })
        .collect()
}

fn spans(line: &str, style: &mut Style) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut push = |text: &str, style: &Style| {
        if !text.is_empty() {
            spans.push(Span { class: style.class(), text: make_visible(text) });
        }
    };
    let mut rest = line;
    while let Some(at) = rest.find('\u{1b}') {
        push(&rest[..at], style);
        let (codes, after) = take_escape(&rest[at + 1..]);
        if let Some(codes) = codes {
            style.apply(codes);
        }
        rest = after;
    }
    push(rest, style);
    spans
}

/// What stands after an escape character: the codes of a style, if it is one, and the text behind.
fn take_escape(text: &str) -> (Option<&str>, &str) {
    if let Some(body) = text.strip_prefix('[') {
        // Parameters, then intermediates, then one final character.
        return match body.find(|c: char| ('@'..='~').contains(&c)) {
            Some(end) => {
                let is_style = body.as_bytes()[end] == b'm';
                (is_style.then(|| &body[..end]), &body[end + 1..])
            }
            None => (None, ""),
        };
    }
    if let Some(body) = text.strip_prefix(']') {
        // Titles and links: up to a bell or a string terminator.
        let end = body.find(['\u{7}', '\u{1b}']).map_or(body.len(), |at| at + 1);
        let after = &body[end..];
        return (None, after.strip_prefix('\\').unwrap_or(after));
    }
    let mut characters = text.chars();
    characters.next();
    (None, characters.as_str())
}

/// The forms in which Python, PyTorch, glog and the C library say that something failed.
fn says_what_went_wrong(spans: &[Span]) -> bool {
    let text: String = spans.iter().map(|span| span.text.as_str()).collect();
    let is_glog_fatal = text.starts_with('F')
        && text.len() > 5
        && text.as_bytes()[1..5].iter().all(u8::is_ascii_digit);
    is_glog_fatal
        || ["Error: ", "Check failed", "Traceback (most recent", "terminate called", "Fatal Python"]
            .iter()
            .any(|sign| text.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(log: &str) -> String {
        let text =
            |line: &Line| line.spans.iter().map(|span| span.text.clone()).collect::<String>();
        lines(log).iter().map(text).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn colours_become_classes_and_nothing_else_is_obeyed() {
        let parsed = lines("\u{1b}[1;31m<script>\u{1b}[0m after\n");
        assert_eq!(
            parsed[0].spans,
            [
                Span { class: "ansi-bold ansi-1".to_owned(), text: "<script>".to_owned() },
                Span { class: String::new(), text: " after".to_owned() },
            ]
        );
        for (log, text) in [
            ("a\u{1b}[2J\u{1b}[Hb", "ab"),
            ("a\u{1b}]8;;javascript:alert(1)\u{7}link\u{1b}]8;;\u{7}b", "alinkb"),
            ("a\u{1b}]0;title\u{1b}\\b", "ab"),
            ("a\u{1b}[38;5;196mb\u{1b}[38;2;1;2;3mc", "abc"),
            ("unfinished \u{1b}[31", "unfinished "),
            ("back\u{8}space\u{202e}", "back\\u{8}space\\u{202e}"),
            ("é\u{1b}é", "é"),
        ] {
            assert_eq!(plain(log), text, "{log:?}");
        }
    }

    #[test]
    fn the_first_line_that_says_what_failed_is_found() {
        let parsed = lines("I1130 start\nF1130 scatter.cc:154] Check failed: x\nF1130 again\n");
        let hits: Vec<_> = parsed.iter().filter(|l| l.is_hit).map(|l| l.number).collect();
        assert_eq!(hits, [Some(2)]);
        assert!(lines("").is_empty());
    }
}
