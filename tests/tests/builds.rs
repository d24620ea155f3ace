//! What other people's builds look like: crates beside ours, in workspaces of their own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace")
}

fn cargo(arguments: &[&str], manifest: &Path) -> Output {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).arg("--manifest-path").arg(manifest);
    command.env("CARGO_TARGET_DIR", root().join("target/fixtures")).output().expect("cargo runs")
}

fn check(fixture: &str) {
    let manifest = root().join("tests/fixtures").join(fixture).join("Cargo.toml");
    let output = cargo(&["check"], &manifest);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn bld_02_a_program_may_have_an_sqlite_crate_of_its_own() {
    check("rusqlite-beside");
}

#[test]
fn a_user_may_have_the_default_features_of_sqlx() {
    check("sqlx-default");
}

#[test]
fn a_user_may_have_no_more_of_sqlx_than_it_needs() {
    check("sqlx-bare");
}

/// A package at `folder` with these lines in its manifest.
fn package(folder: &Path, manifest: &str) -> PathBuf {
    std::fs::create_dir_all(folder.join("src")).expect("a folder below the target folder");
    std::fs::write(folder.join("src/lib.rs"), "").expect("an empty library");
    let path = folder.join("Cargo.toml");
    std::fs::write(&path, manifest).expect("a manifest");
    path
}

#[test]
fn mac_07_two_versions_of_the_library_in_one_build_are_refused() {
    let folder = root().join("target/fixtures/two-versions");
    let library = root().join("idempotent-jobs");
    let declared = std::fs::read_to_string(library.join("Cargo.toml")).expect("our manifest");
    let links = declared.lines().find(|line| line.starts_with("links = ")).expect("our manifest has a `links` key");
    let older = format!("[package]\nname = \"idempotent-jobs\"\nversion = \"0.0.1\"\nedition = \"2024\"\n{links}\n");
    package(&folder.join("older"), &older);
    std::fs::write(folder.join("older/build.rs"), "fn main() {}").expect("a build script");
    let both = format!(
        "[package]\nname = \"both\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n\
         idempotent-jobs = {{ path = {library:?} }}\n\
         older = {{ package = \"idempotent-jobs\", path = \"../older\" }}\n[workspace]\n"
    );
    let output = cargo(&["generate-lockfile"], &package(&folder.join("both"), &both));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("links") && said.contains("idempotent_jobs"), "{said}");
}

/// Up to 0.8.0 it cut lengths above 4 GiB, so that values could be read as protocol. Versions stand in one place.
#[test]
fn sec_03_sqlx_is_of_a_version_that_does_not_cut_lengths() {
    let manifest = include_str!("../../Cargo.toml");
    let lock = include_str!("../../Cargo.lock");
    for name in ["sqlx", "sqlx-core", "sqlx-postgres", "sqlx-sqlite"] {
        let pinned = manifest.lines().find(|line| line.starts_with(&format!("{name} = {{ version = \"=0.9.")));
        assert!(pinned.is_some(), "{name} is not pinned to 0.9");
        let locked: Vec<_> =
            lock.split("[[package]]").filter(|it| it.contains(&format!("\nname = \"{name}\"\n"))).collect();
        assert!(locked.len() == 1 && locked[0].contains("\nversion = \"0.9."), "{locked:?}");
    }
}
