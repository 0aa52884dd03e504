//! A drive profile of what is known of a drive.

use std::fmt::Write as _;

use thermocline_types::Bytes;

/// A number of a drive, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Sourced<T> {
    /// The number.
    pub value: T,
    /// Where it comes from.
    pub source: String,
}

impl<T> Sourced<T> {
    /// `value` from `source`.
    pub fn new(value: T, source: impl Into<String>) -> Sourced<T> {
        Sourced { value, source: source.into() }
    }
}

/// A drive as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct RealDrive {
    /// Name of the profile.
    pub name: String,
    /// Bytes that the drive exports.
    pub capacity: Sourced<Bytes>,
    /// Overprovisioning: (media − capacity) / capacity.
    pub op: Sourced<f64>,
    /// Unit of erasure.
    pub unit: Sourced<Bytes>,
    /// Whether survivors of collections lie apart from host writes.
    pub apart: Sourced<bool>,
    /// Placement handles; without them, one stream.
    pub handles: Option<Sourced<u8>>,
    /// Write buffer; none if unknown.
    pub buffer: Option<Sourced<Bytes>>,
}

impl RealDrive {
    /// The overprovisioning of a drive of `capacity` and units of `unit` that was empty and relocates from so many
    /// `fills` on. Two units are not full then: the open unit and a free unit.
    #[must_use]
    pub fn op_of_onset(fills: f64, capacity: Bytes, unit: Bytes) -> f64 {
        fills + 2.0 * unit.as_f64() / capacity.as_f64() - 1.0
    }

    /// The profile as TOML, with the source of each number.
    #[must_use]
    pub fn profile(&self) -> String {
        let RealDrive { name, capacity, op, unit, apart, handles, buffer } = self;
        let kind = if handles.is_some() { "fdp" } else { "conventional" };
        let mut text = format!(
            "name = {}\ntitle = {}\nkind = \"{kind}\"\ncapacity = \"{}\"\nop = {:.5}\nmapping_unit = \"4KiB\"\n\n",
            quoted(name),
            quoted(&format!("{name}, calibrated from its counters")),
            capacity.value.compact(),
            op.value
        );
        let mut sources = vec![
            ("capacity", capacity.source.as_str()),
            ("op", &op.source),
            ("mapping_unit", "assumed: usual for TLC drives"),
            ("gc.victim", "assumed: makers do not publish it"),
            ("gc.separate", &apart.source),
            ("geometry", "assumed: of no effect without [timing]"),
            ("geometry.unit", &unit.source),
        ];
        if let Some(handles) = handles {
            let _ = write!(
                text,
                "[fdp]\ngroups = 1\nhandles = {}\npersistently_isolated = false\n\n",
                handles.value
            );
            sources.push(("fdp", "assumed"));
            sources.push(("fdp.handles", &handles.source));
        }
        let _ = write!(text, "[gc]\nvictim = \"greedy\"\nseparate = {}\n\n", apart.value);
        if let Some(buffer) = buffer {
            let _ = write!(
                text,
                "[buffer]\nsize = \"{}\"\nmerge = true\npower_loss_protection = true\n\n",
                buffer.value.compact()
            );
            sources.push(("buffer", "assumed"));
            sources.push(("buffer.size", &buffer.source));
        }
        let _ = write!(
            text,
            "[geometry]\nchannels = 1\ndies = 1\nplanes = 1\npage = \"4KiB\"\nblock = \"4MiB\"\nunit = \"{}\"\n\n[source]\n",
            unit.value.compact()
        );
        for (key, source) in sources {
            let _ = writeln!(text, "{} = {}", quoted(key), quoted(source));
        }
        text
    }
}

/// `text` as a string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
