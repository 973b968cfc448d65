//! The object a replica writes: what it must look like, and what of one that was read matters. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use muster_api::{ExecutorPodStatus, ExecutorPodStatusSpec, ExecutorRef, PodReport};
use muster_core::name::pod_status_name;

use crate::identity::Identity;
use crate::subject::Own;

/// The whole object, every field of it ours. Its one owner is the pod, by UID, without `blockOwnerDeletion`: so the
/// garbage collector removes it with the pod, and it holds nothing up.
pub fn object(identity: &Identity, executor: &ExecutorRef, report: &PodReport) -> ExecutorPodStatus {
    ExecutorPodStatus {
        metadata: ObjectMeta {
            name: Some(name(identity, executor)),
            namespace: Some(identity.namespace.clone()),
            owner_references: Some(owners(identity)),
            ..ObjectMeta::default()
        },
        spec: spec(identity, executor),
        status: Some(report.clone()),
    }
}

/// What of an object matters. "Altered" are its spec, its owners and its report; labels and annotations are anybody's,
/// or a webhook that adds one would be fought for ever.
pub fn read(identity: &Identity, object: &ExecutorPodStatus) -> (ExecutorRef, Own) {
    let metadata = &object.metadata;
    let executor = object.spec.executor.clone();
    let own = Own {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        version: metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0),
        intact: object.spec == spec(identity, &executor)
            && metadata.name.as_deref() == Some(&name(identity, &executor))
            && metadata.owner_references.as_ref() == Some(&owners(identity)),
        report: object.status.clone(),
    };
    (executor, own)
}

/// Name of the object about `executor`.
pub fn name(identity: &Identity, executor: &ExecutorRef) -> String {
    pod_status_name(&executor.name, &identity.pod.name, &executor.uid, &identity.pod.uid)
}

fn spec(identity: &Identity, executor: &ExecutorRef) -> ExecutorPodStatusSpec {
    ExecutorPodStatusSpec { executor: executor.clone(), pod: identity.pod.clone() }
}

fn owners(identity: &Identity) -> Vec<OwnerReference> {
    vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: identity.pod.name.clone(),
        uid: identity.pod.uid.clone(),
        controller: None,
        block_owner_deletion: None,
    }]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_api::{ExecutorKind, PodRef, Reason, Serves};

    use super::*;
    use crate::decide::pod_report;
    use crate::subject::{Outcome, Said};

    fn identity() -> Identity {
        Identity { namespace: "muster-system".into(), pod: PodRef { name: "r-1".into(), uid: "p-1".into() } }
    }

    fn executor(name: &str) -> ExecutorRef {
        ExecutorRef { kind: ExecutorKind::Executor, namespace: String::new(), name: name.into(), uid: "e-1".into() }
    }

    fn report(error: &str) -> PodReport {
        let outcome = Outcome {
            generation: 3,
            succeeded: false,
            serves: Serves::Nothing,
            reason: Reason::Unreachable,
            error: error.into(),
            trust_expires_at: None,
            warnings: vec!["w".into(), "w".into(), "é".repeat(200)],
        };
        pod_report(&Said { outcome, since: "2026-11-30T12:00:00Z".parse().unwrap() })
    }

    #[test]
    fn every_field_is_sent_also_when_it_is_empty() {
        let mut report = report("");
        report.warnings.clear();
        let object = serde_json::to_value(object(&identity(), &executor("a"), &report)).unwrap();
        assert_eq!(
            object["status"],
            serde_json::json!({
                "observedGeneration": 3, "succeeded": false, "serves": "Nothing", "reason": "Unreachable",
                "error": "", "briefError": "", "lastTransitionTime": "2026-11-30T12:00:00Z",
                "trustExpiresAt": null, "warnings": [],
            })
        );
        assert_eq!(
            object["metadata"]["ownerReferences"],
            serde_json::json!([{"apiVersion": "v1", "kind": "Pod", "name": "r-1", "uid": "p-1"}])
        );
        assert_eq!(object["kind"], "ExecutorPodStatus");
    }

    #[test]
    fn altered_are_report_owners_and_spec_and_nothing_else() {
        let (identity, report) = (identity(), report("why"));
        let written = object(&identity, &executor("a"), &report);
        assert!(read(&identity, &written).1.says(&report));

        let mut annotated = written.clone();
        annotated.metadata.annotations = Some(BTreeMap::from([("who".to_owned(), "webhook".to_owned())]));
        annotated.metadata.labels = annotated.metadata.annotations.clone();
        assert!(read(&identity, &annotated).1.says(&report));

        let mut edited = written.clone();
        edited.status.as_mut().unwrap().brief_error.clear();
        let mut disowned = written.clone();
        disowned.metadata.owner_references = None;
        let mut blocking = written.clone();
        blocking.metadata.owner_references.as_mut().unwrap()[0].block_owner_deletion = Some(true);
        let mut emptied = written.clone();
        emptied.status = None;
        let mut foreign = written;
        foreign.spec.pod.name = "r-2".into();
        for altered in [edited, disowned, blocking, emptied, foreign] {
            assert!(!read(&identity, &altered).1.says(&report), "{altered:?}");
        }
    }

    #[test]
    fn c63_a_long_error_is_cut_on_a_character_border_and_marked() {
        let report = report(&"schlüssel\n".repeat(12_000));
        assert!(report.error.len() <= 1_024 && report.error.ends_with("..."), "{}", report.error.len());
        assert!(report.brief_error.len() <= 120 && report.brief_error.ends_with("..."));
        assert!(!report.error.contains('\n'));
        assert_eq!(report.warnings.len(), 2);
        assert!(report.warnings[1].len() <= 200);
    }

    #[test]
    fn c61_names_of_253_characters_give_valid_and_different_names() {
        let long = |end: &str| format!("{}{end}", "a.".repeat(126));
        let mut names = Vec::new();
        for (executor_name, uid, pod) in
            [(long("x"), "e-1", long("y")), (long("x"), "e-2", long("y")), (long("z"), "e-3", long("y"))]
        {
            let identity = Identity { namespace: "n".into(), pod: PodRef { name: pod, uid: "p-1".into() } };
            let executor = ExecutorRef { uid: uid.into(), ..executor(&executor_name) };
            names.push(name(&identity, &executor));
        }
        names.dedup();
        assert_eq!(names.len(), 3);
        for name in names {
            assert!(name.len() <= 230, "{name}");
            let valid = |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
            assert!(name.split('.').all(valid), "{name}");
        }
    }
}
