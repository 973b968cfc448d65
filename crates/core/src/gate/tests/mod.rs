//! The gate held against its model, its properties and its order. Bounds in time are proved in `muster-simulation`.

mod classes;
mod driver;
mod model;
mod order;
mod properties;
mod stragglers;
