//! `/_control`: looking at the upstream and changing it while it runs.
//!
//! `GET /_control` shows behaviour and counts, `GET /_control/log` all calls, `POST /_control` changes the behaviour by a
//! JSON merge patch (RFC 7396), `POST /_control/forget` forgets all calls.

use serde_json::{Value, json};

use crate::behaviour::Behaviour;
use crate::request::Request;
use crate::server::Reply;
use crate::upstream::Shared;

pub(crate) fn answer(shared: &Shared, request: &Request) -> Reply {
    let path: Vec<&str> = request.path.iter().skip(1).map(String::as_str).collect();
    match (request.method.as_str(), path.as_slice()) {
        ("GET", []) => shared.read(|state| {
            let now = shared.clock.now().as_secs_f64();
            Reply::json(200, &json!({"now": now, "counts": state.journal.counts(), "behaviour": state.behaviour}))
        }),
        ("GET", ["log"]) => shared.read(|state| Reply::json(200, &json!(state.journal.entries()))),
        ("POST", []) => match change(shared, &request.body) {
            Ok(behaviour) => Reply::json(200, &behaviour),
            Err(error) => Reply::json(400, &json!({"error": error.to_string()})),
        },
        ("POST", ["forget"]) => {
            shared.write(|state| state.journal.reset());
            Reply::json(200, &json!({}))
        }
        _ => Reply::json(404, &json!({"error": "GET or POST /_control, GET /_control/log, POST /_control/forget"})),
    }
}

fn change(shared: &Shared, body: &[u8]) -> Result<Value, serde_json::Error> {
    let patch: Value = serde_json::from_slice(body)?;
    shared.write(|state| {
        let mut document = serde_json::to_value(&state.behaviour)?;
        merge(&mut document, patch);
        state.behaviour = serde_json::from_value::<Behaviour>(document)?;
        serde_json::to_value(&state.behaviour)
    })
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() || patch.contains_key("kind") {
        // A limit of another kind has other fields: it is replaced, not mixed.
        *target = json!({});
    }
    let Value::Object(fields) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_changes_what_it_names_and_replaces_limits_whole() {
        let mut document = json!({
            "latency": 1.0, "limit": {"kind": "bucket", "rate": 1, "burst": 2}, "limits": {"a": {"kind": "unlimited"}, "b": {"kind": "unlimited"}}
        });
        merge(&mut document, json!({"limit": {"kind": "unlimited"}, "limits": {"a": null}}));
        assert_eq!(
            document,
            json!({"latency": 1.0, "limit": {"kind": "unlimited"}, "limits": {"b": {"kind": "unlimited"}}})
        );
    }
}
