//! Forms: a few named fields, read strictly.

use super::Failure;
use super::visitor::{NoVisitor, Visitor};
use crate::Doors;
use crate::http::Raw;
use axum::extract::{Form, FromRequest, FromRequestParts as _, Request};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::collections::BTreeMap;
use switchboard_engine::refusal;
use switchboard_protocol::{Code, Detail};

/// Largest form, in bytes.
const FORM_BYTES_MAX: usize = 128 * 1024;

/// The fields of a form.
#[derive(Debug)]
pub(super) struct Fields(BTreeMap<String, String>);

impl Fields {
    fn read(pairs: Vec<(String, String)>) -> Result<Self, Detail> {
        let mut fields = BTreeMap::new();
        for (name, value) in pairs {
            // Browsers send the lines of a text with both characters between them.
            if let Some(twice) = fields.insert(name.clone(), value.replace("\r\n", "\n")) {
                drop(twice);
                return Err(refusal::bad_field(&name, "A field stands in the form twice."));
            }
        }
        Ok(Self(fields))
    }

    /// A field that must be there.
    pub(super) fn take(&mut self, name: &str) -> Result<String, Detail> {
        self.0.remove(name).ok_or_else(|| refusal::bad_field(name, format!("The form lacks {name}.")))
    }

    /// A field that may be left out or empty.
    pub(super) fn optional(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }

    /// All fields were taken.
    pub(super) fn end(self) -> Result<(), Detail> {
        match self.0.into_keys().next() {
            Some(name) => Err(refusal::bad_field(&name, "The form has a field that it should not have.")),
            None => Ok(()),
        }
    }
}

impl FromRequest<Doors> for Fields {
    type Rejection = Failure;

    async fn from_request(request: Request, doors: &Doors) -> Result<Self, Failure> {
        let kind =
            request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(refusal::bad_field("Content-Type", "Send a form.").into());
        }
        let (parts, body) = request.into_parts();
        let Raw(bytes) =
            Raw::from_request(Request::new(body), doors).await.map_err(|refused| Failure(refused.0))?;
        if bytes.len() > FORM_BYTES_MAX {
            return Err(refusal::bad_field("body", "The form is larger than 128 KiB.").into());
        }
        let request = Request::from_parts(parts, bytes.into());
        let unreadable = |_| refusal::bad_field("body", "The form cannot be read.");
        let Form(pairs) = Form::from_request(request, doors).await.map_err(unreadable)?;
        Ok(Self::read(pairs)?)
    }
}

/// A form that a page of this very session has sent.
pub(super) struct Signed {
    /// Whose session.
    pub(super) visitor: Visitor,
    /// Its fields.
    pub(super) fields: Fields,
}

impl FromRequest<Doors> for Signed {
    type Rejection = Response;

    async fn from_request(request: Request, doors: &Doors) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let visitor =
            Visitor::from_request_parts(&mut parts, doors).await.map_err(NoVisitor::into_response)?;
        let fields = Fields::from_request(Request::from_parts(parts, body), doors).await;
        let mut fields = fields.map_err(Failure::into_response)?;
        let token = fields.optional("form_token").unwrap_or_default();
        if !visitor.made(doors, &token) {
            let message = "This form is of another session; load the page again and repeat what you did.";
            let detail = Detail::new(Code::ForbiddenRight, message).field("form_token").sb("SB0161");
            doors.hub.refused("console.form", &visitor.session.session_id, &detail);
            return Err(Failure::from(detail).into_response());
        }
        Ok(Self { visitor, fields })
    }
}

#[cfg(test)]
mod tests {
    use super::Fields;

    fn fields(pairs: &[(&str, &str)]) -> Result<Fields, ()> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Fields::read(pairs.collect()).map_err(drop)
    }

    #[test]
    fn a_form_is_read_strictly() {
        let mut form = fields(&[("text", "a\r\nb"), ("to", ""), ("more", "x")]).unwrap();
        assert_eq!(form.take("text").unwrap(), "a\nb");
        assert_eq!(form.optional("to"), None);
        assert!(form.take("text").is_err(), "it was taken");
        assert!(form.end().is_err(), "something is left");
        assert!(fields(&[("text", "a"), ("text", "b")]).is_err());
    }
}
