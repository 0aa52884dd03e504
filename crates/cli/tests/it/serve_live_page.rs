//! The live page of a served pool, in a browser.

use thermocline_nbd::protocol::request::Command;

use super::programs::{client, have};
use super::serve::{Served, format};
use super::serve_bounds::free_port;
use crate::{scratch, write};

/// The page after 20 seconds of the browser's clock, which does not wait for a request that takes longer.
fn rendered(served: &Served, port: u16) -> String {
    let profile = served.folder.join("browser").display().to_string();
    client(
        &served.folder,
        "chromium",
        &[
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            &format!("--user-data-dir={profile}"),
            "--virtual-time-budget=20000",
            "--dump-dom",
            &format!("http://127.0.0.1:{port}/"),
        ],
    )
}

#[test]
fn the_live_page_shows_volumes_writes_and_the_state_of_the_pool() {
    if !have(&["chromium"]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let port = free_port();
    let served = Served::start(folder, &format!("--http 127.0.0.1:{port}"));
    let mut main = served.client("main");
    main.call(Command::Write, 0, 0, 0, &[7; 3 << 20]).expect("written");
    let page = rendered(&served, port);
    for shown in [
        "✔ healthy",
        "<td>main</td>",
        "<td>second</td>",
        "3 MiB (1.00)",
        "<td>48 MiB</td>",
        "mean age",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    drop(main);
    assert_eq!(served.stop(), 0);
    // A pool in use beyond its mark needs attention.
    let text = std::fs::read_to_string(folder.join("pool.toml")).expect("settings");
    write(folder, "pool.toml", format!("{text}\n[pool]\nfull_warning = 0.01\n"));
    let served = Served::start(folder, &format!("--http 127.0.0.1:{port}"));
    let page = rendered(&served, port);
    assert!(page.contains("▲ needs attention"), "{page}");
    assert!(page.contains("The pool is nearly full"), "{page}");
    assert_eq!(served.stop(), 0);
}
