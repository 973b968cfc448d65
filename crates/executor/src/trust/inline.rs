//! `inline`: material in the spec itself. It is parsed when the spec is compiled, so loading it is handing it over.

use futures::future::{BoxFuture, FutureExt as _};

use super::{LoadError, Loaded, TrustProvider};
use crate::compile::{Provider, TrustRequest, Want};

/// Reads every item of the wanted kind in PEM text.
pub fn parse(text: &str, want: Want) -> Loaded {
    Loaded::from_pem(text, want, "")
}

/// The provider.
#[derive(Clone, Copy, Debug)]
pub struct InlineProvider;

impl TrustProvider for InlineProvider {
    fn load<'a>(&'a self, request: &'a TrustRequest) -> BoxFuture<'a, Result<Loaded, LoadError>> {
        async move {
            match &request.provider {
                Provider::Inline(inline) => Ok(inline.loaded.clone()),
                _ => Err(LoadError::NotBuiltIn),
            }
        }
        .boxed()
    }
}
