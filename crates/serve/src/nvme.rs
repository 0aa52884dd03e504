//! The volumes as namespaces of NVMe over TCP.

use std::net::TcpListener;
use std::sync::Arc;

use thermocline_nvme::{NvmeServer, Subsystem};
use thermocline_runtime::Settings;
use thermocline_target::Exports;

use crate::Error;
use crate::backend::Backend;
use crate::front_ends::{Address, FrontEnd};
use crate::log::Log;

/// A subsystem with a namespace for each volume.
pub struct Nvme {
    server: NvmeServer,
    subsystem: Subsystem,
}

impl Nvme {
    /// Serves `exports` of the pool `id` at `address`. Other machines may reach the address only if `settings` allow an
    /// insecure network.
    ///
    /// # Errors
    /// When the address cannot be had, or may not.
    pub fn serve(
        address: &str,
        settings: &Settings,
        id: &str,
        exports: &Exports,
        log: &Log,
    ) -> Result<Nvme, Error> {
        let cannot = |error| Error::Refused(format!("no NVMe over TCP on {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(cannot)?;
        let bound = listener.local_addr()?;
        if !bound.ip().is_loopback() && !settings.serve.insecure_network {
            return Err(Error::OpenNvme(bound));
        }
        // A drive without a pool has no identifier of its own.
        let id = match Backend::is_drive(settings) {
            true => format!("{id} {}", settings.file().canonicalize()?.display()),
            false => id.to_owned(),
        };
        let (subsystem, clients) = (Subsystem::new(&id), log.clone());
        let watcher = move |event| clients.client(event);
        let server = NvmeServer::start(listener, exports.clone(), subsystem.clone(), watcher);
        Ok(Nvme { server: server.map_err(cannot)?, subsystem })
    }
}

impl FrontEnd for Nvme {
    fn address(&self) -> Address {
        let (address, subsystem) = (self.server.address(), self.subsystem.clone());
        Arc::new(move |volume| {
            let (name, uuid) = (subsystem.name(), subsystem.volume(volume.as_str()));
            Some(format!("nvme+tcp://{address}/{name}?uuid={uuid}"))
        })
    }

    fn not_ended(&self) -> &'static str {
        "not every host of NVMe over TCP got an answer"
    }

    fn end(self: Box<Self>, _log: &Log) {
        self.server.stop();
    }
}
