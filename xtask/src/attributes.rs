//! Exceptions from lints need a reason, and some ways out are closed for good.

use crate::Problems;
use crate::rust_text::{attributes, words};

/// Macros that stand for code which is not there.
const ABSENT_CODE: [&str; 2] = ["todo", "unimplemented"];

/// Checks one blanked source; `path` is for the messages.
pub fn check(path: &str, blanked: &str) -> Problems {
    let place = |at: usize| format!("{path}:{}", blanked[..at].matches('\n').count() + 1);
    let mut problems = Problems::new();
    for (at, text) in attributes(blanked) {
        if exempts(text) && !text.contains("reason") {
            problems.push(format!("{}: #[{}] needs `reason = \"…\"`", place(at), text.trim()));
        }
        if text.trim() == "ignore" || text.trim().starts_with("ignore ") {
            problems.push(format!(
                "{}: a test that never runs proves nothing: repair it or remove it",
                place(at)
            ));
        }
    }
    for name in ABSENT_CODE {
        let calls = words(blanked, name).into_iter().filter(|at| blanked[at + name.len()..].starts_with('!'));
        problems.extend(calls.map(|at| format!("{}: {name}! stands for code that is missing", place(at))));
    }
    problems
}

fn exempts(attribute: &str) -> bool {
    let starts =
        |level| words(attribute, level).iter().any(|at| attribute[at + level.len()..].starts_with('('));
    ["allow", "expect"].into_iter().any(starts)
}

/// Checks a manifest: a lint switched off there says why, on the same line or in a comment above it and its neighbours.
pub fn check_manifest(path: &str, manifest: &str) -> Problems {
    let mut problems = Problems::new();
    let mut explained = false;
    for (number, line) in manifest.lines().enumerate() {
        let switches_off = line.contains("\"allow\"");
        explained = line.contains('#') || (explained && switches_off);
        if switches_off && !explained {
            problems.push(format!("{path}:{}: a lint is switched off without a reason", number + 1));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{check, check_manifest};
    use crate::rust_text::{Blank, blank};

    fn problems(source: &str) -> usize {
        check("a.rs", &blank(source, Blank::CommentsAndLiterals)).len()
    }

    #[test]
    fn an_exception_from_a_lint_needs_a_reason() {
        assert_eq!(problems("#[allow(dead_code)]\nfn a() {}"), 1);
        assert_eq!(problems("#![expect(clippy::x)]"), 1);
        assert_eq!(problems("#[cfg_attr(test, allow(dead_code))]"), 1);
        assert_eq!(problems("#[expect(clippy::x, reason = \"because\")]\nfn a() {}"), 0);
        assert_eq!(problems("fn a() { b.expect(\"#[allow(x)]\") } // #[allow(y)]"), 0);
    }

    #[test]
    fn missing_code_and_sleeping_tests_are_named() {
        assert_eq!(problems("fn a() { todo!() }"), 1);
        assert_eq!(problems("fn a() { unimplemented!(\"later\") }"), 1);
        assert_eq!(problems("#[test]\n#[ignore = \"slow\"]\nfn a() {}"), 1);
        assert_eq!(problems("fn todo() { todo() }"), 0);
    }

    #[test]
    fn a_manifest_says_why_a_lint_is_off() {
        assert_eq!(
            check_manifest("Cargo.toml", "a = \"allow\"\nb = \"allow\" # noise\nc = \"warn\"").len(),
            1
        );
    }
}
