//! How long files and functions may grow, and other things counted in source text.

use anyhow::Result;

use crate::ratchet::{self, Mode, Numbers};
use crate::rust_text::{Blank, Function, blank, functions, without_tests};
use crate::tree::Repository;
use crate::{Problems, attributes};

/// Lines of a file above which its head must give a reason.
pub const FILE_LINES_MAX: usize = 800;
/// Lines of a function above which it counts as long.
pub const FUNCTION_LINES_MAX: usize = 70;
/// How a file says why it is long, on one of its first lines.
const LONG_FILE_MARK: &str = "Long file:";
const HEAD_LINES: usize = 20;

/// Checks all Rust sources and manifests.
pub fn check(repository: &Repository, mode: Mode) -> Result<Problems> {
    let mut problems = Problems::new();
    let mut counted = Counted::default();
    for path in repository.files("rs")? {
        let source = repository.read(&path)?;
        let blanked = blank(&source, Blank::CommentsAndLiterals);
        problems.extend(length_of(&path, &source));
        problems.extend(attributes::check(&path, &blanked));
        counted.add(&path, &blanked);
    }
    for path in repository.files("toml")? {
        problems.extend(attributes::check_manifest(&path, &repository.read(&path)?));
    }
    let ratchet = ratchet::check(repository, &counted.numbers(), mode)?;
    if !ratchet.is_empty() {
        problems.extend(ratchet);
        problems.extend(counted.places.iter().map(|place| format!("  counted: {place}")));
    }
    Ok(problems)
}

fn length_of(path: &str, source: &str) -> Option<String> {
    let lines = source.lines().count();
    let explained = source.lines().take(HEAD_LINES).any(|line| line.contains(LONG_FILE_MARK));
    let too_long = lines > FILE_LINES_MAX && !explained;
    too_long.then(|| {
        format!("{path}: {lines} lines; split it, or say why on its first lines (`// {LONG_FILE_MARK} …`)")
    })
}

/// What the ratchet measures.
#[derive(Debug, Default)]
struct Counted {
    long_functions: usize,
    long_tests: usize,
    unwraps: usize,
    places: Vec<String>,
}

impl Counted {
    fn add(&mut self, path: &str, blanked: &str) {
        let product = if is_test_file(path) { String::new() } else { without_tests(blanked) };
        let (long, all) = (long_functions(&product), long_functions(blanked));
        self.long_functions += long.len();
        self.long_tests += all.len() - long.len();
        let place = |f: &Function| format!("{path}:{} {} is {} lines long", f.line, f.name, f.lines);
        self.places.extend(all.iter().map(place));
        for (number, line) in product.lines().enumerate() {
            let found = line.matches(".unwrap()").count() + line.matches(".expect(").count();
            self.unwraps += found;
            if found > 0 {
                self.places.push(format!("{path}:{} unwraps", number + 1));
            }
        }
    }

    fn numbers(&self) -> Numbers {
        let named = [
            ("long_functions", self.long_functions),
            ("long_test_functions", self.long_tests),
            ("unwraps_outside_tests", self.unwraps),
        ];
        named.into_iter().map(|(name, number)| (name.to_owned(), number)).collect()
    }
}

fn long_functions(blanked: &str) -> Vec<Function> {
    functions(blanked).into_iter().filter(|function| function.lines > FUNCTION_LINES_MAX).collect()
}

/// Whether all of a file is test code, by where it lies.
pub fn is_test_file(path: &str) -> bool {
    let folders =
        ["tests", "benches", "bench", "examples", "conformance", "testkit", "standin", "interop", "fuzz"];
    let stem = path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs")).unwrap_or_default();
    path.split('/').any(|part| folders.contains(&part)) || stem == "tests" || stem.ends_with("_tests")
}

#[cfg(test)]
mod tests {
    use super::{Counted, is_test_file, length_of};

    fn long_function() -> String {
        format!("fn long() {{\n{}}}\n", "x;\n".repeat(70))
    }

    #[test]
    fn a_long_file_must_give_its_reason() {
        let long = "x\n".repeat(801);
        assert!(length_of("a.rs", &long).is_some());
        assert!(length_of("a.rs", &format!("// Long file: one table.\n{long}")).is_none());
        assert!(length_of("a.rs", &"x\n".repeat(800)).is_none());
    }

    #[test]
    fn long_functions_and_unwraps_are_counted_apart_from_tests() {
        let source = format!(
            "{}fn b() {{ c.unwrap(); d.expect(e) }}\n#[cfg(test)]\nmod tests {{ {} fn f() {{ g.unwrap() }} }}",
            long_function(),
            long_function()
        );
        let mut counted = Counted::default();
        counted.add("crates/core/src/a.rs", &source);
        assert_eq!((counted.long_functions, counted.long_tests, counted.unwraps), (1, 1, 2));
        counted.add("crates/core/tests/b.rs", &source);
        assert_eq!((counted.long_functions, counted.long_tests, counted.unwraps), (1, 3, 2));
    }

    #[test]
    fn test_files_are_known_by_their_place() {
        for path in
            ["crates/cli/tests/it/main.rs", "crates/testkit/src/lib.rs", "crates/core/src/ids/tests.rs"]
        {
            assert!(is_test_file(path), "{path}");
        }
        assert!(!is_test_file("crates/core/src/testing.rs"));
    }
}
