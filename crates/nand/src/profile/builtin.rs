//! The profiles that come with Thermocline.

const PROFILES: [(&str, &str); 44] = [
    ("ideal", include_str!("../../profiles/ideal.toml")),
    ("p5316", include_str!("../../profiles/p5316.toml")),
    ("pm9d3", include_str!("../../profiles/pm9d3.toml")),
    ("pm1725a", include_str!("../../profiles/pm1725a.toml")),
    ("micron2300", include_str!("../../profiles/micron2300.toml")),
    ("intel660p", include_str!("../../profiles/intel660p.toml")),
    ("zn540", include_str!("../../profiles/zn540.toml")),
    ("zn540-4tb", include_str!("../../profiles/zn540-4tb.toml")),
    ("sn640", include_str!("../../profiles/sn640.toml")),
    ("sn640-8tb", include_str!("../../profiles/sn640-8tb.toml")),
    ("p5800x", include_str!("../../profiles/p5800x.toml")),
    ("sata-a", include_str!("../../profiles/sata-a.toml")),
    ("sata-b", include_str!("../../profiles/sata-b.toml")),
    ("pci-c", include_str!("../../profiles/pci-c.toml")),
    ("micron9100", include_str!("../../profiles/micron9100.toml")),
    ("hdd", include_str!("../../profiles/hdd.toml")),
    ("p5336", include_str!("../../profiles/p5336.toml")),
    ("p5336-122tb", include_str!("../../profiles/p5336-122tb.toml")),
    ("p5500", include_str!("../../profiles/p5500.toml")),
    ("p5600", include_str!("../../profiles/p5600.toml")),
    ("p5810", include_str!("../../profiles/p5810.toml")),
    ("ps1010", include_str!("../../profiles/ps1010.toml")),
    ("ps1030", include_str!("../../profiles/ps1030.toml")),
    ("pm9a3", include_str!("../../profiles/pm9a3.toml")),
    ("pm1743", include_str!("../../profiles/pm1743.toml")),
    ("pm1753", include_str!("../../profiles/pm1753.toml")),
    ("cm6", include_str!("../../profiles/cm6.toml")),
    ("cm7-r", include_str!("../../profiles/cm7-r.toml")),
    ("cm7-v", include_str!("../../profiles/cm7-v.toml")),
    ("cd6", include_str!("../../profiles/cd6.toml")),
    ("cd8", include_str!("../../profiles/cd8.toml")),
    ("cd8p", include_str!("../../profiles/cd8p.toml")),
    ("micron6500", include_str!("../../profiles/micron6500.toml")),
    ("micron6550", include_str!("../../profiles/micron6550.toml")),
    ("micron7450", include_str!("../../profiles/micron7450.toml")),
    ("micron7500", include_str!("../../profiles/micron7500.toml")),
    ("micron9400", include_str!("../../profiles/micron9400.toml")),
    ("micron9550", include_str!("../../profiles/micron9550.toml")),
    ("sn861", include_str!("../../profiles/sn861.toml")),
    ("xg8", include_str!("../../profiles/xg8.toml")),
    ("990pro", include_str!("../../profiles/990pro.toml")),
    ("9100pro", include_str!("../../profiles/9100pro.toml")),
    ("sn850x", include_str!("../../profiles/sn850x.toml")),
    ("t700", include_str!("../../profiles/t700.toml")),
];

/// The text of the built-in profile `name`.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static str> {
    PROFILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The names of all built-in profiles.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(name, _)| *name)
}
