//! Who holds which scope. Executors that answer the same lookups (all Executors, or the NamespacedExecutors of one
//! namespace) form a bucket; where two list the same scope, the older object holds it, whether its spec is valid or not.
//! That rule names one holder whatever the order in which a replica learns of them, so all replicas agree.
//!
//! The index answers how far a change reaches, so that one edit makes a replica look at the objects it concerns and not
//! at the whole bucket.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use jiff::Timestamp;
use muster_executor::Scope;

use crate::subject::Uid;

/// Age of an object within its bucket: creation, then UID, because creation times are whole seconds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// When the object was created.
    pub created: Timestamp,
    /// Its UID.
    pub uid: Uid,
}

/// The executors of one bucket, and what they claim.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    members: BTreeMap<Uid, Member>,
    ages: BTreeSet<Rank>,
    unread: BTreeSet<Rank>,
    by_scope: HashMap<Scope, BTreeSet<Rank>>,
}

/// A scope that somebody older lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The scope.
    pub scope: Scope,
    /// Who holds it.
    pub holder: Uid,
}

#[derive(Clone, Debug)]
struct Member {
    rank: Rank,
    /// `None` until its spec was read once.
    scopes: Option<BTreeSet<Scope>>,
}

impl Claims {
    /// Adds an object whose spec is not known yet. Adding it again changes nothing.
    pub fn join(&mut self, rank: Rank) {
        if self.members.contains_key(&rank.uid) {
            return;
        }
        self.ages.insert(rank.clone());
        self.unread.insert(rank.clone());
        self.members.insert(rank.uid.clone(), Member { rank, scopes: None });
    }

    /// Replaces what an object lists, and returns the *other* objects for which that may matter.
    pub fn claim(&mut self, uid: &Uid, scopes: impl IntoIterator<Item = Scope>) -> BTreeSet<Uid> {
        let Some(member) = self.members.get_mut(uid) else { return BTreeSet::new() };
        let rank = member.rank.clone();
        let new: BTreeSet<Scope> = scopes.into_iter().collect();
        let old = member.scopes.replace(new.clone());
        let mut affected = if old.is_none() { self.mark_read(&rank) } else { BTreeSet::new() };
        let old = old.unwrap_or_default();
        for scope in old.symmetric_difference(&new) {
            affected.extend(self.claimants(scope));
        }
        for scope in old.difference(&new) {
            self.release(scope, &rank);
        }
        for scope in new.difference(&old) {
            self.by_scope.entry(scope.clone()).or_default().insert(rank.clone());
        }
        affected.remove(uid);
        affected
    }

    /// Removes an object, and returns the others for which that may matter.
    pub fn leave(&mut self, uid: &Uid) -> BTreeSet<Uid> {
        let Some(member) = self.members.remove(uid) else { return BTreeSet::new() };
        let mut affected = self.mark_read(&member.rank);
        self.ages.remove(&member.rank);
        for scope in member.scopes.unwrap_or_default() {
            self.release(&scope, &member.rank);
            affected.extend(self.claimants(&scope));
        }
        affected.remove(uid);
        affected
    }

    /// The first of `scopes` that somebody older than `uid` lists, and who.
    pub fn conflict(&self, uid: &Uid, scopes: &[Scope]) -> Option<Conflict> {
        let me = &self.members.get(uid)?.rank;
        scopes.iter().find_map(|scope| {
            let oldest = self.by_scope.get(scope)?.first()?;
            (oldest < me).then(|| Conflict { scope: scope.clone(), holder: oldest.uid.clone() })
        })
    }

    /// True if somebody other than `uid` lists one of `scopes`.
    pub fn is_claimed_by_others(&self, uid: &Uid, scopes: &[Scope]) -> bool {
        scopes.iter().any(|scope| self.claimants(scope).any(|claimant| claimant != *uid))
    }

    /// True while the spec of somebody older is unknown: it may turn out to hold a scope of `uid`.
    pub fn is_open(&self, uid: &Uid) -> bool {
        let rank = self.members.get(uid).map(|member| &member.rank);
        self.unread.first().zip(rank).is_some_and(|(unread, rank)| unread < rank)
    }

    /// True if it has no member.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn claimants(&self, scope: &Scope) -> impl Iterator<Item = Uid> {
        self.by_scope.get(scope).into_iter().flatten().map(|rank| rank.uid.clone())
    }

    fn release(&mut self, scope: &Scope, rank: &Rank) {
        if let Some(ranks) = self.by_scope.get_mut(scope) {
            ranks.remove(rank);
            if ranks.is_empty() {
                self.by_scope.remove(scope);
            }
        }
    }

    /// The spec of `rank` is known now or will never be. If it was the oldest unknown one, those between it and the next
    /// unknown one need wait no longer.
    fn mark_read(&mut self, rank: &Rank) -> BTreeSet<Uid> {
        let was_first = self.unread.first() == Some(rank);
        self.unread.remove(rank);
        if !was_first {
            return BTreeSet::new();
        }
        let end = self.unread.first().map_or(Bound::Unbounded, |next| Bound::Included(next.clone()));
        self.ages.range((Bound::Excluded(rank.clone()), end)).map(|freed| freed.uid.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
