//! Times and refusals the gate stays within, over fixed seeds: each bound holds for the worst of them.
//!
//! The bounds are those the algorithm was chosen by, with room to the worst run seen; `livelock` prints the figures.

mod convergence;
mod manners;
mod support;
