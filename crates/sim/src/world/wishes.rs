//! The requests that wishes become.

use thermocline_engine::{Extent, HostRequest};
use thermocline_format::{VolumeId, VolumeName};

use super::{Pending, World};
use crate::data::{Data, Stamp};
use crate::model::WriteNumber;
use crate::workload::Wish;

impl World {
    /// The next wish about `volumes`, each with its size in blocks, or their snapshots.
    pub(super) fn draw(&mut self, volumes: &[(VolumeId, u64)]) -> Wish {
        let snapshots: Vec<_> = self.model.snapshots().collect();
        let mix = self.settings.mix;
        let wish = mix.of_snapshots(&mut self.rng, volumes, &snapshots);
        let wish = wish.unwrap_or_else(|| mix.next(&mut self.rng, volumes));
        // A snapshot has the size of its volume, which does not change meanwhile.
        let crosses = match wish {
            Wish::Snapshot(_) => self.model.sizes_open(),
            Wish::Resize(..) => self.model.snapshots_open(),
            Wish::Delete(volume) => self.model.has_snapshots(volume),
            _ => false,
        };
        if crosses { Wish::Flush } else { wish }
    }

    pub(super) fn request(&mut self, wish: Wish) -> (HostRequest<Data>, Pending) {
        match wish {
            Wish::Write { extent, fua, handle } => {
                let version = self.model.begin_change(extent, false);
                let data = self.stamped(extent, version);
                let request = HostRequest::Write { extent, data, fua, handle };
                (request, self.change(version, fua))
            }
            Wish::Trim { extent, fua } => {
                let version = self.model.begin_change(extent, true);
                (HostRequest::Trim { extent, fua }, self.change(version, fua))
            }
            Wish::Read(extent) => {
                let into = Data::zeros(&self.arena, extent.blocks as u32);
                let read = self.model.begin_read(extent);
                let sizes = self.model.size_changes();
                let request = HostRequest::Read { extent, into: into.clone() };
                let since = self.machine.disk.cache().next_change();
                (request, Pending::Read { read, into, sizes, since })
            }
            Wish::Flush => (HostRequest::Flush, Pending::Flush(self.model.begin_flush(None))),
            Wish::FlushVolume(volume) => {
                let flush = self.model.begin_flush(Some(volume));
                (HostRequest::FlushVolume { volume }, Pending::Flush(flush))
            }
            Wish::Create(blocks) => {
                let name = self.new_name();
                let version = self.model.begin_create(name.clone(), blocks);
                (HostRequest::CreateVolume { name, blocks }, Pending::Create(version))
            }
            Wish::Snapshot(volume) => {
                let name = self.new_name();
                let version = self.model.begin_snapshot(volume, name.clone());
                (HostRequest::SnapshotVolume { volume, name }, Pending::Snapshot(version))
            }
            Wish::Clone(snapshot) => {
                let name = self.new_name();
                let version = self.model.begin_clone(snapshot, name.clone());
                (HostRequest::CloneVolume { snapshot, name }, Pending::Create(version))
            }
            Wish::Delete(volume) => {
                let version = self.model.begin_size(volume, None);
                (HostRequest::DeleteVolume { volume }, self.change(version, true))
            }
            Wish::Resize(volume, blocks) => {
                let version = self.model.begin_size(volume, Some(blocks));
                (HostRequest::ResizeVolume { volume, blocks }, self.change(version, true))
            }
            Wish::Rename(volume) => {
                let name = self.new_name();
                let version = self.model.begin_rename(volume, name.clone());
                (HostRequest::RenameVolume { volume, name }, self.change(version, true))
            }
            Wish::Media(volume, media) => {
                let version = self.model.begin_media(volume, media);
                (HostRequest::SetMedia { volume, media }, self.change(version, true))
            }
            Wish::Scrub => (HostRequest::Scrub, Pending::Scrub),
            Wish::Close => (HostRequest::Close, Pending::Close),
        }
    }

    /// A name that no volume had before.
    fn new_name(&self) -> VolumeName {
        let text = format!("volume {}", self.issued);
        VolumeName::new(&text).expect("a short name of plain characters")
    }

    fn change(&self, version: WriteNumber, durable: bool) -> Pending {
        Pending::Change { version, durable, sizes: self.model.size_changes() }
    }

    fn stamped(&self, extent: Extent, version: WriteNumber) -> Data {
        let stamp =
            |lba| Stamp { volume: extent.volume, lba: thermocline_types::Lba(lba), version };
        let lbas = extent.lba..extent.lba + extent.blocks;
        Data::new(&self.arena, lbas.map(|lba| self.arena.user(stamp(lba))))
    }
}
