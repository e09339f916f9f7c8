//! Lazy expressions, which are evaluated as one kernel.

use std::sync::Arc;

use rigel_codegen::map::{Binary, Complex, Expression, Id, NumberKind, Reduction, Type, Unary};

use crate::array::Array;
use crate::device::{Device, same_device};
use crate::error::{Error, Result};
use crate::evaluate::{self, Prepared};
use crate::layout::{Lengths, broadcast, text};
use crate::reduce::Axes;
use crate::scalar::{Scalar, fraction, name, promote, words};

/// An element-wise expression over arrays, not evaluated yet.
///
/// Operators build it, and [`eval`](Self::eval) computes it in one pass over memory. On a GPU that is one kernel,
/// compiled once per expression for any arrays and scalars. `eval` reports shapes, types and devices that do not
/// fit together.
///
/// ```
/// use rigel_array::{Array, Device};
///
/// let device = Device::Cpu; // or Device::open("cuda:0")?
/// let [a, b, c] = [1.0, 2.0, 3.0].map(|x| Array::full(&[1000], x, &device).unwrap());
/// let d = (a.lazy() * &b + c.lazy() * 0.5 - 1.0).eval()?;
/// assert_eq!(d.to_vec::<f64>()?[..2], [2.5, 2.5]);
/// # Ok::<(), rigel_array::Error>(())
/// ```
#[derive(Clone)]
pub struct Lazy(Result<Arc<Tree>>);

struct Tree {
    root: Root,
    dtype: Type,
    shape: Lengths,
    device: Option<Device>,
    /// The number of nodes, with repetition.
    size: usize,
    /// The number of arrays and scalars, with repetition.
    leaves: usize,
}

enum Root {
    Array(Array),
    /// A scalar, which takes the type of the other operand.
    Scalar(Scalar),
    Unary(Unary, Arc<Tree>),
    Binary(Binary, Arc<Tree>, Arc<Tree>),
    Select(Arc<Tree>, Arc<Tree>, Arc<Tree>),
    Convert(Arc<Tree>),
    /// The index in row-major order.
    Index,
}

impl Tree {
    fn new(root: Root, dtype: Type, shape: Lengths, device: Option<Device>, size: usize) -> Self {
        let leaves = match &root {
            Root::Array(_) | Root::Scalar(_) | Root::Index => 1,
            Root::Unary(_, a) | Root::Convert(a) => a.leaves,
            Root::Binary(_, a, b) => a.leaves + b.leaves,
            Root::Select(a, b, c) => a.leaves + b.leaves + c.leaves,
        };
        Self { root, dtype, shape, device, size, leaves }
    }
}

/// The largest size of an expression that is evaluated at once. Larger expressions are evaluated in parts: a
/// kernel of thousands of operations takes long to compile and saves no more memory traffic than one of a few
/// hundred.
const LARGEST: usize = 200;

/// The largest number of arrays and scalars of one kernel.
const MOST_LEAVES: usize = 30;

/// The largest number of axes of an array, as in NumPy.
const MOST_AXES: usize = 64;

impl Lazy {
    fn new(root: Root, dtype: Type, shape: Lengths, device: Option<Device>, size: usize) -> Self {
        Self(Ok(Arc::new(Tree::new(root, dtype, shape, device, size))))
    }

    /// The row-major index of each element of a shape, as U64.
    pub(crate) fn places(shape: &[usize], device: &Device) -> Self {
        Self::new(Root::Index, Type::U64, shape.into(), Some(device.clone()), 1)
    }

    /// An array of a shape whose elements are all this number.
    pub(crate) fn filled(value: Scalar, dtype: Type, shape: &[usize], device: &Device) -> Self {
        let scalar = value.words_as(dtype).map(|words| Scalar::Element(dtype, words));
        match scalar {
            Ok(scalar) => Self::new(Root::Scalar(scalar), dtype, shape.into(), Some(device.clone()), 1),
            Err(error) => Self(Err(error)),
        }
    }

    fn then(self, next: impl FnOnce(Arc<Tree>) -> Result<Self>) -> Self {
        match self.0.and_then(next) {
            Ok(lazy) => lazy,
            Err(error) => Self(Err(error)),
        }
    }

    /// Evaluates the expression now if it is too large to be combined with `others` more of its size, and returns
    /// the result.
    fn bounded(self, others: usize) -> Self {
        match &self.0 {
            Ok(tree) if tree.size * (others + 1) > LARGEST || tree.leaves * (others + 1) > MOST_LEAVES => {
                match self.eval() {
                    Ok(array) => Self::from(&array),
                    Err(error) => Self(Err(error)),
                }
            }
            _ => self,
        }
    }

    // --- building -----------------------------------------------------------------------------------------

    /// An operation on every element.
    pub fn unary(self, operation: Unary) -> Self {
        self.then(|tree| {
            let undefined =
                || Error::of_type(format!("{} is not defined for {}", operation.name(), name(tree.dtype)));
            // Functions of floats convert integers, as in NumPy: those of 8 bits and booleans to halves.
            let tree = match operation.result(tree.dtype) {
                None if is_whole(tree.dtype)
                    && operation != Unary::Neg
                    && operation.result(Type::F64).is_some() =>
                {
                    let float = fraction(tree.dtype);
                    Self(Ok(tree)).astype(float).0?
                }
                None => return Err(undefined()),
                Some(_) => tree,
            };
            let dtype = operation.result(tree.dtype).ok_or_else(|| {
                Error::of_type(format!("{} is not defined for {}", operation.name(), name(tree.dtype)))
            })?;
            let (shape, device, size) = (tree.shape.clone(), tree.device.clone(), tree.size + 1);
            Ok(Self::new(Root::Unary(operation, tree), dtype, shape, device, size))
        })
        .bounded(0)
    }

    /// An operation on every pair of elements, after broadcasting.
    pub fn binary(self, operation: Binary, other: impl Into<Self>) -> Self {
        let (mine, other) = fitting(self, other.into());
        mine.then(|a| match operation {
            Binary::Div => divide(a, other.0?),
            Binary::Pow => power(a, other.0?),
            _ => join(operation, a, other.0?),
        })
    }

    /// The elements of `self` where `condition` is true, those of `other` elsewhere.
    pub fn select(self, condition: impl Into<Self>, other: impl Into<Self>) -> Self {
        let (condition, other) = (condition.into().bounded(2), other.into().bounded(2));
        self.bounded(2).then(|a| {
            let condition = condition.astype(Type::Bool).0?;
            let (a, b) = alike("where", a, other.0?)?;
            let shape = broadcast("where", &condition.shape, &broadcast("where", &a.shape, &b.shape)?)?;
            let device = joint_device("where", &[&condition, &a, &b])?;
            let (dtype, size) = (a.dtype, condition.size + a.size + b.size + 1);
            Ok(Self::new(Root::Select(condition, a, b), dtype, shape, device, size))
        })
    }

    /// The elements in another type.
    pub fn astype(self, dtype: Type) -> Self {
        self.then(|tree| convert(tree, dtype).map(|tree| Self(Ok(tree))))
    }

    /// Whether the elements are not zero. A number becomes a boolean at once: beside one of its own type, an array of
    /// booleans would be converted to that.
    pub(crate) fn truth(self) -> Self {
        self.then(|tree| match &tree.root {
            Root::Scalar(scalar) if is_scalar(&tree) => Ok(Self::from(Scalar::Bool(scalar.is_true()))),
            _ => convert(tree, Type::Bool).map(|tree| Self(Ok(tree))),
        })
    }

    // --- evaluating ---------------------------------------------------------------------------------------

    /// Evaluates to a new array. An array without operations is returned as it is.
    pub fn eval(&self) -> Result<Array> {
        match &self.0 {
            Ok(tree) => match &tree.root {
                Root::Array(array) => Ok(array.clone()),
                _ => self.eval_anew(),
            },
            Err(error) => Err(error.clone()),
        }
    }

    /// Evaluates to a new array in every case.
    pub(crate) fn eval_anew(&self) -> Result<Array> {
        let tree = self.tree()?;
        let device = tree.device.clone().unwrap_or(Device::Cpu);
        let out = Array::alloc(&tree.shape, tree.dtype, &device)?;
        evaluate::map(&self.prepare(tree, &tree.shape)?, &tree.shape, &out)?;
        Ok(out)
    }

    /// Evaluates, broadcasts and converts into the elements of `to`.
    pub(crate) fn eval_into(self, to: &Array) -> Result<()> {
        let lazy = self.astype(to.dtype);
        let tree = lazy.tree()?;
        if let Some(device) = &tree.device {
            same_device("assign", &to.device(), device)?;
        }
        if !to.is_writable() {
            return Err(Error::shape(format!(
                "assign: indices of an array of shape {} share elements, as in a broadcast; copy() it first",
                text(to.shape())
            )));
        }
        let prepared = lazy.prepare(tree, &to.layout.shape)?;
        // An array that overlaps the target with another layout must be read before the target is written.
        let elsewhere = |array: &Array| {
            let same = array.memory.is(&to.memory) && array.layout == to.layout && array.dtype == to.dtype;
            array.memory.overlaps(&to.memory) && !same
        };
        if prepared.arrays.iter().any(elsewhere) {
            let result = lazy.eval_anew()?;
            return Self::from(&result).eval_into(to);
        }
        evaluate::map(&prepared, &to.layout.shape, to)
    }

    /// Reduces all elements along `axes` to one value. The axes are removed, or kept with length 1 if `keep`. The
    /// expression is computed in the same pass.
    pub fn reduce(self, reduction: Reduction, axes: impl Into<Axes>, keep: bool) -> Result<Array> {
        let dtype = self.tree()?.dtype;
        let sum = match reduction {
            Reduction::Sum | Reduction::Product => sum_type(dtype),
            Reduction::Min | Reduction::Max => dtype,
        };
        // Partial results of narrow types are wide, and rounded once at the end.
        let lazy = self.astype(sum.wide());
        let tree = lazy.tree()?;
        if !reduction.is_defined(tree.dtype) {
            return Err(Error::of_type(format!("{} is not defined for {}", reduction.name(), name(dtype))));
        }
        let device = tree.device.clone().unwrap_or(Device::Cpu);
        let prepared = lazy.prepare(tree, &tree.shape)?;
        crate::reduce::reduce(&prepared, &tree.shape, tree.dtype, &device, reduction, &axes.into(), keep)?
            .astype(sum)
    }

    /// The type of the result.
    pub fn dtype(&self) -> Result<Type> {
        self.tree().map(|tree| tree.dtype)
    }

    /// The shape of the result.
    pub fn shape(&self) -> Result<&[usize]> {
        self.tree().map(|tree| &tree.shape[..])
    }

    /// The device that computes it; `None` if it reads no array or has an error.
    pub fn device(&self) -> Option<Device> {
        self.0.as_ref().ok().and_then(|tree| tree.device.clone())
    }

    fn tree(&self) -> Result<&Arc<Tree>> {
        self.0.as_ref().map_err(Error::clone)
    }

    /// The expression, the arrays it reads, broadcast to `shape`, and its scalars.
    fn prepare(&self, tree: &Arc<Tree>, shape: &[usize]) -> Result<Prepared> {
        if shape.len() > MOST_AXES {
            return Err(Error::shape(format!("an array of {} axes; the maximum is {MOST_AXES}", shape.len())));
        }
        let mut builder = Builder { prepared: Prepared::default(), inputs: Vec::new(), known: Vec::new(), shape };
        let result = builder.node(tree)?;
        builder.prepared.expression.set_result(result);
        Ok(builder.prepared)
    }
}

/// Builds the expression of a tree, with each subtree and each array once.
struct Builder<'a> {
    prepared: Prepared,
    /// The values that read the arrays.
    inputs: Vec<Id>,
    /// Subtrees that are already built. There are few, so a linear search is fast.
    known: Vec<(*const Tree, Id)>,
    shape: &'a [usize],
}

impl Builder<'_> {
    fn node(&mut self, tree: &Arc<Tree>) -> Result<Id> {
        if let Some(&(_, known)) = self.known.iter().find(|(known, _)| *known == Arc::as_ptr(tree)) {
            return Ok(known);
        }
        let built = match &tree.root {
            Root::Array(array) => Some(self.array(array)?),
            Root::Scalar(scalar) => Some(self.scalar(*scalar, tree.dtype)?),
            Root::Unary(operation, a) => {
                let a = self.node(a)?;
                self.prepared.expression.unary(*operation, a)
            }
            Root::Binary(operation, a, b) => {
                let (a, b) = (self.node(a)?, self.node(b)?);
                self.prepared.expression.binary(*operation, a, b)
            }
            Root::Select(condition, a, b) => {
                let (condition, a, b) = (self.node(condition)?, self.node(a)?, self.node(b)?);
                self.prepared.expression.select(condition, a, b)
            }
            Root::Convert(a) => {
                let a = self.node(a)?;
                self.prepared.expression.convert(tree.dtype, a)
            }
            Root::Index => Some(self.prepared.expression.index()),
        };
        let id = built.expect("types were checked when the tree was built");
        self.known.push((Arc::as_ptr(tree), id));
        Ok(id)
    }

    fn array(&mut self, array: &Array) -> Result<Id> {
        let layout = array.layout.broadcast_to(self.shape)?;
        let same =
            |known: &Array| known.memory.is(&array.memory) && known.layout == layout && known.dtype == array.dtype;
        if let Some(index) = self.prepared.arrays.iter().position(same) {
            return Ok(self.inputs[index]);
        }
        let id = self.prepared.expression.input(array.dtype);
        self.prepared.arrays.push(Array::new(array.memory.clone(), layout, array.dtype));
        self.inputs.push(id);
        Ok(id)
    }

    fn scalar(&mut self, scalar: Scalar, dtype: Type) -> Result<Id> {
        self.prepared.scalars.push(scalar.words_as(dtype)?);
        Ok(self.prepared.expression.scalar(dtype))
    }
}

/// Two expressions that fit into one kernel together. If they do not, the larger one is evaluated first.
fn fitting(a: Lazy, b: Lazy) -> (Lazy, Lazy) {
    let (Ok(x), Ok(y)) = (&a.0, &b.0) else { return (a, b) };
    if x.size + y.size < LARGEST && x.leaves + y.leaves <= MOST_LEAVES {
        return (a, b);
    }
    let now = |lazy: Lazy| lazy.eval().map_or_else(|error| Lazy(Err(error)), Lazy::from);
    let first_is_larger = x.leaves.max(x.size / 8) >= y.leaves.max(y.size / 8);
    if first_is_larger { (now(a), b) } else { (a, now(b)) }
}

fn is_whole(of: Type) -> bool {
    matches!(of.kind(), NumberKind::Bool | NumberKind::Integer)
}

/// The type of sums and products: 64-bit integers for booleans and integers, as in NumPy, else the type itself.
pub(crate) fn sum_type(of: Type) -> Type {
    match of.kind() {
        NumberKind::Integer if of.is_unsigned() => Type::U64,
        NumberKind::Bool | NumberKind::Integer => Type::I64,
        _ => of,
    }
}

fn is_scalar(tree: &Tree) -> bool {
    matches!(tree.root, Root::Scalar(_)) && tree.device.is_none()
}

fn convert(tree: Arc<Tree>, dtype: Type) -> Result<Arc<Tree>> {
    if tree.dtype == dtype {
        return Ok(tree);
    }
    if let (Root::Scalar(scalar), true) = (&tree.root, is_scalar(&tree)) {
        scalar.words_as(dtype)?;
        let (shape, size) = (tree.shape.clone(), tree.size);
        return Ok(Arc::new(Tree::new(Root::Scalar(*scalar), dtype, shape, None, size)));
    }
    if !Expression::converts(tree.dtype, dtype) {
        return Err(Error::of_type(format!("{} can't be converted to {}", name(tree.dtype), name(dtype))));
    }
    let (shape, device, size) = (tree.shape.clone(), tree.device.clone(), tree.size + 1);
    Ok(Arc::new(Tree::new(Root::Convert(tree), dtype, shape, device, size)))
}

/// Converts both operands to their common type.
fn alike(operation: &'static str, a: Arc<Tree>, b: Arc<Tree>) -> Result<(Arc<Tree>, Arc<Tree>)> {
    let joint = match (&a.root, &b.root) {
        (_, Root::Scalar(scalar)) if is_scalar(&b) && !is_scalar(&a) => scalar.type_beside(a.dtype),
        (Root::Scalar(scalar), _) if is_scalar(&a) && !is_scalar(&b) => scalar.type_beside(b.dtype),
        _ => promote(a.dtype, b.dtype),
    };
    let joint = joint.map_err(|error| Error::of_type(format!("{operation}: {error}")))?;
    Ok((convert(a, joint)?, convert(b, joint)?))
}

fn joint_device(operation: &'static str, trees: &[&Arc<Tree>]) -> Result<Option<Device>> {
    let mut joint: Option<&Device> = None;
    for device in trees.iter().filter_map(|tree| tree.device.as_ref()) {
        if let Some(known) = joint {
            same_device(operation, known, device)?;
        }
        joint = Some(device);
    }
    Ok(joint.cloned())
}

/// The comparison of integers with a number that their type can't hold: all of them are below it, or all above; `None`
/// for other operands. A comparison with the least number of the type has the same result, shape and device.
fn beyond(operation: Binary, integers: &Arc<Tree>, number: &Tree) -> Result<Option<Lazy>> {
    let Root::Scalar(Scalar::Int(value)) = number.root else { return Ok(None) };
    let dtype = integers.dtype;
    if dtype.kind() != NumberKind::Integer || is_scalar(integers) || !is_scalar(number) {
        return Ok(None);
    }
    if !matches!(Scalar::Int(value).words_as(dtype), Err(Error::Range(_))) {
        return Ok(None);
    }
    let holds = match operation {
        Binary::Ne => true,
        Binary::Lt | Binary::Le => value > 0,
        Binary::Gt | Binary::Ge => value < 0,
        _ => false,
    };
    let least = if dtype.is_unsigned() { 0 } else { -(1 << (8 * dtype.bytes() - 1)) };
    let least = convert(Lazy::from(Scalar::Int(least)).0?, dtype)?;
    together(if holds { Binary::Ge } else { Binary::Lt }, integers.clone(), least).map(Some)
}

/// The comparison that holds for `y, x` where this one holds for `x, y`; `None` if it is not a comparison.
fn mirrored(operation: Binary) -> Option<Binary> {
    Some(match operation {
        Binary::Eq | Binary::Ne => operation,
        Binary::Lt => Binary::Gt,
        Binary::Le => Binary::Ge,
        Binary::Gt => Binary::Lt,
        Binary::Ge => Binary::Le,
        _ => return None,
    })
}

fn join(operation: Binary, a: Arc<Tree>, b: Arc<Tree>) -> Result<Lazy> {
    if let Some(mirrored) = mirrored(operation) {
        if let Some(known) = beyond(operation, &a, &b)? {
            return Ok(known);
        }
        if let Some(known) = beyond(mirrored, &b, &a)? {
            return Ok(known);
        }
    }
    let (a, b) = alike(operation.name(), a, b)?;
    // Sums and products of booleans as in NumPy.
    let (operation, a, b) = match (operation, a.dtype) {
        (Binary::Add, Type::Bool) => (Binary::Or, a, b),
        (Binary::Mul, Type::Bool) => (Binary::And, a, b),
        _ => (operation, a, b),
    };
    together(operation, a, b)
}

fn together(operation: Binary, a: Arc<Tree>, b: Arc<Tree>) -> Result<Lazy> {
    let dtype = operation
        .result(a.dtype, b.dtype)
        .ok_or_else(|| Error::of_type(format!("{} is not defined for {}", operation.name(), name(a.dtype))))?;
    let shape = broadcast(operation.name(), &a.shape, &b.shape)?;
    let device = joint_device(operation.name(), &[&a, &b])?;
    let size = a.size + b.size + 1;
    Ok(Lazy::new(Root::Binary(operation, a, b), dtype, shape, device, size))
}

/// a / b: as f64 for integers; as a product with batch-inverted elements for a field.
fn divide(a: Arc<Tree>, b: Arc<Tree>) -> Result<Lazy> {
    let (a, b) = alike("div", a, b)?;
    if a.dtype.is_field() {
        return together(Binary::Mul, a, inverse(b)?);
    }
    if is_whole(a.dtype) {
        return together(Binary::Div, convert(a, Type::F64)?, convert(b, Type::F64)?);
    }
    together(Binary::Div, a, b)
}

/// The inverses of field elements; the inverse of a scalar is a scalar.
fn inverse(of: Arc<Tree>) -> Result<Arc<Tree>> {
    let (lone, dtype) = (is_scalar(&of), of.dtype);
    let inverse = Lazy(Ok(of)).eval()?.inverse()?;
    if !lone {
        return Lazy::from(inverse).0;
    }
    let mut bytes = vec![0; dtype.bytes()];
    inverse.read_into(&mut bytes)?;
    Lazy::from(Scalar::Element(dtype, words(&bytes))).0
}

/// Checks that no exponent of an array is negative.
fn no_negatives(exponents: &Arc<Tree>) -> Result<()> {
    let signed = exponents.dtype.kind() == NumberKind::Integer && !exponents.dtype.is_unsigned();
    if !signed || exponents.shape.contains(&0) || is_scalar(exponents) {
        return Ok(());
    }
    match Lazy(Ok(exponents.clone())).reduce(Reduction::Min, .., false)?.item()? {
        Scalar::Int(least) if least < 0 => {
            Err(Error::of_type(format!("pow: the exponent {least} is negative; use the inverse, or float64")))
        }
        _ => Ok(()),
    }
}

/// a^b: exponents of fields and integers are integers.
fn power(a: Arc<Tree>, b: Arc<Tree>) -> Result<Lazy> {
    let whole_exponent = is_whole(b.dtype);
    if a.dtype.is_field() {
        if !whole_exponent {
            return Err(Error::of_type(format!(
                "pow: exponents of field elements must be integers, not {}",
                name(b.dtype)
            )));
        }
        if let Root::Scalar(Scalar::Int(exponent)) = b.root {
            let base = if exponent < 0 { inverse(a)? } else { a };
            let exponent = u64::try_from(exponent.unsigned_abs())
                .map_err(|_| Error::of_type(format!("pow: the exponent {exponent} has more than 64 bits")))?;
            return together(Binary::Pow, base, Lazy::from(exponent).astype(Type::U64).0?);
        }
        no_negatives(&b)?;
        return together(Binary::Pow, a, convert(b, Type::U64)?);
    }
    match b.root {
        // Small integer powers of floats are products, which are faster and as exact.
        Root::Scalar(Scalar::Int(2)) if !is_whole(a.dtype) => return together(Binary::Mul, a.clone(), a),
        Root::Scalar(Scalar::Int(exponent)) if exponent < 0 && is_whole(a.dtype) => {
            return Err(Error::of_type("pow: integers have no negative powers; convert them to float64"));
        }
        _ => {}
    }
    let (a, b) = alike("pow", a, b)?;
    if is_whole(a.dtype) {
        no_negatives(&b)?;
        let a = if a.dtype == Type::Bool { convert(a, Type::I64)? } else { a };
        return together(Binary::Pow, a, convert(b, Type::U64)?);
    }
    together(Binary::Pow, a, b)
}

// --- operands ---------------------------------------------------------------------------------------------

impl From<&Array> for Lazy {
    fn from(array: &Array) -> Self {
        let (shape, device) = (array.layout.shape.clone(), array.device());
        Self::new(Root::Array(array.clone()), array.dtype, shape, Some(device), 1)
    }
}

impl From<Array> for Lazy {
    fn from(array: Array) -> Self {
        Self::from(&array)
    }
}

impl From<&Lazy> for Lazy {
    fn from(lazy: &Lazy) -> Self {
        lazy.clone()
    }
}

impl From<Scalar> for Lazy {
    fn from(scalar: Scalar) -> Self {
        Self::new(Root::Scalar(scalar), scalar.natural_type(), Lengths::new(), None, 1)
    }
}

macro_rules! lazy_from_scalars {
    ($($of:ty)*) => { $(
        impl From<$of> for Lazy {
            fn from(value: $of) -> Self {
                Self::from(Scalar::from(value))
            }
        }
    )* };
}
lazy_from_scalars!(bool i32 i64 u32 u64 f32 f64 Complex);
