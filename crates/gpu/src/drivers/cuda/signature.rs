//! Kernel signatures, obtained from the compiler.
//!
//! The driver reports the size of a parameter, but not whether it is a pointer. So a template is appended to the
//! text of every unit. Its template arguments encode the parameters of a kernel, two bits each, in three integers.
//! NVRTC returns the mangled name of the instance, which contains these integers.

use crate::drivers::Passing;

/// The text appended to every unit. The function `kernel` is empty, because only its mangled name is used.
pub(super) const TEXT: &str = r#"#line 1 "the signatures of kernels"
namespace rigel_signature {
typedef unsigned long long Bits;
template <class T>
struct Passing { static constexpr Bits code = 0; };
template <class T>
struct Passing<const T*> { static constexpr Bits code = 1; };
template <class T>
struct Passing<T*> { static constexpr Bits code = 2; };
template <class T>
struct Passing<const T* const*> { static constexpr Bits code = 3; };
template <class T>
struct Passing<T**> { static_assert(sizeof(T) == 0, "a list of addresses is declared `const T* const*`"); };
template <class T>
struct Passing<T* const*> { static_assert(sizeof(T) == 0, "a list of addresses is declared `const T* const*`"); };
template <class F>
struct Of;
template <class... P>
struct Of<void(P...)> {
    static constexpr Bits count = sizeof...(P);
    static constexpr Bits word(int index) {
        Bits bits = 0;
        int i = 0;
        ((bits |= i / 32 == index ? Passing<P>::code << 2 * (i % 32) : 0, ++i), ...);
        return bits;
    }
};
template <Bits COUNT, Bits FIRST, Bits SECOND, Bits THIRD>
__global__ void kernel() {}
}
"#;

/// Maximum number of parameters that the integers can encode.
const MOST: usize = 96;

/// The name expression of the instance that encodes the parameters of a kernel.
pub(super) fn expression(kernel: &str) -> String {
    let of = format!("rigel_signature::Of<decltype({kernel})>");
    format!("rigel_signature::kernel<{of}::count, {of}::word(0), {of}::word(1), {of}::word(2)>")
}

/// Decodes the instance's mangled name (`_ZN15rigel_signature6kernelILy4ELy37ELy0ELy0EEEvv`) to one letter per
/// parameter.
pub(super) fn decode(symbol: &str) -> Option<String> {
    let (_, numbers) = symbol.split_once("6kernelI")?;
    let mut numbers = numbers.split("Ly").skip(1).map(|text| text.split_once('E')?.0.parse::<u64>().ok());
    let count = usize::try_from(numbers.next()??).ok().filter(|&count| count <= MOST)?;
    let words = [numbers.next()??, numbers.next()??, numbers.next()??];
    (0..count).map(|i| Passing::from_code(words[i / 32] >> (2 * (i % 32)) & 3).map(Passing::letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_tell_the_parameters() {
        let symbol = |numbers: [u64; 4]| {
            let numbers = numbers.map(|number| format!("Ly{number}E")).concat();
            format!("_ZN15rigel_signature6kernelI{numbers}EEvv")
        };
        assert_eq!(decode(&symbol([4, 0b00_10_01_01, 0, 0])).as_deref(), Some("ccpv"));
        assert_eq!(decode(&symbol([0, 0, 0, 0])).as_deref(), Some(""));
        assert_eq!(decode(&symbol([34, 2, 0b0110, 0])).unwrap(), format!("p{}pc", "v".repeat(31)));
        assert_eq!(decode(&symbol([2, 0b11_01, 0, 0])).as_deref(), Some("ca"));
        assert_eq!(decode(&symbol([97, 0, 0, 0])), None);
        assert_eq!(decode("_Z3addPKf"), None);
    }
}
