//! The custom resource definitions, as the derives give them plus what derives cannot say.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::{Executor, ExecutorPodStatus, NamespacedExecutor};

/// Label that marks a definition as ours; one without it belongs to somebody else and is not overwritten unasked.
pub const PART_OF_LABEL: &str = "app.kubernetes.io/part-of";
/// Value of [`PART_OF_LABEL`].
pub const PART_OF_VALUE: &str = "muster";

/// The definitions of all three kinds, ready to be applied.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut all = vec![Executor::crd(), NamespacedExecutor::crd(), without_subresources(ExecutorPodStatus::crd())];
    for crd in &mut all {
        let labels = crd.metadata.labels.get_or_insert_default();
        labels.insert(PART_OF_LABEL.into(), PART_OF_VALUE.into());
        let schemas = crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
        schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()).for_each(known_formats);
    }
    all
}

/// The API server warns of formats that it does not know, and it knows no unsigned ones. The bound of zero stays.
fn known_formats(schema: &mut JSONSchemaProps) {
    if schema.format.as_deref() == Some("uint32") {
        schema.format = Some("int32".into());
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(known_formats);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        known_formats(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        known_formats(values);
    }
}

/// An ExecutorPodStatus has one writer, so one apply of the whole object reports at once and no half-born object exists.
/// With the subresource the first report would take two requests, and `status` in the create would be dropped silently.
fn without_subresources(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.subresources = None;
    }
    crd
}
