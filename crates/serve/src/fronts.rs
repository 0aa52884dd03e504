//! Where clients find the volumes: as exports, and where that was asked for as files.

use std::sync::Arc;

use thermocline_fuse::{Directory, MountError};
use thermocline_nbd::{Export, Exports};

use crate::tap::Tap;

/// All that offers volumes; clones are handles of the same.
#[derive(Clone)]
pub struct Fronts {
    exports: Exports,
    files: Option<Directory>,
    tap: Tap,
}

impl Fronts {
    /// Joins both front ends. `tap` records volumes added later.
    pub fn new(exports: Exports, files: Option<Directory>, tap: Tap) -> Fronts {
        Fronts { exports, files, tap }
    }

    /// The recorder of requests.
    pub fn tap(&self) -> &Tap {
        &self.tap
    }

    /// Offers a further volume. Both front ends share the target, so partial-block writes through both cannot overwrite
    /// each other.
    ///
    /// # Errors
    /// When no file can have its name, and volumes are files.
    pub fn add(&self, export: Export) -> Result<(), MountError> {
        let export = self.tap.on(export);
        if let Some(files) = &self.files {
            let (name, target) = (export.name.clone(), Arc::clone(&export.target));
            files.add(thermocline_fuse::Volume { name, target })?;
        }
        self.exports.add(export);
        Ok(())
    }

    /// Lets nobody at the volume called `name` any more; tells how many connections and open files it has.
    pub fn hide(&self, name: &str) -> usize {
        let opened = self.files.as_ref().map_or(0, |files| files.hide(name));
        opened + self.exports.hide(name).unwrap_or(0)
    }

    /// Lets clients at the volume called `name` again, if it is there still.
    pub fn show(&self, name: &str) {
        self.exports.show(name);
        if let Some(files) = &self.files {
            files.show(name);
        }
    }

    /// Offers the volume called `name` no more.
    pub fn remove(&self, name: &str) {
        self.exports.remove(name);
        if let Some(files) = &self.files {
            files.remove(name);
        }
    }
}
