//! `serve --daemon`, which starts a server in the background, and `serve --wait`, which waits for one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::Context as _;
use thermocline_serve::{Error, fetch, status_socket};

use super::super::print;

/// The line that ends the output of a daemon when its volumes can be connected.
pub const READY: &str = "ready";

/// Starts this command again in the background, and waits until its volumes can be connected. Messages of the daemon
/// go to `POOL.log` beside the settings; the messages of the start are also shown here.
///
/// # Errors
/// When the program cannot be started, or the log cannot be written.
pub fn start(settings: &Path) -> anyhow::Result<ExitCode> {
    let path = settings.with_extension("log");
    let is_new = !path.exists();
    let log = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(&path);
    let mut log = log.with_context(|| format!("{}: cannot be written", path.display()))?;
    let before = log.metadata()?.len();
    let mut daemon = Command::new(env::current_exe()?)
        .args(["serve", "--detached"])
        // The first argument is `serve`.
        .args(env::args_os().skip(2))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.try_clone()?)
        .spawn()?;
    let uris = await_ready(&mut daemon)?;
    show_from(before, &mut log)?;
    let Some(uris) = uris else {
        if is_new {
            fs::remove_file(&path)?;
        }
        let code = daemon.wait()?.code().and_then(|code| u8::try_from(code).ok());
        return Ok(ExitCode::from(code.unwrap_or(1)));
    };
    print(&format!("{uris}process {}, messages in {}\n", daemon.id(), path.display()))
}

/// The output of a daemon up to [`READY`]. `None` if the daemon ends without it.
fn await_ready(daemon: &mut Child) -> io::Result<Option<String>> {
    let mut uris = String::new();
    for line in BufReader::new(daemon.stdout.take().expect("it is piped")).lines() {
        match line? {
            line if line == READY => return Ok(Some(uris)),
            line => uris += &format!("{line}\n"),
        }
    }
    Ok(None)
}

/// Copies the part of the log from offset `from` to standard error.
fn show_from(from: u64, log: &mut File) -> io::Result<()> {
    log.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    log.read_to_end(&mut text)?;
    // A closed standard error is ignored: the log has the messages.
    let _unheard = io::stderr().write_all(&text);
    Ok(())
}

/// Prints the URIs of the volumes as soon as another process serves the pool.
///
/// # Errors
/// [`Error::NotServed`] when `patience` has passed.
pub fn wait(settings: &Path, patience: Duration) -> anyhow::Result<ExitCode> {
    let socket = status_socket(settings);
    let began = Instant::now();
    let status = loop {
        match fetch(&socket) {
            Err(Error::NotServed { .. }) if began.elapsed() < patience => {
                thread::sleep(Duration::from_millis(20));
            }
            other => break other?,
        }
    };
    let uris = status["uris"].as_array().into_iter().flatten().filter_map(|uri| uri.as_str());
    print(&uris.map(|uri| format!("{uri}\n")).collect::<String>())
}
