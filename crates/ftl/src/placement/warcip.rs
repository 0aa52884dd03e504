//! WARCIP: clusters of rewrite intervals.

use thermocline_types::{Class, UnitId};

use super::per_block::{LastWrite, PerBlock};
use super::{Classifier, Survivor, Topology, VictimRule, Write};
use crate::Units;

/// Sealed units of host writes between two looks for clusters to split or merge.
const PERIOD: u32 = 256;

/// Writes with like rewrite intervals together (Yang, Pei and Yang, "WARCIP: Write Amplification Reduction by
/// Clustering I/O Pages", SYSTOR 2019, with the parameters of SepBIT's evaluation, FAST 2022).
///
/// A host write goes to the cluster whose centre is nearest to its interval since the block's last write, 0 for its
/// first; the centre is the mean over the cluster's open unit. Survivors share class 0, and the next interval of one
/// gains a penalty, its age when it was relocated. Every 256 sealed units of host writes a cluster with more than half
/// of the writes is split if a class is free, else one with less than a unit of writes is dissolved when its unit is
/// full. Intervals are in host blocks (theirs: microseconds). Default: 6 classes, 5 of them clusters. State: 8 bytes
/// per block.
#[derive(Clone, Debug, PartialEq)]
pub struct Warcip {
    classes: u8,
    last: LastWrite,
    penalty: PerBlock<u32>,
    clusters: Vec<Cluster>,
    /// Classes without a cluster.
    free: Vec<Class>,
    /// Classes with a unit so far: the next unit of a class seals the previous unit.
    begun: Vec<bool>,
    sealed: u32,
    dissolving: Option<Class>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Cluster {
    class: Class,
    centre: f64,
    /// Blocks that the centre is the mean of: those in the open unit.
    members: u64,
    /// Writes since clusters were last split or merged.
    writes: u64,
}

impl Warcip {
    /// Survivors and `classes − 1` clusters.
    ///
    /// # Panics
    /// If there are fewer than 2 classes.
    #[must_use]
    pub fn new(classes: u8) -> Self {
        assert!(classes > 1, "survivors and one cluster at least");
        let clusters = (1..classes).map(|class| Cluster {
            class: Class(class),
            centre: 0.0,
            members: 0,
            writes: 0,
        });
        Warcip {
            classes,
            last: LastWrite::default(),
            penalty: PerBlock::default(),
            clusters: clusters.collect(),
            free: Vec::new(),
            begun: vec![false; usize::from(classes)],
            sealed: 0,
            dissolving: None,
        }
    }

    /// The class for a write after `interval`.
    #[inline]
    fn assign(&mut self, interval: f64) -> Class {
        let distance = |cluster: &Cluster| (cluster.centre - interval).abs();
        // Of equally near clusters the last, so that all are used from the start.
        let mut nearest = self.clusters.len() - 1;
        for index in (0..nearest).rev() {
            if distance(&self.clusters[index]) < distance(&self.clusters[nearest]) {
                nearest = index;
            }
        }
        let cluster = &mut self.clusters[nearest];
        let members = cluster.members as f64;
        cluster.centre = (cluster.centre * members + interval) / (members + 1.0);
        cluster.members += 1;
        cluster.writes += 1;
        cluster.class
    }

    fn split_or_merge(&mut self, blocks_per_unit: u64) {
        let all: u64 = self.clusters.iter().map(|cluster| cluster.writes).sum();
        let busy = self.clusters.iter().position(|cluster| cluster.writes > all / 2);
        if let (Some(index), Some(&class)) = (busy, self.free.last()) {
            self.free.pop();
            let before = if index == 0 { 0.0 } else { self.clusters[index - 1].centre };
            let centre = f64::midpoint(before, self.clusters[index].centre);
            self.clusters.insert(index, Cluster { class, centre, members: 0, writes: 0 });
        } else if self.dissolving.is_none() && self.clusters.len() > 1 {
            let idle = self.clusters.iter().find(|cluster| cluster.writes < blocks_per_unit);
            self.dissolving = idle.map(|cluster| cluster.class);
        }
        self.clusters.iter_mut().for_each(|cluster| cluster.writes = 0);
    }
}

impl Default for Warcip {
    fn default() -> Self {
        Warcip::new(6)
    }
}

impl Classifier for Warcip {
    fn topology(&self) -> Topology {
        Topology::new(self.classes, 0..1)
    }

    #[inline]
    fn place(&mut self, write: Write) -> Class {
        let interval = self.last.renew(write.lba, write.now).map_or(0.0, |interval| {
            let penalty = std::mem::take(self.penalty.get_mut(write.lba));
            interval as f64 + f64::from(penalty)
        });
        self.assign(interval)
    }

    #[inline]
    fn place_survivor(&mut self, survivor: Survivor, now: u64) -> Class {
        let age = self.last.age(survivor.lba, now).unwrap_or(0);
        *self.penalty.get_mut(survivor.lba) = age as u32;
        Class(0)
    }

    fn opened(&mut self, units: &Units, unit: UnitId, _now: u64) {
        let class = units.class(unit);
        let seals = std::mem::replace(&mut self.begun[class.index()], true);
        if !seals || class == Class(0) {
            return;
        }
        if self.dissolving == Some(class) {
            self.dissolving = None;
            self.clusters.retain(|cluster| cluster.class != class);
            self.free.push(class);
        } else if let Some(cluster) = self.clusters.iter_mut().find(|one| one.class == class) {
            // The block that opens the unit is in the centre already. The next block starts a new mean.
            cluster.members = 0;
        }
        self.sealed += 1;
        if self.sealed == PERIOD {
            self.sealed = 0;
            self.split_or_merge(u64::from(units.most_valid()));
        }
    }

    fn memory_bytes(&self) -> usize {
        self.last.memory_bytes() + self.penalty.memory_bytes()
    }
}

impl VictimRule for Warcip {}

#[cfg(test)]
mod tests {
    use thermocline_types::Lba;

    use super::*;

    fn centred(centres: &[f64]) -> Warcip {
        let mut policy = Warcip::new(centres.len() as u8 + 1);
        policy.clusters.iter_mut().zip(centres).for_each(|(cluster, &centre)| {
            (cluster.centre, cluster.members) = (centre, 1);
        });
        policy
    }

    fn is_at(policy: &Warcip, cluster: usize, centre: f64) -> bool {
        (policy.clusters[cluster].centre - centre).abs() < 1e-9
    }

    #[test]
    fn writes_go_to_the_nearest_centre_and_move_it() {
        let mut policy = centred(&[10.0, 100.0]);
        policy.place(Write::plain(Lba(1), 0));
        assert!(is_at(&policy, 0, 5.0), "a first write has interval 0");
        assert_eq!(
            policy.place(Write::plain(Lba(1), 60)),
            Class(2),
            "60 is nearer to 100 than to 5"
        );
        assert!(is_at(&policy, 1, 80.0));
        assert_eq!(
            policy.place(Write::plain(Lba(1), 100)),
            Class(1),
            "40 is nearer to 5 than to 80"
        );
    }

    #[test]
    fn a_relocation_lengthens_the_next_interval_by_the_age() {
        let mut policy = centred(&[10.0, 100.0]);
        policy.place(Write::plain(Lba(1), 0));
        let survivor = Survivor { lba: Lba(1), from: Class(1), utilisation: 0.5 };
        assert_eq!(policy.place_survivor(survivor, 40), Class(0));
        policy.clusters[1].centre = 90.0;
        assert_eq!(policy.place(Write::plain(Lba(1), 50)), Class(2), "50 and a penalty of 40");
        assert!(is_at(&policy, 1, 90.0));
        assert_eq!(policy.place(Write::plain(Lba(1), 54)), Class(1), "the penalty counts once");
    }

    #[test]
    fn idle_clusters_are_dissolved_and_their_class_splits_a_busy_one() {
        let mut policy = centred(&[10.0, 100.0, 1000.0]);
        (policy.clusters[1].writes, policy.clusters[2].writes) = (90, 20);
        policy.split_or_merge(8);
        assert_eq!(policy.dissolving, Some(Class(1)), "no class is free, so the idle cluster goes");
        let mut units = Units::new(4, 8);
        (0..2).for_each(|unit| units.open(UnitId(unit), Class(1)));
        (0..2).for_each(|unit| policy.opened(&units, UnitId(unit), 0));
        let classes: Vec<u8> = policy.clusters.iter().map(|cluster| cluster.class.0).collect();
        assert_eq!(classes, [2, 3], "its first unit was full");
        policy.clusters[1].writes = 50;
        policy.split_or_merge(8);
        let now: Vec<(u8, f64)> =
            policy.clusters.iter().map(|cluster| (cluster.class.0, cluster.centre)).collect();
        assert_eq!(now, [(2, 100.0), (1, 550.0), (3, 1000.0)], "halfway to the one before");
    }
}
