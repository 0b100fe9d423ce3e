//! Variables over the file: `SWITCHBOARD_SECTION_KEY`.

use super::nearest::no_key;
use super::schema::{Config, Key, SECTIONS, Section};
use super::wrong;
use crate::failure::Failure;
use toml::{Table, Value};

const PREFIX: &str = "SWITCHBOARD_";

/// Lays `variables` over `table`. A variable of a section that has no such key is refused: it was meant for something.
pub(super) fn overlay(
    table: &mut Table,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<(), Failure> {
    for (name, text) in variables {
        let Some((section, key)) = named(&name) else { continue };
        let known = section.keys.iter().find(|known| known.name == key);
        let known = known.ok_or_else(|| wrong(format!("{name}: {}", no_key(section, &key))))?;
        let value = value(known, &text);
        let alone = Table::from_iter([(
            section.name.to_owned(),
            Table::from_iter([(key.clone(), value.clone())]).into(),
        )]);
        Config::try_from_table(alone).map_err(|error| wrong(format!("{name}: {}.", error.message())))?;
        let inner = table.entry(section.name).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(inner) = inner {
            inner.insert(key, value);
        }
    }
    Ok(())
}

impl Config {
    fn try_from_table(table: Table) -> Result<Self, toml::de::Error> {
        table.try_into()
    }
}

/// Section and key that a variable is about.
fn named(variable: &str) -> Option<(&'static Section, String)> {
    let rest = variable.strip_prefix(PREFIX)?.to_ascii_lowercase();
    let (section, key) = SECTIONS
        .iter()
        .find_map(|section| Some((section, rest.strip_prefix(section.name)?.strip_prefix('_')?)))?;
    Some((section, key.to_owned()))
}

/// The text as the kind of value that the key's example is.
fn value(key: &Key, text: &str) -> Value {
    let parsed = |text: &str| toml::from_str::<Table>(&format!("v = {text}")).ok()?.remove("v");
    match parsed(key.example) {
        Some(Value::String(_)) | None => Value::String(text.to_owned()),
        Some(Value::Array(_)) => parsed(text).filter(Value::is_array).unwrap_or_else(|| {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
        }),
        Some(_) => parsed(text).unwrap_or_else(|| Value::String(text.to_owned())),
    }
}
