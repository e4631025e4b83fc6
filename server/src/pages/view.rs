//! What every page is made of: marks, links, the frame around it, the pager, and the reading of
//! query parameters.

mod mark;

use std::fmt::Write as _;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use protocol::Suite;

pub use mark::Mark;

use super::{assets, feeds};
use crate::error::{Error, Result};

/// Parts of the site; the navigation marks the one a page is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// `/`
    Home,
    /// `/runs`
    Runs,
    /// `/operators`
    Operators,
    /// `/models`
    Models,
    /// `/gates`
    Gates,
    /// `/waivers`
    Waivers,
    /// `/claims`
    Claims,
    /// `/devices`
    Devices,
    /// `/search`
    Search,
    /// Errors.
    Nowhere,
}

/// The frame around a page.
#[derive(Debug, Clone)]
pub struct Shell {
    /// Where in the site it is.
    pub section: Section,
    /// After how many seconds the page should be read again; nothing when it is final.
    pub refresh_secs: Option<u32>,
    /// Where an open page is told that it has changed; empty when it is not.
    pub events_href: String,
}

impl Shell {
    /// A page that stays as it is.
    #[must_use]
    pub const fn new(section: Section) -> Self {
        Self { section, refresh_secs: None, events_href: String::new() }
    }

    /// Address of the feed of regressions.
    #[must_use]
    pub const fn feed_href(&self) -> &'static str {
        feeds::REGRESSIONS
    }

    /// Entries of the navigation: address, name, whether the page is in it.
    #[must_use]
    pub fn navigation(&self) -> [(&'static str, &'static str, bool); 9] {
        [
            ("/", "Home", Section::Home),
            ("/runs", "Runs", Section::Runs),
            ("/operators", "Operators", Section::Operators),
            ("/models", "Models", Section::Models),
            ("/gates", "Gates", Section::Gates),
            ("/waivers", "Waivers", Section::Waivers),
            ("/claims", "Claims", Section::Claims),
            ("/devices", "Devices", Section::Devices),
            ("/search", "Search", Section::Search),
        ]
        .map(|(href, name, section)| (href, name, section == self.section))
    }

    /// Address of the style sheet; it changes with its contents.
    #[must_use]
    pub fn style_href(&self) -> &'static str {
        assets::style_href()
    }

    /// Address of the script; it changes with its contents.
    #[must_use]
    pub fn script_href(&self) -> &'static str {
        assets::script_href()
    }

    /// Version of the server, for the foot of the page.
    #[must_use]
    pub const fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

/// Everything but unreserved characters, so that a key with slashes is one segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One path segment or query value, percent-encoded.
#[must_use]
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// An address with the parameters that have a value.
#[must_use]
pub fn link(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut address = path.to_owned();
    let mut separator = '?';
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(address, "{separator}{name}={}", encode(value));
        separator = '&';
    }
    address
}

/// Page of a run.
#[must_use]
pub fn run_href(run_key: &str) -> String {
    format!("/runs/{}", encode(run_key))
}

/// Page of a case in a run.
#[must_use]
pub fn case_href(run_key: &str, case_key: &str) -> String {
    format!("/runs/{}/cases/{}", encode(run_key), encode(case_key))
}

/// Two runs side by side.
#[must_use]
pub fn compare_href(before: &str, now: &str) -> String {
    link("/compare", &[("a", before), ("b", now)])
}

/// Page of an operator, an overload or an entry.
#[must_use]
pub fn operator_href(name: &str, pin: &str) -> String {
    link(&format!("/operators/{}", encode(name)), &pin_parameter(pin))
}

/// Page of a model.
#[must_use]
pub fn model_href(subject_base: &str, pin: &str) -> String {
    link(&format!("/models/{}", encode(subject_base)), &pin_parameter(pin))
}

/// `device=PROFILE` or `run=KEY`, whichever the page was asked for, to keep it in its links.
fn pin_parameter(pin: &str) -> Vec<(&str, &str)> {
    pin.split_once('=').into_iter().collect()
}

/// Reads a parameter that is one of the words of an enum; empty is none.
pub fn word<T: FromStr>(value: Option<&str>) -> Result<Option<T>>
where
    T::Err: std::fmt::Display,
{
    match value.filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|error: T::Err| {
            Error::bad_request(error.to_string(), "choose one of these words, or leave it out")
        }),
    }
}

/// A parameter with text in it; empty is none.
#[must_use]
pub fn text(value: Option<&str>) -> Option<String> {
    value.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// One choice of a select.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Sent when chosen.
    pub value: String,
    /// Shown.
    pub label: String,
    /// Whether it is chosen now.
    pub chosen: bool,
}

impl Choice {
    /// `any`, then every word.
    #[must_use]
    pub fn words<'a>(words: impl IntoIterator<Item = &'a str>, chosen: Option<&str>) -> Vec<Self> {
        let chosen = chosen.unwrap_or_default();
        let any = Self { value: String::new(), label: "any".to_owned(), chosen: chosen.is_empty() };
        let one = |word: &str| Self {
            value: word.to_owned(),
            label: word.to_owned(),
            chosen: word == chosen,
        };
        std::iter::once(any).chain(words.into_iter().map(one)).collect()
    }

    /// `any`, our suites, and those imported ones.
    #[must_use]
    pub fn suites(imported: &[String], chosen: Option<Suite>) -> Vec<Self> {
        let ours = Suite::ALL.iter().map(Suite::as_str);
        let imported = imported.iter().map(String::as_str).filter(|name| name.contains(':'));
        Self::words(ours.chain(imported), chosen.as_ref().map(Suite::as_str))
    }
}

/// Where in a long list the page is, with addresses of its neighbours.
#[derive(Debug, Clone)]
pub struct Pager {
    /// First line shown, from 1; 0 when there is none.
    pub first: u64,
    /// Last line shown.
    pub last: u64,
    /// Lines in all.
    pub total: u64,
    /// Address of the page before.
    pub previous: Option<String>,
    /// Address of the page after.
    pub next: Option<String>,
}

impl Pager {
    /// `page` counts from 1; `parameters` are those of the page without its number.
    #[must_use]
    pub fn new(path: &str, parameters: &[(&str, &str)], page: u64, size: u64, total: u64) -> Self {
        let begin = (page - 1).saturating_mul(size);
        let shown = total.saturating_sub(begin).min(size);
        let at = |number: u64| {
            let number = number.to_string();
            let mut all = parameters.to_vec();
            if number != "1" {
                all.push(("page", &number));
            }
            link(path, &all)
        };
        Self {
            first: if shown == 0 { 0 } else { begin + 1 },
            last: if shown == 0 { 0 } else { begin + shown },
            total,
            previous: (page > 1).then(|| at((page - 1).min(total.div_ceil(size).max(1)))),
            next: (begin + shown < total && shown > 0).then(|| at(page + 1)),
        }
    }

    /// Whether there is more than this page.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.previous.is_some() || self.next.is_some()
    }
}

/// Reads the page number.
pub fn page_number(value: Option<&str>) -> Result<u64> {
    match value.filter(|text| !text.is_empty()) {
        None => Ok(1),
        Some(text) => text.parse().ok().filter(|n| (1..=1_000_000).contains(n)).ok_or_else(|| {
            Error::bad_request("`page` is not a page number", "pages are numbered from 1")
        }),
    }
}

/// One word for a POSIX shell, whatever is in it.
#[must_use]
pub fn shell_quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_becomes_one_segment_whatever_is_in_it() {
        let href =
            case_href("r-1", "tier1/hub:a/b@c#tiny<img src=x>%2F?&\u{202e}/float32.eager.forward");
        assert_eq!(href.matches('/').count(), 4);
        for special in ['<', '>', ' ', '?', '&', '#', '"', '\'', '\u{202e}'] {
            assert!(!href.contains(special), "{special:?} in {href}");
        }
    }

    #[test]
    fn a_pager_names_what_it_shows() {
        let pager = Pager::new("/runs", &[("suite", "tier1"), ("device", "")], 2, 50, 120);
        assert_eq!((pager.first, pager.last, pager.total), (51, 100, 120));
        assert_eq!(pager.previous.as_deref(), Some("/runs?suite=tier1"));
        assert_eq!(pager.next.as_deref(), Some("/runs?suite=tier1&page=3"));
        let empty = Pager::new("/runs", &[], 1, 50, 0);
        assert!(!empty.is_needed());
        let beyond = Pager::new("/runs", &[], 9, 50, 60);
        assert_eq!((beyond.first, beyond.last), (0, 0));
        assert_eq!(beyond.previous.as_deref(), Some("/runs?page=2"));
        assert_eq!(beyond.next, None);
    }

    #[test]
    fn a_copied_command_executes_nothing_but_itself() {
        for (text, quoted) in [
            (
                "tier1/timm:resnet18/float32.eager.forward",
                "tier1/timm:resnet18/float32.eager.forward",
            ),
            ("operators/opinfo:add#0/x", "'operators/opinfo:add#0/x'"),
            ("a'; rm -rf ~ #", r"'a'\''; rm -rf ~ #'"),
            ("$(id)", "'$(id)'"),
        ] {
            assert_eq!(shell_quote(text), quoted);
        }
    }
}
