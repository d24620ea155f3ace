//! Declares nothing but this package's `links` key: two versions of it in one build would each
//! have a registry of its own, and the jobs of one would silently be missing. Cargo refuses that
//! when it resolves the dependencies.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
