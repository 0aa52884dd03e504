//! Guest memory, as the frontend shares it.

use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create};
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

/// All memory of a guest that is shared with this process.
#[derive(Debug)]
pub(crate) struct Memory {
    /// By guest address.
    pub(crate) guest: GuestMemoryMmap,
    regions: Vec<Region>,
}

/// Where the frontend has a region in its own memory.
#[derive(Clone, Copy, Debug)]
struct Region {
    theirs: u64,
    size: u64,
    guest: u64,
}

impl Memory {
    /// Maps regions.
    ///
    /// # Errors
    /// When a file is shorter than its region or may become so, or the system does not map it.
    pub(crate) fn map(regions: &[VhostUserMemoryRegion], files: Vec<File>) -> io::Result<Memory> {
        let mut mapped = Vec::new();
        for (region, file) in regions.iter().zip(files) {
            let region_of = map_file(file, region.mmap_offset, region.memory_size)?;
            let guest = GuestAddress(region.guest_phys_addr);
            mapped.push(GuestRegionMmap::new(region_of, guest).ok_or(io::ErrorKind::InvalidInput)?);
        }
        mapped.sort_by_key(|region: &GuestRegionMmap| {
            vm_memory::GuestMemoryRegion::start_addr(region)
        });
        let guest = GuestMemoryMmap::from_regions(mapped).map_err(io::Error::other)?;
        let regions = regions.iter().map(|region| Region {
            theirs: region.user_addr,
            size: region.memory_size,
            guest: region.guest_phys_addr,
        });
        Ok(Memory { guest, regions: regions.collect() })
    }

    /// The guest address of an address of the frontend.
    pub(crate) fn guest_address(&self, theirs: u64) -> Option<u64> {
        self.regions.iter().find_map(|region| {
            let offset = theirs.checked_sub(region.theirs)?;
            (offset < region.size).then(|| region.guest.checked_add(offset)).flatten()
        })
    }
}

/// Maps `size` bytes of a file of shared memory.
///
/// # Errors
/// When the file is shorter or may become so: a later access would be SIGBUS. Or the system does not map it.
pub(crate) fn map_file(file: File, offset: u64, size: u64) -> io::Result<MmapRegion> {
    let is_sealed = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    let end = offset.checked_add(size).ok_or(io::ErrorKind::InvalidInput)?;
    if !is_sealed || u64::try_from(fstat(&file)?.st_size).is_ok_and(|length| length < end) {
        let why = "shared memory must be a memfd with F_SEAL_SHRINK";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let size = usize::try_from(size).map_err(io::Error::other)?;
    MmapRegion::from_file(FileOffset::new(file, offset), size).map_err(io::Error::other)
}

/// Makes a file of zeros for [`map_file`].
///
/// # Errors
/// When the system has no memory to give.
pub(crate) fn make_file(size: u64) -> io::Result<File> {
    let file = memfd_create("thermocline-vhost", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let file = File::from(file);
    file.set_len(size)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}
