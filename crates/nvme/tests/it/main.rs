//! The server as a host meets it, over targets in memory.

mod hostile;
mod initiator;
mod service;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use thermocline_nvme::{NvmeServer, Subsystem};
use thermocline_target::{BlockTarget, ClientEvent, Export, Exports, Memory};
use thermocline_types::Bytes;

use initiator::Host;

/// A server of `main`, a megabyte and a half, and `fixed`, the same but read-only.
struct Running {
    server: NvmeServer,
    exports: Exports,
    subsystem: Subsystem,
    events: Receiver<ClientEvent>,
}

fn export(name: &str, target: &Arc<dyn BlockTarget>, read_only: bool) -> Export {
    Export { name: name.to_owned(), target: Arc::clone(target), read_only }
}

impl Running {
    fn start() -> Running {
        let target: Arc<dyn BlockTarget> = Arc::new(Memory::new(Bytes(3 << 19), Bytes(512)));
        Running::serve(&target)
    }

    fn serve(target: &Arc<dyn BlockTarget>) -> Running {
        let exports =
            Exports::new(vec![export("main", target, false), export("fixed", target, true)]);
        let subsystem = Subsystem::new("pool");
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let (told, events) = channel();
        let server =
            NvmeServer::start(listener, exports.clone(), subsystem.clone(), move |event| {
                // The test may be over.
                let _unheard = told.send(event);
            });
        Running { server: server.expect("a server"), exports, subsystem, events }
    }

    fn host(&self) -> Host {
        Host::connect(self.server.address(), self.subsystem.name())
    }

    /// The namespace of a volume, as Identify tells.
    fn namespace(&self, host: &mut Host, volume: &str) -> u32 {
        let uuid = self.subsystem.volume(volume).to_string();
        let numbers = host.namespaces();
        let number = numbers.into_iter().find(|&number| host.uuid(number) == uuid);
        number.expect("a namespace with the identifier of the volume")
    }
}
