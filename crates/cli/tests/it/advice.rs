//! Error messages name the problem, and never tempt an operator to destroy data.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::serve::{Served, command, format, format_mirrored, format_tiered, run};
use super::serve_metrics::{metric, metrics};
use crate::{Done, scratch, write};

/// The message of a command that must fail. The message must not offer to destroy data.
#[track_caller]
fn refused(folder: &Path, arguments: &str) -> String {
    let Done { code, err, .. } = run(folder, arguments);
    assert_eq!(code, 2, "{arguments}: {err}");
    assert!(!err.contains("--yes-destroy"), "{arguments}: {err}");
    err
}

#[test]
fn nothing_offers_to_destroy_what_is_in_use_or_well() {
    let folder = scratch();
    let folder = folder.path();
    format_tiered(folder, "auto");
    let lose = refused(folder, "device lose pool.toml fast.img");
    assert!(lose.contains("fast.img: it is a fast device, with the maps"), "{lose}");
    let replace = refused(folder, "device replace pool.toml pool.img");
    assert!(replace.contains("NEW --instead-of pool.img"), "{replace}");
    let served = Served::start(folder, "");
    let format = refused(folder, "format pool.toml");
    assert!(format.contains("serves this pool: stop it first"), "{format}");
    let replace = refused(folder, "device replace pool.toml pool.img");
    assert!(replace.contains("NEW --instead-of pool.img"), "{replace}");
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_device_without_pool_is_not_said_to_need_a_format() {
    let folder = scratch();
    let folder = folder.path();
    let device =
        |name: &str| format!("[[device]]\npath = '{name}.img'\nsize = '64MiB'\nunit = '1MiB'\n");
    let name = |names: &[&str]| {
        write(folder, "pool.toml", names.iter().map(|name| device(name)).collect::<String>());
    };
    name(&["a", "b"]);
    run(folder, "format pool.toml").ok();
    run(folder, "device drain pool.toml b.img").ok();
    run(folder, "device detach pool.toml b.img").ok();
    name(&["b"]);
    let why = refused(folder, "check pool.toml");
    assert!(why.contains("a device that has left its pool holds none"), "{why}");
    let folder = scratch();
    let folder = folder.path();
    format_mirrored(folder, "auto");
    fs::remove_file(folder.join("b.img")).expect("it is there");
    let doctor = run(folder, "doctor pool.toml").out;
    assert!(doctor.contains("there is no b.img"), "{doctor}");
    assert!(!doctor.contains("thermocline format"), "{doctor}");
}

#[test]
fn a_pair_with_one_side_is_at_risk_and_lacks_a_side() {
    let folder = scratch();
    let folder = folder.path();
    format_mirrored(folder, "auto");
    assert_eq!(Served::start(folder, "").stop(), 0);
    fs::rename(folder.join("b.img"), folder.join("away.img")).expect("it is there");
    run(folder, "device keep pool.toml a.img").ok();
    let served = Served::start(folder, "");
    let status = run(folder, "status pool.toml").ok();
    assert!(status.starts_with("at risk: mirror `m`: b.img is out"), "{status}");
    assert!(!status.contains("at risk: nothing"), "{status}");
    let lacking = metric(&metrics(&served), "mirror_lacking_bytes{mirror=\"m\"}");
    assert!(lacking > Some(f64::from(20 << 20)), "all of the side: {lacking:?}");
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_size_that_the_pool_does_not_have_and_an_address_for_all_are_told() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let text = fs::read_to_string(folder.join("pool.toml")).expect("settings");
    write(folder, "pool.toml", text.replace("128MiB", "256MiB"));
    let mut command = super::serve::command(folder, "serve pool.toml --http 0.0.0.0:0");
    command.stderr(fs::File::create(folder.join("said.txt")).expect("a file"));
    let served = Served::spawn(folder, command);
    let said = fs::read_to_string(folder.join("said.txt")).expect("it was said");
    let size = "the settings state a size of 256 MiB, and the pool uses 128 MiB";
    assert!(said.contains(size) && said.contains("device grow"), "{said}");
    assert!(said.contains("0.0.0.0:0 are read by whoever reaches this machine"), "{said}");
    assert_eq!(served.stop(), 0);
}

#[test]
fn counters_and_the_time_that_they_cover_begin_together() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let text = fs::read_to_string(folder.join("pool.toml")).expect("settings");
    let first = text.replace("[device]", "[[device]]");
    let more = "[[device]]\npath = 'more.img'\nsize = '64MiB'\nunit = '1MiB'\n";
    let (devices, volumes) = first.split_at(first.find("[[volumes]]").expect("volumes"));
    write(folder, "pool.toml", format!("{devices}\n{more}{volumes}"));
    run(folder, "device attach pool.toml more.img").ok();
    let text = metrics(&served);
    let [up, opened] = ["up_seconds", "opened_seconds"].map(|name| metric(&text, name));
    assert!(opened < up, "{opened:?} and {up:?}");
    let lines = run(folder, "stat pool.toml 0.05 2").ok();
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert_eq!(served.stop(), 0);
}

#[test]
fn memory_that_is_too_little_for_the_placement_is_refused_with_what_fits() {
    let folder = scratch();
    let folder = folder.path();
    let pool = |more: &str| {
        let text = format!(
            "[device]\npath = 'pool.img'\nsize = '1TB'\n[pool]\n{more}\n[[volumes]]\nname = 'second'\nsize = '800GB'\n"
        );
        write(folder, "pool.toml", text);
    };
    pool("memory = '64MiB'");
    let why = refused(folder, "format pool.toml");
    assert!(why.contains("for placement `auto`") && why.contains("pool.memory is 64 MiB"), "{why}");
    assert!(why.contains("placement = \"sepgc\""), "{why}");
    assert!(!folder.join("pool.img").exists(), "nothing was made");
    let doctor = run(folder, "doctor pool.toml").out;
    assert!(doctor.contains("placement and waiting writes take up to"), "{doctor}");
    pool("memory = '64MiB'\nplacement = 'sepgc'");
    run(folder, "format pool.toml").ok();
    fs::remove_file(folder.join("pool.img")).expect("it was made");
    pool("");
    run(folder, "format pool.toml").ok();
    pool("memory = '64MiB'");
    let mut serve = command(folder, "serve pool.toml");
    serve.stderr(fs::File::create(folder.join("said.txt")).expect("a file"));
    assert_eq!(Served::spawn(folder, serve).stop(), 0);
    let said = fs::read_to_string(folder.join("said.txt")).expect("it was said");
    let expected = "pool.memory is 64 MiB, and this pool needs up to";
    assert!(said.contains(expected) && said.contains("Raise pool.memory, or set"), "{said}");
}

#[test]
fn a_placement_that_fits_few_active_zones_is_named() {
    let folder = scratch();
    let folder = folder.path();
    let profile = crate::repository().join("crates/nand/profiles/zn540.toml");
    let text = fs::read_to_string(profile).expect("it ships");
    let settings = "[device]\npath = 'd.img'\nkind = 'simulated'\nprofile = 'few.toml'\n\
                    [[volumes]]\nname = 'v'\nsize = '16MiB'\n";
    write(folder, "pool.toml", settings);
    for (active, expected) in [(3, "none fits this device"), (5, "placement = \"none\" fits")] {
        let few = text.replace("max_active = 14", &format!("max_active = {active}"));
        let few = few.replace("max_open = 14", &format!("max_open = {active}"));
        write(folder, "few.toml", few);
        let why = refused(folder, "format pool.toml");
        assert!(why.contains("pool.placement") && why.contains(expected), "{active}: {why}");
    }
    write(folder, "pool.toml", settings.to_owned() + "[pool]\nplacement = 'none'\n");
    run(folder, "format pool.toml").ok();
}

/// The last 512 bytes of a loop device with sectors of 4096 bytes cannot be read.
#[test]
fn a_device_that_ends_with_a_part_of_a_sector_is_used_to_its_last_whole_one() {
    let folder = scratch();
    let folder = folder.path();
    let file = fs::File::create(folder.join("odd.raw")).expect("a file");
    file.set_len((128 << 20) + 512).expect("room");
    let losetup = |arguments: &[&str]| {
        let done = Command::new("losetup").args(arguments).current_dir(folder).output();
        done.ok().filter(|done| done.status.success())
    };
    let made = losetup(&["--sector-size", "4096", "--find", "--show", "odd.raw"]);
    let Some(made) = made else {
        println!("SKIPPED: no loop device can be made here");
        return;
    };
    let device = String::from_utf8(made.stdout).expect("UTF-8").trim().to_owned();
    let settings =
        format!("[device]\npath = '{device}'\n[[volumes]]\nname = 'v'\nsize = '64MiB'\n");
    write(folder, "odd.toml", settings);
    let (formatted, doctor) = (run(folder, "format odd.toml"), run(folder, "doctor odd.toml"));
    losetup(&["-d", &device]);
    assert_eq!(formatted.code, 0, "{}", formatted.err);
    assert!(formatted.out.contains("128 units of 1 MiB"), "{}", formatted.out);
    assert!(doctor.out.contains("is a block device of 128 MiB"), "{}", doctor.out);
}
