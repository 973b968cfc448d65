//! Access tokens that were got for a credential, kept until shortly before they expire.
//!
//! A hundred executors that start together need one token, not a hundred: whoever comes first fetches it, the others
//! wait for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;

use super::error::LoadError;
use super::gate::{Credential, Visit};
use super::time::Time;
use crate::compile::{Secret, TrustRequest};

/// A token is renewed when this part of its life is left, but not earlier than [`EARLIEST`].
const LEFT: u32 = 10;

/// Longest time before its end at which a token is renewed.
const EARLIEST: Duration = Duration::from_mins(5);

/// An access token and how long it lives.
pub(crate) struct Issued {
    pub(crate) token: Secret,
    pub(crate) life: Duration,
}

/// All tokens of a process.
#[derive(Clone)]
pub(crate) struct Tokens {
    time: Arc<dyn Time>,
    slots: Arc<StdMutex<BTreeMap<Credential, Slot>>>,
}

type Slot = Arc<Mutex<Option<Kept>>>;

struct Kept {
    token: Secret,
    /// Monotonic.
    until: Duration,
}

impl Tokens {
    pub(crate) fn new(time: Arc<dyn Time>) -> Self {
        Self { time, slots: Arc::default() }
    }

    /// The token of `credential`, fetched if there is none that lasts. `stale` is one that the upstream did not accept:
    /// it is not returned.
    pub(crate) async fn get(
        &self,
        credential: &Credential,
        stale: Option<&Secret>,
        visit: &Visit,
        of: &TrustRequest,
        fetch: impl Future<Output = Result<Issued, LoadError>>,
    ) -> Result<Secret, LoadError> {
        let slot = self.slot(credential);
        let mut slot = match slot.try_lock() {
            Ok(slot) => slot,
            Err(_) => visit.wait_for(slot.lock(), credential, &of.path).await,
        };
        let fits = |kept: &&Kept| kept.until > self.time.now() && Some(&kept.token) != stale;
        if let Some(kept) = slot.as_ref().filter(fits) {
            return Ok(kept.token.clone());
        }
        *slot = None;
        let Issued { token, life } = fetch.await?;
        let until = self.time.now().saturating_add(life.saturating_sub((life / LEFT).min(EARLIEST)));
        *slot = Some(Kept { token: token.clone(), until });
        Ok(token)
    }

    fn slot(&self, credential: &Credential) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // A token that has expired belongs to nobody any more; as many stay as there are credentials in use.
        let now = self.time.now();
        let in_use =
            |slot: &Slot| slot.try_lock().map_or(true, |kept| kept.as_ref().is_some_and(|kept| kept.until > now));
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || in_use(slot));
        Arc::clone(slots.entry(credential.clone()).or_default())
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}
