//! Metadata that are copied on write.

use std::collections::VecDeque;

use thermocline_types::{Op, Request, Rng, StreamId};

use super::{Extent, FileSystemOptions, request};

/// Nodes of a tree, each change of which goes to another place of the area.
///
/// Any place is as likely as any other, the one that was left last included: where many nodes are free, the free ones
/// lie anywhere. What a node leaves is not discarded: Btrfs discards while mounted only what has gathered to 32 KiB.
#[derive(Debug)]
pub(super) struct Metadata {
    node: u64,
    nodes: u64,
    /// Bytes of metadata for each byte of data.
    ratio: f64,
    /// Bytes not written yet.
    owed: f64,
    stream: StreamId,
}

impl Metadata {
    pub fn new(area: u64, options: &FileSystemOptions, stream: StreamId) -> Metadata {
        let share = options.metadata_share;
        let nodes = area / options.node.0;
        let ratio = if nodes > 0 { share / (1.0 - share) } else { 0.0 };
        Metadata { node: options.node.0, nodes, ratio, owed: 0.0, stream }
    }

    /// Writes the nodes that go with `data` bytes.
    pub fn written(&mut self, data: u64, rng: &mut Rng, requests: &mut VecDeque<Request>) {
        self.owed += data as f64 * self.ratio;
        while self.owed >= self.node as f64 {
            self.owed -= self.node as f64;
            let start = rng.below(self.nodes) * self.node;
            let node = Extent { start, length: self.node };
            requests.push_back(request(Op::Write, node, self.stream));
        }
    }
}
