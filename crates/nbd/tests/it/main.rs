//! The server as its clients meet it, over a target in memory.

mod hostile;
mod service;

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use thermocline_nbd::protocol::request::Framing;
use thermocline_nbd::{Client, Limits, Listener, Server, Stopper};
use thermocline_target::{BlockTarget, Export, Exports, Memory};
use thermocline_types::Bytes;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a thread.
struct Running {
    folder: tempfile::TempDir,
    stopper: Stopper,
    thread: Option<JoinHandle<bool>>,
}

impl Running {
    /// Serves `main`, a megabyte in sectors, and `fixed`, the same but read-only.
    fn start(limits: Limits) -> Running {
        let memory: Arc<dyn BlockTarget> = Arc::new(Memory::new(Bytes::mib(1), Bytes(512)));
        Running::serve(limits, &memory)
    }

    fn serve(limits: Limits, target: &Arc<dyn BlockTarget>) -> Running {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let socket = UnixListener::bind(folder.path().join("socket")).expect("a socket");
        let export = |name: &str, read_only| {
            let target = Arc::clone(target);
            Export { name: name.to_owned(), target, read_only }
        };
        let exports = Exports::new(vec![export("main", false), export("fixed", true)]);
        let server = Server::new(vec![Listener::unix(socket)], exports, limits).expect("a server");
        let stopper = server.stopper();
        let thread = Some(std::thread::spawn(move || server.run(PATIENCE)));
        Running { folder, stopper, thread }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path()).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    fn client(&self, export: &str, framing: Framing) -> Client<UnixStream> {
        Client::connect(self.raw(), export, framing).expect("the server speaks NBD")
    }

    /// Stops it; returns whether every connection ended.
    fn stop(mut self) -> bool {
        self.stopper.stop();
        self.thread.take().expect("it runs").join().expect("it did not panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}
