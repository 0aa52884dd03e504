//! Volumes as stacks of layers: how they grow, which layers belong to whom, and which layer has a block. ADR 0080 has
//! the reasons.

use thermocline_format::{StackLayer, Volume, VolumeId, VolumeName};

use super::Volumes;
use crate::map::{Addresses, LayerState, Mapping, PAGE, VolumeMap};
use crate::marks::mark;

impl Volumes {
    /// Hides the volume at `index`, and the layers below that only it reads: those of its own, and those of deleted
    /// snapshots of others, down to the first with another layer above. Returns all that went.
    pub(crate) fn hide_stack(&mut self, index: u16) -> Vec<u16> {
        let (mut at, mut own, mut gone) = (Some(index), true, Vec::new());
        while let Some(layer) = at {
            let LayerState { below, nameless, clone, .. } = self.map(layer).layer;
            let is_read = !(own || nameless) || self.children(layer).next().is_some();
            if !gone.is_empty() && is_read {
                break;
            }
            own &= !clone;
            gone.push(layer);
            self.hide(layer);
            at = below;
        }
        // Layers that stay may be covered by more now.
        if let Some(at) = at {
            mark!(LayerIsShared);
            self.uncovered_by_less(at);
        }
        gone
    }

    /// Freezes the map at `index` and puts a new layer of `blocks` blocks above it, which takes over the identifier for
    /// users, the name and all that belongs to it. The frozen map is a snapshot with this name from now on. Returns the
    /// index of the new layer.
    pub(crate) fn freeze(
        &mut self,
        index: u16,
        layer: VolumeId,
        name: VolumeName,
        blocks: u64,
        addresses: Addresses,
    ) -> u16 {
        let top = self.add(layer, name, blocks, addresses);
        let reserve = self.map(index).reserve;
        self.set_reserve(index, 0);
        self.set_reserve(top, reserve);
        let frozen = self.map_mut(index);
        frozen.layer.frozen = true;
        let (user, media) = (std::mem::replace(&mut frozen.user, layer), frozen.media);
        let (traffic, stream) = (std::mem::take(&mut frozen.traffic), frozen.stream);
        let of_users = frozen.name.clone();
        let map = self.map_mut(top);
        (map.user, map.media, map.traffic, map.stream) = (user, media, traffic, stream);
        map.layer.below = Some(index);
        let of_snapshot = std::mem::replace(&mut map.name, of_users);
        self.map_mut(index).name = of_snapshot;
        self.sort_users();
        top
    }

    /// The frozen layer at `index` is no snapshot any more.
    pub(crate) fn make_nameless(&mut self, index: u16) {
        self.map_mut(index).layer.nameless = true;
        self.uncovered_by_less(index);
        self.sort_users();
    }

    /// A volume or snapshot went that read the layer at `index` and those below: more of their blocks may be covered
    /// for everybody now.
    fn uncovered_by_less(&mut self, index: u16) {
        self.snapshots_deleted += 1;
        let layers: Vec<u16> = std::iter::once(index).chain(self.below(index)).collect();
        layers.into_iter().for_each(|layer| self.map_mut(layer).layer.walked = None);
    }

    /// Puts a layer without blocks above the frozen one at `index`, as a volume of its own. Returns its index.
    pub(crate) fn branch(
        &mut self,
        index: u16,
        layer: VolumeId,
        name: VolumeName,
        blocks: u64,
        addresses: Addresses,
    ) -> u16 {
        let top = self.add(layer, name, blocks, addresses);
        let map = self.map_mut(top);
        (map.layer.below, map.layer.clone) = (Some(index), true);
        self.sort_users();
        top
    }

    /// Takes the layer at `index` out of its stack. Its least size goes on to hide what lies below.
    pub(crate) fn unlink(&mut self, index: u16) {
        let LayerState { below, least, clone, .. } = self.map(index).layer;
        let above: Vec<u16> = self.children(index).collect();
        for above in above {
            let layer = &mut self.map_mut(above).layer;
            (layer.below, layer.least) = (below, layer.least.min(least));
            layer.clone |= clone;
        }
        self.map_mut(index).layer.below = None;
        self.sort_users();
    }

    /// Takes over the stacks of layers of a record, whose volumes were added.
    pub(crate) fn adopt_layers(&mut self, volumes: &[Volume]) {
        for volume in volumes {
            let (Some(layer), Some(index)) = (volume.layer, self.slot(volume.id)) else { continue };
            let below = layer.below.and_then(|below| self.slot(below));
            let map = self.map_mut(index);
            map.user = layer.user;
            let StackLayer { least, frozen, nameless, clone, .. } = layer;
            map.layer = LayerState { below, least, frozen, nameless, clone, walked: None };
        }
        self.sort_users();
    }

    /// What a record says of the place of a map in its stack.
    pub(crate) fn layer_of(&self, map: &VolumeMap) -> Option<StackLayer> {
        let LayerState { below, least, frozen, nameless, clone, .. } = map.layer;
        let below = below.map(|below| self.map(below).id);
        let user = map.user;
        let layered = !map.deleted && (frozen || below.is_some() || user != map.id);
        layered.then_some(StackLayer { user, below, least, frozen, nameless, clone })
    }

    /// The layers below the one at `index`, from the nearest on.
    pub(crate) fn below(&self, index: u16) -> impl Iterator<Item = u16> + '_ {
        let below = |index: u16| self.map(index).layer.below;
        std::iter::successors(below(index), move |index| below(*index))
    }

    /// The layers directly above the one at `index`: clones, and the next of the same volume.
    pub(crate) fn children(&self, index: u16) -> impl Iterator<Item = u16> + '_ {
        self.indices().filter(move |above| self.map(*above).layer.below == Some(index))
    }

    /// The layer directly above the one at `index`, if there is exactly one.
    pub(crate) fn only_child(&self, index: u16) -> Option<u16> {
        let mut children = self.children(index);
        children.next().filter(|_| children.next().is_none())
    }

    /// The layers of the volume whose top is at `index`, from the top on: those below a clone's are not its own.
    pub(crate) fn own_layers(&self, index: u16) -> impl Iterator<Item = u16> + '_ {
        std::iter::successors(Some(index), |index| {
            let layer = &self.map(*index).layer;
            layer.below.filter(|_| !layer.clone)
        })
    }

    /// Layers of the deepest stack that the one at `index` belongs to.
    pub(crate) fn layers_with(&self, index: u16) -> u64 {
        let stacks = self.users().filter(|top| self.below(*top).any(|layer| layer == index));
        stacks.map(|top| 1 + self.below(top).count() as u64).max().unwrap_or(1)
    }

    /// Whether the layer at `index` is still `id`, and what a deleted snapshot left.
    pub(crate) fn is_nameless(&self, index: u16, id: VolumeId) -> bool {
        self.is(index, id) && self.map(index).layer.nameless && !self.map(index).deleted
    }

    /// A walk through the layer at `index` is due, if it is still `id`.
    pub(crate) fn walk_again(&mut self, index: u16, id: VolumeId) {
        if self.is(index, id) {
            self.map_mut(index).layer.walked = None;
        }
    }

    /// The index of the volume of which the map at `index` is a snapshot, if it is one.
    pub(crate) fn snapshot_of(&self, index: u16) -> Option<u16> {
        let layer = &self.map(index).layer;
        let above = |index: u16| self.children(index).find(|above| !self.map(*above).layer.clone);
        let above = std::iter::successors(above(index), |index| above(*index));
        above.last().filter(|_| layer.frozen && !layer.nameless)
    }

    /// The index of the snapshot of which the volume at `index` is a clone, if it is one and the snapshot is there.
    pub(crate) fn clone_of(&self, index: u16) -> Option<u16> {
        let lowest = self.own_layers(index).last()?;
        let below = self.map(lowest).layer.below?;
        Some(below).filter(|below| !self.map(*below).layer.nameless)
    }

    /// The name for users of the volume or snapshot at `index`.
    pub(crate) fn name(&self, index: u16) -> VolumeName {
        let own = &self.map(index).name;
        let of = self.snapshot_of(index).map(|top| &self.map(top).name);
        // Both together may have become too long.
        of.and_then(|of| VolumeName::of_snapshot(of, own)).unwrap_or_else(|| own.clone())
    }

    /// How many snapshots were deleted since the opening.
    pub(crate) fn snapshots_deleted(&self) -> u64 {
        self.snapshots_deleted
    }

    /// The layers of snapshots that were deleted.
    pub(crate) fn nameless(&self) -> &[u16] {
        &self.nameless
    }

    /// Whether a layer below the one at `index` may have blocks in a page. A nameless layer may: what a walk unmapped
    /// there may come back in a crash.
    pub(crate) fn is_below(&self, index: u16, page: u64) -> bool {
        let there = |below: u16| {
            let map = self.map(below);
            page < map.pages() && (map.layer.nameless || !map.is_blank(page))
        };
        page * PAGE < self.map(index).layer.least && self.below(index).any(there)
    }

    /// The layer that has `lba` of the volume at `index`, and the mapping there. All pages must be known that
    /// [`crate::engine::Parts::loaded_through`] looks at.
    pub(crate) fn find(&self, index: u16, lba: u64) -> (u16, Option<Mapping>) {
        let mut at = index;
        loop {
            let map = self.map(at);
            let mapping = map.look_up(lba);
            match map.layer.below {
                Some(below)
                    if mapping == Some(Mapping::Unmapped)
                        && lba < map.layer.least.min(self.map(below).blocks) =>
                {
                    at = below;
                }
                _ => return (at, mapping),
            }
        }
    }
}
