//! The release gate.
