//! The policy: which of the verifiers' results together make an artifact acceptable.

use std::collections::BTreeSet;

use muster_api::PolicyEnforcer;

use super::Verifier;
use super::error::{CompileError, Problem};
use super::path::Path;
use super::reader::{Fields, Names, Node, found, parameters};
use crate::warnings::Warnings;
use crate::words::{one_of, quote};

/// Deepest nesting of rules. Signatures of signatures of signatures are three levels.
const DEPTH_MAX: usize = 16;

/// Most rules of one policy, nested ones included.
const RULES_MAX: usize = 256;

/// One rule of a threshold policy. The root has no verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The verifier that has to accept; a rule without one is as good as its nested rules.
    pub verifier: Option<String>,
    /// How many of the nested rules have to hold; all of them when the spec says 0.
    pub threshold: usize,
    /// The nested rules.
    pub rules: Vec<Rule>,
}

/// What rules are read against.
struct Reading<'a> {
    verifiers: &'a [Verifier],
    used: BTreeSet<String>,
    rules: usize,
}

pub(super) fn policy(
    path: &Path,
    spec: Option<&PolicyEnforcer>,
    verifiers: &[Verifier],
    warnings: &Warnings,
) -> Result<Option<Rule>, CompileError> {
    let Some(spec) = spec else {
        warnings.add(format_args!("{path} is missing: without a policy no artifact is ever accepted"));
        return Ok(None);
    };
    if spec.type_ != "threshold-policy" {
        return Err(CompileError::value(path.key("type"), found(&spec.type_), "threshold-policy"));
    }
    let mut reading = Reading { verifiers, used: BTreeSet::new(), rules: 0 };
    let root = parameters(path.key("parameters"), spec.parameters.as_ref(), Names::Exact, warnings, |fields| {
        let node = fields.require("policy", "the root of a tree of rules")?;
        node.map("an object with rules", |fields| root(fields, &mut reading))
    })?;
    for verifier in verifiers.iter().filter(|verifier| !reading.used.contains(&verifier.name)) {
        warnings.add(format_args!("{path} has no rule for verifier {}", quote(&verifier.name)));
    }
    Ok(Some(root))
}

fn root(fields: &mut Fields<'_>, reading: &mut Reading<'_>) -> Result<Rule, CompileError> {
    let name = fields.text("verifierName")?;
    if !name.is_empty() {
        let path = fields.path.key("verifierName");
        return Err(CompileError::value(path, found(&name), "no verifier at the root, but rules"));
    }
    nested(fields, None, reading, 0)
}

fn rule(node: &Node<'_>, reading: &mut Reading<'_>, depth: usize) -> Result<Rule, CompileError> {
    reading.rules += 1;
    if reading.rules > RULES_MAX {
        let problem = Problem::TooMany { found: format!("rule number {}", reading.rules), most: RULES_MAX };
        return Err(CompileError::new(node.path.clone(), problem));
    }
    node.map("an object with verifierName or rules", |fields| {
        let name = fields.text("verifierName")?;
        let known = |name: &str| reading.verifiers.iter().any(|verifier| verifier.name == name);
        if !name.is_empty() && !known(&name) {
            let names: Vec<_> = reading.verifiers.iter().map(|verifier| quote(&verifier.name)).collect();
            let path = fields.path.key("verifierName");
            return Err(CompileError::value(path, found(&name), format!("the name of a verifier: {}", one_of(&names))));
        }
        let verifier = Some(name).filter(|name| !name.is_empty());
        reading.used.extend(verifier.clone());
        nested(fields, verifier, reading, depth)
    })
}

fn nested(
    fields: &mut Fields<'_>,
    verifier: Option<String>,
    reading: &mut Reading<'_>,
    depth: usize,
) -> Result<Rule, CompileError> {
    let threshold = match fields.get("threshold") {
        Some(node) => Some((node.integer("a whole number")?, node)),
        None => None,
    };
    let rules = match fields.get("rules") {
        Some(node) if depth == DEPTH_MAX && !node.is_empty_list() => {
            let problem = Problem::TooMany { found: format!("rules {} levels deep", depth + 1), most: DEPTH_MAX };
            return Err(CompileError::new(node.path, problem));
        }
        Some(node) => node.list("a list of rules", |entry| rule(&entry, reading, depth + 1))?,
        None => Vec::new(),
    };
    if rules.is_empty() && verifier.is_none() {
        return Err(fields.missing("rules", "at least one rule, because there is no verifierName"));
    }
    let threshold = match threshold {
        None | Some((0, _)) => rules.len(),
        Some((number, node)) => {
            usize::try_from(number).ok().filter(|threshold| *threshold <= rules.len()).ok_or_else(|| {
                node.wrong_value(number.to_string(), format!("0 (all) to {}, the number of rules", rules.len()))
            })?
        }
    };
    Ok(Rule { verifier, threshold, rules })
}
