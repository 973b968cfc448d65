//! Whose call is next.
//!
//! A resource keeps its ticket through all its calls and refusals until it is done or gone, so that the first to come is
//! the first to be complete, instead of all being half done. Two lines share the calls: a routine refresh, whose old
//! material is still good, must not turn an edit into an outage, nor may edits starve refreshes for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Every so many calls one belongs to the refresh line, if anyone waits there.
const REFRESH_EVERY: u32 = 8;

/// Which line a resource stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Line {
    /// A new spec, a changed credential, or nothing served at all.
    Urgent,
    /// Material still good is being renewed.
    Refresh,
}

/// A resource's place: tickets of one line are served in the order they were drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// All resources with business at one gate. `K` is what a resource is known by, for instance its UID.
#[derive(Debug, Clone)]
pub(super) struct Lines<K> {
    tickets: BTreeMap<K, Ticket>,
    places: BTreeMap<Ticket, Place<K>>,
    /// Tickets with at least one call wanted, per line: exactly those of `places` with `wanted > 0`.
    urgent: BTreeSet<Ticket>,
    refresh: BTreeSet<Ticket>,
    drawn: u64,
    /// Calls since the last one of the refresh line.
    since_refresh: u32,
}

#[derive(Debug, Clone)]
struct Place<K> {
    key: K,
    line: Line,
    /// Calls it wants to send and waits for.
    wanted: usize,
    joined: Duration,
}

impl<K> Default for Lines<K> {
    fn default() -> Self {
        Self {
            tickets: BTreeMap::new(),
            places: BTreeMap::new(),
            urgent: BTreeSet::new(),
            refresh: BTreeSet::new(),
            drawn: 0,
            since_refresh: 0,
        }
    }
}

impl<K: Ord + Clone> Lines<K> {
    /// Draws a ticket, or finds the one `key` has. Being urgent once is enough: the resource moves to the urgent line,
    /// by the ticket it has, and stays there until it leaves.
    pub(super) fn join(&mut self, key: &K, line: Line, now: Duration) -> Ticket {
        if let Some(&ticket) = self.tickets.get(key) {
            if line == Line::Urgent {
                self.promote(ticket);
            }
            return ticket;
        }
        let ticket = Ticket(self.drawn);
        self.drawn += 1;
        self.tickets.insert(key.clone(), ticket);
        self.places.insert(ticket, Place { key: key.clone(), line, wanted: 0, joined: now });
        ticket
    }

    fn promote(&mut self, ticket: Ticket) {
        if let Some(place) = self.places.get_mut(&ticket) {
            place.line = Line::Urgent;
        }
        if self.refresh.remove(&ticket) {
            self.urgent.insert(ticket);
        }
    }

    pub(super) fn leave(&mut self, ticket: Ticket) {
        if let Some(place) = self.places.remove(&ticket) {
            self.tickets.remove(&place.key);
            self.waiting_mut(place.line).remove(&ticket);
        }
    }

    /// The ticket's resource wants to send one more call.
    pub(super) fn ask(&mut self, ticket: Ticket) -> bool {
        let Some(place) = self.places.get_mut(&ticket) else { return false };
        place.wanted += 1;
        let line = place.line;
        self.waiting_mut(line).insert(ticket);
        true
    }

    /// It wants one call less; its place it keeps.
    pub(super) fn withdraw(&mut self, ticket: Ticket) {
        let Some(place) = self.places.get_mut(&ticket) else { return };
        place.wanted = place.wanted.saturating_sub(1);
        if place.wanted == 0 {
            let line = place.line;
            self.waiting_mut(line).remove(&ticket);
        }
    }

    /// Takes the call whose turn it is.
    pub(super) fn take(&mut self) -> Option<Ticket> {
        let (urgent, refresh) = (self.first(Line::Urgent), self.first(Line::Refresh));
        let refresh_due = urgent.is_none() || self.since_refresh + 1 >= REFRESH_EVERY;
        let ticket = if let Some(refresh) = refresh.filter(|_| refresh_due) {
            self.since_refresh = 0;
            refresh
        } else {
            self.since_refresh = (self.since_refresh + 1).min(REFRESH_EVERY);
            urgent?
        };
        self.withdraw(ticket);
        Some(ticket)
    }

    /// The ticket that has waited longest in `line`.
    pub(super) fn first(&self, line: Line) -> Option<Ticket> {
        match line {
            Line::Urgent => self.urgent.first().copied(),
            Line::Refresh => self.refresh.first().copied(),
        }
    }

    pub(super) fn nobody_waits(&self) -> bool {
        self.urgent.is_empty() && self.refresh.is_empty()
    }

    /// Resources waiting in `line`.
    pub(super) fn waiting(&self, line: Line) -> usize {
        match line {
            Line::Urgent => self.urgent.len(),
            Line::Refresh => self.refresh.len(),
        }
    }

    /// When the resource that has been at the gate longest, of those waiting, joined it.
    pub(super) fn oldest(&self) -> Option<Duration> {
        // Tickets are drawn in the order of joining.
        let oldest = self.first(Line::Urgent).into_iter().chain(self.first(Line::Refresh)).min()?;
        self.places.get(&oldest).map(|place| place.joined)
    }

    /// Resources that hold a ticket, waiting or not.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    fn waiting_mut(&mut self, line: Line) -> &mut BTreeSet<Ticket> {
        match line {
            Line::Urgent => &mut self.urgent,
            Line::Refresh => &mut self.refresh,
        }
    }
}
