//! Whether paths still lead to the files and devices that a pool was opened on.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::MediaError;
use crate::settings::Settings;

/// Descriptors that opening a device takes at most, beside the one of its file. Chosen.
const SPARE: usize = 4;

/// Where the files and devices of an open pool are.
#[derive(Clone, Debug, Default)]
pub struct Paths(Vec<(PathBuf, Identity)>);

/// Which file or device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    File { device: u64, inode: u64 },
    Block { number: u64 },
}

impl Identity {
    fn of(found: &Metadata) -> Identity {
        match found.file_type().is_block_device() {
            true => Identity::Block { number: found.rdev() },
            false => Identity::File { device: found.dev(), inode: found.ino() },
        }
    }
}

/// Open files of a pool. The drop frees enough descriptors to open the pool.
#[derive(Debug)]
pub struct HeldFiles {
    _files: Vec<File>,
}

impl Settings {
    /// Where the files and devices of the pool are now, as far as they are there.
    #[must_use]
    pub fn paths(&self) -> Paths {
        let found = |path: &Path| Some((path.to_owned(), Identity::of(&path.metadata().ok()?)));
        Paths(self.devices.iter().filter_map(|device| found(&device.path)).collect())
    }
}

impl Paths {
    /// Opens each file and device a second time, except paths selected by `not_needed`.
    ///
    /// # Errors
    /// [`MediaError`] for the first file that cannot be opened or was replaced.
    pub fn open_all(&self, not_needed: impl Fn(&Path) -> bool) -> Result<HeldFiles, MediaError> {
        let mut held = Vec::new();
        for (path, was) in self.0.iter().filter(|(path, _)| !not_needed(path)) {
            let no = |source: io::Error| MediaError::Reopen { path: path.clone(), source };
            // Opening a block device for writing and closing it makes the system rescan the device.
            let writes = matches!(was, Identity::File { .. });
            let file = OpenOptions::new().read(true).write(writes).open(path).map_err(no)?;
            if Identity::of(&file.metadata().map_err(no)?) != *was {
                return Err(MediaError::Replaced { path: path.clone() });
            }
            for _ in 0..SPARE {
                held.push(file.try_clone().map_err(no)?);
            }
            held.push(file);
        }
        Ok(HeldFiles { _files: held })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_path_that_leads_elsewhere_is_found_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let text =
            "[[device]]\npath = 'a'\nsize = '64MiB'\n[[device]]\npath = 'b'\nsize = '64MiB'\n";
        fs::write(path("pool.toml"), text).expect("settings");
        let settings = Settings::load(&path("pool.toml")).expect("settings");
        assert!(settings.paths().0.is_empty(), "there are none");
        for name in ["a", "b"] {
            fs::write(path(name), name).expect("a file");
        }
        let paths = settings.paths();
        paths.open_all(|_| false).expect("all are there");
        fs::rename(path("b"), path("c")).expect("renamed");
        let error = paths.open_all(|_| false).expect_err("one is gone");
        assert!(matches!(error, MediaError::Reopen { path, .. } if path.ends_with("b")));
        paths.open_all(|path| path.ends_with("b")).expect("it is not needed");
        fs::write(path("b"), "another").expect("a file");
        let error = paths.open_all(|_| false).expect_err("another one is there");
        assert!(matches!(error, MediaError::Replaced { path } if path.ends_with("b")));
        fs::rename(path("c"), path("b")).expect("renamed back");
        paths.open_all(|_| false).expect("all are there again");
    }
}
