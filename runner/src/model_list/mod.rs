//! Model lists: files that name the models to run, and what to know about each.
//!
//! The format is documented in `model-lists/README.md` and in `model-lists/schema.json`. A file is
//! TOML (`models = [ … ]`, one inline table per line) or JSONL (one object per line). Everything
//! wrong with a file is told at once, each with line, column, field and a hint.
//!
//! Read [`ModelEntry`] for what a list says, `fields` for how a field is read. What does not belong
//! here: which cases come of an entry (`plan`), building the model (the worker).

mod entry;
pub(crate) mod error;
pub(crate) mod fields;
pub(crate) mod node;
mod read;
pub(crate) mod suggest;
#[cfg(test)]
mod tests;

pub use entry::{Dynamic, ModelEntry, ModelSource, Popularity, Size, Skip};
pub use error::{ModelListError, Problem};
pub use read::{load, load_all, parse};
