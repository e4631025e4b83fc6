//! Breadcrumbs: the operator that a worker entered last, readable after any end of the process.
//!
//! PyTorch's dispatcher tells registered observers about every operator it is about to enter
//! (`at::RecordFunction`, what profilers use). [`breadcrumb_install`] registers one that copies the
//! operator's name into a page of a mapped file and does nothing else. The page belongs to the
//! kernel, so it outlives a SIGKILL; nothing is dispatched differently than without it, unlike
//! under a dispatch mode. The runner reads the page after a bad end.
//!
//! Layout of the page, little-endian: `u64` operators entered so far, then the name
//! (`aten::add.Tensor`), NUL-terminated. Several threads may write (autograd has threads of its
//! own): the counter is atomic, a name may be torn, and a reader must take it as a text from an
//! untrusted place.
//!
//! It has no dependencies, because `runner/build.rs` compiles this one file with plain `rustc` to
//! carry the result inside the runner. The C++ interface is that of x86-64 Linux; where a symbol is
//! missing nothing is installed, and the worker proves by an operation of its own that an installed
//! observer sees what it should.

#![expect(unsafe_code, reason = "registers a callback with PyTorch's C++ interface")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Bytes of the mapped file.
const PAGE_BYTES: usize = 4096;
/// Bytes before the name.
const NAME_OFFSET: usize = 8;
/// Longest name kept, its NUL included.
const NAME_BYTES: usize = 256;

/// `at::RecordFunctionCallback`, which is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Observer {
    start: unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> *mut *mut c_void,
    end: *const c_void,
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
}

static PAGE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static SYMBOLS: OnceLock<Symbols> = OnceLock::new();

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
}

/// Maps `path` (created if missing) and registers the observer in this process.
///
/// Gives 0 when installed, 1 when the file cannot be mapped, 2 when this build of torch lacks a
/// symbol, 3 when `path` is not a text. A second call in one process only changes the file.
///
/// # Safety
/// `path` must be null or point to a NUL-terminated text. torch must be loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn breadcrumb_install(path: *const c_char) -> c_int {
    if path.is_null() {
        return 3;
    }
    // SAFETY: promised by the caller.
    let Ok(path) = unsafe { CStr::from_ptr(path) }.to_str() else { return 3 };
    let Some(page) = map(Path::new(path)) else { return 1 };
    PAGE.store(page, Ordering::Release);
    if SYMBOLS.get().is_some() {
        return 0;
    }
    if register() { 0 } else { 2 }
}

/// The mapping is never undone: the observer may run on any thread until the process ends.
fn map(path: &Path) -> Option<*mut u8> {
    const READ_WRITE: c_int = 3;
    const SHARED: c_int = 1;
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).ok()?;
    file.set_len(PAGE_BYTES as u64).ok()?;
    // SAFETY: a fresh mapping of an open file of this length, which keeps the file by itself.
    let page =
        unsafe { mmap(std::ptr::null_mut(), PAGE_BYTES, READ_WRITE, SHARED, file.as_raw_fd(), 0) };
    (page as isize != -1).then_some(page.cast())
}

fn register() -> bool {
    const NOW_AND_ONLY_IF_LOADED: c_int = 2 | 4;
    // SAFETY: symbols are looked up in the library that torch has loaded, and used with the
    // signatures that their mangled names spell out.
    unsafe {
        let torch = dlopen(c"libtorch_cpu.so".as_ptr(), NOW_AND_ONLY_IF_LOADED);
        if torch.is_null() {
            return false;
        }
        let add = dlsym(torch, c"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE".as_ptr());
        let name = dlsym(torch, c"_ZNK2at14RecordFunction4nameEv".as_ptr());
        let overload = dlsym(torch, c"_ZNK2at14RecordFunction13overload_nameEv".as_ptr());
        if add.is_null() || name.is_null() || overload.is_null() {
            return false;
        }
        let add: unsafe extern "C" fn(Observer) -> u64 = std::mem::transmute(add);
        let symbols = Symbols {
            name: std::mem::transmute::<*mut c_void, Name>(name),
            overload_name: std::mem::transmute::<*mut c_void, Name>(overload),
        };
        if SYMBOLS.set(symbols).is_err() {
            return true;
        }
        let mut scopes = [false; 10];
        scopes[0] = true;
        add(Observer {
            start: entered,
            end: std::ptr::null(),
            sampling_probability: 1.0,
            scopes,
            needs_inputs: false,
            needs_outputs: false,
            needs_ids: false,
        });
    }
    true
}

/// Called by the dispatcher before an operator. Returns an empty `unique_ptr` through `result`.
unsafe extern "C" fn entered(
    result: *mut *mut c_void,
    function: *const c_void,
) -> *mut *mut c_void {
    // SAFETY: the dispatcher passes a place for the result and a live `RecordFunction`; the page
    // stays mapped, and every write stays inside it.
    unsafe {
        result.write(std::ptr::null_mut());
        let (Some(symbols), page) = (SYMBOLS.get(), PAGE.load(Ordering::Acquire)) else {
            return result;
        };
        if page.is_null() {
            return result;
        }
        let name = page.add(NAME_OFFSET);
        let mut length = copy(name, 0, (symbols.name)(function));
        let overload = (symbols.overload_name)(function);
        if !overload.is_null() && *overload != 0 {
            name.add(length).write(b'.');
            length = copy(name, length + 1, overload);
        }
        name.add(length).write(0);
        (*page.cast::<AtomicU64>()).fetch_add(1, Ordering::Relaxed);
    }
    result
}

/// Copies a C text to `to + at`, leaving room for a dot and a NUL; gives the new length.
unsafe fn copy(to: *mut u8, at: usize, from: *const c_char) -> usize {
    let mut at = at;
    if from.is_null() {
        return at;
    }
    // SAFETY: `from` is NUL-terminated and `to` has `NAME_BYTES`.
    unsafe {
        let mut from = from.cast::<u8>();
        while *from != 0 && at < NAME_BYTES - 2 {
            to.add(at).write(*from);
            from = from.add(1);
            at += 1;
        }
    }
    at
}
