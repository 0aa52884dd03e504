//! Requests for blocks of which the map is not in memory.

use std::collections::BTreeMap;
use std::rc::Rc;

use thermocline_engine::{Config, DeviceError, Extent, HostError, HostRequest, Reply, RequestId};
use thermocline_format::{PAGE_ENTRIES, VolumeId, VolumeName};
use thermocline_sim::damage::{Structure, targets};
use thermocline_sim::data::{Arena, Data, Sector};
use thermocline_sim::disk::{Disk, Image, Latency};
use thermocline_sim::faults::{CommandKind, Fault, Injector, Rule};
use thermocline_sim::machine::{Event, Machine};
use thermocline_sim::settings::{Scale, Settings};
use thermocline_types::Time;

use crate::asking::{ask, create, submit, write};

/// A pool that was closed, with a volume whose map has two pages.
struct Closed {
    arena: Rc<Arena>,
    config: Config,
    image: Image,
    volume: VolumeId,
}

impl Closed {
    fn new() -> Closed {
        let Settings { config, media, .. } = Settings::draw(1, Scale::Small);
        let arena = Arena::new();
        let disk = Disk::new(&arena, Image::new(media), Latency::NONE, 1);
        let mut machine = Machine::format(config.clone(), &arena, disk, 1);
        machine.wait_until_open().expect("a pool is made");
        let volume = create(&mut machine, 2 * PAGE_ENTRIES as u64);
        for lba in [0, PAGE_ENTRIES as u64] {
            ask(&mut machine, write(&arena, volume, lba, 1, true)).0.expect("it is written");
        }
        machine.close().expect("it closes");
        let image = machine.disk.cache().current().clone();
        Closed { arena, config, image, volume }
    }

    /// Opens it on a device that takes its time to read.
    fn open(&self) -> Machine {
        let latency = Latency { read: Time::seconds(1), ..Latency::NONE };
        let disk = Disk::new(&self.arena, self.image.clone(), latency, 1);
        let mut machine = Machine::open(self.config.clone(), &self.arena, disk, 1);
        machine.wait_until_open().expect("it opens");
        machine
    }

    fn first_block(&self) -> Extent {
        Extent { volume: self.volume, lba: 0, blocks: 1 }
    }
}

/// How these requests end.
fn answers<const N: usize>(
    machine: &mut Machine,
    ids: [RequestId; N],
) -> [Result<Reply, HostError>; N] {
    let mut told = BTreeMap::new();
    let mut events = Vec::new();
    while !ids.iter().all(|id| told.contains_key(id)) {
        machine.pump(&mut events);
        for event in events.drain(..) {
            if let Event::Complete(done, result) = event {
                told.insert(done, result);
            }
        }
        let over = ids.iter().all(|id| told.contains_key(id));
        assert!(over || machine.turn(), "a request never completes");
    }
    ids.map(|id| told[&id])
}

#[test]
pub fn a_trim_that_waits_for_a_page_fails_with_the_pool() {
    let pool = Closed::new();
    let mut machine = pool.open();
    let fails = Rule::from_then_on(0, CommandKind::Flush, Fault::Fail(DeviceError::Io));
    machine.disk.inject(Injector::new(vec![fails], 1));
    let opened = machine.now;
    let trim = HostRequest::Trim { extent: pool.first_block(), fua: false };
    let trim = submit(&mut machine, trim);
    let name = VolumeName::new("b").expect("a name");
    submit(&mut machine, HostRequest::CreateVolume { name, blocks: 1 });
    assert_eq!(answers(&mut machine, [trim]), [Err(HostError::Failed)]);
    assert_eq!(machine.now, opened, "before the page is there");
}

#[test]
pub fn a_volume_is_deleted_while_a_damaged_page_of_it_is_being_read() {
    let mut pool = Closed::new();
    let page = targets(&pool.arena, &pool.image).into_iter();
    let page = page.filter(|target| target.structure == Structure::Page);
    let page = page.min_by_key(|target| target.leads_to[0].1).expect("the volume has a map");
    let start = page.at.block * pool.image.media().sectors_per_logical();
    pool.image.put(page.at.unit, start, &[Sector::ZEROS]);
    let mut machine = pool.open();
    let into = Data::zeros(&pool.arena, 1);
    let read = submit(&mut machine, HostRequest::Read { extent: pool.first_block(), into });
    let delete = submit(&mut machine, HostRequest::DeleteVolume { volume: pool.volume });
    let gone = HostError::NoVolume(pool.volume);
    assert_eq!(answers(&mut machine, [read, delete]), [Err(gone), Ok(Reply::Done)]);
    let (scrubbed, _) = ask(&mut machine, HostRequest::Scrub);
    assert!(matches!(scrubbed, Ok(Reply::Scrubbed { damaged: 0, .. })), "{scrubbed:?}");
}
