//! A secret within the configuration.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// A text that is read from the configuration and never written again, neither by `config show` nor into a log.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

/// What is shown instead.
const SHOWN: &str = "(hidden)";

impl Hidden {
    /// The text itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(SHOWN)
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(SHOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_but_not_written() {
        let hidden: Hidden = serde_json::from_str("\"s3cret\"").unwrap();
        assert_eq!(hidden.expose(), "s3cret");
        assert_eq!(serde_json::to_string(&hidden).unwrap(), "\"(hidden)\"");
        assert!(!format!("{hidden:?}").contains("s3cret"));
    }
}
