//! Compiles the libraries that workers load, so that the runner can carry them: the wrapper of
//! `tpu-sim`, and the breadcrumbs. Cargo cannot make a program depend on the file of a `cdylib`, so
//! this asks the compiler itself; neither library has dependencies.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=worker/src");
    compile("pjrt_sim", "sim/src", "libpjrt_sim.so");
    compile("breadcrumb", "breadcrumb/src", "libbreadcrumb.so");
}

fn compile(name: &str, source: &str, file: &str) {
    println!("cargo::rerun-if-changed={source}");
    let variable = |name: &str| std::env::var_os(name).unwrap_or_else(|| panic!("no `{name}`"));
    let status = Command::new(variable("RUSTC"))
        .args(["--crate-name", name, "--crate-type", "cdylib", "--edition", "2024"])
        .args(["-O", "-C", "panic=abort", "--target"])
        .arg(variable("TARGET"))
        .arg("-o")
        .arg(PathBuf::from(variable("OUT_DIR")).join(file))
        .arg(format!("{source}/lib.rs"))
        .status()
        .expect("the compiler can be started");
    assert!(status.success(), "`{source}` does not compile");
}
