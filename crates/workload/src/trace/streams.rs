//! Numbers for the files of a trace.

use std::collections::HashMap;

use thermocline_types::StreamId;

/// Gives directories, and files in each of them, numbers in order of first appearance.
#[derive(Debug, Default)]
pub(super) struct FileNames {
    directories: HashMap<Box<[u8]>, Directory>,
    names: Vec<String>,
    /// The name looked up last, since a file is written in several requests.
    last: Option<(Vec<u8>, StreamId)>,
}

#[derive(Debug)]
struct Directory {
    number: u16,
    files: HashMap<Box<[u8]>, u16>,
}

impl FileNames {
    /// The names of the directories met; number 1 is the first.
    pub fn directories(&self) -> &[String] {
        &self.names
    }

    /// The number of a file by its `path`. Directories after the 65,535th share the number of the 65,535th.
    #[inline]
    pub fn id(&mut self, path: &[u8]) -> StreamId {
        if path.is_empty() {
            return StreamId::UNKNOWN;
        }
        if let Some((last, id)) = &self.last
            && last == path
        {
            return *id;
        }
        let id = self.find(path);
        let (last, last_id) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(path);
        *last_id = id;
        id
    }

    fn find(&mut self, path: &[u8]) -> StreamId {
        let slash = memchr::memrchr(b'/', path);
        let (directory, file) = slash.map_or((path, &b""[..]), |at| (&path[..at], &path[at + 1..]));
        if !self.directories.contains_key(directory) {
            if self.names.len() < usize::from(u16::MAX) {
                self.names.push(String::from_utf8_lossy(directory).into_owned());
            }
            let number = self.names.len() as u16;
            self.directories.insert(directory.into(), Directory { number, files: HashMap::new() });
        }
        let found = self.directories.get_mut(directory).expect("it is there now");
        let next = found.files.len() as u16;
        let number = match found.files.get(file) {
            Some(number) => *number,
            None => *found.files.entry(file.into()).or_insert(next),
        };
        StreamId { directory: found.number, file: number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_their_files_are_numbered_as_they_appear() {
        let mut names = FileNames::default();
        let mut id = |path: &str| {
            let id = names.id(path.as_bytes());
            (id.directory, id.file)
        };
        assert_eq!(id("log/7"), (1, 0));
        assert_eq!(id("sst/0/a"), (2, 0));
        assert_eq!(id("log/9"), (1, 1));
        assert_eq!(id("log/9"), (1, 1));
        assert_eq!(id(""), (0, 0));
        assert_eq!(id("log"), (1, 2));
        assert_eq!(id("log/7"), (1, 0));
        assert_eq!(names.directories(), ["log", "sst/0"]);
    }
}
