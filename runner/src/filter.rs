//! Choosing cases by text: substrings and globs over case keys.

use protocol::CaseKey;

/// Case keys that contain one of the texts, or match it when it has `*` or `?`.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    patterns: Vec<String>,
}

impl Filter {
    /// No pattern lets every case through.
    #[must_use]
    pub fn new(patterns: Vec<String>) -> Self {
        Self { patterns }
    }

    /// Whether the case is chosen.
    #[must_use]
    pub fn chooses(&self, case: &CaseKey) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|p| matches(p, case.as_str()))
    }

    /// As it was typed, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        self.patterns.iter().map(|p| format!("`{p}`")).collect::<Vec<_>>().join(", ")
    }
}

/// A text with `*` or `?` must match the whole key, any other must be part of it.
fn matches(pattern: &str, text: &str) -> bool {
    if pattern.contains(['*', '?']) {
        glob(pattern.as_bytes(), text.as_bytes())
    } else {
        text.contains(pattern)
    }
}

/// `*` stands for any bytes, `/` too, `?` for one. Linear but for one retry point, so that no
/// pattern can make it slow.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            Some(_) | None => {
                let Some((star, from)) = retry else { return false };
                retry = Some((star, from + 1));
                p = star + 1;
                t = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_parts_and_globs_are_whole() {
        let case = "operators/opinfo:nn.functional.relu#3/float32.eager.forward".parse().unwrap();
        for (patterns, chosen) in [
            (vec![], true),
            (vec!["relu"], true),
            (vec!["gelu"], false),
            (vec!["gelu", "relu#3"], true),
            (vec!["operators/*"], true),
            (vec!["*relu*"], true),
            (vec!["*relu"], false),
            (vec!["*/float32.?ager.*"], true),
            (vec!["*re*re*"], false),
            (vec!["**relu#?/**"], true),
        ] {
            let filter = Filter::new(patterns.iter().map(|p| (*p).to_owned()).collect());
            assert_eq!(filter.chooses(&case), chosen, "{patterns:?}");
        }
    }
}
