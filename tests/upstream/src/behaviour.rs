//! What the upstream does, as data: all of it can be written in JSON and replaced while it runs.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::{azure, ferrvault};

/// What is fixed when an upstream starts, and how it behaves at first.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Address for plain HTTP; port 0 takes a free one.
    pub http: SocketAddr,
    /// Address for HTTPS, if wanted; the certificate is made at start, for `localhost` and the loopback addresses.
    pub https: Option<SocketAddr>,
    /// Names that its certificate has besides those of this machine.
    pub names: Vec<String>,
    /// Scaled seconds in one real second.
    pub scale: f64,
    /// How it behaves until told otherwise.
    pub behaviour: Behaviour,
}

/// Everything that can be changed at run time. Times are scaled seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Behaviour {
    /// Limit of each token that `limits` does not name.
    pub limit: Limit,
    /// Limits of certain tokens. A token is named by what stays when it is renewed: the client ID or cluster ID it was
    /// issued for, else the token itself.
    pub limits: BTreeMap<String, Limit>,
    /// Time before each answer.
    pub latency: f64,
    /// Faults; the first rule that fits a call applies.
    pub rules: Vec<Rule>,
    /// Tokens (named as in `limits`) and client assertions that are answered 401.
    pub refused: Vec<String>,
    /// What the Azure Key Vault holds.
    pub azure: azure::Vault,
    /// What FerrVault holds.
    pub ferrvault: ferrvault::Content,
}

/// How the calls of one token are limited.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields, rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Limit {
    /// Not at all.
    #[default]
    Unlimited,
    /// A token bucket, full at first; refusals are 429.
    Bucket {
        /// Tokens per second.
        rate: f64,
        /// Most tokens.
        burst: f64,
        /// A refused call costs a token too, down to a debt of 60.
        #[serde(default)]
        charged: bool,
        /// What a refusal announces.
        #[serde(default)]
        retry_after: RetryAfter,
    },
    /// A token bucket that, once empty, refuses everything with 403 "throttled" until a window is over, and each call in
    /// the window makes it longer (external-secrets/external-secrets #4107, C19).
    Window {
        /// Tokens per second.
        rate: f64,
        /// Most tokens.
        burst: f64,
        /// Length of the window.
        seconds: f64,
        /// What a call in the window does to its end.
        prolong: Prolong,
        /// What a refusal announces.
        #[serde(default)]
        retry_after: RetryAfter,
    },
}

/// What a call made within a window does to the window's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Prolong {
    /// A window's length later than it was.
    Add,
    /// A window's length from now.
    Restart,
}

/// The `Retry-After` header of refusals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RetryAfter {
    /// None.
    #[default]
    None,
    /// Whole seconds, rounded up.
    Seconds,
    /// A date, rounded up.
    Date,
    /// One header for each of these values, whatever they are.
    Raw(Vec<String>),
}

/// A fault and the calls it happens to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// Part of the path and query; empty fits every call.
    #[serde(default)]
    pub path: String,
    /// Only calls of this token, named as in [`Behaviour::limits`].
    #[serde(default)]
    pub token: Option<String>,
    /// How often; always if absent.
    #[serde(default)]
    pub times: Option<u64>,
    /// What happens.
    pub fault: Fault,
}

/// What goes wrong with one call. It was let in by the limit before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// No answer, until the client gives up.
    Hang,
    /// The connection closes without an answer.
    Close,
    /// This status with an error body of the API's form and, if given, one `Retry-After`.
    Status {
        /// HTTP status.
        code: u16,
        /// Value of the header.
        #[serde(default, rename = "retryAfter")]
        retry_after: Option<String>,
    },
    /// This status, with all that was sent repeated in its error's text: no upstream should, some do.
    Echo(u16),
    /// 200 with bytes that are no text.
    Junk,
    /// 200 with an error page in HTML, as a proxy in between would send it.
    Html,
    /// 200 with a body of so many bytes.
    Huge(u64),
    /// 200 whose body ends before its announced length.
    Cut,
    /// 200 whose body comes a byte a (real) second and never ends.
    Drip,
    /// The right answer, with each value in it cut in half: a truncated PEM.
    TruncatedValue,
    /// The right answer, but each secret says to be of this content type.
    ContentType(String),
}

impl Default for Config {
    fn default() -> Self {
        Self {
            http: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            https: None,
            names: Vec::new(),
            scale: 1.0,
            behaviour: Behaviour::default(),
        }
    }
}

impl Config {
    /// Serves HTTPS too, on a free port.
    #[must_use]
    pub fn with_https(mut self) -> Self {
        self.https = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        self
    }
}

impl From<Behaviour> for Config {
    fn from(behaviour: Behaviour) -> Self {
        Self { behaviour, ..Self::default() }
    }
}

impl Behaviour {
    /// The limit of a token.
    pub fn limit_of(&self, token: &str) -> &Limit {
        self.limits.get(token).unwrap_or(&self.limit)
    }

    /// The fault that happens to this call, if any; counts it.
    pub(crate) fn fault(&mut self, target: &str, token: Option<&str>) -> Option<Fault> {
        let rule = self.rules.iter_mut().find(|rule| {
            rule.times != Some(0)
                && target.contains(&rule.path)
                && rule.token.as_deref().is_none_or(|wanted| Some(wanted) == token)
        })?;
        rule.times = rule.times.map(|times| times - 1);
        Some(rule.fault.clone())
    }
}

impl Limit {
    /// So many calls per second and at once.
    pub fn bucket(rate: f64, burst: f64, charged: bool) -> Self {
        Self::Bucket { rate, burst, charged, retry_after: RetryAfter::None }
    }
}

impl Rule {
    /// This fault happens to every call whose path contains `path`.
    pub fn on(path: &str, fault: Fault) -> Self {
        Self { path: path.into(), token: None, times: None, fault }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn behaviour_is_plain_json_and_misspelt_names_are_refused() {
        let behaviour: Behaviour = serde_json::from_value(json!({
            "limit": {"kind": "bucket", "rate": 1, "burst": 20, "charged": true, "retryAfter": "date"},
            "limits": {"fft_x": {"kind": "window", "rate": 2, "burst": 3, "seconds": 10, "prolong": "restart"}},
            "rules": [{"path": "/secrets/a", "times": 2, "fault": {"status": {"code": 503, "retryAfter": "soon"}}}, {"fault": "hang"}],
        }))
        .unwrap();
        assert_eq!(
            behaviour.limit_of("other"),
            &Limit::Bucket { rate: 1.0, burst: 20.0, charged: true, retry_after: RetryAfter::Date }
        );
        assert!(matches!(behaviour.limit_of("fft_x"), Limit::Window { prolong: Prolong::Restart, .. }));
        let again: Behaviour = serde_json::from_value(serde_json::to_value(&behaviour).unwrap()).unwrap();
        assert_eq!(again, behaviour);
        assert!(serde_json::from_value::<Behaviour>(json!({"limt": {}})).is_err());
    }

    #[test]
    fn the_first_fitting_rule_applies_as_often_as_it_says() {
        let mut behaviour = Behaviour {
            rules: vec![
                Rule { times: Some(1), ..Rule::on("/secrets/a", Fault::Junk) },
                Rule { token: Some("t".into()), ..Rule::on("", Fault::Hang) },
            ],
            ..Behaviour::default()
        };
        assert_eq!(behaviour.fault("/secrets/a?x", None), Some(Fault::Junk));
        assert_eq!(behaviour.fault("/secrets/a", None), None);
        assert_eq!(behaviour.fault("/secrets/a", Some("t")), Some(Fault::Hang));
    }
}
