//! Who is in front of the browser.

use super::Approval;
use crate::assets::{ASSETS, Assets};
use crate::shell::{Section, Shell};
use crate::text::{Foreign, When};
use askama::Template;

/// Where a one-time link leads.
#[derive(Debug, Template)]
#[template(path = "enter.html")]
pub struct Enter {
    /// The files it asks for.
    pub assets: &'static Assets,
    /// Why it did not work.
    pub failure: Option<String>,
}

impl Enter {
    /// The page.
    #[must_use]
    pub fn new(failure: Option<String>) -> Self {
        Self { assets: &ASSETS, failure }
    }
}

/// Where name and password are asked for.
#[derive(Debug, Template)]
#[template(path = "sign_in.html")]
pub struct SignIn {
    /// The files it asks for.
    pub assets: &'static Assets,
    /// What was typed as name.
    pub name: Foreign,
    /// Why it did not work.
    pub failure: Option<String>,
}

impl SignIn {
    /// The page.
    #[must_use]
    pub fn new(name: &str, failure: Option<String>) -> Self {
        Self { assets: &ASSETS, name: name.into(), failure }
    }
}

/// Where the link of a mail leads that asks for an approval.
#[derive(Debug, Template)]
#[template(path = "decide.html")]
pub struct Decide {
    /// The files it asks for.
    pub assets: &'static Assets,
    /// Why nothing was decided.
    pub failure: Option<String>,
    /// The approval.
    pub approval: Approval,
    /// The address in whose name the link decides.
    pub to: Foreign,
    /// Whether somebody can still decide.
    pub open: bool,
    /// Where its form goes.
    pub action: String,
}

/// A page in place of one that cannot be shown.
#[derive(Debug, Template)]
#[template(path = "failed.html")]
pub struct Failed {
    /// The files it asks for.
    pub assets: &'static Assets,
    /// What happened.
    pub title: String,
    /// Why, and what to do.
    pub failure: Option<String>,
}

impl Failed {
    /// The page.
    #[must_use]
    pub fn new(title: &str, failure: &str) -> Self {
        Self { assets: &ASSETS, title: title.to_owned(), failure: Some(failure.to_owned()) }
    }
}

/// A session.
#[derive(Debug, Clone)]
pub struct Session {
    /// Its public id.
    pub session_id: String,
    /// What the browser calls itself.
    pub browser: Foreign,
    /// Since when.
    pub created: When,
    /// When it was last used.
    pub seen: When,
    /// When it ends unless it is used.
    pub ends: When,
    /// Whether it is the one that asks.
    pub this: bool,
}

/// *Settings*.
#[derive(Debug, Template)]
#[template(path = "settings.html")]
pub struct Settings {
    /// Around it.
    pub shell: Shell,
    /// Whether the person has a password.
    pub has_password: bool,
    /// Shortest password, in characters.
    pub chars_min: usize,
    /// The person's sessions.
    pub sessions: Vec<Session>,
}
