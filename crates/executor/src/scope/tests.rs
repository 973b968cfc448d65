//! Patterns and references as tables, and their precedence as a property.

use proptest::prelude::*;

use super::*;

#[test]
fn scopes_are_read_by_their_form() {
    for (text, scope) in [
        ("registry.io/team/app", Scope::Repository("registry.io/team/app".into())),
        ("registry:5000/app", Scope::Repository("registry:5000/app".into())),
        ("[::1]:5000/app", Scope::Repository("[::1]:5000/app".into())),
        ("registry.io", Scope::Registry("registry.io".into())),
        ("registry:5000", Scope::Registry("registry:5000".into())),
        ("10.0.0.1:5000", Scope::Registry("10.0.0.1:5000".into())),
        ("[::1]", Scope::Registry("[::1]".into())),
        ("*.azurecr.io", Scope::Wildcard("azurecr.io".into())),
        ("*.example.com:5000", Scope::Wildcard("example.com:5000".into())),
    ] {
        assert_eq!(text.parse(), Ok(scope.clone()), "{text}");
        assert_eq!(scope.to_string(), text);
    }
}

#[test]
fn what_is_no_scope_says_why() {
    for (text, error) in [
        ("", "an empty scope"),
        ("*", "the bare wildcard \"*\""),
        ("*.", "\"*.\", whose registry is not a host name with an optional port"),
        ("a.*.io", "\"a.*.io\", with a wildcard where none can be"),
        ("*.*.io", "\"*.*.io\", with a wildcard where none can be"),
        ("*azurecr.io", "\"*azurecr.io\", with a wildcard where none can be"),
        ("registry.io/*", "\"registry.io/*\", with a wildcard where none can be"),
        ("*.registry.io/app", "\"*.registry.io/app\", with a wildcard where none can be"),
        ("registry.io/app:v1", "\"registry.io/app:v1\", with a tag"),
        ("registry.io/app@sha256:00", "\"registry.io/app@sha256:00\", with a digest"),
        ("registry.io/app:v1@sha256:00", "\"registry.io/app:v1@sha256:00\", with a digest"),
        ("https://registry.io", "\"https://registry.io\", whose registry is not a host name with an optional port"),
        ("registry.io:", "\"registry.io:\", whose registry is not a host name with an optional port"),
        ("registry.io:x", "\"registry.io:x\", whose registry is not a host name with an optional port"),
        ("registry .io", "\"registry .io\", whose registry is not a host name with an optional port"),
        ("[::1", "\"[::1\", whose registry is not a host name with an optional port"),
        ("/app", "\"/app\", whose registry is not a host name with an optional port"),
        ("registry.io/", "\"registry.io/\", whose repository is not lower-case path segments"),
        ("registry.io/App", "\"registry.io/App\", whose repository is not lower-case path segments"),
        ("registry.io/team//app", "\"registry.io/team//app\", whose repository is not lower-case path segments"),
    ] {
        let found = text.parse::<Scope>().map_err(|error| error.to_string());
        assert_eq!(found, Err(error.to_owned()), "{text}");
    }
}

#[test]
fn repositories_are_segments_with_single_separators() {
    for (path, valid) in [
        ("a", true),
        ("a.b", true),
        ("a_b", true),
        ("a__b", true),
        ("a---b", true),
        ("0/1/2", true),
        ("a..b", false),
        ("a___b", false),
        ("a_-b", false),
        ("-a", false),
        ("a-", false),
        ("ä", false),
    ] {
        assert_eq!(is_repository(path), valid, "{path}");
    }
}

#[test]
fn references_are_taken_apart() {
    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let with_digest = format!("reg.io:5000/team/app@{DIGEST}");
    let with_both = format!("reg.io:5000/team/app:v1@{DIGEST}");
    for (text, tag, digest) in [
        ("reg.io:5000/team/app", None, None),
        ("reg.io:5000/team/app:v1.2-x", Some("v1.2-x"), None),
        (&with_digest, None, Some(DIGEST)),
        (&with_both, None, Some(DIGEST)),
    ] {
        let reference = Reference::parse(text).unwrap();
        assert_eq!(reference.name(), "reg.io:5000/team/app", "{text}");
        assert_eq!(reference.registry(), "reg.io:5000", "{text}");
        assert_eq!(reference.wildcard(), Some("io:5000"), "{text}");
        assert_eq!((reference.tag(), reference.digest()), (tag, digest), "{text}");
    }
}

#[test]
fn what_is_no_reference_says_why() {
    let long = format!("reg.io/{}", "a".repeat(2_000));
    for (text, error) in [
        ("", "the reference \"\" names no registry"),
        ("nginx:latest", "the reference \"nginx:latest\" names no registry"),
        ("/nginx", "the reference \"/nginx\" has an invalid registry"),
        ("reg io/nginx", "the reference \"reg io/nginx\" has an invalid registry"),
        ("reg.io/Nginx", "the reference \"reg.io/Nginx\" has an invalid repository"),
        ("reg.io/nginx:", "the reference \"reg.io/nginx:\" has an invalid tag"),
        ("reg.io/nginx:-v", "the reference \"reg.io/nginx:-v\" has an invalid tag"),
        ("reg.io/nginx@sha256:0", "the reference \"reg.io/nginx@sha256:0\" has an invalid digest"),
        ("reg.io/nginx@md5:0", "the reference \"reg.io/nginx@md5:0\" has an invalid digest"),
        (&long, "the reference is longer than 1024 bytes"),
    ] {
        assert_eq!(Reference::parse(text).map_err(|error| error.to_string()), Err(error.to_owned()), "{text}");
    }
}

#[test]
fn a_wildcard_stands_for_exactly_one_label_and_a_repository_for_itself() {
    for (scope, reference, covered) in [
        ("*.azurecr.io", "a.azurecr.io/app", true),
        ("*.azurecr.io", "a.b.azurecr.io/app", false),
        ("*.azurecr.io", "azurecr.io/app", false),
        ("*.azurecr.io", "a.azurecr.io:443/app", false),
        ("host/team", "host/team:v1", true),
        ("host/team", "host/team/app", false),
        ("host:5000", "host:5000/any/thing", true),
        ("host:5000", "host/any/thing", false),
    ] {
        let parsed: Scope = scope.parse().unwrap();
        assert_eq!(parsed.covers(&Reference::parse(reference).unwrap()), covered, "{scope} {reference}");
    }
}

#[test]
fn a_scope_contains_what_is_within_it() {
    for (outer, inner, contains) in [
        ("reg.io", "reg.io/app", true),
        ("reg.io", "reg.io", true),
        ("reg.io/app", "reg.io", false),
        ("reg.io", "other.io/app", false),
        ("*.reg.io", "a.reg.io", true),
        ("*.reg.io", "a.reg.io/app", true),
        ("*.reg.io", "*.reg.io", true),
        ("*.reg.io", "*.a.reg.io", false),
        ("*.reg.io", "a.b.reg.io/app", false),
        ("a.reg.io", "*.reg.io", false),
    ] {
        let (outer, inner): (Scope, Scope) = (outer.parse().unwrap(), inner.parse().unwrap());
        assert_eq!(outer.contains(&inner), contains, "{outer} {inner}");
        assert_eq!(outer.overlaps(&inner), outer.contains(&inner) || inner.contains(&outer));
    }
}

fn registry() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof!["a", "b", "io"], 1..4).prop_map(|labels| labels.join("."))
}

fn reference() -> impl Strategy<Value = String> {
    (registry(), prop_oneof!["x", "x/y", "y"]).prop_map(|(registry, path)| format!("{registry}/{path}"))
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![
        reference().prop_map(Scope::Repository),
        registry().prop_map(Scope::Registry),
        registry().prop_map(Scope::Wildcard),
    ]
}

proptest! {
    #[test]
    fn what_an_outer_scope_contains_it_covers(outer in scope(), inner in scope(), reference in reference()) {
        let reference = Reference::parse(&reference).unwrap();
        if outer.contains(&inner) && inner.covers(&reference) {
            prop_assert!(outer.covers(&reference));
        }
        if outer.covers(&reference) && inner.covers(&reference) {
            prop_assert!(outer.overlaps(&inner));
        }
    }

    #[test]
    fn no_text_makes_reading_panic(text in "\\PC{0,40}|[a-z*./:@\\[\\]]{0,20}") {
        if let Ok(scope) = text.parse::<Scope>() {
            prop_assert_eq!(scope.to_string(), &*text);
        }
        if let Ok(reference) = Reference::parse(&text) {
            prop_assert!(text.starts_with(reference.name()));
        }
    }
}
