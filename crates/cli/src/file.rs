//! Result files: checked before the work, replaced as a whole after the work.
//!
//! Invariants:
//! * A failed write never harms an existing file. The new content goes to a temporary file in the same folder, and the
//!   complete temporary file replaces the old file.
//! * A pipe or a device is written in place.

use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use tempfile::NamedTempFile;

/// Refuses an unwritable `path` before long work. Leaves no file behind.
pub fn check(path: &Path) -> anyhow::Result<()> {
    if is_stream(path) {
        return Ok(());
    }
    beside(&whither(path)?).map(drop).with_context(|| cannot(path))
}

/// Writes `text` to `path`.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_with(path, |out| out.write_all(text.as_bytes()).with_context(|| cannot(path)))
}

/// Lets `content` write to `path`. Returns the error of `content` unchanged.
pub fn write_with<T>(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    if is_stream(path) {
        let file = File::options().write(true).open(path).with_context(|| cannot(path))?;
        return filled(file, path, content);
    }
    let target = whither(path)?;
    let file = beside(&target).with_context(|| cannot(path))?;
    let done = filled(file.as_file(), path, content)?;
    file.persist(&target).map_err(|error| error.error).with_context(|| cannot(path))?;
    Ok(done)
}

fn filled<T>(
    file: impl Write,
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut out = BufWriter::new(file);
    let done = content(&mut out)?;
    out.flush().with_context(|| cannot(path))?;
    Ok(done)
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Whether `path` exists and is neither a file nor a folder.
fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// The path of the replaced file. A symbolic link stays, and its target is replaced.
fn whither(path: &Path) -> anyhow::Result<PathBuf> {
    ensure!(!path.is_dir(), "{}: it is a folder", cannot(path));
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = folder(&target);
    if !folder.is_dir() {
        bail!("{}: there is no folder {}", cannot(path), folder.display());
    }
    Ok(target)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A temporary file in the folder of `target`, with the process's usual permissions for new files. The file is removed
/// unless it is persisted.
fn beside(target: &Path) -> std::io::Result<NamedTempFile> {
    const ALL_THAT_THE_MASK_LEAVES: u32 = 0o666;
    tempfile::Builder::new()
        .prefix(".thermocline-")
        .permissions(Permissions::from_mode(ALL_THAT_THE_MASK_LEAVES))
        .tempfile_in(folder(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_it_was_or_new_and_whole() {
        let scratch = tempfile::tempdir().expect("a folder");
        let path = scratch.path().join("report");
        write(&path, "old").expect("written");
        let failed: anyhow::Result<()> = write_with(&path, |out| {
            out.write_all(b"half")?;
            bail!("the disk is full")
        });
        assert!(format!("{:#}", failed.unwrap_err()).contains("the disk is full"));
        let content = || std::fs::read_to_string(&path).expect("readable");
        assert_eq!(content(), "old");
        write(&path, "new").expect("written");
        assert_eq!(content(), "new");
        check(&path).expect("it can be written");
        let left = std::fs::read_dir(scratch.path()).expect("readable").count();
        assert_eq!(left, 1, "nothing is left beside it");
    }

    #[test]
    fn a_link_leads_to_the_new_file() {
        let scratch = tempfile::tempdir().expect("a folder");
        let [file, link] = ["file", "link"].map(|name| scratch.path().join(name));
        write(&file, "old").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        write(&link, "new").expect("written");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file).expect("readable"), "new");
    }

    #[test]
    fn where_nothing_can_be_written_is_refused_before() {
        let scratch = tempfile::tempdir().expect("a folder");
        for (path, reason) in [("", "it is a folder"), ("none/report", "there is no folder")] {
            let error = check(&scratch.path().join(path)).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        check(Path::new("/dev/null")).expect("a device is written as it is");
        write(Path::new("/dev/null"), "gone").expect("written");
    }
}
