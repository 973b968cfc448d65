//! Whole histories of a replica, as text: what happened, and what it decided. See [`script`] for the words.

mod properties;
mod script;
mod stories;
mod waits;
