//! What systemd wants to hear, as `sd_notify(3)` has it.

use std::os::unix::net::UnixDatagram;

/// Tells systemd about the state of this service, if it asked for that.
pub fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let Ok(socket) = UnixDatagram::unbound() else { return };
    // A service manager that does not listen is none of ours.
    let _unheard = match path.to_str().and_then(|path| path.strip_prefix('@')) {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt as _;
            std::os::unix::net::SocketAddr::from_abstract_name(name)
                .and_then(|address| socket.send_to_addr(state.as_bytes(), &address))
        }
        _ => socket.send_to(state.as_bytes(), path),
    };
}
