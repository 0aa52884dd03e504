//! Dense tenant numbers for the volumes of a trace.

use std::collections::HashMap;

use thermocline_types::TenantId;

use super::format::Format;

/// Gives each volume a number in order of first appearance, and leaves out all but one when asked to.
#[derive(Debug)]
pub(super) struct Volumes {
    /// `None` marks an excluded volume.
    ids: HashMap<Box<[u8]>, Option<TenantId>>,
    last: Option<(Vec<u8>, Option<TenantId>)>,
    /// The number of the volume without a name, once met: formats without volumes look up nothing.
    unnamed: Option<Option<TenantId>>,
    names: Vec<String>,
    left_out: Vec<String>,
    only: Option<String>,
    /// What a volume without a name is called.
    default_name: String,
    format: Format,
}

/// How many names of volumes an error lists.
const LISTED: usize = 12;

impl Volumes {
    pub fn new(format: Format, only: Option<String>, default_name: &str) -> Self {
        Volumes {
            ids: HashMap::new(),
            last: None,
            unnamed: None,
            names: Vec::new(),
            left_out: Vec::new(),
            only,
            default_name: default_name.to_owned(),
            format,
        }
    }

    /// The names of the volumes in use; a [`TenantId`] is an index into them.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of the volume called `key` in the trace; `None` if the volume is excluded.
    #[inline]
    pub fn id(&mut self, key: &[u8]) -> Option<TenantId> {
        if key.is_empty() {
            if self.unnamed.is_none() {
                self.unnamed = Some(self.add(key));
            }
            return self.unnamed.flatten();
        }
        if let Some((last_key, id)) = &self.last
            && last_key == key
        {
            return *id;
        }
        let id = match self.ids.get(key) {
            Some(id) => *id,
            None => self.add(key),
        };
        let (last_key, last_id) = self.last.get_or_insert_default();
        last_key.clear();
        last_key.extend_from_slice(key);
        *last_id = id;
        id
    }

    fn add(&mut self, key: &[u8]) -> Option<TenantId> {
        let name = if key.is_empty() { self.default_name.clone() } else { self.display(key) };
        let id = if self.only.as_ref().is_some_and(|only| *only != name) {
            if self.left_out.len() < LISTED {
                self.left_out.push(name);
            }
            None
        } else {
            let id = u32::try_from(self.names.len()).ok()?;
            self.names.push(name);
            Some(TenantId(id))
        };
        self.ids.insert(key.into(), id);
        id
    }

    /// How a volume is called: as in the trace, MSR's `host,disk` as `host_disk`, the way its files are named, and
    /// FIU's `major minor` as `major,minor`.
    fn display(&self, key: &[u8]) -> String {
        let name = String::from_utf8_lossy(key);
        match self.format {
            Format::Msr => name.replace(',', "_"),
            Format::Fiu => name.split_ascii_whitespace().collect::<Vec<_>>().join(","),
            _ => name.into_owned(),
        }
    }

    /// Why nothing was kept, if that is because another volume was asked for.
    pub fn complaint(&self) -> Option<String> {
        let only = self.only.as_ref().filter(|_| !self.left_out.is_empty())?;
        let more = if self.left_out.len() == LISTED { ", ..." } else { "" };
        let listed = self.left_out.join(", ");
        Some(format!("there is no volume `{only}`; the trace has {listed}{more}"))
    }
}
