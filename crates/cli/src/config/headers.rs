//! Headers for the collector of traces, from the configuration and from a file of their own.

use super::hidden::Hidden;
use super::schema::Otel;
use crate::failure::Failure;

/// Longest file of headers, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Name and value of each header, from both places. No error repeats a value.
pub fn otel_headers(otel: &Otel) -> Result<Vec<(String, String)>, Failure> {
    let file = otel.headers_file.as_deref().map(read).transpose()?.unwrap_or_default();
    let lines = file.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let from_file = lines.map(|(at, line)| {
        let problem = || super::wrong(format!("otel.headers_file, line {}: write NAME: VALUE.", at + 1));
        header(line).ok_or_else(problem)
    });
    let own = otel.headers.iter().filter_map(|text| header(text.expose())).map(Ok);
    from_file.chain(own).collect()
}

/// Whether each is a header.
pub(super) fn check(headers: &[Hidden]) -> Result<(), String> {
    match headers.iter().position(|text| header(text.expose()).is_none()) {
        Some(at) => Err(format!("otel.headers, number {}: write \"NAME: VALUE\".", at + 1)),
        None => Ok(()),
    }
}

fn header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let (name, value) = (name.trim(), value.trim());
    let is_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let is_value = |c: char| c == ' ' || c.is_ascii_graphic();
    let valid = !name.is_empty() && name.chars().all(is_name) && value.chars().all(is_value);
    valid.then(|| (name.to_ascii_lowercase(), value.to_owned()))
}

fn read(path: &str) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| super::wrong(format!("otel.headers_file {path}: {error}."));
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => Err(failed(&"it is too large")),
        Ok(_) => std::fs::read_to_string(path).map_err(|error| failed(&error)),
        Err(error) => Err(failed(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_from_both_places() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "Authorization: Basic a:b=\n\nx-more: 1\n").unwrap();
        let path = Some(file.path().display().to_string());
        let otel = Otel { headers_file: path, ..Otel::default() };
        let expected = [("authorization", "Basic a:b="), ("x-more", "1")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(otel_headers(&otel).unwrap(), expected);
    }

    #[test]
    fn a_wrong_file_is_named_without_its_content() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a: b\nCANARY\n").unwrap();
        let at = |path: &str| Otel { headers_file: Some(path.to_owned()), ..Otel::default() };
        let failure = otel_headers(&at(&file.path().display().to_string())).unwrap_err();
        assert!(failure.message.contains("line 2") && !failure.message.contains("CANARY"), "{failure}");
        assert!(otel_headers(&at("/not/there")).unwrap_err().message.contains("/not/there"));
    }

    #[test]
    fn no_header_can_carry_another() {
        for text in ["", "a", ": b", "a b: c", "a: b\r\nc: d", "ä: b"] {
            assert_eq!(header(text), None, "{text:?}");
        }
    }
}
