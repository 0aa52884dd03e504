//! The numbers of devices, in a file: a volume keeps its number from server to server.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The number of each volume that ever had a device. In the file, a line each: number, space, name. A `+` behind the
/// number: what the last server answered of the device is durable.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    number: u32,
    is_durable: bool,
}

impl Record {
    /// The record in file `path`, empty if there is none. Lines of another form are left out.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn load(path: PathBuf) -> io::Result<Record> {
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let line = |line: &str| {
            let (number, name) = line.split_once(' ')?;
            let (digits, is_durable) =
                number.strip_suffix('+').map_or((number, false), |rest| (rest, true));
            Some((name.to_owned(), Entry { number: digits.parse().ok()?, is_durable }))
        };
        Ok(Record { path, entries: text.lines().filter_map(line).collect() })
    }

    /// The number of a volume.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.entries.get(name).map(|entry| entry.number)
    }

    /// Names and numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.number))
    }

    /// Gives a volume a number that no other then has, and stores the record.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set(&mut self, name: &str, number: u32) -> io::Result<()> {
        self.put(name, Entry { number, is_durable: false })
    }

    /// Notes that what was answered of a volume is durable.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set_durable(&mut self, name: &str) -> io::Result<()> {
        let number = self.number(name);
        number.map_or(Ok(()), |number| self.put(name, Entry { number, is_durable: true }))
    }

    /// Takes back the note of [`Record::set_durable`]. Returns whether there was one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn take_durable(&mut self, name: &str) -> io::Result<bool> {
        let Some(&Entry { number, is_durable }) = self.entries.get(name) else { return Ok(false) };
        self.put(name, Entry { number, is_durable: false })?;
        Ok(is_durable)
    }

    fn put(&mut self, name: &str, entry: Entry) -> io::Result<()> {
        if self.entries.get(name) == Some(&entry) {
            return Ok(());
        }
        self.entries.retain(|_, other| other.number != entry.number);
        self.entries.insert(name.to_owned(), entry);
        self.store()
    }

    /// Forgets the number of a volume, and stores the record.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        if self.entries.remove(name).is_some() { self.store() } else { Ok(()) }
    }

    fn store(&self) -> io::Result<()> {
        let line = |(name, entry): (&String, &Entry)| {
            format!("{}{} {name}\n", entry.number, if entry.is_durable { "+" } else { "" })
        };
        let text: String = self.entries.iter().map(line).collect();
        let new = self.path.with_extension("ublk.new");
        fs::write(&new, text)?;
        fs::File::open(&new)?.sync_all()?;
        fs::rename(&new, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outlive_the_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool.ublk");
        let mut record = Record::load(path.clone()).expect("none yet");
        record.set("a b", 3).expect("stored");
        record.set("c", 0).expect("stored");
        record.set("d", 3).expect("stored");
        let mut record = Record::load(path.clone()).expect("stored");
        assert_eq!(
            record.iter().collect::<Vec<_>>(),
            [("c", 0), ("d", 3)],
            "each number is of one volume"
        );
        assert!(!record.take_durable("d").expect("unchanged"));
        record.set_durable("d").expect("stored");
        let mut record = Record::load(path.clone()).expect("stored");
        assert!(record.take_durable("d").expect("stored"));
        let mut record = Record::load(path.clone()).expect("stored");
        assert_eq!(
            (record.take_durable("d").expect("unchanged"), record.number("d")),
            (false, Some(3))
        );
        record.remove("c").expect("stored");
        assert_eq!(Record::load(path).expect("stored").number("c"), None);
    }

    #[test]
    fn lines_of_another_form_are_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool.ublk");
        fs::write(&path, "1 a\nx b\n\n2\n-1 c\n4 d\n").expect("written");
        let record = Record::load(path).expect("read");
        assert_eq!(record.iter().collect::<Vec<_>>(), [("a", 1), ("d", 4)]);
    }
}
