//! The order of commands that change a zone: one command at a time.
//!
//! A zone is written at its write pointer. The engine submits the chunks of a unit in order, but several at once. A
//! driver or kernel may let one overtake another: Linux did so before version 6.10.

use std::collections::VecDeque;

use thermocline_types::UnitId;

use crate::bugs::{Bug, bug};

/// Commands of each zone, one at a time, in the order in which they came; each is named by a `K`.
#[derive(Debug)]
pub struct ZoneOrder<K, C> {
    /// Few at a time.
    busy: Vec<Busy<K, C>>,
    bug: Option<Bug>,
}

/// A zone that is being changed.
#[derive(Debug)]
struct Busy<K, C> {
    zone: UnitId,
    under_way: K,
    waiting: VecDeque<(K, C)>,
}

impl<K, C> Default for ZoneOrder<K, C> {
    fn default() -> ZoneOrder<K, C> {
        ZoneOrder { busy: Vec::new(), bug: None }
    }
}

impl<K: Copy + Eq, C> ZoneOrder<K, C> {
    /// Returns the command if its zone is idle; otherwise the command waits.
    pub fn enter(&mut self, zone: UnitId, name: K, command: C) -> Option<C> {
        match self.busy.iter_mut().find(|busy| busy.zone == zone) {
            Some(busy) if !bug!(self, ZoneWrittenAtOnce) => {
                busy.waiting.push_back((name, command));
                None
            }
            _ => {
                self.busy.push(Busy { zone, under_way: name, waiting: VecDeque::new() });
                Some(command)
            }
        }
    }

    /// Ends command `name`. Returns the next command of the same zone, with its zone and name.
    pub fn leave(&mut self, name: K) -> Option<(UnitId, K, C)> {
        let index = self.busy.iter().position(|busy| busy.under_way == name)?;
        let last_first = bug!(self, ZoneOrderReversed);
        let busy = &mut self.busy[index];
        let next = if last_first { busy.waiting.pop_back() } else { busy.waiting.pop_front() };
        let Some((next, command)) = next else {
            self.busy.swap_remove(index);
            return None;
        };
        busy.under_way = next;
        Some((busy.zone, next, command))
    }

    /// Forgets all commands, as a killed host does.
    pub fn clear(&mut self) {
        self.busy.clear();
    }

    /// Makes a deliberate bug from now on.
    pub fn make(&mut self, bug: Option<Bug>) {
        self.bug = bug;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_a_zone_go_one_by_one_in_order() {
        let mut order = ZoneOrder::default();
        let [first, second] = [0, 1].map(UnitId);
        assert_eq!(order.enter(first, 1, 'a'), Some('a'));
        assert_eq!(order.enter(first, 2, 'b'), None);
        assert_eq!(order.enter(second, 3, 'c'), Some('c'));
        assert_eq!(order.enter(first, 4, 'd'), None);
        assert_eq!(order.leave(3), None);
        assert_eq!(order.leave(1), Some((first, 2, 'b')));
        assert_eq!(order.leave(2), Some((first, 4, 'd')));
        assert_eq!(order.leave(4), None);
        assert!(order.busy.is_empty());
    }
}
