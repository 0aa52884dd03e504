//! Health, status and metrics over HTTP, on a unix socket and perhaps a port; the socket, which only the user can open,
//! also accepts changes of the pool.
//!
//! One thread handles all connections. Up to [`WORKERS`] threads run the requests, because the pool may be slow.
//!
//! Invariants:
//! * `/health` and `/ready` are answered from the first moment on. Other requests wait until the pool is open.
//! * A client holds one of the [`CONNECTIONS`] places of its socket or port for at most [`LONGEST`]. A client without a
//!   running request loses the place when a new client needs the place.
//! * The port answers only requests for an address, `localhost` or a name in the settings. So a web page cannot read
//!   status by DNS rebinding.
//! * Clients cannot end the server, even by taking all descriptors.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net;
use std::os::unix::net as unix;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::{AbortHandle, spawn, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::control::Change;
use crate::health::{Health, HealthReport};
use crate::sockets::{SocketFile, listen};
use crate::state::State;
use crate::{Error, metrics};

/// Connections at once, of the socket and of the port each. Chosen, not measured.
pub const CONNECTIONS: usize = 64;

/// Threads that run requests. Chosen, not measured.
const WORKERS: usize = 4;

/// How long a client has for the head of its request, and again for the rest. Chosen, not measured.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum lifetime of a connection: longer than a client waits for a change. Chosen, not measured.
const LONGEST: Duration = Duration::from_secs(75);

/// How long a server that ends waits for clients to read their answers. Chosen, not measured.
const READING: Duration = Duration::from_secs(1);

/// Pause after a failed accept, such as for want of descriptors. Chosen, not measured.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes of the head of a request, at most. Chosen, not measured.
const HEAD: usize = 16 << 10;

/// Bytes of a body, at most: more than the description of a volume ever has.
const BODY: usize = 4096;

/// Sockets that listen.
pub struct Site {
    local: unix::UnixListener,
    file: SocketFile,
    port: Option<net::TcpListener>,
    hosts: Arc<[String]>,
}

impl Site {
    /// Listens on the socket `path`, and on the port `address` if one is given, which has the names `hosts`.
    ///
    /// # Errors
    /// When one cannot be had.
    pub fn open(path: &Path, address: Option<&str>, hosts: Vec<String>) -> Result<Site, Error> {
        let bind = |address: &str| {
            let socket = net::TcpListener::bind(address);
            socket.map_err(|error| Error::Refused(format!("no HTTP on {address}: {error}")))
        };
        let port = address.map(bind).transpose()?;
        let (local, file) = listen(path)?;
        Ok(Site { local, file, port, hosts: hosts.into() })
    }

    /// Answers requests on separate threads. Unless `changes`, changes of the pool are refused.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn serve(self, health: &Arc<Health>, changes: bool) -> Result<HttpThreads, Error> {
        let Site { local, file, port, hosts } = self;
        let runtime = runtime().map_err(Error::io("no threads for HTTP"))?;
        let answers = Answers::default();
        let (opened, mut state) = watch::channel(None);
        let handler = |changes, hosts| Handler {
            state: state.clone(),
            health: Arc::clone(health),
            answers: answers.clone(),
            changes,
            hosts,
        };
        let mut doors = Vec::new();
        {
            let _inside = runtime.enter();
            local.set_nonblocking(true)?;
            doors.push((Door::Unix(UnixListener::from_std(local)?), handler(changes, None)));
            if let Some(port) = port {
                port.set_nonblocking(true)?;
                doors.push((Door::Tcp(TcpListener::from_std(port)?), handler(false, Some(hosts))));
            }
        }
        let run = move || {
            doors
                .into_iter()
                .for_each(|(door, handler)| drop(runtime.spawn(attend(door, handler))));
            runtime.block_on(async { while state.changed().await.is_ok() {} });
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("thermocline-http".to_owned()).spawn(run)?;
        Ok(HttpThreads { opened: Some(opened), answers, thread: Some(thread), file: Some(file) })
    }
}

/// The threads that answer requests. Dropping this ends the threads and frees the port.
pub struct HttpThreads {
    /// The thread runs as long as this sender exists.
    opened: Option<watch::Sender<Option<State>>>,
    answers: Answers,
    thread: Option<JoinHandle<()>>,
    file: Option<SocketFile>,
}

impl HttpThreads {
    /// The pool is open: requests that wait for the pool are answered.
    pub fn open(&self, state: &State) {
        self.opened.iter().for_each(|opened| _ = opened.send_replace(Some(state.clone())));
    }

    /// Removes the file of the socket, so that no new client finds the server.
    pub fn hide(&mut self) {
        self.file = None;
    }

    /// Waits until all answers are sent, or until a client has taken too long to read its answer.
    pub fn wait(&self) {
        self.answers.wait();
    }
}

impl Drop for HttpThreads {
    fn drop(&mut self) {
        self.opened = None;
        // A panicked thread has printed its message.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// The number of requests that run or whose answers are not sent yet.
#[derive(Clone, Default)]
struct Answers(Arc<AtomicUsize>);

impl Answers {
    fn begin(&self) -> Answering {
        self.0.fetch_add(1, Ordering::SeqCst);
        Answering(self.clone())
    }

    fn wait(&self) {
        let until = Instant::now() + READING;
        while self.0.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// One of [`Answers`], until its connection ends.
struct Answering(Answers);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn runtime() -> io::Result<Runtime> {
    let mut builder = Builder::new_current_thread();
    builder.enable_io().enable_time().thread_name("thermocline-http");
    // The first worker is there before any client is, and stays: a system that has no threads left then ends nothing.
    builder.max_blocking_threads(WORKERS).thread_keep_alive(Duration::from_secs(u32::MAX.into()));
    let runtime = builder.build()?;
    // Where there is no thread for it, the runtime panics.
    drop(thread::Builder::new().spawn(|| {})?.join());
    drop(runtime.spawn_blocking(|| {}));
    Ok(runtime)
}

/// Where clients come from.
enum Door {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A connection of any kind.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl Door {
    async fn accept(&self) -> io::Result<Box<dyn Wire>> {
        Ok(match self {
            Door::Unix(socket) => Box::new(socket.accept().await?.0),
            Door::Tcp(socket) => Box::new(socket.accept().await?.0),
        })
    }
}

/// Accepts clients, and closes older connections when places run out.
async fn attend(door: Door, handler: Handler) {
    let mut connections = Connections::default();
    loop {
        let Ok(wire) = door.accept().await else {
            // Usually for want of descriptors: close an idle connection to free a descriptor.
            connections.make_room();
            sleep(PAUSE).await;
            continue;
        };
        if connections.is_full() && !connections.make_room() {
            continue;
        }
        let busy = Arc::new(AtomicBool::new(false));
        let task = spawn(converse(wire, handler.clone(), Arc::clone(&busy)));
        connections.0.push_back(Connection { task: task.abort_handle(), busy });
    }
}

/// Connections, the oldest first.
#[derive(Default)]
struct Connections(VecDeque<Connection>);

struct Connection {
    task: AbortHandle,
    /// Whether the client's request is running.
    busy: Arc<AtomicBool>,
}

impl Connections {
    fn is_full(&mut self) -> bool {
        self.0.retain(|connection| !connection.task.is_finished());
        self.0.len() >= CONNECTIONS
    }

    /// Closes the oldest that is not being answered; `false` if all are.
    fn make_room(&mut self) -> bool {
        let idle = self.0.iter().position(|connection| !connection.busy.load(Ordering::Relaxed));
        let oldest = idle.and_then(|index| self.0.remove(index));
        oldest.inspect(|connection| connection.task.abort()).is_some()
    }
}

/// Answers one request.
async fn converse(wire: Box<dyn Wire>, handler: Handler, busy: Arc<AtomicBool>) {
    let answering = OnceLock::new();
    let answer = service_fn(|request| handler.answer(request, &busy, &answering));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(wire), answer);
    // A client that went away, or said nothing that can be understood, needs no answer.
    let _gone = timeout(LONGEST, connection).await;
}

type Answer = Response<Full<Bytes>>;

/// Answers requests.
#[derive(Clone)]
struct Handler {
    /// `None` until the pool is open.
    state: watch::Receiver<Option<State>>,
    health: Arc<Health>,
    answers: Answers,
    /// Whether the client may change the pool.
    changes: bool,
    /// Names of this server beside addresses and `localhost`; `None`: any name.
    hosts: Option<Arc<[String]>>,
}

impl Handler {
    async fn answer(
        &self,
        request: Request<Incoming>,
        busy: &AtomicBool,
        answering: &OnceLock<Answering>,
    ) -> Result<Answer, Infallible> {
        let (head, body) = request.into_parts();
        if let Some(host) = self.stranger(&head) {
            let text = format!(
                "no answer by the name `{host}`: ask for an address, or put the name into http_hosts in [serve]"
            );
            return Ok(plain(StatusCode::MISDIRECTED_REQUEST, &text));
        }
        let body = match timeout(PATIENCE, Limited::new(body, BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => {
                let text = format!("a body has {BODY} bytes at most");
                return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE, &text));
            }
            Err(_) => return Ok(plain(StatusCode::REQUEST_TIMEOUT, "the body is too late")),
        };
        if let Some(answer) = self.of_health(&head) {
            return Ok(answer);
        }
        let mut state = self.state.clone();
        let Some(state) = state.wait_for(Option::is_some).await.ok().and_then(|one| one.clone())
        else {
            return Ok(closed());
        };
        busy.store(true, Ordering::Relaxed);
        answering.get_or_init(|| self.answers.begin());
        let changes = self.changes;
        let work = move || {
            let url = head.uri.path_and_query().map_or("", |url| url.as_str());
            do_what_is_asked(&state, changes, &head.method, url, &body)
        };
        let done = spawn_blocking(work).await;
        busy.store(false, Ordering::Relaxed);
        Ok(done.unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR, "the server failed")))
    }

    /// The host of a request, if it is not a name of this server. A request without a host is not from a browser.
    fn stranger(&self, head: &Parts) -> Option<String> {
        let hosts = self.hosts.as_ref()?;
        let stated = head.headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or("?"));
        let stated = stated.chain(head.uri.authority().map(Authority::as_str));
        stated.filter(|host| !is_ours(host, hosts)).map(str::to_owned).next()
    }

    /// The answer to a request for `/`, `/health` or `/ready`, which need no open pool. An answer is JSON if the path
    /// ends in `.json` or the client accepts JSON.
    fn of_health(&self, head: &Parts) -> Option<Answer> {
        let path = head.uri.path();
        if head.method != Method::GET {
            return None;
        }
        if path == "/" {
            return Some(page());
        }
        let accepts = head.headers.get_all(ACCEPT).iter().filter_map(|kind| kind.to_str().ok());
        let accepts = accepts.into_iter().any(|kinds| kinds.contains("application/json"));
        let name = path.strip_suffix(".json").unwrap_or(path);
        let is_json = accepts || name != path;
        let report = || self.health.report(self.state.borrow().as_ref());
        let (report, is_well) = match name {
            "/health" => (report(), HealthReport::is_healthy as fn(&HealthReport) -> bool),
            "/ready" => (report(), HealthReport::is_ready as _),
            _ => return None,
        };
        let code = if is_well(&report) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let mut answer = plain(code, &report.text());
        if is_json {
            *answer.body_mut() = Full::new(json(&report).into());
            let kind = HeaderValue::from_static("application/json");
            answer.headers_mut().insert(CONTENT_TYPE, kind);
        }
        Some(answer)
    }
}

fn closed() -> Answer {
    plain(StatusCode::SERVICE_UNAVAILABLE, "the pool is closed")
}

/// Answers a request to an open pool. Unless `changes`, changes of the pool are refused.
fn do_what_is_asked(
    state: &State,
    changes: bool,
    method: &Method,
    url: &str,
    body: &[u8],
) -> Answer {
    let change = Change::asked_for(method, url);
    if let Some(change) = change.filter(|_| changes) {
        return match change.make(body, state) {
            Ok(()) if matches!(change, Change::Create | Change::Copy(_)) => {
                plain(StatusCode::CREATED, "created")
            }
            Ok(()) => plain(StatusCode::OK, "done"),
            Err(error) => plain(StatusCode::CONFLICT, &state.why_not(error)),
        };
    }
    if *method != Method::GET {
        let text = "only GET; on the socket of a pool that is not read-only also POST /volumes, POST, PATCH and \
                    DELETE /volumes/NAME, POST /devices, POST and DELETE /trace, POST and DELETE /scrub";
        return plain(StatusCode::METHOD_NOT_ALLOWED, text);
    }
    let (kind, text) = match url {
        "/metrics" => ("text/plain; version=0.0.4", state.status().map(|one| metrics::text(&one))),
        "/status" => ("application/json", state.status().map(|one| json(&one))),
        "/units" => ("application/json", state.units().map(|one| json(&one))),
        "/scrub" => ("application/json", state.scrub().map(|one| json(&one))),
        "/superblock" => ("application/json", state.superblock().map(|one| json(&one))),
        _ => {
            let text =
                "there are /, /health, /ready, /status, /metrics, /units, /scrub and /superblock";
            return plain(StatusCode::NOT_FOUND, text);
        }
    };
    let Some(text) = text else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, &state.why_not(state.no_pool()));
    };
    let answer = Response::builder().header(CONTENT_TYPE, kind);
    answer.body(Full::new(text.into())).expect("a sound header")
}

/// A page of JSON.
fn json(page: &impl Serialize) -> String {
    serde_json::to_string(page).expect("it has no keys but texts") + "\n"
}

/// Whether a host, perhaps with a port, is an address, `localhost` or one of `names`.
fn is_ours(host: &str, names: &[String]) -> bool {
    let Ok(host) = host.parse::<Authority>() else { return false };
    let host = host.host().trim_end_matches('.');
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    address.parse::<net::IpAddr>().is_ok()
        || names
            .iter()
            .map(String::as_str)
            .chain(["localhost"])
            .any(|name| host.eq_ignore_ascii_case(name.trim_end_matches('.')))
}

/// The live page, which asks for `/status`. The policy lets the page load nothing else.
fn page() -> Answer {
    let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'";
    Response::builder()
        .header(CONTENT_TYPE, "text/html; charset=utf-8")
        .header(CONTENT_SECURITY_POLICY, policy)
        .body(Full::new(Bytes::from_static(include_bytes!("live.html"))))
        .expect("sound headers")
}

fn plain(code: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Full::new(format!("{text}\n").into()));
    *answer.status_mut() = code;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_names_that_are_ours_are_answered_for() {
        let names = ["Metrics.example".to_owned()];
        for ours in [
            "127.0.0.1",
            "127.0.0.1:9400",
            "[::1]:9400",
            "[::1]",
            "localhost",
            "LOCALHOST:9400",
            "localhost.",
            "metrics.example:9400",
            "metrics.example.",
        ] {
            assert!(is_ours(ours, &names), "{ours}");
        }
        for strange in
            ["", "evil.example", "127.0.0.1.evil.example:9400", "a@localhost.example", "?"]
        {
            assert!(!is_ours(strange, &names), "{strange}");
        }
    }
}
