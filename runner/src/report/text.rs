//! Evidence in words, for the reports that people read.

use protocol::evidence::LogExcerpt;
use protocol::{Evidence, Outcome};

/// Whether colours are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Colour(pub(super) bool);

impl Colour {
    pub(super) fn paint(self, code: &str, text: &str) -> String {
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub(super) fn outcome(self, outcome: Outcome) -> String {
        let code = match outcome {
            Outcome::Pass => "32",
            Outcome::Mismatch
            | Outcome::Error
            | Outcome::Crash
            | Outcome::Timeout
            | Outcome::Oom => "31",
            Outcome::Unsupported | Outcome::Fallback => "33",
            Outcome::Skipped | Outcome::Infra | Outcome::HostLimit => "36",
        };
        self.paint(code, outcome.as_str())
    }
}

/// Enough of a message for one line.
pub(super) fn shorten(text: &str) -> String {
    const LONGEST: usize = 140;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).collect::<String>() + "…"
}

/// Head and tail of a log, saying what is left out between them; without terminal colours.
pub(super) fn log_text(log: &LogExcerpt) -> String {
    let mut text = plain(&log.head);
    if log.dropped_bytes > 0 {
        text.push_str(&format!("\n[… {} bytes are not kept …]\n", log.dropped_bytes));
    }
    text.push_str(&plain(&log.tail));
    text
}

/// `aten::index_reduce (a second execution stopped there)`, or nothing.
pub(super) fn last_operator_text(evidence: &Evidence) -> String {
    let Some(last) = &evidence.last_operator else { return String::new() };
    let how = match last.source.as_str() {
        "rerun" => "a second execution, one operator at a time, stopped there",
        "message" => "the error names it",
        "breadcrumb" => "entered and not left by then",
        "entered-last" => "the last one entered; what was asked for before may still have run",
        other => other,
    };
    format!("{} ({how})", last.overload)
}

/// `aten::mm in model.layers.0.mlp (LlamaMLP): 12 of 512 values differ, by up to 0.03`, or nothing.
pub(super) fn divergence_text(evidence: &Evidence) -> String {
    evidence.first_divergence.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Most characters of one text in a report that is read by people; the journal has the whole.
const MAX_TEXT_CHARS: usize = 12_000;

/// Beginning and end of a long text, saying how much is left out between them.
pub(super) fn excerpt(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_TEXT_CHARS {
        return text.to_owned();
    }
    let begin: String = text.chars().take(MAX_TEXT_CHARS / 2).collect();
    let end: String = text.chars().skip(count - MAX_TEXT_CHARS / 2).collect();
    format!("{begin}\n[… {} characters are not shown …]\n{end}", count - MAX_TEXT_CHARS)
}

/// Text without escape sequences and control characters, which no viewer should interpret.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            skip_escape(&mut rest);
        } else if c == '\n' || c == '\t' || !c.is_control() {
            out.push(c);
        }
    }
    out
}

/// Skips what follows an escape character: `[` … letter, `]` … bell, or one character.
fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next() {
        Some('[') => {
            for c in rest.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&c) {
                    break;
                }
            }
        }
        Some(']') => {
            while let Some(c) = rest.next_if(|c| *c != '\n') {
                if c == '\u{7}' {
                    break;
                }
            }
        }
        Some(_) | None => {}
    }
}

/// `0.25 s`, `3 min 20 s`, `2 h 5 min`.
pub(super) fn duration_text(seconds: f64) -> String {
    let whole = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) => format!("{seconds:.2} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_colours_and_controls_are_gone_and_text_stays() {
        assert_eq!(plain("\u{1b}[31m<script>\u{1b}[0m\ta\r\nb\u{0}"), "<script>\ta\nb");
        assert_eq!(plain("\u{1b}]0;title\u{7}x\u{1b}"), "x");
        assert_eq!(plain("\u{1b}[31"), "");
    }

    #[test]
    fn a_cut_log_says_how_much_is_missing() {
        let log = LogExcerpt { head: "begin".to_owned(), tail: "end".to_owned(), dropped_bytes: 9 };
        assert_eq!(log_text(&log), "begin\n[… 9 bytes are not kept …]\nend");
        assert_eq!(log_text(&LogExcerpt::default()), "");
    }

    #[test]
    fn a_long_text_keeps_both_ends() {
        let text = format!("begin{}end", "é".repeat(20_000));
        let shown = excerpt(&text);
        assert!(shown.starts_with("begin") && shown.ends_with("end"));
        assert!(shown.contains("[… 8008 characters are not shown …]"));
        assert_eq!(excerpt("short"), "short");
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        assert_eq!(duration_text(0.25), "0.25 s");
        assert_eq!(duration_text(200.4), "3 min 20 s");
        assert_eq!(duration_text(7500.0), "2 h 5 min");
        assert_eq!(duration_text(f64::NAN), "NaN s");
    }
}
