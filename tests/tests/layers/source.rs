//! The product's source files.

use std::fs;
use std::path::{Path, PathBuf};

/// A file below `idempotent-jobs/src`, with `/` in its path.
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    /// Its lines of code with their numbers: no comments, and nothing behind `#[cfg(test)] mod tests`.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.text.find("#[cfg(test)]\nmod ").unwrap_or(self.text.len());
        let lines = self.text[..tests].lines().enumerate().map(|(number, line)| (number + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// Whether it holds tests only.
    pub fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs"))
    }

    /// `engine` of `engine/lanes.rs`, `worker` of `worker.rs`.
    pub fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }
}

/// The top of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace").to_owned()
}

/// Every source file of the library.
pub fn files() -> Vec<File> {
    let top = root().join("idempotent-jobs/src");
    let mut files = Vec::new();
    collect(&top, &top, &mut files);
    assert!(files.len() > 20, "the library's source is not where it was");
    files
}

fn collect(top: &Path, folder: &Path, files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).expect("a folder of the project can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            collect(top, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file can be read");
            let path = path.strip_prefix(top).expect("it lies below the top");
            let path = path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/");
            files.push(File { path, text });
        }
    }
}
