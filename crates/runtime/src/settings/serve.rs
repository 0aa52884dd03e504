//! How a pool is served.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use std::time::Duration;

use serde::Deserialize;

use super::Settings;
use super::pool::{CONNECTIONS, PATIENCE};
use crate::{Pool, PoolUpkeep, VolumeLimits};

/// How a pool is served; `None` is the default of the server, and its command line goes before all of this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServeSettings {
    /// Unix socket of clients; from the folder of the settings file on, if it is relative, as all paths here.
    pub socket: Option<PathBuf>,
    /// TCP addresses of clients, each as `HOST:PORT`.
    pub listen: Vec<String>,
    /// Folder to mount on, where every volume becomes a file.
    pub fuse: Option<PathBuf>,
    /// Whether every volume becomes a block device `/dev/ublkbN`.
    pub ublk: bool,
    /// Folder of vhost-user sockets, where every volume is a disk for a virtual machine.
    pub vhost_user: Option<PathBuf>,
    /// TCP address of hosts of NVMe over TCP, as `HOST:PORT`.
    pub nvme_tcp: Option<String>,
    /// TCP address of status and metrics, as `HOST:PORT`.
    pub http: Option<String>,
    /// Names of this machine by which status and metrics are asked for on that address, beside addresses and
    /// `localhost`.
    pub http_hosts: Vec<String>,
    /// Connections at once.
    pub connections: Option<usize>,
    /// Seconds that clients, and then the device, have to end at a stop.
    pub patience: Option<u64>,
    /// Seconds for which something may be at risk before the server flushes on its own; 0: for ever.
    pub flush_after: Option<u64>,
    /// File that requests of clients are recorded in, as a trace; if it exists, a new one with a number.
    pub record_trace: Option<PathBuf>,
    /// Certificates of the server, as PEM.
    pub tls_certificate: Option<PathBuf>,
    /// Its private key, as PEM.
    pub tls_key: Option<PathBuf>,
    /// Certificates of the authorities whose clients may connect, as PEM.
    pub tls_clients: Option<PathBuf>,
    /// Whether the network is served without encryption, to whoever comes.
    pub insecure_network: bool,
}

impl ServeSettings {
    /// Bounds of [`ServeSettings::connections`].
    pub const CONNECTIONS: RangeInclusive<u64> = wide(&CONNECTIONS);
    /// Bounds of [`ServeSettings::patience`], in seconds.
    pub const PATIENCE: RangeInclusive<u64> = wide(&PATIENCE);
    const FLUSH_AFTER: RangeInclusive<u64> = 0..=86_400;

    /// Paths as seen from where `folder` is seen.
    pub(super) fn begin_at(&mut self, folder: &Path) {
        let tls = [&mut self.tls_certificate, &mut self.tls_key, &mut self.tls_clients];
        let folders = [&mut self.fuse, &mut self.vhost_user];
        let paths = [&mut self.socket, &mut self.record_trace].into_iter().chain(folders);
        let paths = paths.chain(tls);
        for path in paths.flatten() {
            *path = folder.join(&*path);
        }
    }

    /// The first key that cannot be, and why.
    pub(super) fn objection(&self) -> Option<(String, String)> {
        let listen = self.listen.iter().enumerate();
        let listen = listen.map(|(index, address)| (format!("listen[{index}]"), address));
        let single = [("http", &self.http), ("nvme_tcp", &self.nvme_tcp)];
        let single =
            single.into_iter().filter_map(|(key, one)| Some((key.to_owned(), one.as_ref()?)));
        let addresses = listen.chain(single);
        for (key, address) in addresses {
            if !is_address(address) {
                let reason = format!("`{address}` is no HOST:PORT, such as 127.0.0.1:10809");
                return Some((key, reason));
            }
        }
        if let Some(after) = self.flush_after.filter(|after| !Self::FLUSH_AFTER.contains(after)) {
            let (least, most) = (Self::FLUSH_AFTER.start(), Self::FLUSH_AFTER.end());
            let reason = format!("is {after}, must be {least} to {most}");
            return Some(("flush_after".to_owned(), reason));
        }
        for (key, number, range) in [
            ("connections", self.connections.map(|most| most as u64), Self::CONNECTIONS),
            ("patience", self.patience, Self::PATIENCE),
        ] {
            if let Some(number) = number.filter(|number| !range.contains(number)) {
                let reason = format!("is {number}, must be {} to {}", range.start(), range.end());
                return Some((key.to_owned(), reason));
            }
        }
        let tls = [
            ("tls_certificate", &self.tls_certificate),
            ("tls_key", &self.tls_key),
            ("tls_clients", &self.tls_clients),
        ];
        let any = tls.iter().any(|(_, file)| file.is_some());
        let missing = tls.iter().find(|(_, file)| any && file.is_none());
        missing.map(|(key, _)| {
            let reason = "is missing: TLS takes tls_certificate, tls_key and tls_clients";
            ((*key).to_owned(), reason.to_owned())
        })
    }
}

/// The same bounds for a longer type.
const fn wide(range: &RangeInclusive<u32>) -> RangeInclusive<u64> {
    *range.start() as u64..=*range.end() as u64
}

/// Whether a text has the form of an address. Listening shows whether the address is available.
fn is_address(text: &str) -> bool {
    let parts = text.rsplit_once(':');
    parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

/// Seconds for which something may be at risk. Chosen: as ext4 commits (`commit=5`, `ext4(5)`).
const FLUSH_AFTER: u64 = 5;

impl Settings {
    /// Work that an open pool does on its own; without scrubs.
    #[must_use]
    pub fn upkeep(&self) -> PoolUpkeep {
        let after = self.serve.flush_after.unwrap_or(FLUSH_AFTER);
        let flush_after = (after > 0).then_some(Duration::from_secs(after));
        let (endurance, marks) = (self.endurance(), self.fullness_marks());
        PoolUpkeep { flush_after, endurance, marks, ..PoolUpkeep::default() }
    }

    /// Gives the volumes of `pool` the limits that are stated here. Returns the names that are no volume of it.
    pub fn set_limits(&self, pool: &Pool) -> Vec<String> {
        let limited = self.volumes.iter().filter(|one| one.limits() != VolumeLimits::default());
        let missing = limited.filter(|stated| match pool.volume(&stated.name) {
            Some(volume) => !pool.set_limits(volume.id(), stated.limits()),
            None => true,
        });
        missing.map(|stated| stated.name.clone()).collect()
    }
}
