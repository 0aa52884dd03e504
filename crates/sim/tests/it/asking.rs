//! One request after the other, for tests that need no workload.

use std::rc::Rc;

use thermocline_engine::{Extent, HostRequest, Reply, RequestId};
use thermocline_format::{VolumeId, VolumeName};
use thermocline_sim::data::{Arena, Data, Stamp};
use thermocline_sim::machine::{Answer, Machine};
use thermocline_types::Lba;

/// Has a request carried out.
pub fn ask(machine: &mut Machine, request: HostRequest<Data>) -> Answer {
    machine.ask(request).expect("it ends")
}

/// Submits a request.
pub fn submit(machine: &mut Machine, request: HostRequest<Data>) -> RequestId {
    let id = machine.request_id();
    machine.engine.submit(machine.now, id, request).expect("there is room for a request");
    id
}

/// Makes a volume.
pub fn create(machine: &mut Machine, blocks: u64) -> VolumeId {
    let name = VolumeName::new("a").expect("a name");
    match ask(machine, HostRequest::CreateVolume { name, blocks }).0 {
        Ok(Reply::Created(volume)) => volume,
        other => panic!("making a volume was answered with {other:?}"),
    }
}

/// A write of one block that tells its version.
pub fn write(
    arena: &Rc<Arena>,
    volume: VolumeId,
    lba: u64,
    version: u64,
    fua: bool,
) -> HostRequest<Data> {
    let stamp = Stamp { volume, lba: Lba(lba), version };
    let data = Data::new(arena, std::iter::once(arena.user(stamp)));
    HostRequest::Write { extent: Extent { volume, lba, blocks: 1 }, data, fua, handle: 0 }
}
