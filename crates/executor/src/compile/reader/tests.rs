//! Reading by asking: what is found, what is missed, what is left over.

use serde_json::json;

use super::*;

fn read<T>(
    value: &Value,
    names: Names,
    read: impl FnOnce(&mut Fields<'_>) -> Result<T, CompileError>,
) -> (Result<T, String>, Vec<String>) {
    let warnings = Warnings::default();
    let result = parameters(Path::spec(), value.as_object(), names, &warnings, read);
    (result.map_err(|error| error.to_string()), warnings.into_texts())
}

#[test]
fn what_nobody_asked_for_is_a_warning() {
    let value = json!({ "known": "x", "unknown": 1, "other": null });
    let (text, warnings) = read(&value, Names::AnyCase, |fields| fields.text("known"));
    assert_eq!(text.as_deref(), Ok("x"));
    assert_eq!(
        warnings,
        ["spec.other is unknown and ignored (known: known)", "spec.unknown is unknown and ignored (known: known)"]
    );
}

#[test]
fn names_match_in_any_case_only_where_go_does_it() {
    let value = json!({ "VaultUrl": "x" });
    let (text, warnings) = read(&value, Names::AnyCase, |fields| fields.text("vaultURL"));
    assert_eq!((text.as_deref(), &*warnings), (Ok("x"), &["spec.VaultUrl is read as vaultURL".to_owned()][..]));
    let (text, warnings) = read(&value, Names::Exact, |fields| fields.text("vaultURL"));
    assert_eq!(text.as_deref(), Ok(""));
    assert_eq!(warnings, ["spec.VaultUrl is unknown and ignored (known: vaultURL)"]);
}

#[test]
fn an_exact_name_wins_and_is_taken_once() {
    let value = json!({ "Name": "loud", "name": "exact" });
    let (texts, warnings) = read(&value, Names::AnyCase, |fields| Ok((fields.text("name")?, fields.text("name")?)));
    assert_eq!(texts, Ok(("exact".into(), "exact".into())));
    assert_eq!(warnings, ["spec.Name is unknown and ignored (known: name)"]);
}

#[test]
fn null_and_absent_are_the_same() {
    let value = json!({ "a": null });
    let (result, warnings) = read(&value, Names::AnyCase, |fields| Ok((fields.text("a")?, fields.switch("b")?)));
    assert_eq!((result, warnings), (Ok((String::new(), false)), vec![]));
    let (result, _) = read(&value, Names::AnyCase, |fields| fields.word("a", "a word"));
    assert_eq!(result, Err("spec.a is missing, expected a word".into()));
    let (result, _) = read(&Value::Null, Names::AnyCase, |fields| fields.text("a"));
    assert_eq!(result, Ok(String::new()));
}

#[test]
fn an_error_names_what_was_found_and_never_a_text() {
    let value = json!({ "list": [1, "secret"], "text": "secret", "map": { "a": [{}] } });
    for (result, expected) in [
        (read(&value, Names::AnyCase, |fields| fields.text("list")).0, "spec.list is a list, expected a string"),
        (
            read(&value, Names::AnyCase, |fields| fields.switch("text").map(|_| String::new())).0,
            "spec.text is a string, expected true or false",
        ),
        (
            read(&value, Names::AnyCase, |fields| {
                let node = fields.require("list", "a list")?;
                node.list("a list", |entry| entry.integer("a number")).map(|_| String::new())
            })
            .0,
            "spec.list[1] is a string, expected a number",
        ),
        (
            read(&value, Names::AnyCase, |fields| {
                let node = fields.require("map", "an object")?;
                node.object("an object", |fields| {
                    let node = fields.require("a", "a list")?;
                    node.list("a list", |entry| entry.string("a string").map(str::to_owned)).map(|_| String::new())
                })
            })
            .0,
            "spec.map.a[0] is an object, expected a string",
        ),
    ] {
        assert_eq!(result, Err(expected.to_owned()));
    }
}

#[test]
fn the_rest_is_everything_not_asked_for() {
    let value = json!({ "type": "ca", "inline": {}, "files": null });
    let (names, warnings) = read(&value, Names::Exact, |fields| {
        fields.text("type")?;
        Ok(fields.rest().into_iter().map(|(name, node)| format!("{name} {}", node.path)).collect::<Vec<_>>())
    });
    assert_eq!(names, Ok(vec!["files spec.files".into(), "inline spec.inline".into()]));
    assert_eq!(warnings, Vec::<String>::new());
}
