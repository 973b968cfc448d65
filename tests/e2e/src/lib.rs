//! Tests only: see `tests/` beside this file.
