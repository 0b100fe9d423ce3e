//! Configuration: one TOML file, every key with a default, unknown keys refused, the environment on top.
//!
//! To add a key: a line in [`schema`] with its documentation and an example; it is then in the structs, in
//! `switchboard config example`, in the environment as `SWITCHBOARD_SECTION_KEY`, and checked by the tests here. What it
//! must be goes into `validate.rs`.

pub mod channel;
mod environment;
mod headers;
mod hidden;
mod nearest;
mod schema;
mod validate;

use crate::args::Global;
use crate::failure::{Exit, Failure};
use crate::place;
use std::path::{Path, PathBuf};

pub use headers::otel_headers;
pub use hidden::Hidden;
pub use schema::{
    Config, Doorbell, Key, Limits, Log, LogFormat, Otel, Policy, Retention, SECTIONS, Section, Server, Store,
};

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The configuration that `global` asks for: the file it names, then the environment, checked.
pub fn load(global: &Global) -> Result<Config, Failure> {
    let file = global.config.as_deref().filter(|path| !path.as_os_str().is_empty());
    let text = file.map(read).transpose()?.unwrap_or_default();
    let name = file.map_or_else(|| "the configuration".to_owned(), |path| path.display().to_string());
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
    let mut config = parse(&name, &text, variables)?;
    if let (Some(file), Some(dir)) = (file, &mut config.policy.dir) {
        *dir = file.parent().unwrap_or(Path::new("")).join(&*dir);
    }
    Ok(config)
}

/// Where the rules are, given the data directory; whether they must be there.
pub fn policy_dir(config: &Config, data_dir: &Path) -> (PathBuf, bool) {
    match &config.policy.dir {
        Some(dir) => (data_dir.join(dir), true),
        None => (data_dir.join("policies"), false),
    }
}

/// The data directory that `global` and its configuration ask for.
pub fn data_dir(global: &Global) -> Result<PathBuf, Failure> {
    if global.data_dir.is_some() {
        return place::data_dir(global.data_dir.as_deref(), None);
    }
    let configured = load(global)?.server.data_dir.map(PathBuf::from);
    place::data_dir(None, configured.as_deref())
}

fn read(path: &Path) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        wrong(format!("Cannot read {}: {error}.", path.display()))
            .next("`switchboard config example > FILE` writes one")
    };
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => Err(failed(&"it is too large")),
        Ok(_) => std::fs::read_to_string(path).map_err(|error| failed(&error)),
        Err(error) => Err(failed(&error)),
    }
}

/// Reads `text`, called `name` in errors, and lays `variables` over it.
pub fn parse(
    name: &str,
    text: &str,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Config, Failure> {
    let place = |at: Option<usize>| match at {
        Some(at) => format!("{name}, line {}", text[..at.min(text.len())].matches('\n').count() + 1),
        None => name.to_owned(),
    };
    let malformed = |error: &toml::de::Error| {
        wrong(format!("{}: {}.", place(error.span().map(|span| span.start)), error.message()))
    };
    let table = toml::de::DeTable::parse(text).map_err(|error| malformed(&error))?;
    if let Some((at, problem)) = nearest::unknown_key(table.get_ref()) {
        return Err(wrong(format!("{}: {problem}", place(Some(at)))));
    }
    toml::from_str::<Config>(text).map_err(|error| malformed(&error))?;
    let mut table: toml::Table = toml::from_str(text).map_err(|error| malformed(&error))?;
    environment::overlay(&mut table, variables)?;
    let config: Config = table.try_into().map_err(|error| malformed(&error))?;
    validate::check(&config).map_err(|problem| wrong(format!("{name}: {problem}")))?;
    Ok(config)
}

pub(crate) fn wrong(message: String) -> Failure {
    Failure::new(Exit::Usage, "SB0206", message)
}

/// The configuration with its secrets hidden, for showing.
pub fn shown(mut config: Config) -> Config {
    config.store.url = without_password(&config.store.url);
    // A NATS token stands where a user stands elsewhere.
    let servers = config.doorbell.url.split(',').map(|server| match server.split_once("://") {
        Some((scheme, rest)) => match rest.rsplit_once('@') {
            Some((_, place)) => format!("{scheme}://…@{place}"),
            None => server.to_owned(),
        },
        None => server.to_owned(),
    });
    config.doorbell.url = servers.collect::<Vec<_>>().join(",");
    config
}

fn without_password(url: &str) -> String {
    let parts = url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?)));
    match parts.and_then(|(scheme, (by, place))| Some((scheme, by.split_once(':')?.0, place))) {
        Some((scheme, user, place)) => format!("{scheme}://{user}:…@{place}"),
        None => url.to_owned(),
    }
}

/// A commented file with every key and its default.
pub fn example() -> String {
    let mut text = String::from(
        "# Configuration of a Switchboard hub: switchboard serve --config FILE\n\
         # Every line shows a default, or an example where there is none. The environment wins over this file:\n\
         # SWITCHBOARD_SECTION_KEY, for example SWITCHBOARD_SERVER_LISTEN.\n",
    );
    for section in SECTIONS {
        text.extend(["\n", &commented(section.doc), "[", section.name, "]\n"]);
        for key in section.keys {
            text.extend([&commented(key.doc), "# ", key.name, " = ", key.example, "\n"]);
        }
    }
    text.push_str(
        "\n# Networks on which people are reached, any number of them; the console is always there. The guide has a page on each kind.\n",
    );
    text.push_str(&channel::example());
    text
}

fn commented(doc: &[&str]) -> String {
    doc.iter().flat_map(|line| ["#", *line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, variables: &[(&str, &str)]) -> Result<Config, Failure> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        parse("hub.toml", text, variables)
    }

    fn refused(text: &str) -> String {
        let failure = with(text, &[]).unwrap_err();
        assert_eq!((failure.exit, failure.sb.as_deref()), (Exit::Usage, Some("SB0206")), "{failure}");
        failure.message
    }

    #[test]
    fn nothing_is_the_default() {
        assert_eq!(with("", &[]).unwrap(), Config::default());
    }

    #[test]
    fn the_example_is_valid_commented_and_uncommented() {
        assert_eq!(with(&example(), &[]).unwrap(), Config::default());
        let is_key = |line: &str| {
            SECTIONS
                .iter()
                .flat_map(|section| section.keys)
                .any(|key| line.starts_with(&format!("# {} = ", key.name)))
        };
        // What keys of a channel are is up to its kind: they are tested there.
        let text = example().split("# Networks on which").next().unwrap_or_default().to_owned();
        let uncommented: Vec<&str> =
            text.leak().lines().map(|line| if is_key(line) { &line[2..] } else { line }).collect();
        let config = with(&uncommented.join("\n"), &[]).unwrap();
        // Where a key has a default, the example shows it.
        let shown = toml::Table::try_from(&config).unwrap();
        for (section, defaults) in toml::Table::try_from(Config::default()).unwrap() {
            for (key, default) in defaults.as_table().unwrap() {
                let is_list = default.as_array().is_some_and(Vec::is_empty);
                assert!(is_list || shown[&section][key] == *default, "{section}.{key}");
            }
        }
    }

    #[test]
    fn the_guide_shows_the_example_as_it_is() {
        let page = include_str!("../../../docs/guide/configuration.md");
        let indented: String =
            example().lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect();
        assert!(page.contains(&indented), "paste this into docs/guide/configuration.md:\n{indented}");
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_the_nearest_one() {
        assert_eq!(
            refused("[server]\nlisen = \"x\"\n"),
            "hub.toml, line 2: `lisen` is no key of [server]; did you mean `listen`?"
        );
        assert_eq!(refused("\n[sever]\n"), "hub.toml, line 2: [sever] is no section; did you mean [server]?");
        let far = refused("[log]\nzzzzzzzz = 1\n");
        assert_eq!(far, "hub.toml, line 2: `zzzzzzzz` is no key of [log]; it has: level, format");
    }

    #[test]
    fn wrong_types_values_and_grammar_name_the_line() {
        assert!(refused("[server]\n\nlisten = 8484\n").starts_with("hub.toml, line 3: "));
        assert!(refused("[server\n").starts_with("hub.toml, line 1: "));
        assert!(refused("[store]\nurl = \"mysql://x\"\n").contains("store.url"));
        assert!(refused("[retention]\norg_days = 0\n").contains("retention.org_days"));
        assert!(refused("[server]\norigins = [\"https://a/b\"]\n").contains("server.origins"));
        assert!(
            refused("[server]\ntrusted_proxies = [\"10.0.0.0/33\"]\n").contains("server.trusted_proxies")
        );
    }

    #[test]
    fn traces_are_checked_and_their_headers_are_not_shown() {
        let config = with("[otel]\nheaders = [\"x-api-key: CANARY\"]\n", &[]).unwrap();
        assert_eq!(otel_headers(&config.otel).unwrap(), [("x-api-key".into(), "CANARY".into())]);
        assert!(!format!("{config:?}{}", toml::to_string(&config).unwrap()).contains("CANARY"));
        assert!(refused("[otel]\nendpoint = \"127.0.0.1:4318\"\n").contains("otel.endpoint"));
        assert!(refused("[otel]\nendpoint = \"http://user:CANARY@x\"\n").ends_with("`headers` instead."));
        assert!(refused("[otel]\nsample_ratio = 1.5\n").contains("otel.sample_ratio"));
        assert!(refused("[otel]\nsample_ratio = nan\n").contains("otel.sample_ratio"));
        let message = refused("[otel]\nheaders = [\"a: b\", \"CANARY\"]\n");
        assert!(message.contains("otel.headers, number 2") && !message.contains("CANARY"), "{message}");
        let variables =
            [("SWITCHBOARD_OTEL_SAMPLE_RATIO", "0.25"), ("SWITCHBOARD_OTEL_HEADERS", "a: b, c: d")];
        let config = with("", &variables).unwrap();
        assert!((config.otel.sample_ratio - 0.25).abs() < f64::EPSILON);
        assert_eq!(otel_headers(&config.otel).unwrap().len(), 2);
    }

    #[test]
    fn a_password_is_not_shown() {
        let shown_url = |url: &str| {
            let config = with("", &[("SWITCHBOARD_STORE_URL", url)]).unwrap();
            assert_eq!(config.store.url, url);
            shown(config).store.url
        };
        let url = "postgres://ann:ge%40heim@localhost:6000/hub?schema=bus";
        assert_eq!(shown_url(url), "postgres://ann:…@localhost:6000/hub?schema=bus");
        assert_eq!(shown_url("postgres://ann@localhost/hub"), "postgres://ann@localhost/hub");
        let bell = |url: &str| {
            let store = ("SWITCHBOARD_STORE_URL", "postgres://ann@localhost/hub");
            with("", &[store, ("SWITCHBOARD_DOORBELL_URL", url)])
        };
        let config = shown(bell("nats://geheim@a:4222,tls://u:geheim@b").unwrap());
        assert_eq!(config.doorbell.url, "nats://…@a:4222,tls://…@b");
        let wrong = bell("nats://u:geheim@a/path").unwrap_err();
        assert!(wrong.message.contains("doorbell.url") && !wrong.message.contains("geheim"), "{wrong}");
        let wrong = with("", &[("SWITCHBOARD_STORE_URL", "postgres://ann:geheim@/x?schema=A")]).unwrap_err();
        assert!(wrong.message.contains("store.url") && !wrong.message.contains("geheim"), "{wrong}");
    }

    #[test]
    fn the_environment_wins() {
        let text = "[server]\nlisten = \"127.0.0.1:1\"\n";
        let variables = [
            ("SWITCHBOARD_SERVER_LISTEN", "127.0.0.1:2"),
            ("SWITCHBOARD_RETENTION_ORG_DAYS", "7"),
            ("SWITCHBOARD_SERVER_ORIGINS", "https://a.example, https://b.example"),
            ("SWITCHBOARD_DATA_DIR", "/elsewhere"),
            ("SWITCHBOARD_TOKEN", "x"),
        ];
        let config = with(text, &variables).unwrap();
        assert_eq!(config.server.listen, "127.0.0.1:2");
        assert_eq!(config.retention.org_days, 7);
        assert_eq!(config.server.origins, ["https://a.example", "https://b.example"]);
    }

    #[test]
    fn a_wrong_variable_is_named() {
        let message = |name, value| with("", &[(name, value)]).unwrap_err().message;
        let typo = message("SWITCHBOARD_SERVER_LISEN", "x");
        assert_eq!(typo, "SWITCHBOARD_SERVER_LISEN: `lisen` is no key of [server]; did you mean `listen`?");
        assert!(
            message("SWITCHBOARD_RETENTION_ORG_DAYS", "soon").starts_with("SWITCHBOARD_RETENTION_ORG_DAYS: ")
        );
    }
}
