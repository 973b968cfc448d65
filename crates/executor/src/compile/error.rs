//! What is wrong with a spec: one sentence that names the field, what stands there and what should.

use std::borrow::Cow;

use muster_api::Reason;
use muster_core::text::{ERROR_MAX, cut};

use super::path::Path;
use crate::words::quote;

/// One mistake in a spec. Permanent: only a new spec can help.
///
/// Its text is one line of at most 1,024 bytes, the same for the same spec, and quotes no secret: of values that may be
/// one (passwords, PEM text) it tells the type alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", cut(&self.sentence(), ERROR_MAX))]
pub struct CompileError {
    path: Path,
    problem: Problem,
}

/// What kind of mistake it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// Nothing stands there.
    Missing { expected: Cow<'static, str> },
    /// A value of another type.
    WrongType { found: &'static str, expected: Cow<'static, str> },
    /// A value of the right type that means nothing here. `found` is quoted already.
    WrongValue { found: String, expected: Cow<'static, str> },
    /// A value that another field has and no two may have.
    Duplicate { found: String, first: Path },
    /// More than anybody needs.
    TooMany { found: String, most: usize },
    /// A provider that this program knows and does not have.
    NotBuiltIn { provider: &'static str, expected: String },
    /// A provider that is not for tenants.
    NotForTenants { provider: &'static str, expected: String },
}

impl CompileError {
    pub(crate) const fn new(path: Path, problem: Problem) -> Self {
        Self { path, problem }
    }

    pub(crate) fn missing(path: Path, expected: impl Into<Cow<'static, str>>) -> Self {
        Self::new(path, Problem::Missing { expected: expected.into() })
    }

    /// `found` is shown as it is: quote what people wrote.
    pub(crate) fn value(path: Path, found: impl Into<String>, expected: impl Into<Cow<'static, str>>) -> Self {
        Self::new(path, Problem::WrongValue { found: found.into(), expected: expected.into() })
    }

    pub(crate) fn duplicate(path: Path, found: &str, first: Path) -> Self {
        Self::new(path, Problem::Duplicate { found: quote(found), first })
    }

    /// The reason to report.
    pub const fn reason(&self) -> Reason {
        Reason::InvalidSpec
    }

    /// Where in the object: `spec.verifiers[0].parameters.certificates[0].type`.
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// Stable word for the kind of mistake.
    pub const fn category(&self) -> &'static str {
        match self.problem {
            Problem::Missing { .. } => "Missing",
            Problem::WrongType { .. } => "WrongType",
            Problem::WrongValue { .. } => "WrongValue",
            Problem::Duplicate { .. } => "Duplicate",
            Problem::TooMany { .. } => "TooMany",
            Problem::NotBuiltIn { .. } => "NotBuiltIn",
            Problem::NotForTenants { .. } => "NotForTenants",
        }
    }

    fn sentence(&self) -> String {
        let path = &self.path;
        match &self.problem {
            Problem::Missing { expected } => format!("{path} is missing, expected {expected}"),
            Problem::WrongType { found, expected } => format!("{path} is {found}, expected {expected}"),
            Problem::WrongValue { found, expected } => format!("{path} is {found}, expected {expected}"),
            Problem::Duplicate { found, first } => {
                format!("{path} is {found}, the same as {first}, expected another")
            }
            Problem::TooMany { found, most } => format!("{path} has {found}, expected at most {most}"),
            Problem::NotBuiltIn { provider, expected } => {
                format!("{path}: provider {provider} is not built in, expected {expected}")
            }
            Problem::NotForTenants { provider, expected } => {
                format!("{path}: provider {provider} is not open to a NamespacedExecutor, expected {expected}")
            }
        }
    }
}
