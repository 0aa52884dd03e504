use super::*;

#[test]
fn every_built_in_profile_is_valid_and_names_itself() {
    for name in names() {
        let profile = Profile::from_toml(name, builtin(name).unwrap()).unwrap();
        assert_eq!(profile.name, name);
        Cut::new(&profile, None).unwrap_or_else(|error| panic!("{error}"));
        Cut::new(&profile, Some(Bytes::gib(1))).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The dotted keys of all values in `table`.
fn leaves(prefix: &str, table: &toml::Table, out: &mut Vec<String>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => leaves(&path, inner, out),
            _ => out.push(path),
        }
    }
}

#[test]
fn every_key_is_explained_to_users() {
    let explained = include_str!("../../../../docs/use/PROFILES.md");
    for name in names() {
        let mut keys = Vec::new();
        leaves("", &builtin(name).unwrap().parse().unwrap(), &mut keys);
        for key in keys.iter().filter(|key| !key.starts_with("source")) {
            assert!(explained.contains(&format!("| `{key}` |")), "`{key}` of {name}");
        }
    }
}

#[test]
fn every_number_of_a_built_in_profile_has_a_source() {
    for name in names() {
        let table: toml::Table = builtin(name).unwrap().parse().unwrap();
        let sources = table["source"].as_table().unwrap();
        let mut keys = Vec::new();
        leaves("", &table, &mut keys);
        for key in keys.iter().filter(|key| !key.starts_with("source")) {
            let described = ["name", "title", "kind"].contains(&key.as_str());
            let sourced = sources.keys().any(|s| key == s || key.starts_with(&format!("{s}.")));
            assert!(described || sourced, "{name}: `{key}` has no source");
        }
        for source in sources.keys() {
            let used =
                keys.iter().any(|key| key == source || key.starts_with(&format!("{source}.")));
            assert!(used, "{name}: source of `{source}`, which is not there");
        }
    }
}

#[test]
fn errors_name_file_key_and_reason() {
    let ideal = builtin("ideal").unwrap();
    let cases = [
        ("op = 0.15", "op = -1", "op", "between 0 and 16"),
        ("mapping_unit = \"4KiB\"", "mapping_unit = \"3KiB\"", "mapping_unit", "power of two"),
        ("mapping_unit = \"4KiB\"", "mapping_unit = \"4 apples\"", "mapping_unit", "4 apples"),
        ("mapping_unit = \"4KiB\"", "", "", "missing field `mapping_unit`"),
        ("kind = \"conventional\"", "kind = \"tape\"", "kind", "unknown variant `tape`"),
        ("kind = \"conventional\"", "kind = \"fdp\"", "fdp", "needs [fdp]"),
        ("kind = \"conventional\"", "kind = \"zns\"", "zns", "needs [zns]"),
        ("victim = \"greedy\"", "victim = \"gredy\"", "gc.victim", "no victim policy"),
        ("victim = \"greedy\"", "colour = \"red\"", "gc.colour", "unknown field `colour`"),
        ("op = 0.15", "op = = 1", "", "line 6"),
    ];
    for (from, to, key, reason) in cases {
        assert!(ideal.contains(from));
        let error = Profile::from_toml("mine.toml", &ideal.replace(from, to)).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.key(), key, "{text}");
        assert!(text.contains("mine.toml") && text.contains(reason), "{text}");
    }
}

#[test]
fn overrides_replace_values_and_are_checked_too() {
    let ideal = builtin("ideal").unwrap();
    let with = |key: &str, value: &str| {
        Profile::with_overrides("ideal", ideal, &[(key.into(), value.into())])
    };
    assert!((with("op", "0.07").unwrap().overprovisioning() - 0.07).abs() < 1e-12);
    assert!((with("garbage", "0.15").unwrap().overprovisioning() - 0.15 / 0.85).abs() < 1e-12);
    assert_eq!(with("unit", "2MiB").unwrap().unit, Some(Bytes::mib(2)));
    assert_eq!(with("gc.victim", "fifo").unwrap().gc.victim, "fifo");
    assert_eq!(with("wear.pe_cycles", "100").unwrap().wear.pe_cycles, Some(100.0));
    assert_eq!(with("speed", "9").unwrap_err().key(), "speed");
    assert_eq!(with("op.x", "9").unwrap_err().key(), "op.x");
    assert_eq!(with("wear.pe_cycles", "0").unwrap_err().key(), "wear.pe_cycles");
}

#[test]
fn cutting_keeps_ratios_and_refuses_what_is_too_small() {
    for name in names() {
        let profile = Profile::from_toml(name, builtin(name).unwrap()).unwrap();
        let full = Cut::new(&profile, None).unwrap();
        for capacity in [Bytes::gib(1), Bytes::gib(64)] {
            let cut = Cut::new(&profile, Some(capacity)).unwrap();
            let off = cut.overprovisioning() - profile.overprovisioning();
            let unit = (1.0 + profile.overprovisioning()) / f64::from(cut.shape.units());
            assert!((-1.1 * unit..=1e-3).contains(&off), "{name} {capacity}: {off}");
            assert!(cut.shape.units() <= full.shape.units().max(cut.shape.units().min(1 << 20)));
            assert_eq!(cut.shape.blocks_per_unit() % cut.blocks_per_page, 0);
        }
        assert_eq!(Cut::new(&profile, Some(Bytes(1024))).unwrap_err().key(), "capacity");
    }
    let text = builtin("ideal").unwrap();
    let study = [("unit".to_owned(), "2MiB".to_owned()), ("garbage".to_owned(), "0.15".to_owned())];
    let ideal = Profile::with_overrides("ideal", text, &study).unwrap();
    let cut = Cut::new(&ideal, Some(Bytes::gib(4))).unwrap();
    assert_eq!((cut.shape.units(), cut.shape.blocks_per_unit()), (2409, 512));
}
