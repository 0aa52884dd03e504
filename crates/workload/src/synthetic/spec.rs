//! A whole workload: one pattern over the span, or several tenants side by side.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::Deserialize;
use thermocline_types::{Bytes, Time};

use super::app::{APP_SPAN, AppSpec};
use super::options::{check_io_size, check_shares};
use super::{Checkpoints, Error, Options, Pattern, RandomMap};

/// What a generator generates.
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// One pattern over the whole span.
    One(Pattern),
    /// Several patterns at once, each in a region and with a tenant identifier of its own, in order.
    Tenants(Vec<Tenant>),
    /// An application that has the whole span.
    App(AppSpec),
}

/// What one tenant does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A pattern.
    Pattern(Pattern),
    /// An application, on a volume that is the tenant's region.
    App(AppSpec),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Pattern(pattern) => pattern.fmt(f),
            Work::App(app) => app.fmt(f),
        }
    }
}

impl FromStr for Work {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match AppSpec::parse(text) {
            Some(app) => app.map(Work::App),
            None => text.parse().map(Work::Pattern),
        }
    }
}

/// One tenant of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// For people.
    pub name: String,
    /// The work in the tenant's region.
    pub work: Work,
    /// Size of the region; regions follow each other from offset 0.
    pub span: TenantSpan,
    /// Weight among the requests; shares need not sum to 1.
    pub share: f64,
    /// Overrides [`Options::io_size`].
    pub io_size: Option<Bytes>,
    /// Overrides [`Options::read_share`].
    pub read_share: Option<f64>,
    /// Overrides [`Options::trim_share`].
    pub trim_share: Option<f64>,
    /// Times at which writes are issued, by the host's clock; `None` issues writes at once.
    pub checkpoints: Option<Checkpoints>,
}

/// How large a tenant's region is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TenantSpan {
    /// So many bytes, a multiple of 4 KiB.
    Bytes(Bytes),
    /// Per cent of the workload's span, rounded down to 4 KiB.
    Percent(f64),
    /// An equal part of what the others leave, rounded down to 4 KiB.
    Rest,
}

/// The file as written.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    tenant: Vec<Entry>,
    /// An application, by its name.
    #[serde(flatten)]
    app: toml::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<String>,
    workload: String,
    span: Option<String>,
    share: Option<f64>,
    io_size: Option<String>,
    read_share: Option<f64>,
    trim_share: Option<f64>,
    every_s: Option<f64>,
    within_s: Option<f64>,
}

impl Spec {
    /// Reads the value of `--workload`: a pattern, or the name of a `.toml` file of tenants.
    ///
    /// # Errors
    /// If `text` is neither, the file cannot be read, or a value is impossible.
    pub fn load(text: &str) -> Result<Spec, Error> {
        let path = Path::new(text);
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) {
            let wrong = |source| Error::File { path: path.to_owned(), source };
            let content = std::fs::read_to_string(crate::at_home(path))
                .map_err(|source| wrong(source.into()))?;
            return Spec::from_toml(&content).map_err(|source| wrong(source.into()));
        }
        text.parse()
    }

    /// Reads the content of a file of tenants:
    ///
    /// ```toml
    /// [[tenant]]
    /// name = "database"        # optional
    /// workload = "zipf:0.99"   # any pattern, or an application such as "btree:page=16KiB"
    /// span = "60%"             # or "24GiB"; default: an equal part of what the others leave
    /// share = 3                # of the requests, relative; default 1
    /// io_size = "8KiB"         # these three default to the options of the run
    /// read_share = 0.5
    /// trim_share = 0.0
    /// every_s = 60             # its writes wait for a checkpoint every so many seconds; only with a rate
    /// within_s = 6             # and are issued within so many; default: a tenth of that
    /// ```
    ///
    /// or of an application, by its keys ([`APPLICATIONS`](super::APPLICATIONS)):
    ///
    /// ```toml
    /// [lsm]
    /// strategy = "levels"
    /// fs.extent = "4MiB"
    /// ```
    ///
    /// # Errors
    /// If it is not TOML, has other keys, no tenants, or values out of range.
    pub fn from_toml(content: &str) -> Result<Spec, Error> {
        let file: File = toml::from_str(content)?;
        let mut apps = file.app.iter();
        match (apps.next(), apps.next()) {
            (Some((name, table)), None) if file.tenant.is_empty() => {
                let table = table.as_table().and_then(|table| AppSpec::from_table(name, table));
                if let Some(app) = table {
                    return app.map(Spec::App);
                }
            }
            (None, _) if !file.tenant.is_empty() => {
                let tenants = file.tenant.into_iter().enumerate();
                let tenants = tenants.map(|(index, entry)| entry.read(index));
                return Ok(Spec::Tenants(tenants.collect::<Result<_, _>>()?));
            }
            _ => {}
        }
        let what =
            "a workload file needs at least one [[tenant]], or else one application, such as [lsm]";
        Err(Error::Options(what.to_owned()))
    }

    /// The default span of the workload: of an application, or of tenants that all have a span in bytes.
    #[must_use]
    pub fn fixed_span(&self) -> Option<Bytes> {
        let tenants = match self {
            Spec::One(_) => return None,
            Spec::App(_) => return Some(APP_SPAN),
            Spec::Tenants(tenants) => tenants,
        };
        tenants.iter().try_fold(Bytes::ZERO, |sum, tenant| match tenant.span {
            TenantSpan::Bytes(bytes) => sum.get().checked_add(bytes.get()).map(Bytes),
            TenantSpan::Percent(_) | TenantSpan::Rest => None,
        })
    }

    /// The bytes that each tenant addresses, in order of their identifiers; none for an application.
    ///
    /// # Errors
    /// If they do not fit the span of `options`.
    pub fn extents(&self, options: &Options) -> Result<Vec<std::ops::Range<Bytes>>, Error> {
        if matches!(self, Spec::App(_)) {
            return Ok(Vec::new());
        }
        let regions = self.regions(options)?;
        Ok(regions.iter().map(|region| region.base..region.base + region.span).collect())
    }

    /// How long the clients of an application think after a commit; `None` for workloads without thinking clients.
    #[must_use]
    pub fn think(&self) -> Option<Time> {
        match self {
            Spec::App(AppSpec::Btree(spec)) => spec.think(),
            _ => None,
        }
    }

    /// Whether it is an application whose clients wait for the flushes of their commits.
    #[must_use]
    pub fn commits(&self) -> bool {
        matches!(self, Spec::App(AppSpec::Btree(spec)) if spec.commits())
    }

    /// The tenants' names in order of their identifiers; empty for a single pattern.
    #[must_use]
    pub fn tenant_names(&self) -> Vec<&str> {
        match self {
            Spec::One(_) | Spec::App(_) => Vec::new(),
            Spec::Tenants(tenants) => tenants.iter().map(|tenant| tenant.name.as_str()).collect(),
        }
    }
}

impl Entry {
    fn read(self, index: usize) -> Result<Tenant, Error> {
        let name = self.name.unwrap_or_else(|| index.to_string());
        let wrong = |what: String| Error::Tenant { tenant: name.clone(), what };
        let work = self.workload.parse().map_err(|error: Error| wrong(error.to_string()))?;
        let span =
            self.span.map_or(Ok(TenantSpan::Rest), |text| read_span(&text)).map_err(wrong)?;
        let share = self.share.unwrap_or(1.0);
        if !(share.is_finite() && share > 0.0) {
            return Err(wrong(format!("share is {share}, must be above 0")));
        }
        let io_size = self
            .io_size
            .map(|text| text.parse::<Bytes>())
            .transpose()
            .map_err(|error| wrong(error.to_string()))?;
        let within_s = |every_s| self.within_s.unwrap_or(every_s / 10.0);
        let checkpoints = match (self.every_s, self.within_s) {
            (Some(every_s), _) => Some(Checkpoints::read(every_s, within_s(every_s))),
            (None, Some(_)) => Some(Err("within_s says nothing without every_s".to_owned())),
            (None, None) => None,
        };
        let checkpoints = checkpoints.transpose().map_err(wrong)?;
        Ok(Tenant {
            work,
            checkpoints,
            span,
            share,
            io_size,
            read_share: self.read_share,
            trim_share: self.trim_share,
            name,
        })
    }
}

fn read_span(text: &str) -> Result<TenantSpan, String> {
    if let Some(number) = text.trim().strip_suffix('%') {
        return match number.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(TenantSpan::Percent(percent)),
            _ => Err(format!("span is {text}, must be above 0 % and at most 100 %")),
        };
    }
    let bytes: Bytes =
        text.parse().map_err(|error: thermocline_types::ParseBytesError| error.to_string())?;
    if bytes == Bytes::ZERO || !bytes.get().is_multiple_of(Bytes::BLOCK.get()) {
        return Err(format!("span is {bytes}, must be a multiple of 4 KiB above 0"));
    }
    Ok(TenantSpan::Bytes(bytes))
}

/// One tenant with every default filled in.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) work: Work,
    pub(super) base: Bytes,
    pub(super) span: Bytes,
    pub(super) share: f64,
    pub(super) io_size: Option<Bytes>,
    pub(super) read_share: f64,
    pub(super) trim_share: f64,
}

impl Spec {
    /// Lays the tenants out over the span.
    pub(super) fn regions(&self, options: &Options) -> Result<Vec<Region>, Error> {
        options.check()?;
        let regions = match self {
            Spec::One(pattern) => vec![Region {
                work: Work::Pattern(*pattern),
                base: Bytes::ZERO,
                span: options.span,
                share: 1.0,
                io_size: options.io_size,
                read_share: options.read_share,
                trim_share: options.trim_share,
            }],
            Spec::Tenants(tenants) => lay_out(tenants, options)?,
            Spec::App(_) => Vec::new(),
        };
        for region in &regions {
            let is_log = matches!(region.work, Work::Pattern(Pattern::Circular { .. }));
            if is_log && region.trim_share > 0.0 {
                let what = "a circular log trims its own tail: its trim share must be 0";
                return Err(Error::Options(what.to_owned()));
            }
            let size = region.io_size.unwrap_or(Bytes::BLOCK).min(region.span);
            let is_mapped = matches!(region.work, Work::Pattern(Pattern::RandomMap));
            if is_mapped && region.span.div_ceil(size) > RandomMap::MOST {
                let what = format!(
                    "random-map over {} in requests of {size} is too long: at most {} requests",
                    region.span,
                    RandomMap::MOST
                );
                return Err(Error::Options(what));
            }
        }
        Ok(regions)
    }
}

fn lay_out(tenants: &[Tenant], options: &Options) -> Result<Vec<Region>, Error> {
    let blocks = options.span.get() / Bytes::BLOCK.get();
    let asked = |tenant: &Tenant| match tenant.span {
        TenantSpan::Bytes(bytes) => bytes.get() / Bytes::BLOCK.get(),
        TenantSpan::Percent(percent) => (blocks as f64 * percent / 100.0) as u64,
        TenantSpan::Rest => 0,
    };
    let fixed = tenants.iter().map(asked).fold(0, u64::saturating_add);
    let left = blocks.checked_sub(fixed).ok_or_else(|| {
        Error::Options(format!("the tenants' spans add up to more than the span {}", options.span))
    })?;
    let rest = tenants.iter().filter(|tenant| tenant.span == TenantSpan::Rest).count() as u64;
    let mut base = Bytes::ZERO;
    let place = |tenant: &Tenant| {
        let wrong = |what: String| Error::Tenant { tenant: tenant.name.clone(), what };
        let blocks = if tenant.span == TenantSpan::Rest { left / rest } else { asked(tenant) };
        if blocks == 0 {
            return Err(wrong(format!("no block of the span {} is left for it", options.span)));
        }
        let region = Region {
            work: tenant.work.clone(),
            base,
            span: Bytes(blocks * Bytes::BLOCK.get()),
            share: tenant.share,
            io_size: tenant.io_size.or(options.io_size),
            read_share: tenant.read_share.unwrap_or(options.read_share),
            trim_share: tenant.trim_share.unwrap_or(options.trim_share),
        };
        base += region.span;
        check_shares(region.read_share, region.trim_share)
            .map_err(|error| wrong(error.to_string()))?;
        let sizes = region.io_size.map_or(Ok(()), |io_size| check_io_size(io_size, region.span));
        sizes.map_err(|error| wrong(error.to_string()))?;
        Ok(region)
    };
    tenants.iter().map(place).collect()
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.parse()? {
            Work::Pattern(pattern) => Ok(Spec::One(pattern)),
            Work::App(app) => Ok(Spec::App(app)),
        }
    }
}

/// The canonical text of a single pattern or an application; tenants as one line for people, which does not read back.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenants = match self {
            Spec::One(pattern) => return write!(f, "{pattern}"),
            Spec::App(spec) => return write!(f, "{spec}"),
            Spec::Tenants(tenants) => tenants,
        };
        for (index, tenant) in tenants.iter().enumerate() {
            let between = if index == 0 { "" } else { " + " };
            write!(f, "{between}{} ({}, share {}", tenant.name, tenant.work, tenant.share)?;
            match tenant.span {
                TenantSpan::Bytes(bytes) => write!(f, ", {bytes}")?,
                TenantSpan::Percent(percent) => write!(f, ", {percent} % of the span")?,
                TenantSpan::Rest => {}
            }
            if let Some(io_size) = tenant.io_size {
                write!(f, ", {io_size} each")?;
            }
            for (what, share) in [("read", tenant.read_share), ("trim", tenant.trim_share)] {
                if let Some(share) = share {
                    write!(f, ", {what} share {share}")?;
                }
            }
            if let Some(Checkpoints { every, within }) = tenant.checkpoints {
                let [every, within] = [every, within].map(Time::as_secs_f64);
                write!(f, ", written every {every} s within {within} s")?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Limit;

    const MIX: &str = r#"
        [[tenant]]
        name = "wal"
        workload = "circular"
        span = "1MiB"
        share = 3
        io_size = "16KiB"

        [[tenant]]
        name = "table"
        workload = "zipf:0.99"
        span = "50%"
        read_share = 0.25

        [[tenant]]
        workload = "seq"
    "#;

    #[test]
    fn tenants_are_read_and_laid_out_side_by_side() {
        let spec = Spec::from_toml(MIX).expect("valid");
        assert_eq!(spec.tenant_names(), ["wal", "table", "2"]);
        assert_eq!(spec.fixed_span(), None);
        let regions = spec.regions(&Options::new(Bytes::mib(8), Limit::Writes(1))).expect("fits");
        let layout: Vec<(u64, u64)> = regions
            .iter()
            .map(|region| (region.base.get() >> 10, region.span.get() >> 10))
            .collect();
        assert_eq!(layout, [(0, 1024), (1024, 4096), (5120, 3072)]);
        assert_eq!(
            spec.to_string(),
            "wal (circular:50, share 3, 1 MiB, 16 KiB each) + table (zipf:0.99, share 1, 50 % of the span, read share 0.25) \
             + 2 (seq, share 1)"
        );
    }

    #[test]
    fn spans_in_bytes_fix_the_span() {
        let spec = Spec::from_toml(
            "tenant = [{workload='seq', span='1GiB'}, {workload='uniform', span='3GiB'}]",
        );
        assert_eq!(spec.expect("valid").fixed_span(), Some(Bytes::gib(4)));
        assert_eq!("seq".parse::<Spec>().expect("valid").fixed_span(), None);
    }

    #[test]
    fn errors_name_tenant_and_reason() {
        let cases = [
            ("", "at least one [[tenant]], or else one application"),
            (
                "[lsm]\nkey = '4GiB'",
                "lsm key is `4GiB`: there is no such key; there are strategy, keys",
            ),
            ("lsm = {}\ntenant = [{workload = 'seq'}]", "or else one application"),
            ("[lsn]\nkeys = '1%'", "or else one application, such as [lsm]"),
            (
                "[[tenant]]\nworkload = 'lsm:lag=1'",
                "tenant `0`: lsm lag is `1`: there is no such key",
            ),
            ("[[tenant]]\nworkload = 'seq'\ncolour = 'red'", "unknown field `colour`"),
            ("[[tenant]\n", "line 1"),
            ("tenant = []", "at least one [[tenant]]"),
            (
                "[[tenant]]\nname = 'a'\nworkload = 'zipf'",
                "tenant `a`: workload `zipf`: THETA is missing",
            ),
            ("[[tenant]]\nworkload = 'seq'\nshare = 0.0", "tenant `0`: share is 0"),
            ("[[tenant]]\nworkload = 'seq'\nwithin_s = 1.0", "nothing without every_s"),
            (
                "[[tenant]]\nworkload = 'seq'\nevery_s = 0.0",
                "tenant `0`: checkpoints come every 0 s",
            ),
            (
                "[[tenant]]\nworkload = 'seq'\nspan = '1000'",
                "span is 1000 B, must be a multiple of 4 KiB",
            ),
            ("[[tenant]]\nworkload = 'seq'\nspan = '0%'", "span is 0%"),
            ("[[tenant]]\nworkload = 'seq'\nspan = 'big'", "`big` is not a size"),
            ("[[tenant]]\nworkload = 'seq'\nio_size = '4 apples'", "`4 apples` is not a size"),
        ];
        for (content, part) in cases {
            let error = Spec::from_toml(content).expect_err(part).to_string();
            assert!(error.contains(part), "{content}: {error}");
        }
    }

    #[test]
    fn tenants_that_do_not_fit_are_refused() {
        let options = Options::new(Bytes::mib(1), Limit::Writes(1));
        let cases = [
            ("tenant = [{workload='seq', span='2MiB'}]", "more than the span 1 MiB"),
            ("tenant = [{workload='seq', span='100%'}, {workload='seq'}]", "tenant `1`: no block"),
            ("tenant = [{workload='seq', io_size='2MiB'}]", "tenant `0`: I/O size 2 MiB is larger"),
            ("tenant = [{workload='seq', read_share=2}]", "tenant `0`: read share is 2"),
            ("tenant = [{workload='circular', trim_share=0.5}]", "trims its own tail"),
        ];
        for (content, part) in cases {
            let error = Spec::from_toml(content)
                .expect("readable")
                .regions(&options)
                .expect_err(part)
                .to_string();
            assert!(error.contains(part), "{content}: {error}");
        }
    }

    #[test]
    fn files_are_read_and_named_in_errors() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = folder.path().join("mix.toml");
        let text = path.to_str().expect("a path in UTF-8");
        let missing = Spec::load(text).expect_err("missing");
        assert!(missing.to_string().contains("mix.toml"), "{missing}");
        std::fs::write(&path, MIX).expect("writable");
        assert_eq!(Spec::load(text).expect("valid"), Spec::from_toml(MIX).expect("valid"));
        std::fs::write(&path, "tenant = []").expect("writable");
        let empty = Spec::load(text).expect_err("no tenants");
        let source = std::error::Error::source(&empty).expect("the reason").to_string();
        assert!(
            empty.to_string().contains("mix.toml") && source.contains("at least one"),
            "{empty}: {source}"
        );
        assert_eq!(Spec::load("zipf:1").expect("valid"), Spec::One(Pattern::Zipf { theta: 1.0 }));
    }
}
