//! Changes of a pool that is being served.

use std::io::{Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use thermocline_format::VolumeName;
use thermocline_nbd::Exports;

use super::state::State;

/// Body of `POST /volumes`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewVolume {
    name: String,
    size_bytes: u64,
}

/// Makes the volume that `body` describes, durably, and serves it.
///
/// # Errors
/// When it is not described well, or the pool refuses.
pub fn create_volume(body: &mut dyn Read, state: &State, exports: &Exports) -> anyhow::Result<()> {
    /// More than a description ever has, in bytes.
    const LONGEST: u64 = 4096;
    let new: NewVolume =
        serde_json::from_reader(body.take(LONGEST)).context("no description of a volume")?;
    let name = VolumeName::new(&new.name).filter(|name| !name.as_str().is_empty());
    let name = name.context("a name has 1 to 64 bytes and no control characters")?;
    let whole = new.size_bytes > 0 && new.size_bytes.is_multiple_of(4096);
    ensure!(whole, "a volume has a multiple of 4 KiB, and not 0");
    let pool = state.pool().context("the pool is closed")?;
    let volume = pool.create_volume(name, new.size_bytes / 4096)?;
    exports.add(super::export(volume, false));
    Ok(())
}

/// Asks whoever serves a pool, on its status socket, to make a volume.
///
/// # Errors
/// When nobody answers, or the answer is no.
pub fn ask_for_volume(socket: &Path, name: &str, size_bytes: u64) -> anyhow::Result<()> {
    let stream = UnixStream::connect(socket);
    let mut stream = stream.with_context(|| format!("nobody answers on {}", socket.display()))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let body = serde_json::to_string(&NewVolume { name: name.to_owned(), size_bytes })?;
    write!(stream, "POST /volumes HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.take(1 << 20).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP")?;
    if !head.lines().next().unwrap_or_default().contains(" 201 ") {
        bail!("the server of the pool says: {}", body.trim_end());
    }
    Ok(())
}
