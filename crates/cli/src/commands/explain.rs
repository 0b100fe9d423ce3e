//! `switchboard explain`: the pages of `docs/errors`, carried in the program.

use crate::failure::Failure;
use crate::terminal::Output;
use serde::Serialize;

macro_rules! pages {
    ($($code:ident)*) => {
        /// Every code with its page.
        pub const PAGES: &[(&str, &str)] = &[$((
            stringify!($code),
            include_str!(concat!("../../../../docs/errors/", stringify!($code), ".md")),
        )),*];
    };
}

pages! {
    SB0101 SB0102 SB0103 SB0104 SB0105 SB0106 SB0107 SB0108 SB0109 SB0110 SB0111 SB0112 SB0113 SB0114 SB0115 SB0116 SB0117
    SB0118 SB0119 SB0120 SB0121 SB0122 SB0123 SB0124 SB0125 SB0126 SB0127 SB0128 SB0129
    SB0130 SB0131 SB0132 SB0133 SB0134
    SB0160 SB0161 SB0162
    SB0201 SB0202 SB0203 SB0204 SB0205 SB0206 SB0207 SB0208 SB0209 SB0210 SB0211 SB0212 SB0213 SB0214
}

/// One page.
#[derive(Debug, Serialize)]
struct Page {
    code: &'static str,
    title: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'static str>,
}

/// Prints the page of `code`, or a list of all.
pub fn run(output: Output, code: Option<&str>) -> Result<(), Failure> {
    let Some(code) = code else {
        let all: Vec<_> =
            PAGES.iter().map(|(code, text)| Page { code, title: title(text), text: None }).collect();
        output.show(&all, |all| all.iter().flat_map(|page| [page.code, "  ", page.title, "\n"]).collect());
        return Ok(());
    };
    let wanted = code.trim().to_ascii_uppercase();
    let Some((code, text)) = PAGES.iter().find(|(code, _)| *code == wanted) else {
        return Err(Failure::usage(format!("{code:?} is no error code of this version."))
            .next("`switchboard explain` lists them"));
    };
    output.show(&Page { code, title: title(text), text: Some(text) }, |_| (*text).to_owned());
    Ok(())
}

/// The page's heading without the code.
fn title(text: &'static str) -> &'static str {
    let heading = text.lines().next().unwrap_or_default();
    heading.split_once(": ").map_or(heading, |(_, title)| title)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_page_is_carried_and_titled() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
        let files =
            std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<String> = files
            .filter_map(|name| name.strip_suffix(".md").map(str::to_owned))
            .filter(|name| name.starts_with("SB"))
            .collect();
        let carried: BTreeSet<String> = PAGES.iter().map(|(code, _)| (*code).to_owned()).collect();
        assert_eq!(carried, files);
        for (code, text) in PAGES {
            assert!(text.starts_with(&format!("# {code}: ")), "{code}");
            assert!(text.contains("## What to do"), "{code}");
        }
    }
}
