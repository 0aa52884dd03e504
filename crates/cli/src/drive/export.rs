//! `drive export`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use thermocline_drive::{DriveSampler, HealthReading, metrics};

const ABOUT: &str = "\
Serves /metrics for Prometheus until Ctrl-C: bytes of hosts and media, WAF, used endurance, spare, temperature, errors of
each drive, with the log page of each number. Drives are read as root, at most once in five seconds.

Example:
  thermocline drive export --http 127.0.0.1:9400 fdp.json";

/// Time that a client may take for its request.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request that are read.
const REQUEST: u64 = 8192;

/// Arguments of `drive export`.
#[derive(Args)]
#[command(after_help = ABOUT)]
pub struct DriveExportArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: SocketAddr,
    /// Drives, or records that another program renews [default: all drives of the machine]
    #[arg(value_name = "DRIVE|RECORD")]
    drives: Vec<PathBuf>,
}

/// Serves metrics until the program ends.
///
/// # Errors
/// When the address is taken.
pub fn export(args: &DriveExportArgs) -> anyhow::Result<()> {
    let listener = TcpListener::bind(args.http);
    let listener = listener.with_context(|| format!("cannot listen on {}", args.http))?;
    eprintln!("http://{}/metrics", listener.local_addr()?);
    let mut samplers: Vec<DriveSampler> = Vec::new();
    for stream in listener.incoming() {
        // A client that fails is no reason to end.
        let _ = stream.and_then(|stream| answer(&stream, args, &mut samplers));
    }
    Ok(())
}

fn answer(
    stream: &TcpStream,
    args: &DriveExportArgs,
    samplers: &mut Vec<DriveSampler>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = BufReader::new(stream.take(REQUEST));
    let mut first = String::new();
    request.read_line(&mut first)?;
    let mut line = String::new();
    while request.read_line(&mut line)? > 2 {
        line.clear();
    }
    let (status, body) = match first.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/metrics" | "/", _] => ("200 OK", page(args, samplers)),
        _ => ("404 Not Found", "GET /metrics is all there is\n".to_owned()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Metrics of the drives that are named, or of all that the machine has now.
fn page(args: &DriveExportArgs, samplers: &mut Vec<DriveSampler>) -> String {
    let all = || thermocline_drive::list().into_iter().map(|one| one.path).collect();
    let wanted: Vec<PathBuf> = if args.drives.is_empty() { all() } else { args.drives.clone() };
    samplers.retain(|one| wanted.iter().any(|path| path == one.path()));
    for path in &wanted {
        if !samplers.iter().any(|one| one.path() == path) {
            samplers.push(DriveSampler::new(path));
        }
    }
    let now = Instant::now();
    let readings: Vec<(PathBuf, Option<HealthReading>)> = samplers
        .iter_mut()
        .map(|one| (one.path().to_owned(), one.reading(now).ok().cloned()))
        .collect();
    let readings: Vec<(&Path, Option<&HealthReading>)> =
        readings.iter().map(|(path, reading)| (path.as_path(), reading.as_ref())).collect();
    metrics(&readings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_served_and_a_drive_that_cannot_be_read_is_told() {
        let record = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(record.path(), "{\"hbmw\": 1000, \"mbmw\": 1500}").expect("writable");
        let http = "127.0.0.1:0".parse().expect("an address");
        let args = DriveExportArgs { http, drives: vec![record.path().to_owned(), "/none".into()] };
        let ask = |request: &'static [u8]| {
            let listener = TcpListener::bind(http).expect("a port");
            let mut client =
                TcpStream::connect(listener.local_addr().expect("it is bound")).expect("open");
            client.write_all(request).expect("it listens");
            let (stream, _) = listener.accept().expect("the client");
            answer(&stream, &args, &mut Vec::new()).expect("the client reads");
            drop(stream);
            let mut told = String::new();
            client.read_to_string(&mut told).expect("text");
            told
        };
        let told = ask(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(told.starts_with("HTTP/1.1 200 OK\r\n"), "{told}");
        for end in [
            "page=\"FDP statistics, page 22h\"} 1500",
            "page=\"FDP statistics, page 22h\"} 1.5",
            "thermocline_drive_readable{device=\"/none\"} 0",
        ] {
            assert!(told.lines().any(|line| line.ends_with(end)), "{end}: {told}");
        }
        assert!(ask(b"GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    }
}
