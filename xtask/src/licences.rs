//! Under which licences others' code may come into the product.

use crate::Problems;
use crate::metadata::{Graph, Package};
use crate::spdx;

/// Licences that ask for no more than keeping their notice.
const ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// A licence accepted for one package only: `(package, licence)`. The place for file-level copyleft (MPL-2.0) and for
/// licences of data (CDLA-Permissive-2.0), each with a comment that gives the reason.
type Exceptions = [(&'static str, &'static str)];

const EXCEPTIONS: &Exceptions = &[];

/// Checks the licence of every package that is linked into or run for building the product.
pub fn check(graph: &Graph) -> Problems {
    let shipped = graph.shipped();
    let mut problems: Problems = shipped.iter().filter_map(|package| problem(package, EXCEPTIONS)).collect();
    problems.extend(stale(&shipped, EXCEPTIONS));
    problems
}

fn problem(package: &Package, exceptions: &Exceptions) -> Option<String> {
    let Package { name, version, .. } = package;
    let Some(expression) = &package.licence else {
        return Some(format!("{name} {version} names no licence"));
    };
    let excepted = |licence: &str| exceptions.contains(&(name.as_str(), licence));
    match spdx::satisfied(expression, &|licence| ALLOWED.contains(&licence) || excepted(licence)) {
        Ok(true) => None,
        Ok(false) => {
            Some(format!("{name} {version}: licence {expression:?} is not on the list of allowed ones"))
        }
        Err(error) => Some(format!("{name} {version}: {error}")),
    }
}

fn stale(shipped: &[&Package], exceptions: &Exceptions) -> Problems {
    let gone = exceptions.iter().filter(|(name, _)| !shipped.iter().any(|package| package.name == *name));
    gone.map(|(name, licence)| format!("the exception {licence} for {name} is no longer needed: remove it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Exceptions, problem, stale};
    use crate::metadata::Package;

    const ONE: &Exceptions = &[("roots", "CDLA-Permissive-2.0")];

    fn package(name: &str, licence: Option<&str>) -> Package {
        let graph = crate::metadata::tests::graph(&[name], &[]);
        let mut package = graph.members().next().expect("one member").clone();
        package.licence = licence.map(str::to_owned);
        package
    }

    #[test]
    fn allowed_choices_pass() {
        for licence in ["MIT OR GPL-3.0", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
            assert_eq!(problem(&package("a", Some(licence)), &[]), None);
        }
    }

    #[test]
    fn copyleft_and_silence_are_named() {
        for licence in [Some("GPL-3.0-only"), Some("MPL-2.0"), Some("MIT AND AGPL-3.0"), Some("MIT OR"), None]
        {
            let text = problem(&package("a", licence), ONE);
            assert!(text.is_some_and(|text| text.starts_with("a 1.0.0")), "{licence:?}");
        }
    }

    #[test]
    fn an_exception_holds_for_its_package_only_and_while_it_is_used() {
        let (roots, other) = (package("roots", Some(ONE[0].1)), package("other", Some(ONE[0].1)));
        assert_eq!(problem(&roots, ONE), None);
        assert!(problem(&other, ONE).is_some());
        assert_eq!(stale(&[&roots], ONE), Vec::<String>::new());
        assert_eq!(stale(&[&other], ONE).len(), 1);
    }
}
