//! A guest and its frontend: memory, rings, events.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserInflight};
use vhost::vhost_user::{Frontend, VhostUserFrontend as _, VhostUserProtocolFeatures};
use vhost::{VhostBackend as _, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Where the frontend says that it has guest memory.
const THEIRS: u64 = 0x7f00_0000_0000;
pub const MEMORY: usize = 64 << 20;
/// Entries of each of the two queues.
pub const ENTRIES: u16 = 64;
pub const QUEUES: usize = 2;
/// Bytes that belong to a queue.
const QUEUE_BYTES: u64 = 0x4000;
const ASKED: u64 = 0x1000;
const USED: u64 = 0x2000;
/// Data begins here.
pub const DATA: u64 = 1 << 20;

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// No answer takes that long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Address, length, flags, next.
pub type Descriptor = (u64, u32, u16, u16);

/// Guest memory, which outlives connections.
pub struct GuestMemory {
    file: File,
    pub memory: GuestMemoryMmap,
    /// By queue: requests and answers so far.
    pub asked: [u16; QUEUES],
    pub heard: [u16; QUEUES],
    inflight: Option<(VhostUserInflight, File)>,
}

impl GuestMemory {
    pub fn new(seals: SealFlags) -> GuestMemory {
        let file = memfd_create("guest", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(file);
        file.set_len(MEMORY as u64).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        let offset = FileOffset::new(file.try_clone().unwrap(), 0);
        let range = (GuestAddress(0), MEMORY, Some(offset));
        let memory = GuestMemoryMmap::from_ranges_with_files([range]).unwrap();
        GuestMemory { file, memory, asked: [0; QUEUES], heard: [0; QUEUES], inflight: None }
    }
}

impl Default for GuestMemory {
    fn default() -> GuestMemory {
        GuestMemory::new(SealFlags::SHRINK)
    }
}

/// A guest whose device is connected.
pub struct Guest {
    pub memory: GuestMemory,
    pub frontend: Frontend,
    kicks: Vec<EventFd>,
    pub calls: Vec<EventFd>,
    pub features: u64,
}

const fn queue(index: usize) -> u64 {
    index as u64 * QUEUE_BYTES
}

impl Guest {
    pub fn connect(socket: &Path, memory: GuestMemory) -> Guest {
        Guest::try_connect(socket, memory, u64::MAX).expect("the device is as offered")
    }

    /// Connects, and takes `wanted` features.
    pub fn try_connect(
        socket: &Path,
        mut memory: GuestMemory,
        wanted: u64,
    ) -> Result<Guest, vhost::Error> {
        let mut frontend = Frontend::connect(socket, 64).unwrap();
        frontend.set_owner()?;
        let features = frontend.get_features()? & wanted;
        frontend.get_protocol_features().unwrap();
        let protocol = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD;
        frontend.set_protocol_features(protocol).unwrap();
        frontend.set_hdr_flags(vhost::vhost_user::message::VhostUserHeaderFlag::NEED_REPLY);
        assert!(frontend.get_queue_num().unwrap() >= QUEUES as u64);
        frontend.set_features(features)?;
        if memory.inflight.is_none() {
            let asked = VhostUserInflight::new(0, 0, QUEUES as u16, ENTRIES);
            memory.inflight = Some(frontend.get_inflight_fd(&asked).unwrap());
        }
        let (inflight, file) = memory.inflight.as_ref().unwrap();
        frontend.set_inflight_fd(inflight, file.as_raw_fd()).unwrap();
        frontend.set_mem_table(&[VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: MEMORY as u64,
            userspace_addr: THEIRS,
            mmap_offset: 0,
            mmap_handle: memory.file.as_raw_fd(),
        }])?;
        let event = || EventFd::new(EFD_NONBLOCK).unwrap();
        let mut guest = Guest { memory, frontend, kicks: vec![], calls: vec![], features };
        for index in 0..QUEUES {
            let (kick, call) = (event(), event());
            guest.frontend.set_vring_num(index, ENTRIES)?;
            guest.frontend.set_vring_base(index, guest.memory.heard[index])?;
            let config = VringConfigData {
                queue_max_size: ENTRIES,
                queue_size: ENTRIES,
                flags: 0,
                desc_table_addr: THEIRS + queue(index),
                used_ring_addr: THEIRS + queue(index) + USED,
                avail_ring_addr: THEIRS + queue(index) + ASKED,
                log_addr: None,
            };
            guest.frontend.set_vring_addr(index, &config)?;
            guest.frontend.set_vring_kick(index, &kick)?;
            guest.frontend.set_vring_call(index, &call)?;
            guest.frontend.set_vring_enable(index, true)?;
            guest.kicks.push(kick);
            guest.calls.push(call);
        }
        Ok(guest)
    }

    pub fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    pub fn get(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
        bytes
    }

    pub fn describe(&self, at: u64, descriptors: &[Descriptor]) {
        for (index, (address, length, flags, next)) in (0..).zip(descriptors) {
            let entry = [
                &address.to_le_bytes()[..],
                &length.to_le_bytes(),
                &flags.to_le_bytes(),
                &next.to_le_bytes(),
            ];
            self.put(at + 16 * index, &entry.concat());
        }
    }

    /// Where descriptor `index` of a queue is.
    pub fn descriptor(of: usize, index: u16) -> u64 {
        queue(of) + 16 * u64::from(index)
    }

    /// Puts the request that begins with descriptor `head` in a ring.
    pub fn ask(&mut self, of: usize, head: u16) {
        let entry = u64::from(self.memory.asked[of] % ENTRIES);
        self.put(queue(of) + ASKED + 4 + 2 * entry, &head.to_le_bytes());
        self.memory.asked[of] = self.memory.asked[of].wrapping_add(1);
        self.show(of, self.memory.asked[of]);
    }

    /// Shows `index` as that of the next request, and kicks.
    pub fn show(&self, of: usize, index: u16) {
        let place = GuestAddress(queue(of) + ASKED + 2);
        self.memory.memory.store(index.to_le(), place, Ordering::Release).unwrap();
        self.kicks[of].write(1).unwrap();
    }

    /// The next answer, if there is one: first descriptor and bytes written.
    pub fn answer(&mut self, of: usize) -> Option<(u16, u32)> {
        let place = GuestAddress(queue(of) + USED + 2);
        let index: u16 = self.memory.memory.load(place, Ordering::Acquire).unwrap();
        let heard = self.memory.heard[of];
        if u16::from_le(index) == heard {
            return None;
        }
        let entry = queue(of) + USED + 4 + 8 * u64::from(heard % ENTRIES);
        let [a, b, _, _, c, d, e, f] = self.get(entry, 8)[..] else { panic!() };
        self.memory.heard[of] = heard.wrapping_add(1);
        // The next event is wanted for the next answer.
        let event = GuestAddress(queue(of) + ASKED + 4 + 2 * u64::from(ENTRIES));
        self.memory.memory.store(self.memory.heard[of].to_le(), event, Ordering::SeqCst).unwrap();
        Some((u16::from_le_bytes([a, b]), u32::from_le_bytes([c, d, e, f])))
    }

    /// Waits for the next answer.
    pub fn wait(&mut self, of: usize) -> (u16, u32) {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = self.answer(of) {
                return answer;
            }
            assert!(Instant::now() < until, "no answer");
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Asks in queue 0, waits, and returns the status. `output` bytes that the device writes are at [`DATA`] + 64 KiB.
    pub fn request(&mut self, kind: u32, sector: u64, body: &[u8], output: u32) -> u8 {
        self.describe_request(0, 0, DATA, (kind, sector), body, output);
        self.ask(0, 0);
        assert_eq!(self.wait(0).0, 0);
        self.get(DATA + 16, 1)[0]
    }

    /// Describes a request by three descriptors from `head` on, with header and status at `at`, its body 4 KiB
    /// and its output 64 KiB behind.
    pub fn describe_request(
        &self,
        of: usize,
        head: u16,
        at: u64,
        (kind, sector): (u32, u64),
        body: &[u8],
        output: u32,
    ) {
        self.put(
            at,
            &[&u64::from(kind).to_le_bytes()[..], &sector.to_le_bytes(), &[0xEE]].concat(),
        );
        self.put(at + 4096, body);
        let data = if output > 0 {
            (at + (64 << 10), output, WRITE | NEXT, head + 2)
        } else {
            (at + 4096, body.len() as u32, NEXT, head + 2)
        };
        let all = [(at, 16, NEXT, head + 1), data, (at + 16, 1, WRITE, 0)];
        match output > 0 || !body.is_empty() {
            true => self.describe(Guest::descriptor(of, head), &all),
            false => self
                .describe(Guest::descriptor(of, head), &[(at, 16, NEXT, head + 2), all[1], all[2]]),
        }
    }

    /// Configuration space.
    pub fn config(&mut self, length: u32) -> Vec<u8> {
        let buffer = vec![0; length as usize];
        let config = self.frontend.get_config(0, length, VhostUserConfigFlags::empty(), &buffer);
        config.unwrap().1
    }
}
