//! Reads free-form parameters into types, and knows at every step where it stands.
//!
//! Parameters are plain JSON that belongs to plugins: the API server keeps whatever is written. So a mistake has to be
//! found here, and told so that its author finds it too: which field, what stands there, what should. Reading is by
//! asking: [`Fields::get`] and [`Fields::require`] fetch a field by name, and what nobody asked for by the time an object
//! is read becomes a warning. There is no list of known fields to keep in step with the code.
//!
//! Ratify decodes parameters with Go's JSON package, and what it accepts is accepted here: an absent field, `null` and
//! no parameters at all are the same, and names of fields match in any case when none matches exactly
//! ([`Node::object`]). Where Ratify looks names up in a map, they match exactly ([`Node::map`]).

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::error::{CompileError, Problem};
use super::path::Path;
use crate::warnings::Warnings;
use crate::words::quote;

/// Most entries of any list in parameters: as many as an executor may have scopes.
const LIST_MAX: usize = 256;

/// A value, where it stands, and where to put warnings about it.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) path: Path,
    value: &'a Value,
    pub(crate) warnings: &'a Warnings,
}

/// The fields of one object while it is read.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    pub(crate) path: Path,
    map: Option<&'a Map<String, Value>>,
    names: Names,
    asked: Vec<&'static str>,
    taken: BTreeSet<&'a str>,
    pub(crate) warnings: &'a Warnings,
}

/// How names of fields match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Exactly, or else in any case: fields of a Go struct.
    AnyCase,
    /// Exactly: keys of a Go map.
    Exact,
}

/// Reads the parameters at `path`; `None` reads as an object without fields.
pub(crate) fn parameters<'a, T>(
    path: Path,
    map: Option<&'a Map<String, Value>>,
    names: Names,
    warnings: &'a Warnings,
    read: impl FnOnce(&mut Fields<'a>) -> Result<T, CompileError>,
) -> Result<T, CompileError> {
    let mut fields = Fields { path, map, names, asked: Vec::new(), taken: BTreeSet::new(), warnings };
    let result = read(&mut fields)?;
    fields.warn_of_unknown();
    Ok(result)
}

impl<'a> Node<'a> {
    /// Reads an object whose fields belong to a struct.
    pub(crate) fn object<T>(
        &self,
        expected: &'static str,
        read: impl FnOnce(&mut Fields<'a>) -> Result<T, CompileError>,
    ) -> Result<T, CompileError> {
        let Value::Object(map) = self.value else { return Err(self.wrong_type(expected)) };
        parameters(self.path.clone(), Some(map), Names::AnyCase, self.warnings, read)
    }

    /// Reads an object whose keys are looked up exactly as they are written.
    pub(crate) fn map<T>(
        &self,
        expected: &'static str,
        read: impl FnOnce(&mut Fields<'a>) -> Result<T, CompileError>,
    ) -> Result<T, CompileError> {
        let Value::Object(map) = self.value else { return Err(self.wrong_type(expected)) };
        parameters(self.path.clone(), Some(map), Names::Exact, self.warnings, read)
    }

    /// Reads a list of at most 256 entries, in order, up to the first mistake.
    pub(crate) fn list<T>(
        &self,
        expected: &'static str,
        read: impl FnMut(Node<'a>) -> Result<T, CompileError>,
    ) -> Result<Vec<T>, CompileError> {
        let Value::Array(values) = self.value else { return Err(self.wrong_type(expected)) };
        if values.len() > LIST_MAX {
            let found = format!("{} entries", values.len());
            return Err(CompileError::new(self.path.clone(), Problem::TooMany { found, most: LIST_MAX }));
        }
        let entry = |(index, value)| Node { path: self.path.index(index), value, warnings: self.warnings };
        values.iter().enumerate().map(entry).map(read).collect()
    }

    /// Reads a text.
    pub(crate) fn string(&self, expected: &'static str) -> Result<&'a str, CompileError> {
        self.value.as_str().ok_or_else(|| self.wrong_type(expected))
    }

    /// Reads a text that is not empty.
    pub(crate) fn word(&self, expected: &'static str) -> Result<&'a str, CompileError> {
        match self.string(expected)? {
            "" => Err(self.wrong_value("an empty string", expected)),
            text => Ok(text),
        }
    }

    /// Reads `true` or `false`.
    pub(crate) fn boolean(&self) -> Result<bool, CompileError> {
        self.value.as_bool().ok_or_else(|| self.wrong_type("true or false"))
    }

    /// Reads a whole number.
    pub(crate) fn integer(&self, expected: &'static str) -> Result<i64, CompileError> {
        self.value.as_i64().ok_or_else(|| match self.value {
            Value::Number(number) => self.wrong_value(number.to_string(), expected),
            _ => self.wrong_type(expected),
        })
    }

    /// True for `null`.
    pub(crate) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    /// True for a list without entries.
    pub(crate) fn is_empty_list(&self) -> bool {
        self.value.as_array().is_some_and(Vec::is_empty)
    }

    /// True for an object without fields.
    pub(crate) fn is_empty_object(&self) -> bool {
        self.value.as_object().is_some_and(Map::is_empty)
    }

    /// An error about the type of this value.
    pub(crate) fn wrong_type(&self, expected: impl Into<Cow<'static, str>>) -> CompileError {
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        CompileError::new(self.path.clone(), Problem::WrongType { found, expected: expected.into() })
    }

    /// An error about this value; `found` is shown as it is.
    pub(crate) fn wrong_value(&self, found: impl Into<String>, expected: impl Into<Cow<'static, str>>) -> CompileError {
        CompileError::value(self.path.clone(), found, expected)
    }
}

impl<'a> Fields<'a> {
    /// The field of this name; `None` if it is absent or null.
    pub(crate) fn get(&mut self, name: &'static str) -> Option<Node<'a>> {
        if !self.asked.contains(&name) {
            self.asked.push(name);
        }
        let (key, value) = self.find(name)?;
        self.taken.insert(key);
        let path = self.path.key(key);
        if key != name {
            self.warnings.add(format_args!("{path} is read as {name}"));
        }
        (!value.is_null()).then_some(Node { path, value, warnings: self.warnings })
    }

    /// The field of this name.
    pub(crate) fn require(&mut self, name: &'static str, expected: &'static str) -> Result<Node<'a>, CompileError> {
        self.get(name).ok_or_else(|| self.missing(name, expected))
    }

    /// The field of this name as a text, empty if absent.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<String, CompileError> {
        self.get(name).map_or(Ok(String::new()), |node| node.string("a string").map(str::to_owned))
    }

    /// The field of this name as a text that is not empty.
    pub(crate) fn word(&mut self, name: &'static str, expected: &'static str) -> Result<String, CompileError> {
        self.require(name, expected)?.word(expected).map(str::to_owned)
    }

    /// The field of this name as a switch, off if absent.
    pub(crate) fn switch(&mut self, name: &'static str) -> Result<bool, CompileError> {
        self.get(name).map_or(Ok(false), |node| node.boolean())
    }

    /// Every field that nobody has asked for, null ones too, in the order of their names.
    pub(crate) fn rest(&mut self) -> Vec<(&'a str, Node<'a>)> {
        let rest: Vec<_> = self.unread().collect();
        self.taken.extend(rest.iter().map(|(key, _)| *key));
        let node = |(key, value)| (key, Node { path: self.path.key(key), value, warnings: self.warnings });
        rest.into_iter().map(node).collect()
    }

    /// An error about a field that is not there.
    pub(crate) fn missing(&self, name: &str, expected: impl Into<Cow<'static, str>>) -> CompileError {
        CompileError::missing(self.path.key(name), expected)
    }

    fn find(&self, name: &str) -> Option<(&'a str, &'a Value)> {
        let map = self.map?;
        if let Some((key, value)) = map.get_key_value(name) {
            return Some((key, value));
        }
        let mut similar = self.unread().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        similar.next().filter(|_| self.names == Names::AnyCase)
    }

    fn unread(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let fields = self.map.into_iter().flatten().map(|(key, value)| (key.as_str(), value));
        fields.filter(|(key, _)| !self.taken.contains(key))
    }

    fn warn_of_unknown(&self) {
        for (key, _) in self.unread() {
            let path = self.path.key(key);
            let known = self.asked.join(", ");
            self.warnings.add(format_args!("{path} is unknown and ignored (known: {known})"));
        }
    }
}

/// `found` as an error quotes it.
pub(crate) fn found(text: &str) -> String {
    if text.is_empty() { "an empty string".to_owned() } else { quote(text) }
}

#[cfg(test)]
mod tests;
