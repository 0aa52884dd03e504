//! Status and metrics over HTTP, on a unix socket and perhaps a port; on the socket, which is the user's own, also what
//! changes the pool.

use std::path::Path;
use std::thread;

use anyhow::{Context as _, anyhow};
use tiny_http::{Header, Listener, Method, Request, Response, Server};

use super::control::Change;
use super::fronts::Fronts;
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

    /// Answers, each server on a thread of its own, until the program ends. Changes of volumes go to `fronts`; without,
    /// there can be none.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn serve(self, state: &State, fronts: Option<&Fronts>) -> anyhow::Result<()> {
        for (index, server) in self.0.into_iter().enumerate() {
            let state = state.clone();
            // The first is the socket.
            let fronts = fronts.filter(|_| index == 0).cloned();
            let answer = move || {
                for request in server.incoming_requests() {
                    // A reader that went away needs no answer.
                    let _gone = answer(request, &state, fronts.as_ref());
                }
            };
            let builder = thread::Builder::new().name("thermocline-http".to_owned());
            builder.spawn(answer).context("no thread for HTTP")?;
        }
        Ok(())
    }
}

fn answer(mut request: Request, state: &State, fronts: Option<&Fronts>) -> std::io::Result<()> {
    let plain = |request: Request, code: u16, text: &str| {
        request.respond(Response::from_string(format!("{text}\n")).with_status_code(code))
    };
    let change = Change::asked_for(request.method(), request.url());
    if let Some((change, fronts)) = change.zip(fronts) {
        let Some(pool) = state.pool() else { return plain(request, 503, "the pool is closed") };
        return match change.make(request.as_reader(), &pool, fronts) {
            Ok(()) if change == Change::Create => plain(request, 201, "created"),
            Ok(()) => plain(request, 200, "done"),
            Err(error) => plain(request, 409, &format!("{error:#}")),
        };
    }
    if *request.method() != Method::Get {
        let text = "only GET; on the socket of a pool that is not read-only also POST /volumes, PATCH /volumes/NAME and \
                    DELETE /volumes/NAME";
        return plain(request, 405, text);
    }
    let (kind, text): (_, fn(&super::state::Status) -> String) = match request.url() {
        "/metrics" => ("text/plain; version=0.0.4", metrics::text),
        "/status" => ("application/json", |status| {
            serde_json::to_string_pretty(status).expect("it has no keys but texts") + "\n"
        }),
        _ => return plain(request, 404, "there are /status and /metrics"),
    };
    let Some(status) = state.status() else { return plain(request, 503, "the pool is closed") };
    let kind = Header::from_bytes("Content-Type", kind).expect("a sound header");
    request.respond(Response::from_string(text(&status)).with_header(kind))
}
