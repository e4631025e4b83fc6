// Sizes of the breadcrumb file: the library that writes it and the runner that reads it compile
// this same source.

pub(super) const MAGIC: &[u8; 8] = b"CRUMBS2\n";
pub(super) const HEADER_BYTES: usize = 64;
/// Threads that are recorded at one time; more go unseen.
pub(super) const THREADS: usize = 32;
pub(super) const RECORD_BYTES: usize = 2048;
pub(super) const NAMES_OFFSET: usize = 64;
/// Operators whose names are kept per thread; deeper ones are only counted.
pub(super) const LEVELS: usize = 13;
/// Longest name kept, its NUL included.
pub(super) const NAME_BYTES: usize = 128;
pub(super) const FILE_BYTES: usize = HEADER_BYTES + THREADS * RECORD_BYTES;
