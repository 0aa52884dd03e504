//! Which file a path leads to.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Identity of a file, equal for all paths of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileAt {
    /// The number of a block device, whatever its file is called.
    Device(u64),
    /// File system and number of a file.
    File(u64, u64),
    /// Where one would be made.
    New(PathBuf),
}

/// Links that lead on from one to the next at most, as many as the kernel follows (path_resolution(7)).
const LINKS: usize = 40;

/// Identity of the file at `path`, or of a file created at `path`; `None` if unknown.
pub(super) fn file_at(path: &Path) -> Option<FileAt> {
    if let Ok(found) = fs::metadata(path) {
        let is_block = found.file_type().is_block_device();
        return Some(match is_block {
            true => FileAt::Device(found.rdev()),
            false => FileAt::File(found.dev(), found.ino()),
        });
    }
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        path = match fs::read_link(&path) {
            Ok(target) => folder.join(target),
            Err(_) => return Some(FileAt::New(folder.join(path.file_name()?))),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn all_ways_to_a_file_lead_to_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("inner")).expect("room");
        symlink("../there", at("inner/link")).expect("room");
        symlink("inner", at("outer")).expect("room");
        for is_there in [false, true] {
            let one = file_at(&at("there"));
            for other in ["./there", "inner/../there", "inner/link", "outer/link"] {
                assert_eq!(file_at(&at(other)), one, "{other}");
            }
            assert_ne!(file_at(&at("other")), one);
            if !is_there {
                fs::write(at("there"), "").expect("room");
            }
        }
        fs::hard_link(at("there"), at("hard")).expect("room");
        assert_eq!(file_at(&at("hard")), file_at(&at("there")));
        symlink("round", at("round")).expect("room");
        assert_eq!(file_at(&at("round")), None);
        assert_eq!(file_at(&at("none/such")), None);
    }
}
