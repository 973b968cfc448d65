//! Rules: which requests go wrong, how, and how often. The newest that applies decides.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::answer::Answer;
use super::asked::Asked;

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is not forwarded, and this is answered.
    Answer(Answer),
    /// It is forwarded, and what the server answers is thrown away: a write is stored, and its author hears this.
    StoreThen(Answer),
    /// A watch begins well (200), and its only event is the error 410 `Expired`.
    Expired,
    /// It waits this long before it is forwarded.
    DelayRequest(Duration),
    /// It is forwarded, and the answer waits this long: a write is stored long before its author hears of it.
    DelayAnswer(Duration),
    /// Each piece of the answer comes this much later, in order: a watch that lags behind.
    Lag(Duration),
    /// It is not forwarded and never answered; the connection stays open.
    Hang,
    /// It is not forwarded, and the connection is closed.
    Cut,
    /// The connection is closed this long after the server's answer began: in the middle of a watch.
    CutAfter(Duration),
}

impl Fault {
    /// Whether a request with this fault reaches the API server.
    pub const fn forwards(&self) -> bool {
        matches!(
            self,
            Self::StoreThen(_) | Self::DelayRequest(_) | Self::DelayAnswer(_) | Self::Lag(_) | Self::CutAfter(_)
        )
    }
}

type When = Arc<dyn Fn(&Asked) -> bool + Send + Sync>;

/// A fault and the requests it is for.
#[derive(Clone)]
pub struct Rule {
    fault: Fault,
    when: When,
    spared: u64,
    times: u64,
}

impl Rule {
    /// For every request that `when` holds for.
    pub fn new(fault: Fault, when: impl Fn(&Asked) -> bool + Send + Sync + 'static) -> Self {
        Self { fault, when: Arc::new(when), spared: 0, times: u64::MAX }
    }

    /// At most so often; later requests pass as if the rule was not there.
    #[must_use]
    pub const fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Not for the first so many.
    #[must_use]
    pub const fn after(mut self, spared: u64) -> Self {
        self.spared = spared;
        self
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("fault", &self.fault).field("times", &self.times).finish_non_exhaustive()
    }
}

/// The rules in force.
#[derive(Debug, Default)]
pub(super) struct Book {
    rules: Vec<Entry>,
    next_id: u64,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    rule: Rule,
    /// Requests that `when` held for, spared ones included.
    met: u64,
    struck: Arc<AtomicU64>,
}

impl Book {
    /// Takes a rule; returns its number, and the counter of the requests it struck.
    pub(super) fn add(&mut self, rule: Rule) -> (u64, Arc<AtomicU64>) {
        let (id, struck) = (self.next_id, Arc::new(AtomicU64::new(0)));
        self.next_id += 1;
        self.rules.push(Entry { id, rule, met: 0, struck: struck.clone() });
        (id, struck)
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.rules.retain(|entry| entry.id != id);
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// What goes wrong with this request; counts it.
    pub(super) fn strike(&mut self, asked: &Asked) -> Option<Fault> {
        for entry in self.rules.iter_mut().rev() {
            let Rule { fault, when, spared, times } = &entry.rule;
            if !when(asked) {
                continue;
            }
            entry.met += 1;
            if (*spared..spared.saturating_add(*times)).contains(&(entry.met - 1)) {
                entry.struck.fetch_add(1, Ordering::Relaxed);
                return Some(fault.clone());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::asked::tests::asked;
    use super::*;

    fn get(name: &str) -> Asked {
        asked(&Method::GET, &format!("/api/v1/namespaces/n/pods/{name}"))
    }

    #[test]
    fn the_newest_rule_that_applies_decides() {
        let mut book = Book::default();
        let (general, _) = book.add(Rule::new(Fault::Hang, |_| true));
        let (special, _) = book.add(Rule::new(Fault::Cut, |asked| asked.name == "a"));
        assert_eq!([book.strike(&get("a")), book.strike(&get("b"))], [Some(Fault::Cut), Some(Fault::Hang)]);
        book.remove(special);
        assert_eq!(book.strike(&get("a")), Some(Fault::Hang));
        book.remove(general);
        assert_eq!(book.strike(&get("a")), None);
    }

    #[test]
    fn a_rule_spares_the_first_and_wears_out() {
        let mut book = Book::default();
        book.add(Rule::new(Fault::Hang, |_| true));
        let (_, struck) = book.add(Rule::new(Fault::Cut, |_| true).after(1).times(2));
        let (cut, hang) = (Some(Fault::Cut), Some(Fault::Hang));
        let seen: Vec<_> = (0..5).map(|_| book.strike(&get("a"))).collect();
        assert_eq!(seen, [hang.clone(), cut.clone(), cut, hang.clone(), hang]);
        assert_eq!(struck.load(Ordering::Relaxed), 2);
    }
}
