//! Deserializing bytes of unknown origin within a limit of memory.
//!
//! A byte of a proof can become an empty vector, which takes 24, so the length of the bytes is no bound. Here each
//! element of a vector is charged with twice its size before it is read, because a vector that grows has room for twice
//! its elements. (A vector reserves 1 MiB at most before its elements are there: that is serde's rule.)

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde::{Deserialize, Serialize};

/// The limits of values that are accepted.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The memory of all vectors and maps together, in bytes, with room for twice their elements.
    pub memory: usize,
    /// The largest number of 32 bits.
    pub largest: u32,
}

/// The reason why bytes are not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The value takes more memory than this limit.
    Memory(usize),
    /// The bytes are not the encoding of a value, for this reason.
    Malformed(String),
}

/// Deserializes upstream's type from postcard. A value has one encoding: numbers that are longer than necessary, or not
/// below the field's order, are rejected.
pub fn from_bytes<T: Serialize + for<'de> Deserialize<'de>>(
    bytes: &[u8],
    bounds: Bounds,
) -> Result<T, Unreadable> {
    let budget = Budget { left: Cell::new(Some(bounds.memory)), too_large: Cell::new(false), bounds };
    let mut postcard = postcard::Deserializer::from_bytes(bytes);
    let read = T::deserialize(Bounded { inner: &mut postcard, budget: &budget });
    let malformed = |detail: &str| Unreadable::Malformed(detail.into());
    let value = read.map_err(|error| {
        if budget.left.get().is_none() {
            Unreadable::Memory(bounds.memory)
        } else if budget.too_large.get() {
            malformed("a number is not below the field's order")
        } else {
            Unreadable::Malformed(error.to_string())
        }
    })?;
    let rest = postcard.finalize().map_err(|error| Unreadable::Malformed(error.to_string()))?;
    if !rest.is_empty() {
        return Err(Unreadable::Malformed(format!("{} bytes follow the proof", rest.len())));
    }
    match postcard::serialize_with_flavor(&value, Compared { rest: bytes }) {
        Ok(true) => Ok(value),
        _ => Err(malformed("its encoding is not the shortest")),
    }
}

/// Compares an encoding with bytes, without storing it.
struct Compared<'a> {
    rest: &'a [u8],
}

impl postcard::ser_flavors::Flavor for Compared<'_> {
    type Output = bool;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.rest = self.rest.strip_prefix(bytes).ok_or(postcard::Error::SerializeBufferFull)?;
        Ok(())
    }

    fn finalize(self) -> postcard::Result<bool> {
        Ok(self.rest.is_empty())
    }
}

/// The memory that is left; `None` once it was exceeded.
struct Budget {
    left: Cell<Option<usize>>,
    too_large: Cell<bool>,
    bounds: Bounds,
}

impl Budget {
    fn charge<E: serde::de::Error>(&self, bytes: usize) -> Result<(), E> {
        // An element of no size takes time.
        self.left.set(self.left.get().and_then(|left| left.checked_sub(bytes.max(1))));
        if self.left.get().is_some() { Ok(()) } else { Err(E::custom("the memory limit is exceeded")) }
    }

    fn check<E: serde::de::Error>(&self, number: u32) -> Result<u32, E> {
        if number > self.bounds.largest {
            self.too_large.set(true);
            return Err(E::custom("a number is too large"));
        }
        Ok(number)
    }
}

/// A part of deserializing, with the budget. The elements of vectors and maps are charged, those of tuples and
/// structs are part of something that was.
struct Bounded<'b, T> {
    inner: T,
    budget: &'b Budget,
}

/// A visitor or its access to elements.
struct Parts<'b, T> {
    inner: T,
    budget: &'b Budget,
    charged: bool,
}

macro_rules! forward {
    ($($method:ident($($name:ident: $type:ty),*) $charged:literal,)*) => { $(
        fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            let visitor = Parts { inner: visitor, budget: self.budget, charged: $charged };
            self.inner.$method($($name,)* visitor)
        }
    )* };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Bounded<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any() false,
        deserialize_bool() false,
        deserialize_i8() false,
        deserialize_i16() false,
        deserialize_i32() false,
        deserialize_i64() false,
        deserialize_i128() false,
        deserialize_u8() false,
        deserialize_u16() false,
        deserialize_u32() false,
        deserialize_u64() false,
        deserialize_u128() false,
        deserialize_f32() false,
        deserialize_f64() false,
        deserialize_char() false,
        deserialize_str() false,
        deserialize_string() false,
        deserialize_bytes() false,
        deserialize_byte_buf() false,
        deserialize_option() false,
        deserialize_unit() false,
        deserialize_unit_struct(name: &'static str) false,
        deserialize_newtype_struct(name: &'static str) false,
        deserialize_seq() true,
        deserialize_tuple(len: usize) false,
        deserialize_tuple_struct(name: &'static str, len: usize) false,
        deserialize_map() true,
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) false,
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) false,
        deserialize_identifier() false,
        deserialize_ignored_any() false,
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty),)*) => { $(
        fn $method<E: serde::de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )* };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Parts<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool(bool),
        visit_i8(i8),
        visit_i16(i16),
        visit_i32(i32),
        visit_i64(i64),
        visit_i128(i128),
        visit_u8(u8),
        visit_u16(u16),
        visit_u64(u64),
        visit_u128(u128),
        visit_f32(f32),
        visit_f64(f64),
        visit_char(char),
        visit_str(&str),
        visit_borrowed_str(&'de str),
        visit_string(String),
        visit_bytes(&[u8]),
        visit_borrowed_bytes(&'de [u8]),
        visit_byte_buf(Vec<u8>),
    }

    fn visit_u32<E: serde::de::Error>(self, value: u32) -> Result<V::Value, E> {
        self.inner.visit_u32(self.budget.check(value)?)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Bounded { inner, budget: self.budget })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Bounded { inner, budget: self.budget })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Parts { inner, budget: self.budget, charged: self.charged })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Parts { inner, budget: self.budget, charged: self.charged })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(Bounded { inner, budget: self.budget })
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Parts<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_element_seed(Parts { inner: seed, budget: self.budget, charged: self.charged })
    }

    fn size_hint(&self) -> Option<usize> {
        let left = self.budget.left.get().unwrap_or(0);
        self.inner.size_hint().map(|elements| elements.min(left))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Parts<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_key_seed(Parts { inner: seed, budget: self.budget, charged: self.charged })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(Parts { inner: seed, budget: self.budget, charged: self.charged })
    }

    fn size_hint(&self) -> Option<usize> {
        let left = self.budget.left.get().unwrap_or(0);
        self.inner.size_hint().map(|elements| elements.min(left))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Parts<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        if self.charged {
            self.budget.charge::<D::Error>(2 * size_of::<S::Value>())?;
        }
        self.inner.deserialize(Bounded { inner, budget: self.budget })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Bounded<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Bounded { inner, budget: self.budget })
    }
}

impl<'de, 'b, A: EnumAccess<'de>> EnumAccess<'de> for Bounded<'b, A> {
    type Error = A::Error;
    type Variant = Bounded<'b, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, inner) = self.inner.variant_seed(Bounded { inner: seed, budget: self.budget })?;
        Ok((value, Bounded { inner, budget: self.budget }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(Bounded { inner: seed, budget: self.budget })
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(len, Parts { inner: visitor, budget: self.budget, charged: false })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.struct_variant(fields, Parts { inner: visitor, budget: self.budget, charged: false })
    }
}
