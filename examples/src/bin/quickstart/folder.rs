//! A temporary folder that goes when it is dropped.

use std::io;
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new one, of this name below the system's temporary folder, for this user alone.
    pub fn create(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(name);
        private().create(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

fn private() -> std::fs::DirBuilder {
    #[allow(unused_mut, reason = "only Unix has a mode to set")]
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} was not removed: {error}", self.0.display());
        }
    }
}
