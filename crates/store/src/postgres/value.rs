//! Values and rows of the rules as PostgreSQL has them.

use crate::rules::failure::Failure;
use crate::rules::value::{Row, Value};
use std::borrow::Cow;
use std::error::Error;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// What text writes in place of a zero character, which PostgreSQL cannot hold; itself is written twice over.
const MARK: char = '\u{10FFFF}';

/// Text as it is stored.
pub(crate) fn stored(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', MARK]) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => out.extend([MARK, '0']),
            MARK => out.extend([MARK, '1']),
            other => out.push(other),
        }
    }
    out.into()
}

/// The inverse of [`stored`].
pub(crate) fn read(text: &str) -> Cow<'_, str> {
    if !text.contains(MARK) {
        return text.into();
    }
    let (mut out, mut chars) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = chars.next() {
        match c {
            MARK => out.push(if chars.next() == Some('0') { '\0' } else { MARK }),
            other => out.push(other),
        }
    }
    out.into()
}

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => match *ty {
                Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
                Type::INT2 => i16::try_from(*number)?.to_sql(ty, out),
                Type::BOOL => (*number != 0).to_sql(ty, out),
                _ => number.to_sql(ty, out),
            },
            Self::Text(text) => stored(text).to_sql(ty, out),
            Self::Blob(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// One column as PostgreSQL sends it.
struct Raw<'a>(Value<'a>);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(match *ty {
            Type::INT8 => Value::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => Value::Int(i32::from_sql(ty, raw)?.into()),
            Type::BOOL => Value::Int(bool::from_sql(ty, raw)?.into()),
            Type::BYTEA => Value::Blob(raw.into()),
            Type::TEXT | Type::VARCHAR | Type::NAME => Value::Text(read(<&str>::from_sql(ty, raw)?)),
            _ => return Err(format!("a column of type {ty}").into()),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Value::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl Row for tokio_postgres::Row {
    fn value(&self, column: usize) -> Result<Value<'_>, Failure> {
        let raw: Raw<'_> = self.try_get(column).map_err(|error| Failure::Inconsistent(error.to_string()))?;
        Ok(raw.0)
    }
}

/// A statement of the shared dialect as PostgreSQL takes it: question marks become numbers.
pub(crate) fn dialect(sql: &str) -> String {
    let (mut out, mut number) = (String::with_capacity(sql.len() + 16), 0);
    for c in sql.chars() {
        if c == '?' {
            number += 1;
            out.push('$');
            out.push_str(&number.to_string());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_any_characters_comes_back() {
        for text in ["", "plain", "a\0b", "\0", "\u{10FFFF}", "\u{10FFFF}0\0\u{10FFFF}1", "é\u{1F600}"] {
            let stored = stored(text);
            assert!(!stored.contains('\0'));
            assert_eq!(read(&stored), text);
        }
        assert_ne!(stored("\0"), stored("\u{10FFFF}0"), "two texts stay two");
    }

    #[test]
    fn parameters_are_numbered() {
        assert_eq!(dialect("a = ? AND b IN (?, ?)"), "a = $1 AND b IN ($2, $3)");
    }
}
