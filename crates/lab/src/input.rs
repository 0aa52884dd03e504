//! What a run replays: a trace or a generator, scanned once and then opened as often as needed.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_record::WorkloadInfo;
use thermocline_types::{Bytes, Op, Request, StreamId, TenantId, Time};
use thermocline_workload::remap::{AddressMap, Remap, WorkingSet};
use thermocline_workload::synthetic::{self, Generator, Limit, Spec};
use thermocline_workload::{BATCH, Source, trace};

use crate::Error;
use crate::settings::Pacing;
use crate::tenants::owner;

/// What to replay.
#[derive(Clone, Debug)]
pub enum Input {
    /// A trace file.
    Trace {
        /// Where it is.
        path: PathBuf,
        /// How to read it.
        options: trace::Options,
        /// How to fit its addresses into the device.
        remap: Remap,
        /// Number of passes over the trace.
        loops: u32,
        /// Leave out trims and write-zeroes, as on a file system mounted without discard.
        ignore_trims: bool,
    },
    /// A generator.
    Synthetic {
        /// What it does.
        spec: Spec,
        /// How much of it.
        options: synthetic::Options,
    },
}

/// How the drive is filled before measurement begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefill {
    /// Every 4 KiB block the trace will write, in the order it will first do so.
    FirstTouch,
    /// The whole span from start to end.
    Sequential,
    /// Not at all: the drive is new.
    None,
}

impl Prefill {
    /// The name used on the command line and in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Prefill::FirstTouch => "first-touch",
            Prefill::Sequential => "sequential",
            Prefill::None => "none",
        }
    }
}

/// An input that has been looked through once, ready to be replayed on any number of devices.
pub struct Prepared {
    input: Input,
    map: Option<AddressMap>,
    set: WorkingSet,
    /// The input as the run record describes it.
    pub info: WorkloadInfo,
    /// What a reader of results must know of how the trace was read.
    trace_notes: Vec<String>,
    prefill: Prefill,
    /// Bytes from the first address to the last, after mapping; data at rest lies beyond.
    span: Bytes,
    at_rest: Bytes,
    tenants: Vec<String>,
    directories: Vec<String>,
    extents: Vec<Range<Bytes>>,
    /// Set by whoever wants the replay to end early.
    stop: Arc<AtomicBool>,
    /// Share of the workload that was done when it ended early.
    interrupted: Option<f64>,
}

/// The room that a workload takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Distinct bytes written.
    pub footprint: Bytes,
    /// Most bytes that hold data at the same time, including the prefill, in one pass of a trace.
    pub live: Bytes,
    /// Bytes from the first address to the last.
    pub span: Bytes,
    /// Bytes written, including the prefill: an upper bound for data on media.
    pub written: Bytes,
}

impl Room {
    /// Of a workload that writes to all of `span`.
    #[must_use]
    pub fn all_of(span: Bytes) -> Room {
        Room { footprint: span, live: span, span, written: Bytes(u64::MAX) }
    }
}

/// Some requests in order, each as the pieces it falls into when its addresses are fitted into the device.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    pieces: &'a [Request],
    /// Where in `pieces` each request ends.
    ends: &'a [usize],
    /// Share of the workload done with this batch, 0..=1.
    pub done: f64,
}

impl<'a> Batch<'a> {
    /// All pieces, in order.
    #[must_use]
    pub fn pieces(&self) -> &'a [Request] {
        self.pieces
    }

    /// The pieces of each request. Requests of which nothing is left, such as trims of what is never written, are
    /// passed over.
    pub fn requests(&self) -> impl Iterator<Item = &'a [Request]> + use<'a> {
        let pieces = self.pieces;
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let requests = starts.zip(self.ends).map(move |(start, &end)| &pieces[start..end]);
        requests.filter(|request| !request.is_empty())
    }
}

/// Most bytes that hold data at the same time. For an application with discards: the largest use of the volume. For
/// other generators: the span. The application is run once in advance, so a volume that is too small fails before a
/// drive is filled.
fn most_live(generator: &mut Generator) -> Result<Bytes, Error> {
    if generator.room().is_none() {
        return Ok(generator.span());
    }
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        generator.fill(&mut batch)?;
        if batch.is_empty() {
            let room = generator.room().filter(|room| room.discards);
            return Ok(room.map_or(generator.span(), |room| room.peak));
        }
    }
}

/// Largest write of a sequential prefill, as in SNIA PTS preconditioning.
const PREFILL_WRITE: Bytes = Bytes::kib(128);

impl Prepared {
    /// Looks through `input`. Traces are read once whole; `granule` is the mapping unit that their addresses are kept
    /// together in, at least the largest of the devices. `capacity` bounds `fold` and `none`.
    ///
    /// # Errors
    /// When the input cannot be read or does not fit.
    pub fn new(
        input: Input,
        prefill: Option<Prefill>,
        granule: Bytes,
        capacity: Option<Bytes>,
    ) -> Result<Prepared, Error> {
        Prepared::looked_through(input, prefill, granule, capacity, capacity)
    }

    /// The same for a thin volume, on which addresses that stay as they are may be any: only `fold` needs `capacity`.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn thin(
        input: Input,
        prefill: Option<Prefill>,
        granule: Bytes,
        capacity: Option<Bytes>,
    ) -> Result<Prepared, Error> {
        Prepared::looked_through(input, prefill, granule, capacity, Some(Bytes(u64::MAX)))
    }

    /// With `end`, where addresses that stay as they are must end.
    fn looked_through(
        input: Input,
        prefill: Option<Prefill>,
        granule: Bytes,
        capacity: Option<Bytes>,
        end: Option<Bytes>,
    ) -> Result<Prepared, Error> {
        match &input {
            Input::Trace { .. } => Prepared::trace(input, prefill, granule, capacity, end),
            Input::Synthetic { spec, options } => {
                let prefill = prefill.unwrap_or(Prefill::Sequential);
                if prefill == Prefill::FirstTouch {
                    return Err(Error::Settings(
                        "prefill first-touch is for traces; generators take sequential or none"
                            .into(),
                    ));
                }
                let mut generator = Generator::new(spec, options)?;
                let directories = generator.directories();
                let most_live = most_live(&mut generator)?;
                let extents = spec.extents(options)?;
                let info = WorkloadInfo {
                    name: spec.to_string(),
                    kind: "generator".into(),
                    span_bytes: options.span.0,
                    prefill: prefill.name().into(),
                    ..WorkloadInfo::default()
                };
                let tenants = spec.tenant_names().into_iter().map(str::to_owned).collect();
                let most_live_blocks = most_live.div_ceil(Bytes::BLOCK);
                let size = options.span;
                let set = WorkingSet { size, most_live_blocks, ..WorkingSet::default() };
                let span = options.span;
                let prepared = Prepared::with(input, info, prefill, span, tenants);
                Ok(Prepared { set, extents, directories, ..prepared })
            }
        }
    }

    fn trace(
        input: Input,
        prefill: Option<Prefill>,
        granule: Bytes,
        capacity: Option<Bytes>,
        end: Option<Bytes>,
    ) -> Result<Prepared, Error> {
        let Input::Trace { path, options, remap, .. } = &input else {
            unreachable!("by the caller")
        };
        if path.as_os_str() == "-" {
            return Err(Error::Settings(
                "a run reads its trace twice, to size the drive and to replay it; save standard input to a file first".into(),
            ));
        }
        let prefill = prefill.unwrap_or(Prefill::FirstTouch);
        let known = |size: Option<Bytes>| {
            size.ok_or_else(|| {
                Error::Settings(format!(
                    "`remap` {remap} needs the size of the device: give `capacity`"
                ))
            })
        };
        let mut map = match remap {
            Remap::Dense => AddressMap::dense(granule.max(Bytes::BLOCK))?,
            Remap::Fold => AddressMap::fold(known(capacity)?)?,
            Remap::None => AddressMap::none(known(end)?),
        };
        let mut trace = trace::open(path, options)?;
        let set = map.scan(&mut trace)?;
        if set.bytes_written == Bytes::ZERO {
            return Err(Error::Settings(format!(
                "{} holds no writes, so there is no write amplification to measure",
                path.display()
            )));
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let info = WorkloadInfo {
            name: name.unwrap_or_else(|| path.display().to_string()),
            kind: "trace".into(),
            format: Some(trace.format().to_string()),
            span_bytes: set.size.0,
            working_set_bytes: Some(set.distinct_blocks * Bytes::BLOCK.0),
            duration_seconds: Some(set.duration.as_secs_f64()),
            remap: Some(remap.to_string()),
            prefill: prefill.name().into(),
            skipped_lines: trace.skipped(),
            empty_requests: trace.empty(),
            reordered_requests: trace.reordered(),
            lost_events: trace.lost(),
        };
        let tenants = trace.volumes().to_vec();
        let directories = trace.directories();
        let span = match remap {
            Remap::Dense => set.size,
            Remap::Fold => known(capacity)?,
            Remap::None => set.span,
        };
        let prepared = Prepared::with(input, info, prefill, span, tenants);
        Ok(Prepared { map: Some(map), set, directories, trace_notes: trace.notes(), ..prepared })
    }

    fn with(
        input: Input,
        info: WorkloadInfo,
        prefill: Prefill,
        span: Bytes,
        tenants: Vec<String>,
    ) -> Prepared {
        Prepared {
            input,
            map: None,
            set: WorkingSet::default(),
            info,
            trace_notes: Vec::new(),
            prefill,
            span,
            at_rest: Bytes::ZERO,
            tenants,
            directories: Vec::new(),
            extents: Vec::new(),
            stop: Arc::default(),
            interrupted: None,
        }
    }

    /// Puts data beside the workload's own that is written once, before everything else, and never touched: the `share`
    /// of all data on the volume, at least 0 and below 1. It lies behind the workload's addresses.
    ///
    /// # Errors
    /// [`Error::Settings`] for other shares, and where the workload's addresses are those of the device.
    pub fn with_data_at_rest(mut self, share: f64) -> Result<Prepared, Error> {
        if !(0.0..1.0).contains(&share) {
            return Err(Error::Settings(format!(
                "`at_rest` is {share}, must be at least 0 and below 1"
            )));
        }
        if matches!(&self.input, Input::Trace { remap: Remap::Fold | Remap::None, .. })
            && share > 0.0
        {
            return Err(Error::Settings(
                "`at_rest` needs `remap` dense: data at rest lies behind the trace's own".into(),
            ));
        }
        let bytes = self.set.size.as_f64() * share / (1.0 - share);
        self.at_rest = Bytes((bytes / PREFILL_WRITE.as_f64()).round() as u64 * PREFILL_WRITE.0);
        Ok(self)
    }

    /// Bytes of data that is never touched.
    #[must_use]
    pub fn at_rest(&self) -> Bytes {
        self.at_rest
    }

    /// Ends a replay early, as if there were no more requests, once `stop` is set; a prefill is given up.
    pub fn stop_on(&mut self, stop: Arc<AtomicBool>) {
        self.stop = stop;
    }

    /// Share of the workload completed when the last replay was interrupted; `None` after a whole replay.
    #[must_use]
    pub fn interrupted(&self) -> Option<f64> {
        self.interrupted
    }

    /// Bytes addressed after mapping, plus the data at rest. A drive of this capacity is full.
    #[must_use]
    pub fn footprint(&self) -> Bytes {
        self.set.size + self.at_rest
    }

    /// The room that the workload takes on a volume that is as large as its addresses reach.
    #[must_use]
    pub fn room(&self) -> Room {
        let block = Bytes::BLOCK.0;
        let trims = !matches!(self.input, Input::Trace { ignore_trims: true, .. });
        let live = match (&self.map, self.prefill) {
            (Some(_), Prefill::None) if trims => Bytes(self.set.most_live_blocks * block),
            (Some(_), Prefill::None | Prefill::FirstTouch) => {
                Bytes(self.set.distinct_blocks * block)
            }
            (None, Prefill::None) => Bytes(self.set.most_live_blocks * block),
            _ => self.set.size,
        };
        let live = live + self.at_rest;
        let prefill = match (self.prefill, &self.map) {
            (Prefill::None, _) => 0,
            (Prefill::FirstTouch, Some(_)) => self.set.distinct_blocks * block,
            _ => self.set.size.0,
        };
        let passes = match &self.input {
            Input::Trace { loops, .. } => u64::from(*loops),
            Input::Synthetic { .. } => 1,
        };
        let replayed = self.bytes_to_write().0.saturating_mul(passes);
        let written = Bytes((prefill + self.at_rest.0).saturating_add(replayed));
        Room { footprint: self.footprint(), live, span: self.span + self.at_rest, written }
    }

    /// What the trace touches; for generators only the size is known.
    #[must_use]
    pub fn working_set(&self) -> &WorkingSet {
        &self.set
    }

    /// Host bytes written by one pass of a trace.
    #[must_use]
    pub fn pass(&self) -> Option<Bytes> {
        match &self.input {
            Input::Trace { .. } => Some(self.set.bytes_written),
            Input::Synthetic { .. } => None,
        }
    }

    /// Bytes written by one pass of a trace, or the bytes that a generator will write according to the options.
    #[must_use]
    pub fn bytes_to_write(&self) -> Bytes {
        match &self.input {
            Input::Trace { .. } => self.set.bytes_written,
            Input::Synthetic { options, .. } => match options.limit {
                Limit::BytesWritten(bytes) => bytes,
                Limit::Writes(count) | Limit::Requests(count) => {
                    Bytes(count.saturating_mul(options.io_size.unwrap_or(Bytes::BLOCK).0))
                }
            },
        }
    }

    /// Whether requests carry the times at which they were issued.
    #[must_use]
    pub fn has_clock(&self) -> bool {
        match &self.input {
            Input::Trace { .. } => self.set.duration > Time::ZERO,
            Input::Synthetic { options, .. } => options.rate.is_some(),
        }
    }

    /// Whether requests come in bursts, and their times say how long nothing is asked for in between.
    #[must_use]
    pub fn rests(&self) -> bool {
        matches!(&self.input, Input::Synthetic { options, .. } if options.bursts.is_some())
    }

    /// How long clients think, if the workload says so.
    #[must_use]
    pub fn think(&self) -> Option<Time> {
        match &self.input {
            Input::Trace { .. } => None,
            Input::Synthetic { spec, .. } => spec.think(),
        }
    }

    /// Whether flushes hold back what follows: those of a trace always, of an application those of commits, if its
    /// clients are a closed loop.
    #[must_use]
    pub fn has_barriers(&self, pacing: Pacing) -> bool {
        let commits = matches!(&self.input, Input::Synthetic { spec, .. } if spec.commits());
        self.flushes() > 0 || commits && matches!(pacing, Pacing::Clients { .. })
    }

    /// Flushes in one pass.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.set.flushes
    }

    /// Names of the tenants in order of their identifiers; empty for a single tenant.
    #[must_use]
    pub fn tenants(&self) -> &[String] {
        &self.tenants
    }

    /// Names of the directories of the workload's files; empty for a workload without files.
    #[must_use]
    pub fn directories(&self) -> &[String] {
        &self.directories
    }

    /// Hands the writes that precondition the drive to `write`.
    ///
    /// # Errors
    /// The first error of `write`, and [`Error::Interrupted`].
    pub fn prefill(
        &self,
        mut write: impl FnMut(Request) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut write = |request| match self.stop.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted),
            false => write(request),
        };
        let end = self.span + self.at_rest;
        self.in_order(self.span..end).try_for_each(&mut write)?;
        match (self.prefill, &self.map) {
            (Prefill::None, _) => Ok(()),
            (Prefill::FirstTouch, Some(map)) => map.prefill().try_for_each(write),
            _ => self.in_order(Bytes::ZERO..self.set.size).try_for_each(write),
        }
    }

    /// Large writes to all of `range`, from start to end.
    fn in_order(&self, range: Range<Bytes>) -> impl Iterator<Item = Request> {
        let Range { start, end } = range;
        (start.0..end.0).step_by(PREFILL_WRITE.0 as usize).map(move |offset| Request {
            at: Time::ZERO,
            offset: Bytes(offset),
            length: Bytes(PREFILL_WRITE.0.min(end.0 - offset)),
            tenant: self.tenant_at(Bytes(offset)),
            stream: StreamId::UNKNOWN,
            op: Op::Write,
            outstanding: None,
        })
    }

    /// Whose data a write of the prefill is, as an owner's number: by where it begins. Data at rest, and what is in no
    /// tenant's part of the addresses, is nobody's.
    #[must_use]
    pub fn owner(&self, request: &Request) -> u16 {
        let outside = !self.extents.is_empty()
            && !self.extents.iter().any(|extent| extent.contains(&request.offset));
        if outside || request.offset >= self.span { u16::MAX } else { owner(request.tenant) }
    }

    /// The tenant whose region of a generator's span `offset` lies in, so that prefill carries its placement handle.
    fn tenant_at(&self, offset: Bytes) -> TenantId {
        let found = self.extents.iter().position(|extent| extent.contains(&offset));
        TenantId(found.unwrap_or(0) as u32)
    }

    /// Hands all requests, fitted into the device and in order, to `serve` in batches, until it is told to stop.
    ///
    /// # Errors
    /// Those of reading, and the first error of `serve`.
    pub fn replay(
        &mut self,
        mut serve: impl FnMut(Batch<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut batch = Vec::with_capacity(BATCH);
        let Prepared { input, map, set, stop, interrupted, .. } = self;
        *interrupted = None;
        let mut is_stopped = |done: f64| {
            *interrupted = (stop.load(Ordering::Relaxed) && done < 1.0).then_some(done);
            interrupted.is_some()
        };
        match input {
            Input::Synthetic { spec, options } => {
                let mut generator = Generator::new(spec, options)?;
                let ends: Vec<usize> = (1..=BATCH).collect();
                loop {
                    generator.fill(&mut batch)?;
                    if batch.is_empty() {
                        return Ok(());
                    }
                    let done = generator.fraction_done();
                    serve(Batch { pieces: &batch, ends: &ends[..batch.len()], done })?;
                    if is_stopped(done) {
                        return Ok(());
                    }
                }
            }
            Input::Trace { path, options, loops, ignore_trims, .. } => {
                let map = map.as_mut().expect("traces have a map");
                let (mut pieces, mut ends) = (Vec::new(), Vec::new());
                for pass in 0..*loops {
                    let mut trace = trace::open(&*path, options)?;
                    let start = Time(set.duration.0 * u64::from(pass));
                    loop {
                        trace.fill(&mut batch)?;
                        if batch.is_empty() {
                            break;
                        }
                        pieces.clear();
                        ends.clear();
                        if *ignore_trims {
                            batch.retain(|r| !matches!(r.op, Op::Trim | Op::WriteZeroes));
                        }
                        for request in &mut batch {
                            request.at += start;
                            map.map(request, &mut pieces)?;
                            ends.push(pieces.len());
                        }
                        let done = (f64::from(pass) + trace.fraction_done()) / f64::from(*loops);
                        serve(Batch { pieces: &pieces, ends: &ends, done })?;
                        if is_stopped(done) {
                            return Ok(());
                        }
                    }
                }
                Ok(())
            }
        }
    }

    /// Hands the writes of the first pass, fitted into the device and in order, to `see`, one piece after the other.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn look_ahead(&mut self, mut see: impl FnMut(&Request)) -> Result<(), Error> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut source: Box<dyn Source> = match &self.input {
            Input::Synthetic { spec, options } => Box::new(Generator::new(spec, options)?),
            Input::Trace { path, options, .. } => Box::new(trace::open(path, options)?),
        };
        let mut pieces = Vec::new();
        loop {
            source.fill(&mut batch)?;
            if batch.is_empty() {
                return Ok(());
            }
            for request in batch.iter().filter(|request| request.op == Op::Write) {
                match &mut self.map {
                    None => see(request),
                    Some(map) => {
                        pieces.clear();
                        map.map(request, &mut pieces)?;
                        pieces.iter().for_each(&mut see);
                    }
                }
            }
        }
    }

    /// The settings that shaped the workload, by key, for the run record.
    #[must_use]
    pub fn settings(&self) -> Vec<(String, serde_json::Value)> {
        let mut list = match &self.input {
            Input::Trace { options, loops, ignore_trims, .. } => vec![
                ("workload.loops", (*loops).into()),
                ("workload.ignore_trims", (*ignore_trims).into()),
                ("workload.skip_bad", options.skip_bad.into()),
                ("workload.volume", options.volume.clone().into()),
                ("workload.from_ns", options.window.from.as_nanos().into()),
                ("workload.until_ns", options.window.until.map(Time::as_nanos).into()),
            ],
            Input::Synthetic { options, .. } => vec![
                ("workload.limit", format!("{:?}", options.limit).into()),
                ("workload.io_size_bytes", options.io_size.map(Bytes::get).into()),
                ("workload.read_share", options.read_share.into()),
                ("workload.trim_share", options.trim_share.into()),
                ("workload.rate_per_second", options.rate.into()),
                ("workload.burst_bytes", options.bursts.map(|bursts| bursts.bytes.0).into()),
                ("workload.idle_ns", options.bursts.map(|bursts| bursts.idle.0).into()),
            ],
        };
        if self.at_rest > Bytes::ZERO {
            list.push(("workload.at_rest_bytes", self.at_rest.0.into()));
        }
        list.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Facts about the replay that a reader of its results must know, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(map) = &self.map {
            if map.reads_outside() > 0 {
                notes.push(format!(
                    "{} reads addressed data the trace never writes; they were served from elsewhere on the drive, at the \
                     cost of a media read",
                    map.reads_outside()
                ));
            }
            if map.trims_dropped() > 0 {
                notes.push(format!(
                    "{} trims addressed nothing the trace ever writes and were dropped",
                    map.trims_dropped()
                ));
            }
        }
        notes.extend(self.trace_notes.iter().cloned());
        notes
    }
}
