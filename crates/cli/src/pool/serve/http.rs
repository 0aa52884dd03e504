//! Status and metrics over HTTP, on a unix socket and perhaps a port. Read only.

use std::path::Path;
use std::thread;

use anyhow::{Context as _, anyhow};
use tiny_http::{Header, Listener, Method, Request, Response, Server};

use super::metrics;
use super::sockets::listen;
use super::state::State;

/// Servers that wait for requests.
pub struct Site(Vec<Server>);

impl Site {
    /// Listens on the socket `path`, and on the port `address` if one is given.
    ///
    /// # Errors
    /// When one cannot be had.
    pub fn open(path: &Path, address: Option<&str>) -> anyhow::Result<Site> {
        let failed = |what: String| move |error| anyhow!("no HTTP on {what}: {error}");
        let socket = listen(path)?;
        let local = Server::from_listener(Listener::Unix(socket), None);
        let mut servers = vec![local.map_err(failed(path.display().to_string()))?];
        if let Some(address) = address {
            servers.push(Server::http(address).map_err(failed(address.to_owned()))?);
        }
        Ok(Site(servers))
    }

    /// Answers, each server on a thread of its own, until the program ends.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn serve(self, state: &State) -> anyhow::Result<()> {
        for server in self.0 {
            let state = state.clone();
            let answer = move || {
                for request in server.incoming_requests() {
                    // A reader that went away needs no answer.
                    let _gone = answer(request, &state);
                }
            };
            let builder = thread::Builder::new().name("thermocline-http".to_owned());
            builder.spawn(answer).context("no thread for HTTP")?;
        }
        Ok(())
    }
}

fn answer(request: Request, state: &State) -> std::io::Result<()> {
    let refuse = |request: Request, code: u16, text: &str| {
        request.respond(Response::from_string(format!("{text}\n")).with_status_code(code))
    };
    if *request.method() != Method::Get {
        return refuse(request, 405, "only GET");
    }
    let (kind, text): (_, fn(&super::state::Status) -> String) = match request.url() {
        "/metrics" => ("text/plain; version=0.0.4", metrics::text),
        "/status" => ("application/json", |status| {
            serde_json::to_string_pretty(status).expect("it has no keys but texts") + "\n"
        }),
        _ => return refuse(request, 404, "there are /status and /metrics"),
    };
    let Some(status) = state.status() else { return refuse(request, 503, "the pool is closed") };
    let kind = Header::from_bytes("Content-Type", kind).expect("a sound header");
    request.respond(Response::from_string(text(&status)).with_header(kind))
}
