//! Which operator entries are asked for: an embedded selection, all of them, or a file.

use std::path::Path;

use crate::Error;

const SMOKE: &str = include_str!("../../selections/smoke.txt");

/// Names of entries; empty means all.
pub(super) fn entries(selection: &str) -> Result<Vec<String>, Error> {
    match selection {
        "all" => Ok(Vec::new()),
        "smoke" => Ok(parse(SMOKE)),
        file => {
            let path = Path::new(file);
            let text = std::fs::read_to_string(path).map_err(|error| Error::Input {
                message: format!("cannot read the selection `{file}`: {error}"),
                hint: "a selection is `smoke`, `all`, or a file with one operator entry per line"
                    .to_owned(),
            })?;
            let entries = parse(&text);
            if entries.is_empty() {
                return Err(Error::NothingSelected {
                    message: format!("the selection `{file}` names no entry"),
                    hint: "write one operator entry per line, for example `nn.functional.relu`"
                        .to_owned(),
                });
            }
            Ok(entries)
        }
    }
}

/// One entry per line; `#` begins a comment.
fn parse(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_are_no_entries() {
        assert_eq!(parse("# a\n\nadd  # passes\n  std.unbiased\n"), ["add", "std.unbiased"]);
        assert!(parse(SMOKE).len() >= 10);
    }
}
