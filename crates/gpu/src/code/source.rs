//! Kernel text and what it is compiled with.

use sha2::{Digest, Sha256};

use crate::drivers::Unit;

/// CUDA C++ text, its headers, definitions and options, and the kernels wanted from it.
///
/// ```
/// use rigel_gpu::Source;
/// // SAFETY: each thread writes one element, and launches cover the buffer.
/// let source = unsafe { Source::new("scale.cu", "template <class T> __global__ void scale(T *x, T by) { x[threadIdx.x] *= by; }") }
///     .kernel("scale<float>")
///     .kernel("scale<double>");
/// assert_eq!(source.kernels(), ["scale<float>", "scale<double>"]);
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    pub(crate) unit: Unit,
}

impl Source {
    /// Text with a name for messages.
    ///
    /// # Safety
    ///
    /// Here kernel text enters the program, and launching its kernels is safe from then on. So the caller vouches for
    /// every kernel that will be named with [`kernel`](Self::kernel): launched with buffers of the lengths that its
    /// other arguments say, it reads and writes only memory that its pointer parameters lead to, writes only through
    /// pointers that are not `const`, and uses no address that it is given as a number. On the emulated device a kernel
    /// is host code, so a kernel that breaks this can do whatever host code can.
    pub unsafe fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { unit: Unit { name: name.into(), text: text.into(), ..Unit::default() } }
    }

    /// A header, by the name it is included with.
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.unit.headers.push((name.into(), text.into()));
        self
    }

    /// A preprocessor definition.
    pub fn define(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.unit.defines.push((name.into(), value.into()));
        self
    }

    /// A further option for NVRTC. The emulated device ignores it.
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.unit.options.push(option.into());
        self
    }

    /// A kernel, as a C++ name expression: `add`, or `fold<KoalaBear>` for an instance of a template.
    pub fn kernel(mut self, expression: impl Into<String>) -> Self {
        self.unit.kernels.push(expression.into());
        self
    }

    /// The kernels wanted.
    pub fn kernels(&self) -> &[String] {
        &self.unit.kernels
    }

    /// The hash of everything that decides what the compiler `compiler` makes of this source.
    pub(crate) fn key(&self, compiler: &str) -> String {
        // Each part goes in with its length, so that no two sources run together to the same text.
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        let pairs =
            |list: &[(String, String)]| list.iter().flat_map(|(a, b)| [a.clone(), b.clone()]).collect::<Vec<_>>();
        let unit = &self.unit;
        part(compiler);
        part(&unit.name);
        part(&unit.text);
        for list in [pairs(&unit.headers), pairs(&unit.defines), unit.options.clone(), unit.kernels.clone()] {
            part(&list.len().to_string());
            list.iter().for_each(|text| part(text));
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, text: &str) -> Source {
        // SAFETY: nothing is compiled or launched.
        unsafe { Source::new(name, text) }
    }

    #[test]
    fn every_part_is_in_the_key() {
        let base = source("a.cu", "x").header("h", "1").define("N", "2").option("-o").kernel("k");
        let keys = [
            base.key("nvrtc"),
            base.key("g++"),
            source("a.cu", "y").header("h", "1").define("N", "2").option("-o").kernel("k").key("nvrtc"),
            source("a.cu", "x").header("h", "2").define("N", "2").option("-o").kernel("k").key("nvrtc"),
            source("a.cu", "x").header("h", "1").define("N", "3").option("-o").kernel("k").key("nvrtc"),
            source("a.cu", "x").header("h", "1").define("N", "2").option("-p").kernel("k").key("nvrtc"),
            source("a.cu", "x").header("h", "1").define("N", "2").option("-o").kernel("l").key("nvrtc"),
            source("a.cu", "x").header("h1", "").define("N", "2").option("-o").kernel("k").key("nvrtc"),
        ];
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        assert_eq!(base.key("nvrtc"), base.clone().key("nvrtc"));
    }
}
