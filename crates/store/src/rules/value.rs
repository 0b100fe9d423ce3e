//! Rows and parameters as every SQL database has them: the rules are written once and run on each.

use super::failure::Failure;
use std::borrow::Cow;
use std::sync::Arc;

/// One column or parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    /// Nothing.
    Null,
    /// A whole number, or a truth as 0 and 1.
    Int(i64),
    /// Text of any characters.
    Text(Cow<'a, str>),
    /// Bytes.
    Blob(Cow<'a, [u8]>),
}

/// What can be a parameter.
pub(crate) trait AsValue {
    /// The value.
    fn as_value(&self) -> Value<'_>;
}

/// Parameters of a statement.
pub(crate) type Params<'p> = &'p [&'p dyn AsValue];

/// Parameters in the order of a statement's question marks.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$(&$value as &dyn $crate::rules::value::AsValue),*] as $crate::rules::value::Params<'_> };
}
pub(crate) use values;

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl AsValue for $kind {
            fn as_value(&self) -> Value<'_> {
                Value::Int((*self).into())
            }
        }
        impl Column for $kind {
            fn of(value: Value<'_>) -> Option<Self> {
                if let Value::Int(number) = value { number.try_into().ok() } else { None }
            }
        }
    )*};
}
numbers!(i64, u32, u8);

impl<T: AsValue + ?Sized> AsValue for &T {
    fn as_value(&self) -> Value<'_> {
        (**self).as_value()
    }
}

impl AsValue for bool {
    fn as_value(&self) -> Value<'_> {
        Value::Int((*self).into())
    }
}

impl AsValue for str {
    fn as_value(&self) -> Value<'_> {
        Value::Text(self.into())
    }
}

impl AsValue for String {
    fn as_value(&self) -> Value<'_> {
        Value::Text(self.into())
    }
}

impl AsValue for [u8] {
    fn as_value(&self) -> Value<'_> {
        Value::Blob(self.into())
    }
}

impl AsValue for Vec<u8> {
    fn as_value(&self) -> Value<'_> {
        Value::Blob(self.into())
    }
}

impl<const N: usize> AsValue for [u8; N] {
    fn as_value(&self) -> Value<'_> {
        Value::Blob(self.as_slice().into())
    }
}

impl<T: AsValue> AsValue for Option<T> {
    fn as_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, AsValue::as_value)
    }
}

#[cfg(feature = "postgres")]
impl Value<'_> {
    /// The same, of its own.
    pub(crate) fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Int(number) => Value::Int(number),
            Self::Text(text) => Value::Text(text.into_owned().into()),
            Self::Blob(bytes) => Value::Blob(bytes.into_owned().into()),
        }
    }
}

/// What a column can be read as.
pub(crate) trait Column: Sized {
    /// The value, if it is one of these.
    fn of(value: Value<'_>) -> Option<Self>;
}

impl Column for bool {
    fn of(value: Value<'_>) -> Option<Self> {
        i64::of(value).map(|number| number != 0)
    }
}

impl Column for String {
    fn of(value: Value<'_>) -> Option<Self> {
        if let Value::Text(text) = value { Some(text.into_owned()) } else { None }
    }
}

impl Column for Box<str> {
    fn of(value: Value<'_>) -> Option<Self> {
        String::of(value).map(Into::into)
    }
}

impl Column for Arc<str> {
    fn of(value: Value<'_>) -> Option<Self> {
        String::of(value).map(Into::into)
    }
}

impl Column for Vec<u8> {
    fn of(value: Value<'_>) -> Option<Self> {
        if let Value::Blob(bytes) = value { Some(bytes.into_owned()) } else { None }
    }
}

impl<const N: usize> Column for [u8; N] {
    fn of(value: Value<'_>) -> Option<Self> {
        if let Value::Blob(bytes) = value { bytes.as_ref().try_into().ok() } else { None }
    }
}

impl<T: Column> Column for Option<T> {
    fn of(value: Value<'_>) -> Option<Self> {
        if value == Value::Null { Some(None) } else { T::of(value).map(Some) }
    }
}

/// One row of an answer.
pub(crate) trait Row {
    /// The column at this place, from 0.
    fn value(&self, column: usize) -> Result<Value<'_>, Failure>;
}

impl dyn Row + '_ {
    /// The column at this place, read as what is wanted.
    pub(crate) fn get<T: Column>(&self, column: usize) -> Result<T, Failure> {
        let value = self.value(column)?;
        T::of(value).ok_or_else(|| {
            Failure::Inconsistent(format!("column {column} is no {}", std::any::type_name::<T>()))
        })
    }
}
