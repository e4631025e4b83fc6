//! Compiles the wrapper library of `tpu-sim` so that the runner can carry it. Cargo cannot make a
//! program depend on the file of a `cdylib`, so this asks the compiler itself; the library has no
//! dependencies.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=sim/src");
    println!("cargo::rerun-if-changed=worker/src");
    let variable = |name: &str| std::env::var_os(name).unwrap_or_else(|| panic!("no `{name}`"));
    let library = PathBuf::from(variable("OUT_DIR")).join("libpjrt_sim.so");
    let status = Command::new(variable("RUSTC"))
        .args(["--crate-name", "pjrt_sim", "--crate-type", "cdylib", "--edition", "2024"])
        .args(["-O", "-C", "panic=abort", "--target"])
        .arg(variable("TARGET"))
        .arg("-o")
        .arg(&library)
        .arg("sim/src/lib.rs")
        .status()
        .expect("the compiler can be started");
    assert!(status.success(), "the wrapper library of `tpu-sim` does not compile");
}
