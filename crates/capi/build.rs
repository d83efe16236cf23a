//! Gives the shared object the name and the symbol versions that programs look for.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rerun-if-changed=symbols.map");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={folder}/symbols.map");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librados.so.2");
    // Its threads run until the process ends.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
