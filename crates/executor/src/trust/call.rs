//! One provider's calls within one build: through the gate, again and again until the upstream lets it in.

use super::ProviderKind;
use super::error::LoadError;
use super::gate::{Credential, Stage, Visit};
use super::http::{Http, Received, Request, Sent};
use crate::compile::TrustRequest;

/// What a build calls upstreams with.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) http: Http,
    pub(crate) visit: Visit,
    pub(crate) provider: ProviderKind,
}

impl Caller {
    /// Sends `request` and returns the answer, however bad. A call that is refused because of its rate goes back into the
    /// line, where it keeps its place; what the build has fetched so far stays with the build.
    pub(crate) async fn call(
        &self,
        credential: &Credential,
        request: &Request,
        of: &TrustRequest,
    ) -> Result<Received, LoadError> {
        loop {
            let permit = self.visit.permit(credential, &of.path).await;
            self.visit.enter(Stage::Calling).await;
            match self.http.send(permit, request, self.provider.as_str()).await {
                Sent::Throttled => {}
                Sent::Answered(received) => {
                    self.visit.enter(Stage::Working).await;
                    return Ok(received);
                }
                Sent::Failed => {
                    self.visit.enter(Stage::Working).await;
                    return Err(unreachable(credential));
                }
            }
        }
    }
}

/// What an answer means that is no success and has no meaning of its own to the caller.
pub(crate) fn refusal(credential: &Credential, received: &Received) -> LoadError {
    let upstream = credential.host().to_owned();
    match received.status {
        401 | 403 => LoadError::AuthFailed { upstream },
        408 => LoadError::Unreachable { upstream },
        status => LoadError::UnexpectedStatus { upstream, status },
    }
}

pub(crate) fn unreachable(credential: &Credential) -> LoadError {
    LoadError::Unreachable { upstream: credential.host().to_owned() }
}
