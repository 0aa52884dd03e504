//! The volumes as block devices of this machine.

use std::sync::Arc;

use thermocline_runtime::Settings;
use thermocline_target::Exports;
use thermocline_ublk::{Options, Ublk, UblkNews};

use crate::backend::Backend;
use crate::front_ends::{Address, FrontEnd};
use crate::log::Log;
use crate::{Error, sockets};

/// Devices `/dev/ublkbN`.
pub struct Disks(Ublk);

impl Disks {
    /// Makes a device for each of `exports`. The numbers of devices of pool `id` are beside its settings.
    ///
    /// # Errors
    /// If the kernel makes none.
    pub fn serve(
        settings: &Settings,
        id: &str,
        exports: &Exports,
        log: &Log,
    ) -> Result<Disks, Error> {
        let record = sockets::beside(settings.file(), "ublk");
        let writes_complete_on_devices = settings.pool.engine.write_cache == Some(false);
        let outlives_kill = writes_complete_on_devices && !Backend::is_drive(settings);
        if !outlives_kill {
            log.note(format_args!(
                "if this server is killed, users of ublk devices get errors; with write_cache = false in [pool] they wait \
                 for the next server"
            ));
        }
        let log = log.clone();
        let watcher = Box::new(move |notice| tell(notice, &log));
        let options = Options { record, pool: id.to_owned(), outlives_kill, watcher };
        Ok(Disks(Ublk::serve(exports, options)?))
    }
}

fn tell(notice: UblkNews, log: &Log) {
    match notice {
        UblkNews::Client(event) => log.client(event),
        UblkNews::Recovered { volume, device } => log.note(format_args!(
            "{device} of volume {volume:?} is served again; its users lost nothing"
        )),
        UblkNews::Lost { volume, device } => log.warn(format_args!(
            "{device} of volume {volume:?} is removed, and its users get errors: its last server was killed, and writes \
             that were not flushed are lost"
        )),
        UblkNews::Left { volume, device } => log.warn(format_args!(
            "{device} of volume {volume:?} is in use: it and its users wait for the next server"
        )),
        UblkNews::TooMany { volume } => {
            log.warn(format_args!("volume {volume:?} is no ublk device: there are too many"));
        }
        UblkNews::Failed(error) => log.warn(format_args!("{error}")),
        _ => {}
    }
}

impl FrontEnd for Disks {
    fn address(&self) -> Address {
        let devices = self.0.devices();
        Arc::new(move |volume| {
            let device = devices(volume.as_str())?;
            Some(format!("{volume}: {device}"))
        })
    }

    fn not_ended(&self) -> &'static str {
        "the ublk devices were not removed"
    }

    fn end(self: Box<Self>, _log: &Log) {
        self.0.end();
    }
}
