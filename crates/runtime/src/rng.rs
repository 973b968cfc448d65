//! The one source of randomness, seeded once per process so that a run can be repeated: jitter is drawn from here and
//! handed to the decisions of `muster-core` as `&mut impl rand::Rng`.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng, TryRng};

/// A shared generator; clones draw from the same sequence. It implements [`rand::Rng`].
#[derive(Clone, Debug)]
pub struct Rng(Arc<Mutex<StdRng>>);

impl Rng {
    /// Seeded by the operating system.
    pub fn from_entropy() -> Self {
        Self(Arc::new(Mutex::new(rand::make_rng())))
    }

    /// The same sequence for the same seed, for tests.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    fn with<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        // A draw cannot panic half-way, so a poisoned lock still holds a usable generator.
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TryRng for Rng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.with(StdRng::next_u32))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.with(StdRng::next_u64))
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        self.with(|rng| rng.fill_bytes(dst));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;

    #[test]
    fn clones_share_one_repeatable_sequence() {
        let (mut a, mut reference) = (Rng::seeded(7), Rng::seeded(7));
        let mut b = a.clone();
        let drawn = [a.random::<u64>(), b.random::<u64>()];
        assert_eq!(drawn, [reference.random::<u64>(), reference.random::<u64>()]);
        assert_ne!(drawn[0], drawn[1]);
    }
}
