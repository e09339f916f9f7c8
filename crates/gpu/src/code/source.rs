//! Kernel source text, with its headers, definitions and compiler options.

use sha2::{Digest, Sha256};

use crate::drivers::Unit;

/// CUDA C++ text, its headers, definitions and options, and the names of the kernels to compile.
///
/// ```
/// use rigel_gpu::Source;
/// // SAFETY: each thread writes one element, and launches cover the buffer.
/// let source = unsafe { Source::new("scale.cu", "template <class T> __global__ void scale(T *x, T by) {
/// x[threadIdx.x] *= by; }") }
///     .kernel("scale<float>")
///     .kernel("scale<double>");
/// assert_eq!(source.kernels(), ["scale<float>", "scale<double>"]);
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    pub(crate) unit: Unit,
}

impl Source {
    /// A source with this text. `name` is its file name in error messages.
    ///
    /// # Safety
    ///
    /// Launching a kernel is a safe call, so the guarantee is given here, where its text enters the program, and it
    /// covers every argument of every launch. The caller guarantees for each kernel named with
    /// [`kernel`](Self::kernel): however it is launched, it accesses only memory within the buffers that it is given,
    /// writes only through pointers that are not `const`, and does not use integer arguments as addresses. On the
    /// emulated device a kernel is host code, so a kernel that violates this can corrupt the process.
    ///
    /// A launch checks the sizes of arguments and which of them are buffers, and nothing else. Most kernels trust
    /// their numbers: that a buffer has as many elements as an argument says, or that an index is within it. Whoever
    /// gives the guarantee for such a kernel launches it with numbers that are right, and hands neither the source, nor
    /// the module, nor the kernel to safe code that may launch it with others.
    pub unsafe fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { unit: Unit { name: name.into(), text: text.into(), ..Unit::default() } }
    }

    /// Adds a header. `name` is the name in its `#include`.
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.unit.headers.push((name.into(), text.into()));
        self
    }

    /// Adds a preprocessor definition.
    pub fn define(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.unit.defines.push((name.into(), value.into()));
        self
    }

    /// Adds an NVRTC option. The emulated device ignores it.
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.unit.options.push(option.into());
        self
    }

    /// Adds a kernel by its C++ name expression: `add`, or `fold<KoalaBear>` for a template instance.
    pub fn kernel(mut self, expression: impl Into<String>) -> Self {
        self.unit.kernels.push(expression.into());
        self
    }

    /// The kernels to compile.
    pub fn kernels(&self) -> &[String] {
        &self.unit.kernels
    }

    /// The cache key: a hash of everything that determines the compiler's output.
    pub(crate) fn key(&self, compiler: &str) -> String {
        // Hash each part with its length, so that different splits of the same text get different keys.
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
