//! Operations: a `.cu` file, the definitions it takes from Rust, and its compiled kernels.

use std::any::TypeId;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use rigel_gpu::{Device, Kernel, Result, Source};

use super::parameters::Parameters;
use super::source::source;

/// A `.cu` file of this crate.
pub(crate) struct KernelFile {
    /// The file's path below `src`.
    pub(crate) path: &'static str,
    pub(crate) text: &'static str,
    /// Constants that the text uses by name, passed as preprocessor definitions.
    pub(crate) constants: &'static [(&'static str, u64)],
}

/// Identifies a module of an operation; must be cheap to compare.
pub(crate) trait Variant: Copy + Debug + Eq + Hash + Send + Sync + 'static {}
impl<V: Copy + Debug + Eq + Hash + Send + Sync + 'static> Variant for V {}

/// The kernels of one `.cu` file for one choice of types.
///
/// The variant distinguishes what the types do not: sizes, and kernels that are compiled separately so that a program
/// compiles only those it uses. Types and variant together identify a module, which a device compiles on first use and
/// keeps.
///
/// There are over a hundred operations, so the provided methods hand over to functions that are compiled once for each
/// type of variant.
pub(crate) trait Operation: Sized + 'static {
    /// Identifies a module of the operation.
    type Variant: Variant;

    const FILE: KernelFile;

    /// The kernels of a module.
    fn instances(variant: Self::Variant) -> Instances;

    /// The modules that [`warm`](crate::warm) compiles.
    fn warmed() -> Vec<Self::Variant>;

    /// Further modules, compiled only when they are first used.
    fn on_demand() -> Vec<Self::Variant> {
        Vec::new()
    }

    /// The source of a module.
    fn source(variant: Self::Variant) -> Source {
        assemble(&Self::FILE, Self::instances(variant))
    }

    /// The kernels of a module, in the order of [`instances`](Self::instances).
    fn kernels(device: &Device, variant: Self::Variant) -> Result<Arc<Vec<Kernel>>> {
        kernels(device, TypeId::of::<Self>(), variant, Self::source)
    }

    /// All modules, for the registry.
    fn modules() -> Vec<RegisteredModule> {
        let (operation, path) = (TypeId::of::<Self>(), Self::FILE.path);
        let mut modules = Vec::new();
        register(&mut modules, operation, path, Self::source, Self::warmed(), true);
        register(&mut modules, operation, path, Self::source, Self::on_demand(), false);
        modules
    }

    /// One module, which [`warm`](crate::warm) shall compile.
    fn module(variant: Self::Variant) -> RegisteredModule {
        let mut module = Vec::new();
        register(&mut module, TypeId::of::<Self>(), Self::FILE.path, Self::source, vec![variant], true);
        module.remove(0)
    }

    /// The kernel of a module that has exactly one.
    fn kernel(device: &Device, variant: Self::Variant) -> Result<Kernel> {
        Ok(Self::kernels(device, variant)?[0].clone())
    }
}

/// The source of a file's instances.
fn assemble(file: &KernelFile, instances: Instances) -> Source {
    let Instances { before, definitions, kernels, assertions } = instances;
    let place = if before.is_empty() { String::new() } else { format!("#line 1 \"{}\"\n", file.path) };
    let text = format!("{before}{place}{}\n{assertions}", file.text);
    // SAFETY: kernels of this crate access only memory that their pointer parameters refer to. They do not leave the
    // crate, and their launchers check buffer lengths against the sizes that they pass.
    let mut source = unsafe { source(file.path, &text) };
    for (name, value) in file.constants {
        source = source.define(*name, value.to_string());
    }
    for (name, value) in definitions {
        source = source.define(name, value);
    }
    kernels.into_iter().fold(source, Source::kernel)
}

/// The kernels of an operation's module, compiled or loaded on first use.
fn kernels<V: Variant>(
    device: &Device,
    operation: TypeId,
    variant: V,
    source: fn(V) -> Source,
) -> Result<Arc<Vec<Kernel>>> {
    device.kept(&(operation, variant), |device| {
        let source = source(variant);
        let module = device.compile(&source)?;
        let kernels = source.kernels().iter().map(|name| module.kernel(name)).collect::<Result<Vec<_>>>()?;
        Ok((kernels, 0))
    })
}

/// Adds an operation's modules to the registry.
fn register<V: Variant>(
    modules: &mut Vec<RegisteredModule>,
    operation: TypeId,
    path: &'static str,
    source: fn(V) -> Source,
    variants: Vec<V>,
    is_warmed: bool,
) {
    for variant in variants {
        modules.push(RegisteredModule {
            path,
            is_warmed,
            source: Box::new(move || source(variant)),
            load: Box::new(move |device| kernels(device, operation, variant, source).map(|_| ())),
        });
    }
}

/// Compiles a module on a device, or loads it from the cache.
type Load = Box<dyn Fn(&Device) -> Result<()> + Send + Sync>;

/// A module as the registry sees it, independent of its operation's type.
pub(crate) struct RegisteredModule {
    /// The `.cu` file, below `src`.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests compare the registry with the files"))]
    pub(crate) path: &'static str,
    /// Whether [`warm`](crate::warm) compiles it.
    pub(crate) is_warmed: bool,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests compare the registry with the files"))]
    pub(crate) source: Box<dyn Fn() -> Source + Send + Sync>,
    /// Compiles the module, or finds it already loaded.
    pub(crate) load: Load,
}

/// Template instances that are compiled together.
pub(crate) struct Instances {
    /// Text before the file's.
    pub(super) before: String,
    pub(super) definitions: Vec<(&'static str, String)>,
    pub(super) kernels: Vec<String>,
    /// C++ assertions that fail to compile where the two languages disagree.
    pub(super) assertions: String,
}

impl Instances {
    /// Kernels, given by their C++ name expressions, such as `fold<KoalaBear4, 2>`.
    pub(crate) fn new<N: Into<String>>(kernels: impl IntoIterator<Item = N>) -> Self {
        let kernels = kernels.into_iter().map(Into::into).collect();
        Self { before: String::new(), definitions: Vec::new(), kernels, assertions: String::new() }
    }

    /// One kernel.
    pub(crate) fn one(kernel: impl Into<String>) -> Self {
        Self::new([kernel])
    }

    /// Declares that the kernels take or read structs of this type; the compiler then checks their layout.
    pub(crate) fn takes<P: Parameters>(mut self) -> Self {
        self.assertions += &P::layout().assertions();
        self
    }

    /// A C++ condition that Rust relies on, checked when the instances are compiled.
    pub(crate) fn assert(mut self, condition: impl AsRef<str>) -> Self {
        let condition = condition.as_ref();
        self.assertions += &format!("static_assert({condition}, \"Rust relies on {condition}\");\n");
        self
    }

    /// Includes this header before the text.
    pub(crate) fn with_header(mut self, header: &'static str) -> Self {
        self.before = format!("#include \"{header}\"\n");
        self
    }

    /// Inserts this text before the file's; compilers call it `name`.
    pub(crate) fn with_text(mut self, name: &str, text: &str) -> Self {
        self.before = format!("#line 1 \"{name}\"\n{text}\n");
        self
    }

    /// A definition for these instances only.
    pub(crate) fn define(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.definitions.push((name, value.into()));
        self
    }
}
