//! Where a setting comes from: a flag, else a variable, else the settings file, else its default.
//!
//! The file is read before the arguments and becomes their defaults, so that every setting of
//! `args.rs` can stand in it without being written down a second time.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _};

use crate::args::Args;
use crate::trouble::{OrTrouble as _, Trouble};

/// Arguments, with where each of them comes from.
#[derive(Debug)]
pub struct Parsed {
    /// The arguments.
    pub args: Args,
    /// The same, for `config`.
    pub matches: ArgMatches,
    /// The settings file that was read, and the names in it.
    pub file: Option<(PathBuf, Vec<String>)>,
}

/// Reads the arguments. Wrong usage ends the process with 2, as `clap` says it.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<Parsed> {
    let arguments: Vec<OsString> = arguments.collect();
    let mut command = Args::command();
    // Only to find the file; what is wrong is said by the second reading.
    let path = command
        .clone()
        .ignore_errors(true)
        .try_get_matches_from(&arguments)
        .ok()
        .and_then(|matches| find_config(&matches));
    let mut file = None;
    if let Some(path) = path {
        let settings = read(&path)?;
        let names = settings.iter().map(|(name, _)| name.clone()).collect();
        for (name, value) in settings {
            let mut known = false;
            command = with_default(command, &name, &value, &mut known);
            if !known {
                return Err(Trouble::error(
                    format!("`{}` sets `{name}`, which is no setting", path.display()),
                    "the names are those of the flags, as `server serve --help` lists them, \
                     without the dashes in front",
                ));
            }
        }
        file = Some((path, names));
    }
    let matches = command.get_matches_from(&arguments);
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    Ok(Parsed { args, matches, file })
}

fn find_config(matches: &ArgMatches) -> Option<PathBuf> {
    let here = matches.try_get_one::<PathBuf>("config").ok().flatten();
    let below = || matches.subcommand().and_then(|(_, matches)| find_config(matches));
    here.cloned().or_else(below)
}

/// Names and values of a settings file.
fn read(path: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).or_trouble(
        format!("the settings file `{shown}` cannot be read"),
        "name one with `--config`, or leave it out",
    )?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| {
        let message = error.message().to_owned();
        Trouble::error(
            format!("the settings file `{shown}` is not TOML: {message}"),
            "write one `name = value` on each line",
        )
    })?;
    let mut settings = Vec::new();
    for (name, value) in table {
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
                return Err(Trouble::error(
                    format!("`{name}` in `{shown}` is not one value"),
                    "write a text, a number or true or false",
                ));
            }
        };
        settings.push((name, value));
    }
    Ok(settings)
}

/// Gives the flag of that name a default, wherever it is. Switches such as `--dry-run` belong to
/// one call and are no settings.
fn with_default(mut command: Command, name: &str, value: &str, known: &mut bool) -> Command {
    let is_it = |arg: &clap::Arg| {
        arg.get_long() == Some(name) && arg.get_env().is_some() && name != "config"
    };
    let found = command.get_arguments().find(|arg| is_it(arg)).map(|arg| arg.get_id().clone());
    if let Some(id) = found {
        *known = true;
        let value = value.to_owned();
        command = command.mut_arg(id, |arg| arg.default_value(value));
    }
    let below: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for sub in below {
        command = command.mut_subcommand(sub, |sub| with_default(sub, name, value, known));
    }
    command
}

/// One setting, as `config` prints it.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// As the flag, without the dashes.
    pub name: String,
    /// Its variable.
    pub variable: String,
    /// Its value; nothing when it has none.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: &'static str,
}

/// Every setting of the command that was called, by name.
#[must_use]
pub fn list(parsed: &Parsed) -> Vec<Setting> {
    let command = Args::command();
    let (name, matches) = parsed.matches.subcommand().unwrap_or(("serve", &parsed.matches));
    let Some(command) = command.find_subcommand(name) else { return Vec::new() };
    let in_file =
        |name: &str| parsed.file.iter().any(|(_, names)| names.iter().any(|known| known == name));
    let mut settings = Vec::new();
    for arg in command.get_arguments() {
        let (Some(name), Some(variable)) = (arg.get_long(), arg.get_env()) else { continue };
        let id = arg.get_id().as_str();
        let value = matches.get_raw(id).and_then(|mut values| values.next());
        let source = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => "flag",
            Some(ValueSource::EnvVariable) => "variable",
            Some(_) if in_file(name) => "file",
            Some(_) => "default",
            None => "absent",
        };
        settings.push(Setting {
            name: name.to_owned(),
            variable: variable.to_string_lossy().into_owned(),
            value: value.map(|value| hide(name, &value.to_string_lossy())),
            source,
        });
    }
    settings.sort_by(|a, b| a.name.cmp(&b.name));
    settings
}

/// A value without what must not be seen: passwords in addresses, and whole secrets.
fn hide(name: &str, value: &str) -> String {
    const HIDDEN: &str = "(hidden)";
    if ["secret", "token", "password", "key"].iter().any(|word| name.ends_with(word)) {
        return HIDDEN.to_owned();
    }
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let address = match address.rsplit_once('@') {
        Some((user, place)) => {
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            format!("{user}:{HIDDEN}@{place}")
        }
        None => address.to_owned(),
    };
    // A password can stand in the query as well.
    let query: Vec<String> = query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let name = part.split('=').next().unwrap_or_default();
            if name.contains("password") { format!("{name}={HIDDEN}") } else { part.to_owned() }
        })
        .collect();
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{scheme}://{address}{mark}{}", query.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        for (value, shown) in [
            ("postgres://u:pa:s@h:5/d?host=x", "postgres://u:(hidden)@h:5/d?host=x"),
            ("postgres://u@h/d", "postgres://u:(hidden)@h/d"),
            ("postgres://h/d?password=x&y=1", "postgres://h/d?password=(hidden)&y=1"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
        ] {
            assert_eq!(hide("database-url", value), shown);
        }
        assert_eq!(hide("webhook-secret", "x"), "(hidden)");
    }
}
