//! Breadcrumbs: the operators that each thread of a worker is inside of, readable after any end of
//! the process.
//!
//! PyTorch's dispatcher tells registered observers about every operator that it enters and leaves
//! (`at::RecordFunction`, what profilers use). [`breadcrumb_install`] registers one that keeps a
//! stack of names per thread in a mapped file and does nothing else. The pages belong to the
//! kernel, so they outlive a SIGKILL; the same kernels are called as without it, unlike under a
//! dispatch mode. The runner reads the file after a bad end (`runner/src/worker/breadcrumb.rs`).
//!
//! Layout, little-endian: 64 bytes (`CRUMBS2\n`, process id as `u32`, rest zero), then
//! [`THREADS`] records of [`RECORD_BYTES`]:
//!
//! ```text
//!   0  u32  thread id; 0 is a free record
//!   4  u32  depth: operators entered and not yet left
//!   8  u64  operators entered so far
//!  64  names by depth, outermost first: LEVELS × NAME_BYTES, each NUL-terminated
//!      then the innermost and the outermost operator that the last exception left through
//! ```
//!
//! A name may be torn, and a reader must take all of it as coming from an untrusted place.
//!
//! It has no dependencies, because `runner/build.rs` compiles this one file with plain `rustc` to
//! carry the result inside the runner. The C++ interface is that of x86-64 Linux. The layout of
//! the class that is passed has no symbol to ask: the worker compares its declaration in the
//! headers of the installed torch before it calls this, and proves by an operation of its own that
//! an installed observer sees what it should.

#![expect(unsafe_code, reason = "registers a callback with PyTorch's C++ interface")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

mod layout;

use layout::{
    FILE_BYTES, HEADER_BYTES, LEVELS, MAGIC, NAME_BYTES, NAMES_OFFSET, RECORD_BYTES, THREADS,
};

/// Where the names stand that an exception left through: innermost, outermost.
const RAISED: usize = LEVELS;

/// `at::RecordFunctionCallback`, which is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Observer {
    start: unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> *mut *mut c_void,
    end: unsafe extern "C" fn(*const c_void, *mut c_void),
    sampling_probability: f64,
    /// `FUNCTION`, `BACKWARD_FUNCTION`, and eight kinds that no operator has.
    scopes: [bool; 10],
    needs_inputs: bool,
    needs_outputs: bool,
    needs_ids: bool,
}

type Name = unsafe extern "C" fn(*const c_void) -> *const c_char;

struct Symbols {
    name: Name,
    overload_name: Name,
    uncaught_exceptions: unsafe extern "C" fn() -> c_int,
}

static PAGES: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static SYMBOLS: OnceLock<Symbols> = OnceLock::new();
/// Whether the operators that exceptions leave through are kept: while a case executes.
static KEEPS_RAISED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn gettid() -> c_int;
    fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
}

/// One thread's record in the mapped file.
#[derive(Clone, Copy)]
struct Record(*mut u8);

impl Record {
    fn thread(self) -> &'static AtomicU32 {
        // SAFETY: the mapping is never undone, and records are aligned in it.
        unsafe { &*self.0.cast::<AtomicU32>() }
    }

    fn depth(self) -> &'static AtomicU32 {
        // SAFETY: as above.
        unsafe { &*self.0.add(4).cast::<AtomicU32>() }
    }

    fn entered(self) -> &'static AtomicU64 {
        // SAFETY: as above.
        unsafe { &*self.0.add(8).cast::<AtomicU64>() }
    }

    fn name(self, index: usize) -> *mut u8 {
        // SAFETY: every index stays inside the record: see `fits` below.
        unsafe { self.0.add(NAMES_OFFSET + index * NAME_BYTES) }
    }

    fn copy_name(self, from: usize, to: usize) {
        // SAFETY: two names of the same record, which do not overlap.
        unsafe { self.name(from).copy_to_nonoverlapping(self.name(to), NAME_BYTES) }
    }
}

const _: () = {
    let fits = NAMES_OFFSET + (LEVELS + 2) * NAME_BYTES <= RECORD_BYTES;
    assert!(fits);
};

/// What a thread keeps for itself; gives its record back when the thread ends.
struct Thread {
    record: Cell<Option<Record>>,
    /// Whether the operator left last was left by an exception.
    raising: Cell<bool>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(record) = self.record.get() {
            record.depth().store(0, Ordering::Relaxed);
            record.thread().store(0, Ordering::Release);
        }
    }
}

thread_local! {
    static THREAD: Thread =
        const { Thread { record: Cell::new(None), raising: Cell::new(false) } };
}

/// Maps `path`, which must be there with its full length and all its room on the disk, and
/// registers the observer in this process.
///
/// Gives 0 when installed, 1 when the file cannot be mapped, 2 when this build of torch lacks a
/// symbol, 3 when `path` is not a text, 4 when it was called before.
///
/// # Safety
/// `path` must be null or point to a NUL-terminated text. torch must be loaded, and its
/// `RecordFunctionCallback` must be as [`Observer`] declares it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn breadcrumb_install(path: *const c_char) -> c_int {
    if path.is_null() {
        return 3;
    }
    // SAFETY: promised by the caller.
    let Ok(path) = unsafe { CStr::from_ptr(path) }.to_str() else { return 3 };
    if SYMBOLS.get().is_some() {
        return 4;
    }
    let Some(symbols) = find_symbols() else { return 2 };
    let Some(pages) = map(Path::new(path)) else { return 1 };
    // SAFETY: a fresh mapping that is longer than its header.
    unsafe {
        pages.add(8).cast::<u32>().write(std::process::id());
        pages.copy_from_nonoverlapping(MAGIC.as_ptr(), MAGIC.len());
    }
    PAGES.store(pages, Ordering::Release);
    let (add, symbols) = symbols;
    if SYMBOLS.set(symbols).is_err() {
        return 4;
    }
    let mut scopes = [false; 10];
    scopes[0] = true;
    // SAFETY: the signature is the one that the mangled name spells out.
    unsafe {
        add(Observer {
            start: entered,
            end: left,
            sampling_probability: 1.0,
            scopes,
            needs_inputs: false,
            needs_outputs: false,
            needs_ids: false,
        });
    }
    0
}

/// Forgets the operators that exceptions left through, on every thread: a case begins.
#[unsafe(no_mangle)]
pub extern "C" fn breadcrumb_begin() {
    let pages = PAGES.load(Ordering::Acquire);
    if pages.is_null() {
        return;
    }
    for index in 0..THREADS {
        let record = record_at(pages, index);
        // SAFETY: the first byte of a name of the record.
        unsafe {
            record.name(RAISED).write(0);
            record.name(RAISED + 1).write(0);
        }
    }
    KEEPS_RAISED.store(true, Ordering::Release);
}

/// Keeps what the last exception left through, whatever is raised from here on.
#[unsafe(no_mangle)]
pub extern "C" fn breadcrumb_end() {
    KEEPS_RAISED.store(false, Ordering::Release);
}

/// The mapping is never undone: the observer may run on any thread until the process ends. The file
/// is not made longer here: a page without room on its disk would end the process when written to.
fn map(path: &Path) -> Option<*mut u8> {
    const READ_WRITE: c_int = 3;
    const SHARED: c_int = 1;
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    if file.metadata().ok()?.len() < FILE_BYTES as u64 {
        return None;
    }
    // SAFETY: a fresh mapping of an open file of this length, which keeps the file by itself.
    let pages =
        unsafe { mmap(std::ptr::null_mut(), FILE_BYTES, READ_WRITE, SHARED, file.as_raw_fd(), 0) };
    (pages as isize != -1).then_some(pages.cast())
}

type Add = unsafe extern "C" fn(Observer) -> u64;

fn find_symbols() -> Option<(Add, Symbols)> {
    const NOW_AND_ONLY_IF_LOADED: c_int = 2 | 4;
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return None;
    }
    // SAFETY: symbols are looked up in libraries that torch has loaded, and used with the
    // signatures that their mangled names spell out.
    unsafe {
        let torch = dlopen(c"libtorch_cpu.so".as_ptr(), NOW_AND_ONLY_IF_LOADED);
        let cxx = dlopen(c"libstdc++.so.6".as_ptr(), NOW_AND_ONLY_IF_LOADED);
        if torch.is_null() || cxx.is_null() {
            return None;
        }
        let find = |library: *mut c_void, name: &CStr| {
            let symbol = dlsym(library, name.as_ptr());
            (!symbol.is_null()).then_some(symbol)
        };
        let add = find(torch, c"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE")?;
        let name = find(torch, c"_ZNK2at14RecordFunction4nameEv")?;
        let overload_name = find(torch, c"_ZNK2at14RecordFunction13overload_nameEv")?;
        let uncaught = find(cxx, c"_ZSt19uncaught_exceptionsv")?;
        let symbols = Symbols {
            name: std::mem::transmute::<*mut c_void, Name>(name),
            overload_name: std::mem::transmute::<*mut c_void, Name>(overload_name),
            uncaught_exceptions: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(
                uncaught,
            ),
        };
        Some((std::mem::transmute::<*mut c_void, Add>(add), symbols))
    }
}

fn record_at(pages: *mut u8, index: usize) -> Record {
    // SAFETY: callers keep the index below `THREADS`, and the mapping holds that many.
    Record(unsafe { pages.add(HEADER_BYTES + index * RECORD_BYTES) })
}

/// The record of this thread, taken at its first operator; nothing when all are taken.
fn own_record(thread: &Thread) -> Option<Record> {
    if let Some(record) = thread.record.get() {
        return Some(record);
    }
    let pages = PAGES.load(Ordering::Acquire);
    if pages.is_null() {
        return None;
    }
    // SAFETY: asks the kernel for a number.
    let own = u32::try_from(unsafe { gettid() }).ok()?;
    let record = (0..THREADS).map(|index| record_at(pages, index)).find(|record| {
        let taken = record.thread().compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    })?;
    record.depth().store(0, Ordering::Relaxed);
    thread.record.set(Some(record));
    Some(record)
}

/// Called by the dispatcher before an operator. Returns an empty `unique_ptr` through `result`.
unsafe extern "C" fn entered(
    result: *mut *mut c_void,
    function: *const c_void,
) -> *mut *mut c_void {
    // SAFETY: the dispatcher passes a place for the result.
    unsafe { result.write(std::ptr::null_mut()) };
    let Some(symbols) = SYMBOLS.get() else { return result };
    // A thread that is ending has no record any more.
    let _ = THREAD.try_with(|thread| {
        let Some(record) = own_record(thread) else { return };
        thread.raising.set(false);
        let depth = record.depth().load(Ordering::Relaxed);
        if (depth as usize) < LEVELS {
            // SAFETY: the dispatcher passes a live `RecordFunction`; every write stays inside the
            // record.
            unsafe {
                let name = record.name(depth as usize);
                let mut length = copy(name, 0, (symbols.name)(function));
                let overload = (symbols.overload_name)(function);
                if !overload.is_null() && *overload != 0 {
                    name.add(length).write(b'.');
                    length = copy(name, length + 1, overload);
                }
                name.add(length).write(0);
            }
        }
        record.depth().store(depth + 1, Ordering::Release);
        let count = record.entered().load(Ordering::Relaxed);
        record.entered().store(count + 1, Ordering::Relaxed);
    });
    result
}

/// Called by the dispatcher after an operator, also when an exception leaves it.
unsafe extern "C" fn left(_function: *const c_void, _context: *mut c_void) {
    let Some(symbols) = SYMBOLS.get() else { return };
    let _ = THREAD.try_with(|thread| {
        let Some(record) = thread.record.get() else { return };
        // Zero where the thread got its record in the middle of an operator.
        let Some(depth) = record.depth().load(Ordering::Relaxed).checked_sub(1) else { return };
        // SAFETY: asks the C++ runtime for a number.
        if unsafe { (symbols.uncaught_exceptions)() } > 0 {
            if (depth as usize) < LEVELS && KEEPS_RAISED.load(Ordering::Relaxed) {
                if !thread.raising.get() {
                    record.copy_name(depth as usize, RAISED);
                }
                record.copy_name(depth as usize, RAISED + 1);
                thread.raising.set(depth > 0);
            }
        } else {
            thread.raising.set(false);
        }
        record.depth().store(depth, Ordering::Release);
    });
}

/// Copies a C text to `to + at`, leaving room for a dot and a NUL; gives the new length.
unsafe fn copy(to: *mut u8, at: usize, from: *const c_char) -> usize {
    if from.is_null() {
        return at;
    }
    // SAFETY: `from` is NUL-terminated and `to` has `NAME_BYTES`.
    unsafe {
        let length = CStr::from_ptr(from).count_bytes().min((NAME_BYTES - 2).saturating_sub(at));
        to.add(at).copy_from_nonoverlapping(from.cast(), length);
        at + length
    }
}
