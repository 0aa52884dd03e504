//! Runs the examples of every help text, in order.

use std::fs;

use super::programs::have;
use super::script::{Need, announce, await_server, run};
use super::serve_fuse::ready;
use crate::scratch;

/// Every command, ordered so that examples make the files that later examples need.
const COMMANDS: [&str; 62] = [
    "",
    "lab list",
    "lab theory",
    "lab theory bandwidth",
    "lab theory controllers",
    "lab theory integrity",
    "lab convert",
    "lab analyze",
    "lab run",
    "lab compare",
    "lab jobs",
    "lab kvcache",
    "lab sweep",
    "lab whatif",
    "lab tco",
    "lab datasheet",
    "lab pts",
    "lab sheets",
    "lab explain",
    "lab reproduce",
    "lab bench-placement",
    "fleet generate",
    "fleet",
    "fleet grade",
    "drive calibrate",
    "drive predict",
    "drive probe",
    "drive list",
    "drive stat",
    "drive watch",
    "drive export",
    "format",
    "load",
    "check",
    "scrub",
    "status",
    "map",
    "inspect",
    "doctor",
    "device list",
    "device keep",
    "device replace",
    "device grow",
    "device attach",
    "device drain",
    "device detach",
    "device lose",
    "volume create",
    "volume give-up",
    "volume list",
    "volume resize",
    "volume media",
    "volume rename",
    "volume snapshot",
    "volume clone",
    "volume export",
    "volume delete",
    "serve",
    "volume limit",
    "record",
    "stat",
    "stop",
];

/// Examples that take minutes or have no end: Ctrl-C ends them after some seconds.
const LONG: [&str; 11] = [
    "thermocline fleet racks/drives.csv --trace",
    "thermocline lab whatif",
    "thermocline lab datasheet",
    "thermocline lab pts",
    "thermocline lab sheets",
    "thermocline lab explain",
    "thermocline lab reproduce",
    "thermocline lab bench-placement",
    "thermocline drive export",
    "thermocline load pool.toml --trace",
    "thermocline stat pool.toml 1",
];

/// Needs of examples from the machine, by a word in the example.
const NEEDS: [Need; 3] = [
    ("--fuse", || ready(false, &[])),
    ("--ublk", || thermocline_ublk::probe().is_ok()),
    ("qemu-img", || have(&["qemu-img"])),
];

/// Ports in examples, which may be in use, and the free port in their place.
const PORTS: [&str; 2] = ["127.0.0.1:10809", "127.0.0.1:9400"];

fn help(command: &str) -> String {
    super::serve::run(scratch().path(), &format!("{command} --help")).ok()
}

/// The commands below `Example:` or `Examples:`, each on one line, without its explanation.
fn examples(help: &str) -> Vec<String> {
    let below = help
        .lines()
        .skip_while(|line| !line.starts_with("Example") && !line.starts_with("Begin with"));
    let lines = below.skip(1).take_while(|line| !line.is_empty());
    let (mut commands, mut unfinished): (Vec<String>, String) = (Vec::new(), String::new());
    for line in lines {
        let line = line.trim_start();
        if let Some(part) = line.strip_suffix('\\') {
            unfinished += part;
            continue;
        }
        let line = std::mem::take(&mut unfinished) + line;
        let command = line.split("   ").next().unwrap_or_default().trim_end();
        // The rest explains the next command.
        if command.contains("thermocline ") || command.starts_with("qemu-img ") {
            commands.push(command.to_owned());
        } else {
            assert!(
                command.ends_with(':'),
                "neither a command nor what the next one is for: {line}"
            );
        }
    }
    commands
}

/// The subcommands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = below.take_while(|line| !line.is_empty());
    let names = lines.filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

#[test]
fn every_command_is_among_those_whose_examples_are_tried() {
    let mut unseen = vec![String::new()];
    while let Some(group) = unseen.pop() {
        let below = listed(&help(&group));
        let is_group = !below.is_empty();
        if !is_group || group.is_empty() {
            assert!(COMMANDS.contains(&group.as_str()), "`{group}` is not tried");
        }
        let below = below.into_iter().filter(|name| name != "help");
        unseen.extend(below.map(|name| format!("{group} {name}").trim().to_owned()));
    }
}

#[test]
fn every_command_has_a_manual_page_and_every_shell_has_completions() {
    let folder = scratch();
    super::serve::run(folder.path(), "manuals share").ok();
    let share = folder.path().join("share");
    for command in COMMANDS {
        let name = format!("thermocline {command}").trim().replace(' ', "-");
        let page = fs::read_to_string(share.join(format!("man/man1/{name}.1"))).expect("a page");
        for part in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"] {
            assert!(page.contains(part), "{name}: no {part}");
        }
        assert!(!page.contains("\\-\\-detached"), "{name} has a hidden option");
    }
    for completions in [
        "bash-completion/completions/thermocline.bash",
        "fish/vendor_completions.d/thermocline.fish",
        "zsh/vendor-completions/_thermocline",
    ] {
        assert!(fs::read_to_string(share.join(completions)).expect("a file").contains("daemon"));
    }
}

#[test]
fn a_paragraph_behind_the_options_breaks_only_where_it_is_full() {
    for command in ["check", "status", "scrub", "load", "serve", "lab run"] {
        let help = help(command);
        let lines: Vec<&str> = help.lines().collect();
        let below = lines.iter().rposition(|line| line.starts_with("  -h, --help"));
        for pair in lines[below.expect("an option")..].windows(2) {
            let [line, next] = pair else { continue };
            let flow = [line, next].iter().all(|line| !line.is_empty() && !line.starts_with(' '));
            let word = next.split(' ').next().unwrap_or_default();
            let is_full = line.len() + 1 + word.len() > 100;
            let ends = line.ends_with(['.', ':']);
            assert!(!flow || is_full || ends, "{command}: `{line}` breaks before `{next}`");
        }
    }
}

#[test]
fn every_example_of_the_help_works_from_the_program_alone() {
    let folder = scratch();
    // Files that the user has.
    for name in ["mnt", "my-traces"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    let counters = "host_bytes,media_bytes\n0,0\n9400000000,9400000000\n9500000000,9600000000\n";
    fs::write(folder.path().join("drive.log"), counters).expect("writable");
    let records = [
        ("smart.txt", "Data Units Written: 2,000,000\nPower On Hours: 100\n"),
        ("ocp.txt", "Physical media units written - 0 2000000000000\n"),
        ("monday.json", "{\"hbmw\": 1000, \"mbmw\": 1000}"),
        (
            "drive.json",
            "{\"percent_used\": 5, \"power_on_hours\": 9000, \"hbmw\": 80000, \"mbmw\": 90000}",
        ),
        ("friday.json", "{\"hbmw\": 3000, \"mbmw\": 4000}"),
    ];
    for (name, text) in records {
        fs::write(folder.path().join(name), text).expect("writable");
    }
    let pages = include_str!("../../../drive/tests/qemu-fdp.json");
    fs::write(folder.path().join("fdp.json"), pages).expect("writable");
    let device = |name, more| format!("[[device]]\npath = '{name}.img'\nsize = '64MiB'\n{more}");
    let volume = "[[volumes]]\nname = 'main'\nsize = '16MiB'\n";
    let settings = |name: &str, devices: [String; 2]| {
        let text = devices.concat() + volume;
        fs::write(folder.path().join(name), text).expect("writable");
    };
    settings("mirrored.toml", ["a", "b"].map(|side| device(side, "mirror = 'm'\n")));
    settings("old.toml", [device("old", ""), String::new()]);
    settings("grown.toml", ["old", "new"].map(|name| device(name, "")));
    let text = device("old", "").replace("64MiB", "96MiB");
    settings("larger.toml", [text, String::new()]);
    let below = ["cap0", "cap1"].map(|name| device(name, ""));
    settings("tiered.toml", [device("fast", "class = 'fast'\n"), below.concat()]);
    let mut script = "\
        thermocline format mirrored.toml > /dev/null\n\
        thermocline format old.toml > /dev/null\n\
        thermocline format tiered.toml > /dev/null\n\
        thermocline lab convert --trace cassandra-ycsb-a --out my-traces/a.csv 2> /dev/null\n\
        truncate --size 16M disk.img\n\
        server=\n"
        .to_owned();
    for command in COMMANDS {
        let examples = examples(&help(command));
        assert!(!examples.is_empty(), "`{command} --help` has no example");
        for example in examples {
            if NEEDS.iter().any(|(word, met)| example.contains(word) && !met()) {
                continue;
            }
            script += &announce(&example);
            script += &typed(&example);
        }
    }
    let done = run(&script, folder.path());
    done.out.lines().filter(|line| line.starts_with(">>>")).for_each(|line| println!("{line}"));
    assert_eq!(done.code, 0, "{}", done.err);
}

/// An example as typed. Only the last started server keeps running.
fn typed(example: &str) -> String {
    let example =
        PORTS.iter().fold(example.to_owned(), |line, port| line.replace(port, "127.0.0.1:0"));
    let ends = ["--daemon", "--wait"].iter().any(|option| example.contains(option));
    if example.starts_with("thermocline serve") && !ends {
        let start = await_server(&format!("{example} &"));
        return format!(
            "test -z \"$server\" || {{ kill $server; wait $server; }}\n{start}\nserver=$!\n"
        );
    }
    if LONG.iter().any(|begin| example.starts_with(begin)) {
        let limited = format!("timeout --preserve-status --signal INT 3 {example}");
        return format!("code=0; {limited} || code=$?\ntest $code = 0 || test $code = 130\n");
    }
    if example.starts_with("thermocline doctor") {
        // Exit code 1: `doctor` names a flaw of this machine.
        return format!("{example} || test $? = 1\n");
    }
    format!("{example}\n")
}
