//! How the value of a flag is read.

use protocol::{Form, Suite};

use super::plan::Forms;

pub(super) fn word<W: std::str::FromStr<Err = protocol::UnknownWord>>(
    text: &str,
) -> Result<W, String> {
    text.parse().map_err(|error: protocol::UnknownWord| format!("must be one of {}", error.allowed))
}

/// A suite that this program executes; an imported one is somebody else's.
pub(super) fn parse_suite(text: &str) -> Result<Suite, String> {
    let suite: Suite = word(text)?;
    if suite.is_imported() {
        return Err("it is imported from a report, and not executed here".to_owned());
    }
    Ok(suite)
}

pub(super) fn parse_tier(text: &str) -> Result<Suite, String> {
    match text {
        "1" => Ok(Suite::Tier1),
        "2" => Ok(Suite::Tier2),
        _ => Err("there are tier 1 and tier 2".to_owned()),
    }
}

pub(super) fn parse_form(text: &str) -> Result<Forms, String> {
    if text == "all" {
        return Ok(Forms(Form::ALL.to_vec()));
    }
    let form: Result<Form, _> = text.parse();
    form.map(|form| Forms(vec![form])).map_err(|error: protocol::UnknownWord| {
        format!("must be `all` or one of {}", error.allowed)
    })
}

pub(super) fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it reads `name=value`".to_owned()),
    }
}
