//! The profiles that come with Thermocline.

const PROFILES: [(&str, &str); 16] = [
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
