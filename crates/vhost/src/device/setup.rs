//! Messages of the frontend (vhost-user).

use std::fs::File;
use std::io;
use std::sync::Arc;

use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    Error, GpuBackend, Result, VhostUserBackendReqHandlerMut, VhostUserProtocolFeatures as Protocol,
};

use super::{Device, Inflight, Memory, QUEUES, Ring, config, feature};
use crate::config::QUEUE_SIZE;
use crate::{inflight, memory};

/// The answer to what was not offered.
fn not_offered<T>() -> Result<T> {
    Err(Error::InvalidOperation("not offered"))
}

fn failed(error: io::Error) -> Error {
    Error::ReqHandlerError(error)
}

impl Device {
    fn ring(&mut self, index: u32) -> Result<&mut Ring> {
        self.rings.get_mut(index as usize).ok_or(Error::InvalidParam)
    }

    fn offered(&self) -> u64 {
        config::features(&self.volume, self.wear.is_some())
    }
}

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.offered() != 0 {
            return Err(Error::InvalidParam);
        }
        self.features = features;
        for ring in &mut self.rings {
            ring.set_event_idx(features & feature::EVENT_IDX != 0);
            // Otherwise each ring waits for a message.
            ring.is_enabled |= features & feature::VHOST_PROTOCOL == 0;
        }
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<Protocol> {
        Ok(Protocol::MQ | Protocol::CONFIG | Protocol::REPLY_ACK | Protocol::INFLIGHT_SHMFD)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(u64::from(QUEUES))
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        self.memory = Some(Memory::map(regions, files).map_err(failed)?);
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        let ring = self.ring(index)?;
        let idle = ring.under_way() == 0 && ring.kick().is_none();
        idle.then(|| ring.set_size(size)).flatten().ok_or(Error::InvalidParam)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        table: u64,
        used: u64,
        asked: u64,
        _log: u64,
    ) -> Result<()> {
        let memory = self.memory.as_ref().ok_or(Error::InvalidParam)?;
        let in_guest = [table, asked, used].map(|address| memory.guest_address(address));
        let [Some(table), Some(asked), Some(used)] = in_guest else {
            return Err(Error::InvalidParam);
        };
        self.ring(index)?.set_addresses(table, asked, used).ok_or(Error::InvalidParam)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.ring(index)?.base = base as u16;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        self.ring(index)?.stop();
        self.wait_until(|device| device.rings[index as usize].under_way() == 0);
        let ring = self.ring(index)?;
        ring.set_call(None);
        Ok(VhostUserVringState::new(index, u32::from(ring.position())))
    }

    fn set_vring_kick(&mut self, index: u8, kick: Option<File>) -> Result<()> {
        let queue = usize::from(index);
        let shared = self.inflight.as_ref();
        let inflight = shared.and_then(|(shared, size)| Inflight::new(shared, queue, *size));
        let memory = self.memory.as_ref().ok_or(Error::InvalidParam)?;
        let ring = self.rings.get_mut(queue).ok_or(Error::InvalidParam)?;
        let kick = kick.ok_or(Error::InvalidParam)?;
        ring.start(&memory.guest, kick, inflight).ok_or(Error::InvalidParam)
    }

    fn set_vring_call(&mut self, index: u8, call: Option<File>) -> Result<()> {
        self.ring(u32::from(index))?.set_call(call);
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _event: Option<File>) -> Result<()> {
        self.ring(u32::from(index)).map(drop)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.ring(index)?.is_enabled = enable;
        Ok(())
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let space = config::space(&self.volume.target.info());
        let (from, size) = (offset as usize, size as usize);
        let part = from.checked_add(size).and_then(|to| space.get(from..to));
        part.map(<[u8]>::to_vec).ok_or(Error::InvalidParam)
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        not_offered()
    }

    fn get_inflight_fd(&mut self, of: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (queues, size) = (of.num_queues, of.queue_size);
        if queues > QUEUES || size > QUEUE_SIZE {
            return Err(Error::InvalidParam);
        }
        let bytes = (usize::from(queues) * inflight::bytes(size)) as u64;
        let file = memory::make_file(bytes).map_err(failed)?;
        Ok((VhostUserInflight::new(bytes, 0, queues, size), file))
    }

    fn set_inflight_fd(&mut self, of: &VhostUserInflight, file: File) -> Result<()> {
        let (size, offset, bytes) = (of.queue_size, of.mmap_offset, of.mmap_size);
        let shared = memory::map_file(file, offset, bytes).map_err(failed)?;
        self.inflight = Some((Arc::new(shared), size));
        Ok(())
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        not_offered()
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        not_offered()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        not_offered()
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        not_offered()
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        not_offered()
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        not_offered()
    }

    fn check_device_state(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        not_offered()
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        not_offered()
    }
}
