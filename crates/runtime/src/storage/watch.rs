//! Whether a file that is in use was removed or cut off.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// Time between two looks. Chosen: soon enough for a person, and cheap.
const EVERY: Duration = Duration::from_millis(500);

/// Stack of the thread. Chosen.
const STACK: usize = 64 << 10;

/// What became of a file while it was in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The file has no name any more.
    Removed,
    /// The file has only `has` bytes.
    CutOff { has: u64 },
}

/// Looks at a file on a thread of its own, because a file system may hang. The thread ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    fate: Arc<OnceLock<Fate>>,
    _thread: Sender<()>,
}

impl Watch {
    /// Watches `file`, which needs `bytes` bytes.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(super) fn start(file: &Arc<File>, bytes: u64) -> io::Result<Watch> {
        let (sender, dropped) = channel::<()>();
        let fate = Arc::<OnceLock<Fate>>::default();
        let (file, found) = (Arc::clone(file), Arc::clone(&fate));
        let look = move || {
            while found.get().is_none()
                && dropped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout)
            {
                if let Some(fate) = fate_of(&file, bytes) {
                    // This thread alone sets the value, once.
                    let _ = found.set(fate);
                }
            }
        };
        let builder = thread::Builder::new().name("thermocline-file".to_owned());
        builder.stack_size(STACK).spawn(look)?;
        Ok(Watch { fate, _thread: sender })
    }

    /// Fate of the file; `None` while intact.
    pub(super) fn fate(&self) -> Option<Fate> {
        self.fate.get().copied()
    }
}

/// What became of a file that needs `bytes` bytes. Without metadata, reads and writes will show the state of the file.
fn fate_of(file: &File, bytes: u64) -> Option<Fate> {
    let found = file.metadata().ok()?;
    match (found.nlink(), found.len()) {
        (0, _) => Some(Fate::Removed),
        (_, has) if has < bytes => Some(Fate::CutOff { has }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_removed_or_cut_off_is_found_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let file = File::create(&path).expect("a file");
        file.set_len(8192).expect("room");
        assert_eq!(fate_of(&file, 8192), None);
        file.set_len(4096).expect("cut off");
        assert_eq!(fate_of(&file, 8192), Some(Fate::CutOff { has: 4096 }));
        file.set_len(8192).expect("room");
        std::fs::rename(&path, folder.path().join("other")).expect("renamed");
        assert_eq!(fate_of(&file, 8192), None, "it has another name");
        std::fs::remove_file(folder.path().join("other")).expect("removed");
        assert_eq!(fate_of(&file, 8192), Some(Fate::Removed));
    }
}
