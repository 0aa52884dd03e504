//! Serves a pool from within a program: a client writes and reads a volume by NBD, then the service ends.

use std::error::Error;
use std::fs;
use std::os::unix::net::UnixStream;
use std::thread;

use thermocline_nbd::Client;
use thermocline_nbd::protocol::request::{Command, Framing};
use thermocline_runtime::{new_pool_id, opening};
use thermocline_serve::{Options, PoolServer, Settings, fetch, status_socket};

const POOL: &str =
    "device = { path = 'pool.img', size = '256MiB' }\nvolumes = [{ name = 'main' }]\n";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("pool.toml");
    fs::write(&file, POOL)?;
    let settings = Settings::load(&file)?;
    opening::create(&settings, new_pool_id()?)?;

    let server = PoolServer::open(&settings, Options::default())?;
    println!("{}", server.uris().join("\n"));
    let stop = server.stop_handle();
    let service = thread::spawn(move || server.run());

    let socket = UnixStream::connect(folder.path().join("pool.sock"))?;
    let mut client = Client::connect(socket, "main", Framing::Simple)?;
    client.call(Command::Write, 0, 0, 0, &[7; 4096])?;
    client.call(Command::Flush, 0, 0, 0, &[])?;
    let read = client.call(Command::Read, 0, 0, 4096, &[])?;
    assert_eq!(read.data, [7; 4096]);

    let status = fetch(&status_socket(&file))?;
    println!("{} bytes written by hosts", status["engine"]["host_bytes_written"]);
    stop.stop();
    service.join().expect("the service does not panic")?;
    Ok(())
}
