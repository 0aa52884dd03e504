//! Checks of the kernel and the machine.

use std::fs::{self, OpenOptions};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use thermocline_format::LogicalBlock;
use thermocline_nbd::{Limits, Tls, Validity, validity};
use thermocline_runtime::storage::{Access, File, IoEngine, Layout, OpenErrorKind, Options};
use thermocline_runtime::{ServeSettings, Settings};
use thermocline_serve::sockets::{self, LONGEST};
use thermocline_serve::{date, open_files, status_socket};
use thermocline_ublk::UblkError;

use super::Finding;

/// Findings about the needs of a server for the pool at `path`.
pub fn for_pool(settings: &Settings, path: &Path) -> Vec<Finding> {
    let serve = &settings.serve;
    let mut findings = vec![io_uring(settings, path), files(serve)];
    findings.push(socket(path, serve));
    findings.extend(network(serve));
    findings
}

fn io_uring(settings: &Settings, path: &Path) -> Finding {
    let mut asked = settings.devices.iter().map(|device| device.io);
    if asked.all(|io| matches!(io, Some(IoEngine::Threads | IoEngine::Inline))) {
        return Finding::ok("io_uring", "not asked for (device.io)");
    }
    let layout = Layout::contiguous(LogicalBlock::B4096, 1, 0);
    let options = Options {
        engine: IoEngine::Uring,
        threads: 1,
        direct: Some(false),
        access: Access::ReadOnly,
        ..Options::default()
    };
    // Try with the settings file: it exists, and no process locks it for long.
    let error = match File::open(path, false, layout, &options) {
        Ok(_) => return Finding::ok("io_uring", "the kernel has it and allows it"),
        Err(error) => error,
    };
    if matches!(error.kind(), OpenErrorKind::InUse(_)) {
        return Finding::warn("io_uring", "it could not be tried just now", "try again");
    }
    let cause = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
    let switch = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    let remedy = match switch.trim() {
        "1" | "2" => "sysctl kernel.io_uring_disabled=0",
        _ => "take Linux 5.11 or later, and a container that allows io_uring",
    };
    if settings.devices.iter().any(|one| one.io == Some(IoEngine::Uring)) {
        let reason = format!("device.io asks for it, and there is none: {cause}");
        return Finding::fail("io_uring", reason, format!("{remedy}; or device.io = \"auto\""));
    }
    let reason = format!("there is none ({cause}); threads do the transfers, more slowly");
    Finding::warn("io_uring", reason, remedy)
}

/// Open files. A server raises its soft limit to the hard limit.
fn files(serve: &ServeSettings) -> Finding {
    let connections = serve.connections.unwrap_or(Limits::default().connections);
    let needed = open_files::needed(connections);
    match open_files::allowed() {
        Some(limit) if limit < needed => {
            let reason =
                format!("{limit} files may be open; {connections} connections want {needed}");
            let remedy = "raise it (`ulimit -Hn`, LimitNOFILE=), or lower serve.connections";
            Finding::warn("open files", reason, remedy)
        }
        Some(limit) => {
            Finding::ok("open files", format!("{limit} may be open, {needed} are needed"))
        }
        None => Finding::ok("open files", "there is no limit"),
    }
}

/// Whether the server can make its sockets at their paths.
fn socket(settings: &Path, serve: &ServeSettings) -> Finding {
    let own = serve.socket.clone().unwrap_or_else(|| sockets::beside(settings, "sock"));
    for path in [own, status_socket(settings)] {
        let length = path.as_os_str().len();
        if length > LONGEST {
            let reason = format!("{} has {length} bytes; a socket has {LONGEST}", path.display());
            return Finding::fail("socket", reason, "move the settings, or set serve.socket");
        }
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        let may = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        if let Err(error) = rustix::fs::access(folder, may) {
            let reason = format!("none can be made in {}: {error}", folder.display());
            return Finding::fail("socket", reason, "make the folder writable for this user");
        }
    }
    Finding::ok("socket", "sockets can be made where they are to be")
}

fn network(serve: &ServeSettings) -> Option<Finding> {
    let tls = serve.tls_certificate.as_deref().zip(serve.tls_key.as_deref());
    if let Some(((certificate, key), clients)) = tls.zip(serve.tls_clients.as_deref()) {
        return Some(match Tls::from_files(certificate, key, clients) {
            Ok(_) => times(certificate).unwrap_or_else(|| encrypted(serve)),
            Err(error) => Finding::fail("TLS", error.to_string(), "correct the files in [serve]"),
        });
    }
    let open = |address: &&String| {
        let address = address.parse::<SocketAddr>();
        address.is_ok_and(|address| !address.ip().is_loopback())
    };
    let address = serve.listen.iter().find(open).filter(|_| !serve.insecure_network)?;
    let reason = format!("{address} can be reached by others, and there is no TLS");
    Some(Finding::fail("TLS", reason, "set the three tls files, or insecure_network = true"))
}

/// A finding if the server's certificate is not valid now, or expires soon.
fn times(certificate: &Path) -> Option<Finding> {
    /// Enough time to get a new certificate. Chosen.
    const SOON: Duration = Duration::from_secs(14 * 86400);
    let (shown, now) = (certificate.display(), SystemTime::now());
    let renew = "get a new certificate from its authority (serve.tls_certificate), and start the server again";
    match (validity(certificate, now), validity(certificate, now + SOON)) {
        (Ok(Validity::From(begin)), _) => {
            let reason = format!("{shown} is not valid before {}: clients refuse it", date(begin));
            let remedy =
                "correct the clock of this machine, or take a certificate that is valid now";
            Some(Finding::fail("TLS", reason, remedy))
        }
        (Ok(Validity::Until(end)), _) => {
            let reason = format!("{shown} has expired on {}: clients refuse it", date(end));
            Some(Finding::fail("TLS", reason, renew))
        }
        (Err(error), _) => Some(Finding::fail("TLS", error.to_string(), renew)),
        (Ok(Validity::Valid), Ok(Validity::Until(end))) => {
            let reason = format!("{shown} expires on {}: clients refuse it then", date(end));
            Some(Finding::warn("TLS", reason, renew))
        }
        (Ok(Validity::Valid), _) => None,
    }
}

fn encrypted(serve: &ServeSettings) -> Finding {
    if serve.listen.is_empty() {
        let reason = "certificates and key are there, and no TCP address that they are for";
        return Finding::warn("TLS", reason, "set serve.listen, or take the tls files out");
    }
    Finding::ok("TLS", "certificates and key fit each other, and are valid")
}

/// Findings about optional features for clients on this machine. A server needs them only as far as its settings name
/// them: ublk if `is_asked`.
pub fn for_clients(is_asked: bool) -> Vec<Finding> {
    vec![kernel_nbd(), kernel_nvme(), ublk(is_asked), fuse(), programs()]
}

fn ublk(is_asked: bool) -> Finding {
    let Err(error) = thermocline_ublk::probe() else {
        return Finding::ok(
            "ublk",
            "the kernel has it for volumes as block devices, and allows it",
        );
    };
    let remedy = match error {
        UblkError::NoDriver => "`modprobe ublk_drv`",
        UblkError::Old(_) => "take Linux 6.5 or later",
        _ => "serve as root, outside of a container",
    };
    if is_asked {
        return Finding::fail(
            "ublk",
            error.to_string(),
            format!("{remedy}; or serve.ublk = false"),
        );
    }
    Finding::warn("ublk", error.to_string(), format!("{remedy}; NBD does without it"))
}

fn kernel_nbd() -> Finding {
    if Path::new("/dev/nbd0").exists() {
        return Finding::ok("nbd", "the kernel has /dev/nbd0 for volumes as block devices");
    }
    let reason = "there is no /dev/nbd0: volumes cannot be block devices of this machine";
    Finding::warn("nbd", reason, "`modprobe nbd`; other clients do without it")
}

fn kernel_nvme() -> Finding {
    if Path::new("/dev/nvme-fabrics").exists() {
        let reason = "the kernel has /dev/nvme-fabrics for volumes as NVMe namespaces (nvme_tcp)";
        return Finding::ok("nvme-tcp", reason);
    }
    let reason = "there is no /dev/nvme-fabrics: volumes cannot be NVMe namespaces of this machine";
    Finding::warn("nvme-tcp", reason, "`modprobe nvme-tcp`; other clients do without it")
}

fn fuse() -> Finding {
    match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Finding::ok("fuse", "/dev/fuse can be opened, for volumes as files"),
        Err(error) => {
            let reason = format!("/dev/fuse: {error}: volumes cannot be files");
            Finding::warn("fuse", reason, "`modprobe fuse`; NBD does without it")
        }
    }
}

fn programs() -> Finding {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let has = |name: &&str| {
        let paths = std::env::split_paths(&paths).chain(["/usr/sbin".into(), "/sbin".into()]);
        paths.into_iter().any(|path| path.join(name).exists())
    };
    let found: Vec<&str> =
        ["nbd-client", "qemu-nbd", "qemu-img", "nbdcopy", "fio"].into_iter().filter(has).collect();
    if found.is_empty() {
        let remedy = "install nbd-client, libnbd-bin or qemu-utils (names of Debian)";
        return Finding::warn("clients", "there is none on this machine", remedy);
    }
    Finding::ok("clients", found.join(", "))
}
