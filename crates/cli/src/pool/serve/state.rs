//! What a served pool tells of itself, schema `thermocline.serve/1`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use serde::Serialize;
use thermocline_nbd::{LATENCY_BUCKETS_MICROS, Operation, Stopper, Traffic};
use thermocline_runtime::Pool;

use super::sockets::Reach;

/// From where the state is read.
#[derive(Clone)]
pub struct State {
    pool: Weak<Pool>,
    stopper: Stopper,
    failed: Arc<AtomicBool>,
    reach: Reach,
    began: Instant,
}

/// Everything that is told. Counters begin when the pool was opened.
#[derive(Serialize)]
pub struct Status {
    pub schema: &'static str,
    pub pool: String,
    pub seconds: f64,
    /// The device failed: nothing is written until the pool is opened again.
    pub failed: bool,
    pub uris: Vec<String>,
    pub volumes: Vec<VolumeStatus>,
    pub engine: EngineStatus,
    pub clients: ClientStatus,
}

#[derive(Serialize)]
pub struct VolumeStatus {
    pub name: String,
    pub size_bytes: u64,
}

/// Bytes written to the device are the sum of those with a cause.
#[derive(Serialize)]
pub struct EngineStatus {
    /// Written by the host, those absorbed included.
    pub host_bytes_written: u64,
    pub host_bytes_read: u64,
    pub host_bytes_trimmed: u64,
    /// Overwritten or trimmed in memory, and never written to the device.
    pub absorbed_bytes: u64,
    pub device_bytes_written: u64,
    /// Device bytes over host bytes.
    pub alwa: Option<f64>,
    pub by_cause: Causes,
    pub mapped_bytes: u64,
    pub free_units: u32,
    pub units: u32,
    pub memory_bytes: u64,
    pub flushes: u64,
    pub checkpoints: u64,
    pub units_collected: u64,
    pub damaged_blocks: u64,
}

/// Bytes written to the device, by cause.
#[derive(Serialize)]
pub struct Causes {
    pub host: u64,
    pub relocation: u64,
    pub map: u64,
    pub headers: u64,
    pub superblocks: u64,
}

#[derive(Serialize)]
pub struct ClientStatus {
    pub open: u64,
    pub accepted: u64,
    pub crowded_out: u64,
    pub thrown_out: u64,
    pub errors: u64,
    /// Written by clients and not flushed, at most: a power cut may lose them.
    pub bytes_at_risk: u64,
    pub operations: Vec<OperationStatus>,
}

#[derive(Serialize)]
pub struct OperationStatus {
    pub name: &'static str,
    pub requests: u64,
    pub bytes: u64,
    pub latency: LatencyStatus,
}

/// Times of the requests that reached the volumes.
#[derive(Serialize)]
pub struct LatencyStatus {
    /// Upper ends of the buckets in microseconds; one more bucket has what took longer.
    pub at_most_micros: &'static [u32],
    /// Requests in each bucket.
    pub counts: Vec<u64>,
    /// All times together.
    pub seconds: f64,
}

impl State {
    /// The state of `pool`; it is not kept open for this.
    pub fn new(
        pool: &Arc<Pool>,
        stopper: Stopper,
        failed: &Arc<AtomicBool>,
        reach: Reach,
    ) -> State {
        let (pool, failed) = (Arc::downgrade(pool), Arc::clone(failed));
        State { pool, stopper, failed, reach, began: Instant::now() }
    }

    /// The pool, unless it is closed. Nobody may hold it for long.
    pub fn pool(&self) -> Option<Arc<Pool>> {
        self.pool.upgrade()
    }

    /// How things stand; `None` when the pool is closed.
    pub fn status(&self) -> Option<Status> {
        let pool = self.pool()?;
        let (id, volumes, engine) = pool.look(|engine| {
            let volume = |info: thermocline_engine::VolumeInfo| {
                let name = info.name.to_string();
                VolumeStatus { name, size_bytes: info.blocks * 4096 }
            };
            let volumes = engine.volumes().into_iter().map(volume).collect();
            (engine.pool_id().to_string(), volumes, engine_status(engine))
        })?;
        Some(Status {
            schema: "thermocline.serve/1",
            pool: id,
            seconds: self.began.elapsed().as_secs_f64(),
            failed: self.failed.load(Ordering::Acquire),
            uris: self.reach.uris(&pool.volume_names()),
            volumes,
            engine,
            clients: client_status(&self.stopper.traffic()),
        })
    }
}

fn engine_status(engine: &thermocline_engine::Engine<thermocline_runtime::Buffer>) -> EngineStatus {
    let stats = engine.stats();
    let bytes = |blocks: u64| blocks * 4096;
    let host = bytes(stats.host_blocks_written + stats.absorbed_blocks);
    let device = stats.device_bytes_written();
    EngineStatus {
        host_bytes_written: host,
        host_bytes_read: bytes(stats.host_blocks_read),
        host_bytes_trimmed: bytes(stats.trimmed_blocks),
        absorbed_bytes: bytes(stats.absorbed_blocks),
        device_bytes_written: device,
        alwa: (host > 0).then(|| device as f64 / host as f64),
        by_cause: Causes {
            host: bytes(stats.host_blocks_written),
            relocation: bytes(stats.relocated_blocks),
            map: bytes(stats.map_pages_written),
            headers: stats.header_bytes,
            superblocks: stats.superblock_bytes,
        },
        mapped_bytes: bytes(engine.mapped_blocks()),
        free_units: engine.free_units(),
        units: engine.units().count(),
        memory_bytes: engine.memory_bytes(),
        flushes: stats.flushes,
        checkpoints: stats.checkpoints,
        units_collected: stats.gc_units,
        damaged_blocks: stats.damaged_blocks,
    }
}

fn client_status(traffic: &Traffic) -> ClientStatus {
    let operation = |(index, operation): (usize, &Operation)| {
        let latencies = &traffic.latencies[index];
        OperationStatus {
            name: operation.name(),
            requests: traffic.requests[index],
            bytes: traffic.bytes[index],
            latency: LatencyStatus {
                at_most_micros: &LATENCY_BUCKETS_MICROS,
                counts: latencies.counts.to_vec(),
                seconds: latencies.nanos as f64 / 1e9,
            },
        }
    };
    ClientStatus {
        open: traffic.open,
        accepted: traffic.accepted,
        crowded_out: traffic.crowded_out,
        thrown_out: traffic.thrown_out,
        errors: traffic.errors,
        bytes_at_risk: traffic.bytes_at_risk(),
        operations: Operation::ALL.iter().enumerate().map(operation).collect(),
    }
}
