//! Faults: what is acknowledged survives them, and nothing happens twice.

#[cfg(unix)]
mod cluster;
mod disk;
pub(crate) mod kill;
mod network;
#[cfg(unix)]
pub(crate) mod outbound;
pub(crate) mod proxy;
mod races;
#[cfg(unix)]
mod relay;
#[cfg(target_os = "linux")]
mod slow_loris;

/// `docs/operate/faults.md` names a test for each fault; a test that was renamed must be renamed there.
#[test]
fn every_test_that_the_page_of_faults_names_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/operate/faults.md")).unwrap();
    let mut sources = String::new();
    let mut folders = vec![root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let is_row = |line: &&str| ["| B", "| O", "| I", "| X"].iter().any(|plane| line.starts_with(plane));
    let rows: Vec<&str> = page.lines().filter(is_row).collect();
    assert!(rows.len() > 60, "{}", rows.len());
    for row in rows {
        let tests: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty() || row.contains("| none"), "no test and no reason: {row}");
        for test in tests {
            assert!(sources.contains(&format!("fn {test}(")), "there is no test {test}: {row}");
        }
    }
}
