//! `export`: letters whole, for other programs.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::which::Which;
use super::{End, Out, Trouble};
use crate::dead_letters::DeadLetters;
use crate::error::Error;

/// `export`
#[derive(Args)]
pub(in crate::cli) struct Export {
    #[command(flatten)]
    which: Which,
    /// The file to write, which must not exist; without it they go to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) async fn export(args: &Export, letters: &DeadLetters, out: Out<'_>) -> Result<End, Trouble> {
    let (filter, end) = (args.which.filter(), args.which.missing(letters).await?);
    let Some(path) = &args.output else {
        let mut piped = Piped { out, failed: None };
        let exported = letters.export(&filter, &mut piped).await;
        return piped.failed.map_or_else(|| Ok(exported.map(|_| end)?), |error| Err(Trouble::Output(error)));
    };
    let named = |error: io::Error| Error::Output(format!("{}: {error}", path.display()));
    let mut file = BufWriter::new(private(path).map_err(named)?);
    let written = letters.export(&filter, &mut file).await?;
    file.into_inner().map_err(|error| named(error.into_error()))?.sync_all().map_err(named)?;
    writeln!(out, "{written} dead letter(s) written to {}", path.display())?;
    Ok(end)
}

/// It holds payloads: for nobody else to read.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Standard output, which keeps why it could not be written to: a reader that has enough is no error.
struct Piped<'a> {
    out: Out<'a>,
    failed: Option<io::Error>,
}

impl Write for Piped<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| {
            let kind = error.kind();
            self.failed = Some(error);
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
