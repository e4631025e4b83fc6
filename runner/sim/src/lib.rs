//! The wrapper library of the `tpu-sim` profile: TorchTPU's own lowerings on a PJRT CPU plugin.
//!
//! TorchTPU loads the library that `TPU_LIBRARY_PATH` names and asks it for `GetPjrtApi`. This
//! library answers with the function table of a real PJRT CPU plugin, in which three entries are
//! replaced:
//!
//! * `PJRT_Client_Create` drops client options that only libtpu knows: the CPU plugin refuses a
//!   client over an option it has never heard of, and TorchTPU always sends `premapped_buffer_size`.
//! * `PJRT_Plugin_Attributes` can advertise an older StableHLO, so that TorchTPU refuses
//!   `chlo.scan` with an exception where XLA:CPU would abort the process.
//! * `PJRT_Client_Compile` can write each program to a directory, for compiling it elsewhere.
//!
//! Environment, read once when the table is made:
//! * `CONFORMANCE_SIM_PLUGIN`: path of the PJRT CPU plugin (required);
//! * `CONFORMANCE_SIM_STABLEHLO`: version to advertise, `1.13.7`;
//! * `CONFORMANCE_SIM_DUMP`: existing directory for programs and their compile options.
//!
//! It has no dependencies, because `runner/build.rs` compiles this one file with plain `rustc` to
//! carry the result inside the runner. Offsets come from `pjrt_c_api.h` (major version 0); the
//! table only ever grows at its end, and its size and version are checked before use.

#![expect(unsafe_code, reason = "a C function table is copied and its entries are replaced")]

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes before the first function pointer of `PJRT_Api`: size, extension, version.
const TABLE_HEAD_BYTES: usize = 40;
/// Positions in the function table.
const PLUGIN_ATTRIBUTES: usize = 4;
const CLIENT_CREATE: usize = 10;
const CLIENT_COMPILE: usize = 20;
/// Options of `PJRT_Client_Create` that libtpu has and a CPU plugin refuses.
const LIBTPU_OPTIONS: &[&[u8]] = &[b"premapped_buffer_size"];

#[repr(C)]
struct NamedValue {
    struct_size: usize,
    extension: *mut c_void,
    name: *const c_char,
    name_size: usize,
    kind: c_int,
    value: u64,
    value_size: usize,
}

#[repr(C)]
struct ClientCreateArgs {
    struct_size: usize,
    extension: *mut c_void,
    options: *const NamedValue,
    option_count: usize,
}

#[repr(C)]
struct PluginAttributesArgs {
    struct_size: usize,
    extension: *mut c_void,
    attributes: *const NamedValue,
    attribute_count: usize,
}

#[repr(C)]
struct Program {
    struct_size: usize,
    extension: *mut c_void,
    code: *const u8,
    code_size: usize,
    format: *const u8,
    format_size: usize,
}

#[repr(C)]
struct ClientCompileArgs {
    struct_size: usize,
    extension: *mut c_void,
    client: *mut c_void,
    program: *const Program,
    options: *const u8,
    options_size: usize,
}

type Function = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The plugin's own functions behind the replaced ones, and the settings.
struct Plugin {
    table: *mut c_void,
    client_create: Function,
    plugin_attributes: Function,
    client_compile: Function,
    stablehlo: Option<&'static [i64; 3]>,
    dump: Option<PathBuf>,
    programs: AtomicU64,
}

// SAFETY: the table is written once before it is shared and never again; the rest is immutable or
// atomic.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

static PLUGIN: OnceLock<Result<Plugin, String>> = OnceLock::new();

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

/// Entry point that a PJRT host looks up. Null when the plugin cannot be used; the reason is on
/// stderr, which is the worker's log.
#[unsafe(no_mangle)]
pub extern "C" fn GetPjrtApi() -> *const c_void {
    match PLUGIN.get_or_init(load) {
        Ok(plugin) => plugin.table,
        Err(problem) => {
            complain(problem);
            std::ptr::null()
        }
    }
}

#[expect(clippy::print_stderr, reason = "a library without a caller that could be told otherwise")]
fn complain(problem: &str) {
    eprintln!("pjrt-sim: {problem}");
}

fn setting(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn load() -> Result<Plugin, String> {
    let path = setting("CONFORMANCE_SIM_PLUGIN")
        .ok_or("`CONFORMANCE_SIM_PLUGIN` is not set: it must name a PJRT CPU plugin")?;
    let stablehlo =
        setting("CONFORMANCE_SIM_STABLEHLO").map(|text| parse_version(&text)).transpose()?;
    let c_path = CString::new(path.as_bytes()).map_err(|_| "the plugin's path holds a NUL byte")?;
    const RTLD_NOW: c_int = 2;
    // SAFETY: plain C calls with NUL-terminated strings; results are checked before use.
    let entry = unsafe {
        let library = dlopen(c_path.as_ptr(), RTLD_NOW);
        if library.is_null() {
            return Err(format!("cannot load the plugin: {}", last_dl_error()));
        }
        dlsym(library, c"GetPjrtApi".as_ptr())
    };
    if entry.is_null() {
        return Err(format!("`{}` is not a PJRT plugin: {}", path.display(), last_dl_error()));
    }
    // SAFETY: `GetPjrtApi` of every PJRT plugin has this signature.
    let original = unsafe {
        let get_api: unsafe extern "C" fn() -> *const u8 = std::mem::transmute(entry);
        get_api()
    };
    if original.is_null() {
        return Err(format!("`{}` gave no PJRT function table", path.display()));
    }
    wrap(original, stablehlo)
}

/// Copies the plugin's table, since the original lies in memory that belongs to the plugin.
fn wrap(original: *const u8, stablehlo: Option<&'static [i64; 3]>) -> Result<Plugin, String> {
    // SAFETY: every `PJRT_Api` begins with its own size and, at 32, its major version.
    let (size, major) = unsafe {
        (
            original.cast::<usize>().read_unaligned(),
            original.add(32).cast::<c_int>().read_unaligned(),
        )
    };
    let needed = TABLE_HEAD_BYTES + (CLIENT_COMPILE + 1) * size_of::<Function>();
    if size < needed || major != 0 {
        return Err(format!("unknown PJRT table: major version {major}, {size} bytes"));
    }
    let mut table = vec![0u64; size.div_ceil(8)].into_boxed_slice();
    // SAFETY: `size` bytes are readable at `original` by the API's contract, and the copy is at
    // least as long and aligned for pointers. The box is leaked: the table lives as long as the
    // process.
    unsafe {
        std::ptr::copy_nonoverlapping(original, table.as_mut_ptr().cast::<u8>(), size);
        let table = Box::leak(table).as_mut_ptr();
        let slot = |position: usize| {
            table.cast::<u8>().add(TABLE_HEAD_BYTES).cast::<Function>().add(position)
        };
        let plugin = Plugin {
            table: table.cast(),
            client_create: *slot(CLIENT_CREATE),
            plugin_attributes: *slot(PLUGIN_ATTRIBUTES),
            client_compile: *slot(CLIENT_COMPILE),
            stablehlo,
            dump: setting("CONFORMANCE_SIM_DUMP").map(PathBuf::from),
            programs: AtomicU64::new(0),
        };
        *slot(CLIENT_CREATE) = client_create;
        *slot(PLUGIN_ATTRIBUTES) = plugin_attributes;
        *slot(CLIENT_COMPILE) = client_compile;
        Ok(plugin)
    }
}

fn parse_version(text: &OsString) -> Result<&'static [i64; 3], String> {
    let problem = || {
        format!("`CONFORMANCE_SIM_STABLEHLO` is `{}`, not a version like `1.13.7`", text.display())
    };
    let parts = text.to_str().ok_or_else(problem)?.split('.').map(str::parse::<i64>);
    let parts = parts.collect::<Result<Vec<_>, _>>().map_err(|_| problem())?;
    let version: [i64; 3] = parts.try_into().map_err(|_| problem())?;
    Ok(Box::leak(Box::new(version)))
}

fn last_dl_error() -> String {
    // SAFETY: `dlerror` gives null or a NUL-terminated text that is valid until the next call.
    unsafe {
        let text = dlerror();
        if text.is_null() {
            "unknown".to_owned()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

fn plugin() -> &'static Plugin {
    let plugin = PLUGIN.get().and_then(|loaded| loaded.as_ref().ok());
    plugin.expect("the table that led here was made by `load`")
}

fn name_of(value: &NamedValue) -> &[u8] {
    // SAFETY: the API gives a name as pointer and length, valid during the call.
    unsafe { std::slice::from_raw_parts(value.name.cast(), value.name_size) }
}

unsafe extern "C" fn client_create(raw: *mut c_void) -> *mut c_void {
    let plugin = plugin();
    // SAFETY: the host passes `PJRT_Client_Create_Args`, whose first fields are these; outputs are
    // later fields of the same memory, so the original is passed on with its options swapped and
    // put back, since the caller owns them.
    unsafe {
        let args = raw.cast::<ClientCreateArgs>();
        let (options, count) = ((*args).options, (*args).option_count);
        let all = if count == 0 { &[] } else { std::slice::from_raw_parts(options, count) };
        let kept: Vec<NamedValue> = all
            .iter()
            .filter(|option| !LIBTPU_OPTIONS.contains(&name_of(option)))
            .map(|option| std::ptr::read(option))
            .collect();
        (*args).options = kept.as_ptr();
        (*args).option_count = kept.len();
        let error = (plugin.client_create)(raw);
        (*args).options = options;
        (*args).option_count = count;
        error
    }
}

unsafe extern "C" fn plugin_attributes(raw: *mut c_void) -> *mut c_void {
    let plugin = plugin();
    // SAFETY: the host passes `PJRT_Plugin_Attributes_Args`; the list that replaces the plugin's
    // is leaked, because the host may keep it for as long as the process lives.
    unsafe {
        let error = (plugin.plugin_attributes)(raw);
        if let (true, Some(version)) = (error.is_null(), plugin.stablehlo) {
            let args = raw.cast::<PluginAttributesArgs>();
            let all = std::slice::from_raw_parts((*args).attributes, (*args).attribute_count);
            let mut changed: Vec<NamedValue> =
                all.iter().map(|value| std::ptr::read(value)).collect();
            for value in &mut changed {
                if name_of(value) == b"stablehlo_current_version" && value.value_size == 3 {
                    value.value = version.as_ptr() as u64;
                }
            }
            (*args).attributes = Box::leak(changed.into_boxed_slice()).as_ptr();
        }
        error
    }
}

unsafe extern "C" fn client_compile(raw: *mut c_void) -> *mut c_void {
    let plugin = plugin();
    // SAFETY: the host passes `PJRT_Client_Compile_Args`; program and options are read only.
    unsafe {
        if let Some(folder) = &plugin.dump {
            let args = &*raw.cast::<ClientCompileArgs>();
            let program = &*args.program;
            let number = plugin.programs.fetch_add(1, Ordering::Relaxed);
            let format = String::from_utf8_lossy(std::slice::from_raw_parts(
                program.format,
                program.format_size,
            ))
            .into_owned();
            let stem = folder.join(format!("{}-{number:05}", std::process::id()));
            let code = std::slice::from_raw_parts(program.code, program.code_size);
            let options = std::slice::from_raw_parts(args.options, args.options_size);
            let written = std::fs::write(stem.with_extension(&format), code)
                .and_then(|()| std::fs::write(stem.with_extension("options"), options));
            if let Err(problem) = written {
                complain(&format!("cannot write a program to `{}`: {problem}", folder.display()));
            }
        }
        (plugin.client_compile)(raw)
    }
}
