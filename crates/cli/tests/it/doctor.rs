//! `thermocline doctor` as a program.

use serde_json::Value;

use super::serve::{Served, format, format_mirrored, run};
use crate::{repository, scratch, write};

/// State and text of the finding about `what`.
fn finding<'a>(report: &'a Value, what: &str) -> (&'a str, String) {
    let findings = report["findings"].as_array().expect("a list");
    let found = findings.iter().find(|finding| finding["what"] == what);
    let found = found.unwrap_or_else(|| panic!("nothing of {what}: {report}"));
    let text = format!("{} -> {}", found["reason"], found["remedy"]);
    (found["state"].as_str().expect("a state"), text)
}

/// The report of a command that must end with this exit code.
fn report(folder: &std::path::Path, code: i32) -> Value {
    let done = run(folder, "doctor pool.toml --json");
    assert_eq!(done.code, code, "{}{}", done.out, done.err);
    let report: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(report["schema"], "thermocline.doctor/1");
    assert_eq!(report["ok"], code == 0);
    report
}

#[test]
fn a_pool_is_examined_before_it_is_made_and_after() {
    let folder = scratch();
    let folder = folder.path();
    write(
        folder,
        "pool.toml",
        "[device]\npath = 'pool.img'\nsize = '64MiB'\n[[volumes]]\nname = 'a'\n",
    );
    let new = report(folder, 0);
    assert_eq!(finding(&new, "settings").0, "ok");
    assert!(finding(&new, "device").1.contains("`thermocline format` makes it"), "{new}");
    assert_eq!(finding(&new, "pool").0, "warn");
    assert_eq!((finding(&new, "volumes").0, finding(&new, "memory").0), ("ok", "ok"));
    assert!(!folder.join("pool.img").exists(), "nothing is made");
    format(folder);
    let made = report(folder, 0);
    for what in ["device", "access", "use", "space", "pool", "volumes", "memory", "socket"] {
        assert_eq!(finding(&made, what).0, "ok", "{what}: {made}");
    }
    assert!(finding(&made, "device").1.contains("a file of 128 MiB"), "{made}");
    assert!(finding(&made, "pool").1.contains("with 2 volumes, replaying 0 chunks"), "{made}");
    let text = run(folder, "doctor pool.toml").ok();
    assert!(text.starts_with("ok    settings   pool.toml is sound\n"), "{text}");
    let served = Served::start(folder, "");
    assert!(finding(&report(folder, 0), "pool").1.contains("it is being served"));
    assert_eq!(served.stop(), 0);
}

/// The advice for a pool with a missing device is never to make a new pool.
#[test]
fn a_device_that_is_missing_from_a_pool_is_no_new_one() {
    let folder = scratch();
    let folder = folder.path();
    let device = |name| format!("[[device]]\npath = '{name}.img'\nsize = '64MiB'\n");
    write(folder, "pool.toml", device("a") + &device("b") + "[[volumes]]\nname = 'v'\n");
    run(folder, "format pool.toml").ok();
    report(folder, 0);
    std::fs::remove_file(folder.join("b.img")).expect("it is there");
    let lacking = report(folder, 1);
    assert!(finding(&lacking, "pool").1.contains("does not open"), "{lacking}");
    assert!(!lacking.to_string().contains("thermocline format"), "{lacking}");
    assert!(lacking.to_string().contains("there is no b.img"), "{lacking}");
}

/// The present side of a pair may be the older side: an operator must confirm that it is not.
#[test]
fn a_pair_that_nobody_serves_before_a_choice_is_no_warning() {
    let folder = scratch();
    let folder = folder.path();
    format_mirrored(folder, "auto");
    std::fs::remove_file(folder.join("b.img")).expect("a side");
    let refused = report(folder, 1);
    let (state, text) = finding(&refused, "mirror");
    assert!(state == "fail" && text.contains("device keep POOL.toml a.img"), "{text}");
    run(folder, "device keep pool.toml a.img").ok();
    let is_warned = || {
        let kept = report(folder, 0);
        let (state, text) = finding(&kept, "mirror");
        assert!(state == "warn" && text.contains("the only copy"), "{text}");
    };
    is_warned();
    let served = Served::start(folder, "");
    is_warned();
    assert_eq!(served.stop(), 0);
}

#[test]
fn what_cannot_work_fails_with_reason_and_remedy() {
    let folder = scratch();
    let folder = folder.path();
    let settings = |text: &str| write(folder, "pool.toml", text);
    for (text, what, expected) in [
        ("[device]\npath = 'a'\nsize = 'huge'\n", "settings", "`huge` is not a size"),
        ("[device]\npath = 'no/a'\nsize = '64MiB'\n", "device", "none can be made in"),
        ("[device]\npath = '.'\n", "device", "is no file and no block device"),
        ("[device]\npath = 'a'\nkind = 'block'\n", "device", "there is no"),
        ("[device]\npath = 'pool.toml'\nkind = 'zoned'\n", "device", "device.kind says otherwise"),
        ("[device]\npath = 'a'\n", "volumes", "device.size: the file does not exist yet"),
        (
            "[device]\npath = 'a'\nsize = '64MiB'\n[[volumes]]\nname = 'v'\n[serve]\nlisten = ['0.0.0.0:1']\n",
            "TLS",
            "0.0.0.0:1 can be reached by others",
        ),
        (
            "[device]\npath = 'a'\nsize = '64MiB'\n[serve]\ntls_certificate = 'pool.toml'
tls_key = 'pool.toml'\ntls_clients = 'pool.toml'\n",
            "TLS",
            "no certificate",
        ),
        (
            "[device]\npath = 'a'\nsize = '64MiB'\n[serve]\nsocket = 'no/s'\n",
            "socket",
            "none can be made in",
        ),
    ] {
        settings(text);
        let report = report(folder, 1);
        let (state, found) = finding(&report, what);
        assert_eq!(state, "fail", "{text}: {found}");
        assert!(found.contains(expected) && !found.ends_with("null"), "{text}: {found}");
    }
}

/// Clients refuse a server whose certificate has expired, or is not valid yet.
#[test]
fn a_certificate_that_is_not_valid_now_is_named_with_its_date() {
    let folder = scratch();
    let folder = folder.path();
    let files = repository().join("crates/nbd/tests/tls");
    let settings = |certificate: &str| {
        let file = |name: &str| files.join(name).display().to_string();
        let own = file(certificate);
        let text = format!(
            "[device]\npath = 'a'\nsize = '64MiB'\n[serve]\nlisten = ['127.0.0.1:0']\ntls_certificate = '{own}'
tls_key = '{}'\ntls_clients = '{own}'\n",
            file("key.pem")
        );
        write(folder, "pool.toml", text);
    };
    for (certificate, expected, remedy) in [
        ("of-2020.pem", "has expired on 2021-01-01 at 00:00 UTC", "get a new certificate"),
        ("of-2120.pem", "is not valid before 2120-01-01 at 00:00 UTC", "correct the clock"),
    ] {
        settings(certificate);
        let report = report(folder, 1);
        let (state, found) = finding(&report, "TLS");
        assert_eq!(state, "fail", "{found}");
        for part in [certificate, expected, remedy] {
            assert!(found.contains(part), "{part}: {found}");
        }
    }
}

#[test]
fn what_may_go_wrong_later_is_a_warning() {
    let folder = scratch();
    let folder = folder.path();
    let text = "[device]\npath = 'a'\nsize = '64MiB'\n[pool]\nmemory = '1MiB'\n[[volumes]]\nname = 'v'\nsize = '1TiB'
[serve]\nconnections = 1048576\n";
    write(folder, "pool.toml", text);
    let large = report(folder, 0);
    assert_eq!(finding(&large, "volumes").0, "warn", "{large}");
    assert!(finding(&large, "memory").1.contains("raise pool.memory"), "{large}");
    assert_eq!(finding(&large, "open files").0, "warn", "{large}");
    let tiered = "[[device]]\npath = 'a'\nsize = '1TiB'\nunit = '8MiB'\n[[device]]\npath = 'f'\nsize = '1GiB'
class = 'fast'\nunit = '8MiB'\n[[volumes]]\nname = 'v'\nsize = '900GiB'\n";
    write(folder, "pool.toml", tiered);
    assert!(finding(&report(folder, 0), "volumes").1.contains("of fast devices for their maps"));
    let formatted = run(folder, "format pool.toml");
    assert!(
        formatted.code == 0 && formatted.err.contains("add a fast device"),
        "{}",
        formatted.err
    );
    std::fs::remove_file(folder.join("a")).expect("it was made");
    write(folder, "pool.toml", "[device]\npath = 'a'\nsize = '1000000TiB'\n");
    let done = run(folder, "doctor pool.toml");
    assert!(done.out.contains("warn  space      the file may grow by "), "{}", done.out);
    run(folder, "doctor").ok();
}

/// Units of another size than the zones are refused before a pool exists.
#[test]
fn units_that_a_zoned_drive_does_not_have_make_no_pool() {
    let folder = scratch();
    let folder = folder.path();
    let device = |unit: &str| {
        let text = "path = 'p.img'\nsize = '512MiB'\nkind = 'simulated'\nprofile = 'zn540'\n";
        format!("{text}{unit}")
    };
    let expected = "8 MiB is stated, and the zones of this drive make units of 672 KiB (688128 bytes): state that, or \
                    leave `unit` out";
    write(folder, "pool.toml", format!("[device]\n{}", device("unit = '8MiB'\n")));
    let planned = report(folder, 1);
    assert!(finding(&planned, "volumes").1.contains(expected), "{planned}");
    let refused = run(folder, "format pool.toml").refused(2);
    assert!(refused.contains(expected), "{refused}");
    assert!(!folder.join("p.img").exists(), "nothing is made");
    let other = "[[device]]\npath = 'a.img'\nsize = '512MiB'\nunit = '8MiB'\n";
    let two = format!("{other}[[device]]\n{}", device("unit = '8MiB'\n"));
    write(folder, "pool.toml", two);
    let refused = run(folder, "format pool.toml").refused(2);
    assert!(refused.contains(expected), "{refused}");
    for unit in ["unit = '672KiB'\n", ""] {
        write(folder, "pool.toml", format!("[device]\n{}", device(unit)));
        report(folder, 0);
        run(folder, "format pool.toml --yes-destroy=p.img").ok();
        run(folder, "status pool.toml").ok();
    }
}
