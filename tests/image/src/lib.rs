//! An image around one program, as an OCI image archive, made without a container engine.
//!
//! An image of ours is one layer: the program, a bundle of certificate authorities, and a user that is not root. The
//! archive depends on nothing but its content, so that the same program gives the same digests. A program that is not
//! static brings its loader and libraries: the tests' own builds run on a real node that way, without being built anew.
//!
//! Errors are `anyhow` here: nobody branches on them.

mod archive;
mod layer;
mod libraries;

pub use archive::{Written, write};
pub use libraries::of as libraries;

use std::path::Path;

/// Who runs the program: nobody who owns anything. The number is that of other rootless images.
pub const USER: u32 = 65_532;

/// What goes into an image.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    /// Name and tag, as pods ask for it: `muster-reconciler:0.1.0`.
    pub name: &'a str,
    /// The program; it is found by its file name, and is what the image runs.
    pub program: &'a Path,
    /// Certificate authorities in PEM, if the program speaks TLS with the world.
    pub authorities: Option<&'a Path>,
    /// Version, for the image's label.
    pub version: &'a str,
    /// Whether the layer is compressed, which takes a while; not worth it for an image that stays on this machine.
    pub compressed: bool,
}

/// Where Debian and its relatives keep the bundle of certificate authorities.
pub const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
