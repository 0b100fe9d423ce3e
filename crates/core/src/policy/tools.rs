//! What rules may speak of: the tools that are governed, with their parameters. A name that is not here is a typing mistake in a rule,
//! and a rule that silently never matches would be worse than none.

/// A governed tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Its parameters, as the caller spells them.
    pub params: &'static [Param],
}

/// A parameter.
#[derive(Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What leaving it out means, if that is a value: a prohibition of that value must not be evaded by saying nothing.
    pub default: Option<&'static str>,
    /// Whether it is shown as Markdown.
    pub markdown: bool,
    /// Whether it is an address, which may be a telephone number.
    pub address: bool,
}

const fn param(name: &'static str) -> Param {
    Param { name, default: None, markdown: false, address: false }
}

/// Every governed tool. To govern another one, add it here and call [`Policy::decide`](super::Policy::decide) where it runs.
pub static TOOLS: &[Tool] = &[Tool {
    name: "messaging.send",
    params: &[
        param("channel"),
        Param { address: true, ..param("to") },
        Param { default: Some("direct"), ..param("kind") },
        Param { markdown: true, ..param("body") },
        param("idempotency_key"),
        Param { default: Some("question"), ..param("message_kind") },
        param("deadline_ms"),
        param("choices"),
    ],
}];

/// The tool of this name.
#[must_use]
pub fn tool(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

impl Tool {
    /// Its parameter of this name.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&'static Param> {
        self.params.iter().find(|param| param.name == name)
    }
}
