//! Whole histories of a replica, as text: what happened, and what it decided. See [`script`] for the words.

mod conflicts;
mod properties;
mod reporting;
mod script;
mod serving;
mod waits;
