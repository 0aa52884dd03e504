use thermocline_engine::{Extent, HostRequest, Reply};
use thermocline_types::UnitId;

use super::*;

fn parse(text: &str) -> Result<Settings, String> {
    Settings::from_toml("p.toml", text).map_err(|error| error.to_string())
}

/// The keys in the example, those behind a `#` included, without their values.
fn explained(section: &str) -> Vec<String> {
    let example = Settings::example();
    let mut inside = false;
    let mut keys = Vec::new();
    for line in example.lines() {
        if line.starts_with('[') {
            inside = line.trim_matches(['[', ']']) == section;
        }
        let line = line.trim_start_matches("# ");
        if let Some((key, _)) = line.split_once(" = ")
            && inside
            && key.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
        {
            keys.push(key.to_owned());
        }
    }
    keys
}

#[test]
fn the_example_is_read_and_explains_every_key() {
    parse(&Settings::example()).expect("the example is sound");
    for (section, start) in [
        ("device", ""),
        ("pool", "[device]\npath = 'a'\n[pool]\n"),
        ("expert", "[device]\npath = 'a'\n[expert]\n"),
        ("serve", "[device]\npath = 'a'\n[serve]\n"),
    ] {
        let probe = match start {
            "" => "[device]\npath = 'a'\nnone = 1".to_owned(),
            start => format!("{start}none = 1"),
        };
        // The message about an unknown key lists the known ones.
        let message = parse(&probe).expect_err("there is no such key");
        let former = ["mirror", "raid0", "raid5", "connections", "patience"];
        let mut known: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
        known.retain(|key| section == "expert" || !former.contains(key));
        assert_eq!(explained(section), reordered(&explained(section), &known), "{message}");
    }
}

/// `known` in the order of `explained`: equal to it if they have the same elements.
fn reordered(explained: &[String], known: &[&str]) -> Vec<String> {
    let mut known: Vec<String> = known.iter().map(|&key| key.to_owned()).collect();
    known.sort_by_key(|key| explained.iter().position(|other| other == key));
    known
}

#[test]
fn the_example_with_every_default_spelled_out_is_read() {
    let spelled: String = Settings::example()
        .lines()
        .filter(|line| {
            !["profile = ", "latency = ", "group = ", "write_mostly = "]
                .iter()
                .any(|key| line.contains(key))
        })
        .map(|line| match line.strip_prefix("# ") {
            Some(rest)
                if rest.split_once(" = ").is_some_and(|(key, _)| !key.contains([' ', ':'])) =>
            {
                format!("{rest}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let settings = parse(&spelled).expect("every default is a value");
    assert_eq!(settings.pool.engine.write_depth, Some(4));
    assert_eq!(settings.device().unit, Some(Bytes::mib(8)));
    assert_eq!(settings.notes(), &[] as &[String]);
}

#[test]
fn keys_with_a_former_place_or_name_are_read_with_a_note() {
    let text = "[[device]]\npath = 'a'\nmirror = 'm'\n[[device]]\npath = 'b'\nmirror = 'm'\n[pool]\nwrite_depth = 8\n\
                [serve]\npatience = 3";
    let settings = parse(text).expect("former keys are read");
    assert_eq!(settings.pool.engine.write_depth, Some(8));
    assert_eq!(settings.groups().len(), 1);
    assert_eq!(
        settings.notes(),
        [
            "pool.write_depth = 8: the key belongs in [expert]",
            "serve.patience: the key belongs in [expert]",
            "device.mirror = \"m\": now group = { kind = \"mirror\", name = \"m\" }",
            "device.mirror = \"m\": now group = { kind = \"mirror\", name = \"m\" }",
        ]
    );
    let text = "[device]\npath = 'a'\n[expert]\nio = 'threads'\nthreads = 2\nwrite_depth = 8\nconnections = 7";
    let settings = parse(text).expect("keys of experts");
    assert_eq!(
        (settings.device().io, settings.device().threads),
        (Some(IoEngine::Threads), Some(2))
    );
    assert_eq!((settings.pool.engine.write_depth, settings.serve.connections), (Some(8), Some(7)));
    for (text, expected) in [
        (
            "[pool]\nwrite_depth = 4\n[expert]\nwrite_depth = 8",
            "expert.write_depth: is stated in [pool] too",
        ),
        ("[expert]\nmemory = '1GiB'", "expert.memory: belongs in [pool]"),
        ("[expert]\nthreads = 0", "expert.threads: is 0, must be 1 to 1024"),
    ] {
        let message = parse(&format!("[device]\npath = 'a'\n{text}")).map(drop).expect_err(text);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn what_is_wrong_with_groups_is_named() {
    for (text, expected) in [
        (
            "[[device]]\npath = 'a'\nmirror = 'm'\n[[device]]\npath = 'b'",
            "p.toml: device[0].group: `m` stands 1 times; a pair has two sides",
        ),
        (
            "[[device]]\npath = 'a'\nmirror = 'm'\n[[device]]\npath = 'b'\nmirror = 'm'\nsize = '1GiB'",
            "device[1].group: class, size, unit and logical_block are those of the other side",
        ),
        (
            "[[device]]\npath = 'a'\n[[device]]\npath = 'b'\nwrite_mostly = true",
            "device[1].write_mostly: only a side of a mirrored pair can have it (`group`)",
        ),
        (
            "[[device]]\npath = 'a'\nmirror = 'm'\nwrite_mostly = true\n\
             [[device]]\npath = 'b'\nmirror = 'm'\nwrite_mostly = true",
            "device[0].write_mostly: one side of a pair is to be read",
        ),
        (
            "[[device]]\npath = 'a'\nmirror = 'm'\nkind = 'zoned'\n[[device]]\npath = 'b'\nmirror = 'm'",
            "device[0].group: zones cannot be mirrored; take files, conventional devices or simulated drives without",
        ),
        (
            "[[device]]\npath = 'a'\nraid0 = 'g'\nkind = 'simulated'\nprofile = 'p5316'\n[[device]]\npath = 'b'\n\
             raid0 = 'g'\nkind = 'simulated'\nprofile = 'zn540'",
            "device[1].group: zones cannot be members of a group; take files, conventional devices or simulated",
        ),
        (
            "[[device]]\npath = 'a'\nraid0 = 'g'\nkind = 'simulated'\nprofile = 'p5316'\n[[device]]\npath = 'b'\n\
             raid0 = 'g'",
            "device[1].group: one member is a simulated drive, and another is none",
        ),
    ] {
        let message = parse(text).map(|_| ()).expect_err(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (text, expected) in [
        ("[device]", "p.toml: device: missing field `path`"),
        ("[device]\npath = 3", "device.path: invalid type"),
        ("[device]\npath = 'a'\nsize = 'huge'", "device.size: `huge` is not a size"),
        ("[device]\npath = 'a'\nlogical_block = 520", "device.logical_block: 520 bytes; there are"),
        ("[device]\npath = 'a'\nio = 'fast'", "device.io: `fast` is none of auto, uring, threads"),
        ("[device]\npath = 'a'\nthreads = 0", "device.threads: is 0, must be 1 to 1024"),
        ("[device]\npath = 'a'\nkind = 'tape'", "device.kind: unknown variant `tape`"),
        ("[device]\npath = 'a'\nkind = 'simulated'", "device.profile: a simulated device has"),
        ("[device]\npath = 'a'\n[pool]\nvictim = 'lottery'", "pool.victim: `lottery` is no victim"),
        ("[device]\npath = 'a'\n[pool]\nplacement = 'x'", "pool.placement: `x` is no placement"),
        (
            "[device]\npath = 'a'\n[pool]\nplacement = 'sepbit'",
            "pool.placement: `sepbit` is for the lab; a pool takes auto, sepgc and none",
        ),
        ("[device]\npath = 'a'\n[pool]\nspare = 1.0", "pool.spare: is 1, must be 0 to 0.9"),
        (
            "[device]\npath = 'a'\n[pool]\nscrub_every = '30'",
            "pool.scrub_every: `30` is none of 0, 1h to 87600h and 1d to 3650d, such as 30d",
        ),
        (
            "[device]\npath = 'a'\n[pool]\nscrub_every = '90000h'",
            "pool.scrub_every: `90000h` is none",
        ),
        (
            "[device]\npath = 'a'\n[[volumes]]\nname = ''",
            "volumes[0].name: \"\" cannot be the name",
        ),
        (
            "[device]\npath = 'a'\n[[volumes]]\nname = 'v'\nsize = 1000",
            "volumes[0].size: is 1000, must be 4KiB to 256TiB",
        ),
        (
            "[device]\npath = 'a'\n[[volumes]]\nname = 'v'\n[[volumes]]\nname = 'v'",
            "volumes[1].name: there are two volumes `v`",
        ),
        (
            "[device]\npath = 'a'\n[[volumes]]\nname = 'v'\n[[volumes]]\nname = 'w'",
            "volumes: only one may be without size",
        ),
        (
            "[device]\npath = 'a'\n[serve]\nlisten = ['a:1', 'nowhere']",
            "p.toml: serve.listen[1]: `nowhere` is no HOST:PORT",
        ),
        ("[device]\npath = 'a'\n[serve]\nhttp = ':99999'", "serve.http: `:99999` is no HOST:PORT"),
        (
            "[device]\npath = 'a'\n[serve]\nconnections = 0",
            "serve.connections: is 0, must be 1 to 1048576",
        ),
        ("[device]\npath = 'a'\n[serve]\npatience = -1", "serve.patience: invalid value"),
        ("[device]\npath = 'a'\n[serve]\ntls_key = 'k'", "serve.tls_certificate: is missing"),
        ("[device]\npath = 'a'\n[serve]\nport = 1", "serve.port: unknown field `port`"),
        ("device = ", "p.toml: TOML parse error"),
        ("device = []", "p.toml: device: 0; a pool has 1 to 8"),
        ("device = 3", "p.toml: device: invalid type: integer `3`, expected a table, or an array"),
        ("[[device]]\npath = 'a'\n[[device]]\nsize = 1", "device[1]: missing field `path`"),
        ("[[device]]\npath = 'a'\n[[device]]\npath = 'a'", "device[1].path: another device has"),
        ("[[device]]\npath = 'a'\n[[device]]\npath = 'b'\nthreads = 0", "device[1].threads: is 0"),
        ("[[device]]\npath = 'a'\nclass = 'fast'", "device: all are fast; at least one is to be"),
        ("[device]\npath = 'a'\nclass = 'slow'", "device.class: `slow` is none of capacity, fast"),
    ] {
        let message = parse(text).map(|_| ()).expect_err(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn scrubs_are_scheduled_in_hours_or_days() {
    let every = |value: &str| {
        let settings = parse(&format!("[device]\npath = 'a'\n[pool]\nscrub_every = {value}"));
        settings.expect("sound").pool.scrub_every().map(|every| every.as_secs())
    };
    assert_eq!((every("'30d'"), every("'12 h'")), (Some(30 * 86_400), Some(12 * 3600)));
    assert_eq!((every("'0'"), every("0")), (None, None));
    let silent = parse("[device]\npath = 'a'").expect("sound");
    assert_eq!(silent.pool.scrub_every(), None, "nothing is scrubbed unasked");
}

#[test]
fn a_volume_without_size_gets_what_is_left_and_fits() {
    let text = "[device]\npath = 'a'\n[pool]\nspare = 0.2\n[[volumes]]\nname = 'a'\nsize = '64MiB'
[[volumes]]\nname = 'b'";
    let settings = parse(text).expect("sound");
    let units = [UnitId(0), UnitId(1)];
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 256, units).expect("256 MiB");
    let config = settings.config(geometry).expect("enough units");
    let sizes = settings.volume_sizes(&config).expect("room for both");
    let total: u64 = sizes.iter().map(|(_, blocks)| blocks).sum();
    let capacity = config.capacity_blocks(total);
    assert_eq!(sizes[0].1, 16384);
    assert!(total * 10 <= capacity * 8 && total * 10 > capacity * 7, "{total} of {capacity}");
    let small = Geometry::new(LogicalBlock::B4096, 256, 40, units).expect("40 MiB");
    let config = settings.config(small).expect("enough units");
    assert!(settings.volume_sizes(&config).is_err(), "volume a is larger than the pool");
}

#[test]
fn paths_begin_at_the_folder_of_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("p.toml");
    let text = "[device]\npath = 'a'\n[serve]\nsocket = 'b'\nfuse = 'f'\nvhost_user = 'v'\ntls_certificate = '/c'
tls_key = 'd'\ntls_clients = 'e'";
    std::fs::write(&path, text).expect("writable");
    let settings = Settings::load(&path).expect("sound");
    let inside = |name: &str| Some(folder.path().join(name));
    assert_eq!(settings.device().path, folder.path().join("a"));
    assert_eq!((settings.serve.socket, settings.serve.tls_key), (inside("b"), inside("d")));
    assert_eq!((settings.serve.fuse, settings.serve.vhost_user), (inside("f"), inside("v")));
    assert_eq!(settings.serve.tls_certificate, Some(PathBuf::from("/c")));
}

/// Whoever opened one would find it in use by the other.
#[test]
fn two_paths_to_one_file_are_refused_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink("a", at("link")).expect("room");
    let load = |other: &str| {
        let device = |path| format!("[[device]]\npath = '{path}'\nsize = '64MiB'\n");
        std::fs::write(at("p.toml"), device("a") + &device(other)).expect("room");
        Settings::load(&at("p.toml")).map(drop).map_err(|error| error.to_string())
    };
    let refused = |other: &str| {
        let (one, other) = (at("a"), at(other));
        let reason = format!("{} and {} are one file", other.display(), one.display());
        Err(format!("{}: device[1].path: {reason}", at("p.toml").display()))
    };
    assert_eq!((load("link"), load("b")), (refused("link"), Ok(())));
    std::fs::write(at("a"), "").expect("room");
    std::fs::hard_link(at("a"), at("b")).expect("room");
    assert_eq!((load("link"), load("b")), (refused("link"), refused("b")));
}

/// Every key with a number, with what stands before it.
const NUMBERS: [(&str, &str); 18] = [
    ("", "size"),
    ("", "unit"),
    ("", "logical_block"),
    ("", "threads"),
    ("[pool]", "ahead_units"),
    ("[pool]", "checkpoint"),
    ("[pool]", "reserved_units"),
    ("[pool]", "memory"),
    ("[pool]", "max_requests"),
    ("[pool]", "staged"),
    ("[pool]", "write_depth"),
    ("[pool]", "spare"),
    ("[serve]", "connections"),
    ("[serve]", "patience"),
    ("[serve]", "flush_after"),
    ("[[volumes]]\nname = 'v'", "size"),
    ("[[volumes]]\nname = 'v'\nsize = '1MiB'\n[[volumes]]\nname = 'w'", "size"),
    ("[pool]\nspare = 0.0\n[[volumes]]\nname = 'v'", "size"),
];

/// Reads settings with one number, makes a pool that works so, and writes to it; how far it came.
fn attempt(section: &str, key: &str, value: &str) -> Result<(), String> {
    let text = format!("[device]\npath = 'a'\n{section}\n{key} = {value}\n");
    let settings = parse(&text)?;
    if settings.device().size.is_some() || settings.device().unit.is_some() {
        // Devices as large as they may be are not made here.
        return Ok(());
    }
    let block = settings.device().logical_block.and_then(LogicalBlock::from_bytes);
    let block = block.unwrap_or(LogicalBlock::B4096);
    let per_unit = (1 << 20) / block.bytes() as u32;
    let geometry = Geometry::new(block, per_unit, 64, [UnitId(0), UnitId(1)]).expect("64 MiB");
    let config = settings.config(geometry).map_err(|error| error.to_string())?;
    let sizes = settings.volume_sizes(&config).map_err(|error| error.to_string())?;
    let layout = crate::storage::Layout::contiguous(block, per_unit, 64);
    let memory = crate::storage::Memory::new(layout);
    let pool = thermocline_format::PoolId([1; 16]);
    let mut driver =
        crate::Driver::format(config, pool, memory).map_err(|error| error.to_string())?;
    let mut ask = |what| driver.carry_out(what).map_err(|error| error.to_string());
    for (name, blocks) in sizes {
        ask(HostRequest::CreateVolume { name, blocks })?;
    }
    let volume = VolumeName::new("another").expect("a name");
    let Reply::Created(volume) = ask(HostRequest::CreateVolume { name: volume, blocks: 300 })?
    else {
        panic!("that is what creation replies");
    };
    for lba in 0..300 {
        let data = crate::Buffer::new(thermocline_target::Buffer::zeroed(4096));
        let extent = Extent { volume, lba, blocks: 1 };
        ask(HostRequest::Write { extent, data, fua: lba % 64 == 0, handle: 0 })?;
    }
    ask(HostRequest::Close).map(|_| ())
}

#[test]
fn every_number_works_or_is_refused_by_its_name() {
    for (section, key) in NUMBERS {
        for value in ["0", "1", "4294967295", "4294967296", "9223372036854775807", "-1"] {
            match attempt(section, key, value) {
                Ok(()) => println!("{section} {key} = {value} works"),
                Err(message) => {
                    println!("{message}");
                    let inside = message.starts_with("p.toml: ") && message.contains(key);
                    let maps = message.contains("maps of all volumes");
                    assert!(inside || maps || key == "spare", "{key} = {value}: {message}");
                }
            }
        }
    }
    let wrong = [("ahead_units", "33"), ("staged", "'8GiB'"), ("spare", "nan"), ("max_age", "0")];
    for (key, value) in wrong {
        let message = attempt("[pool]", key, value).expect_err("it is out of bounds");
        assert!(message.contains(&format!("pool.{key}: ")), "{message}");
    }
}

#[test]
fn a_stage_beside_the_largest_device_is_refused() {
    let settings = parse("[device]\npath = 'a'\n[pool]\nstaged = '4GiB'").expect("sound");
    let units = [UnitId(0), UnitId(1)];
    let per_unit = (1 << 16) - 1;
    let geometry = Geometry::new(LogicalBlock::B4096, per_unit, 1 << 20, units).expect("256 TiB");
    let error = settings.config(geometry).map(drop).expect_err("there are no addresses left");
    assert!(error.to_string().contains("pool.staged: "), "{error}");
}
