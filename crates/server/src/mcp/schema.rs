//! JSON schemas as models and their clients read them best: nothing to look up, no `null` beside what may be left out.

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use rmcp::schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The schema of a tool's arguments: `T`, and beside it the members that every tool takes.
pub(super) fn input<T: JsonSchema, Common: JsonSchema>() -> Arc<JsonObject> {
    let mut schema =
        object(SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().into());
    let common = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Common>();
    let common = object(common.into()).remove("properties");
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let (Some(properties), Some(Value::Object(common))) = (properties.as_object_mut(), common) {
        properties.extend(common);
    }
    schema.remove("description"); // that of the Rust type; the tool has its own
    Arc::new(schema)
}

/// The schema of a tool's structured result.
pub(super) fn output<T: JsonSchema>() -> Arc<JsonObject> {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = object(settings.into_generator().into_root_schema_for::<T>().into());
    schema.remove("description");
    Arc::new(schema)
}

fn object(schema: Value) -> JsonObject {
    let mut schema = schema;
    let definitions = schema.as_object_mut().and_then(|schema| schema.remove("$defs"));
    let definitions = definitions.as_ref().and_then(Value::as_object);
    simplify(&mut schema, &definitions.cloned().unwrap_or_default());
    match schema {
        Value::Object(mut schema) => {
            schema.remove("$schema");
            schema
        }
        _ => JsonObject::new(),
    }
}

/// Puts definitions in their places, drops the alternative `null`, and titles and formats that say nothing to a model.
fn simplify(schema: &mut Value, definitions: &JsonObject) {
    let Value::Object(members) = schema else {
        if let Value::Array(items) = schema {
            items.iter_mut().for_each(|item| simplify(item, definitions));
        }
        return;
    };
    let named = members.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
    let instead = named.and_then(|name| definitions.get(name)).cloned().or_else(|| without_null(members));
    if let Some(Value::Object(instead)) = instead {
        ["$ref", "anyOf"].iter().for_each(|key| drop(members.remove(*key)));
        // What is said at the place goes before what is said at the definition.
        for (key, value) in instead {
            members.entry(key).or_insert(value);
        }
        return simplify(schema, definitions);
    }
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".into(), only);
        }
    }
    if members.get("type").is_some_and(Value::is_string) {
        ["title", "format"].iter().for_each(|key| drop(members.remove(*key)));
        members.retain(|key, value| key != "default" || !value.is_null());
    }
    members.values_mut().for_each(|member| simplify(member, definitions));
}

/// The one alternative beside `null`.
fn without_null(members: &JsonObject) -> Option<Value> {
    let alternatives = members.get("anyOf")?.as_array()?;
    let mut others =
        alternatives.iter().filter(|schema| schema.get("type").is_none_or(|name| name != "null"));
    match (others.next(), others.next()) {
        (Some(only), None) => Some(only.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(JsonSchema)]
    #[schemars(crate = "rmcp::schemars")]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Sample {
        /// Which.
        kind: Option<Kind>,
        count: Option<u8>,
        names: Vec<String>,
    }

    #[derive(JsonSchema)]
    #[schemars(crate = "rmcp::schemars", rename_all = "snake_case")]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Kind {
        One,
        Two,
    }

    #[derive(JsonSchema)]
    #[schemars(crate = "rmcp::schemars")]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Common {
        /// Who.
        who: Option<String>,
    }

    #[test]
    fn schemas_are_plain() {
        let schema = Value::Object((*input::<Sample, Common>()).clone());
        assert_eq!(
            schema["properties"],
            json!({
                "kind": {"description": "Which.", "type": "string", "enum": ["one", "two"]},
                "count": {"type": "integer", "minimum": 0, "maximum": 255},
                "names": {"type": "array", "items": {"type": "string"}},
                "who": {"description": "Who.", "type": "string"},
            })
        );
        assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["names"])));
    }
}
