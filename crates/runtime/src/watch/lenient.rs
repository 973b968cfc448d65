//! One object that cannot be decoded must not stop a list or a watch. kube's `DeserializeGuard` does that too, but forgets
//! that an `Api<PartialObjectMeta<K>>` asks for metadata only and would fetch every full object.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

/// A `K`, or what is known of an object that is none. `metadata.managedFields` is dropped before decoding: it can be most
/// of an object, and nobody reads it here.
#[derive(Clone, Debug)]
pub struct Lenient<K>(pub Result<K, Undecodable>);

/// An object that is no `K`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct Undecodable {
    /// What is wrong with it.
    pub error: String,
    /// Its metadata.
    pub metadata: ObjectMeta,
}

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = serde_json::Value::deserialize(deserializer)?;
        if let Some(metadata) = value.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        match K::deserialize(&value) {
            Ok(object) => Ok(Self(Ok(object))),
            Err(error) => {
                let PartialObjectMeta { metadata, .. } =
                    PartialObjectMeta::<K>::deserialize(&value).map_err(D::Error::custom)?;
                Ok(Self(Err(Undecodable { error: error.to_string(), metadata })))
            }
        }
    }
}

impl<K: Resource> Resource for Lenient<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|bad| &bad.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|bad| &mut bad.metadata, K::meta_mut)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::DynamicObject;
    use serde_json::json;

    use super::*;

    fn read<K: Resource + DeserializeOwned>(value: serde_json::Value) -> Lenient<K> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_bad_object_keeps_its_name_and_a_good_one_loses_managed_fields() {
        let bad = read::<Pod>(json!({"metadata": {"name": "p"}, "spec": {"containers": "none"}}));
        assert_eq!(bad.meta().name.as_deref(), Some("p"));
        assert!(bad.0.unwrap_err().error.contains("none"));

        let good = read::<Pod>(json!({"metadata": {"name": "p", "managedFields": [{"manager": "m"}]}}));
        assert_eq!(good.0.unwrap().metadata.managed_fields, None);
    }

    #[test]
    fn metadata_only_and_dynamic_objects_stay_what_they_are() {
        assert!(Lenient::<PartialObjectMeta<Pod>>::metadata_api());
        assert!(!Lenient::<Pod>::metadata_api());
        let dynamic = read::<DynamicObject>(json!({"apiVersion": "v1", "kind": "X", "metadata": {}, "spec": {"a": 1}}));
        assert_eq!(dynamic.0.unwrap().data["spec"]["a"], 1);
    }
}
