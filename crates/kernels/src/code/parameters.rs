//! Structs that a kernel takes by value or reads from memory, declared once, in Rust.

use std::fmt::Write;

use rigel_gpu::Plain;

/// A struct that exists in Rust and, with the same name and fields, in CUDA C++.
pub trait Parameters: Plain {
    /// Returns the struct's layout in Rust, which the CUDA compiler checks.
    fn layout() -> Layout;
}

/// The size of a struct and the offsets of its fields.
#[derive(Debug)]
pub struct Layout {
    /// The C++ type.
    pub name: String,
    /// Size of the struct in bytes.
    pub size: usize,
    /// The fields, by name, with their offsets in bytes.
    pub fields: Vec<(&'static str, usize)>,
}

impl Layout {
    /// C++ text that fails to compile if the C++ type has a different layout. It needs `field/word.cuh`.
    pub fn assertions(&self) -> String {
        let Self { name, size, fields } = self;
        let mut text =
            format!("static_assert(sizeof({name}) == {size}, \"{name} has a different size in Rust\");\n");
        for (field, offset) in fields {
            writeln!(
                text,
                "static_assert(OFFSET_OF({field}, {name}) == {offset}, \
                 \"{name}::{field} has a different offset in Rust\");"
            )
            .expect("writing to a string does not fail");
        }
        text
    }
}

/// Defines a `#[repr(C)]` struct and implements [`Plain`] and [`Parameters`] for it. The text after `=` is the name of
/// the C++ type and may use the struct's type parameter.
///
/// Fields must be plain and fill the struct without padding. Otherwise nothing compiles that sees values of the struct
/// as bytes: uploads, launches, [`Parameters::layout`]. Code that launches kernels taking the struct calls `layout` and
/// appends the [assertions](Layout::assertions) to the kernel source.
///
/// ```
/// use rigel_kernels::code::parameters::{Parameters, parameters};
///
/// parameters! {
///     struct Window = "Window" => {
///         first: u64,
///         rows: u32,
///         step: u32,
///     }
/// }
///
/// assert!(Window::layout().assertions().starts_with("static_assert(sizeof(Window) == 16"));
/// ```
///
/// Whether a generic struct has padding depends on its type parameter. Each instance is checked:
///
/// ```
/// use rigel_gpu::{Plain, bytes_of};
/// use rigel_kernels::code::parameters::parameters;
///
/// parameters! {
///     struct Pair<T: Plain> = "Pair" => {
///         first: u8,
///         second: T,
///     }
/// }
///
/// assert_eq!(bytes_of(&[Pair { first: 1, second: 2u8 }]), [1, 2]);
/// ```
///
/// ```compile_fail
/// use rigel_gpu::{Plain, bytes_of};
/// use rigel_kernels::code::parameters::parameters;
///
/// parameters! {
///     struct Pair<T: Plain> = "Pair" => {
///         first: u8,
///         second: T,
///     }
/// }
///
/// // Three bytes between the fields would be read that nobody has written.
/// bytes_of(&[Pair { first: 1, second: 2u32 }]);
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __parameters {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(<$param:ident: $bound:path>)? = $cpp:expr => {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $field_type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        $vis struct $name $(<$param: $bound>)? {
            $($(#[$field_meta])* $field_vis $field: $field_type,)*
        }

        // SAFETY: whatever sees values as bytes compiles only if `CHECK` does, so only if every field is plain and
        // there is no padding.
        unsafe impl $(<$param: $bound>)? rigel_gpu::Plain for $name $(<$param>)? {
            const CHECK: () = {
                $(let () = <$field_type as rigel_gpu::Plain>::CHECK;)*
                let fields = 0 $(+ size_of::<$field_type>())*;
                assert!(size_of::<Self>() == fields, "the struct has padding; add a field that fills it");
            };
        }

        impl $(<$param: $bound>)? $crate::code::parameters::Parameters for $name $(<$param>)? {
            fn layout() -> $crate::code::parameters::Layout {
                const { <Self as rigel_gpu::Plain>::CHECK };
                $crate::code::parameters::Layout {
                    name: $cpp.to_string(),
                    size: size_of::<Self>(),
                    fields: vec![$((stringify!($field), std::mem::offset_of!(Self, $field)),)*],
                }
            }
        }
    };
}

#[doc(inline)]
pub use crate::__parameters as parameters;

#[cfg(test)]
mod tests {
    use super::*;

    parameters! {
        struct Sample<T: Plain> = format!("Sample<{}>", size_of::<T>()) => {
            first: T,
            rest: [u32; 2],
        }
    }

    #[test]
    fn layouts_become_assertions() {
        assert_eq!(
            Sample::<u64>::layout().assertions(),
            "static_assert(sizeof(Sample<8>) == 16, \"Sample<8> has a different size in Rust\");\n\
             static_assert(OFFSET_OF(first, Sample<8>) == 0, \"Sample<8>::first has a different offset in Rust\");\n\
             static_assert(OFFSET_OF(rest, Sample<8>) == 8, \"Sample<8>::rest has a different offset in Rust\");\n"
        );
    }
}
