//! Compiles the crate again when a migration or a template changes: both are embedded.

fn main() {
    println!("cargo::rerun-if-changed=../migrations");
    println!("cargo::rerun-if-changed=../templates");
}
