//! Expressions.

use syn::punctuated::Punctuated;
use syn::{BinOp, Expr, ExprLit, GenericArgument, Lit, Member, PathArguments, Token, UnOp};

use crate::{Result, unsupported};

/// The states of other components that a kernel can ask for a value.
const DEDUCED: [&str; 2] = ["memory_address_to_id", "memory_id_to_big"];

/// Prints an expression.
pub(crate) fn print(expression: &Expr) -> Result<String> {
    Ok(match expression {
        Expr::Paren(inner) => print(&inner.expr)?,
        Expr::Group(inner) => print(&inner.expr)?,
        Expr::Path(path) => match path.path.get_ident() {
            Some(name) => name.to_string(),
            None => return unsupported("a path as a value"),
        },
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => format!("{}u", number.base10_digits()),
        Expr::Binary(binary) => {
            let operator = match binary.op {
                BinOp::Add(_) => "+",
                BinOp::Sub(_) => "-",
                BinOp::Mul(_) => "*",
                BinOp::Div(_) => "/",
                BinOp::BitAnd(_) => "&",
                BinOp::BitOr(_) => "|",
                BinOp::BitXor(_) => "^",
                BinOp::Shl(_) => "<<",
                BinOp::Shr(_) => ">>",
                _ => return unsupported("an operator other than + - * / & | ^ << >>"),
            };
            format!("({} {operator} {})", print(&binary.left)?, print(&binary.right)?)
        }
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => format!("(-{})", print(&unary.expr)?),
        Expr::Array(array) => format!("array({})", list(&array.elems)?),
        // The slices that some functions take.
        Expr::Reference(reference) if matches!(*reference.expr, Expr::Array(_)) => print(&reference.expr)?,
        Expr::Tuple(tuple) => format!("tuple({})", list(&tuple.elems)?),
        Expr::Index(index) => format!("{}[{}]", print(&index.expr)?, print(&index.index)?),
        Expr::Field(field) => match &field.member {
            Member::Named(name) => format!("{}.{name}", print(&field.base)?),
            Member::Unnamed(place) => format!("get<{}>({})", place.index, print(&field.base)?),
        },
        Expr::Struct(state) if state.path.is_ident("PackedCasmState") => {
            let mut values = Vec::new();
            for wanted in ["pc", "ap", "fp"] {
                let field = state
                    .fields
                    .iter()
                    .find(|field| matches!(&field.member, Member::Named(name) if name == wanted));
                let Some(field) = field else { return unsupported("a state without a register") };
                values.push(print(&field.expr)?);
            }
            format!("State{{{}}}", values.join(", "))
        }
        Expr::MethodCall(call) => method(&call.receiver, &call.method.to_string(), &call.args)?,
        Expr::Call(call) => function(&call.func, &call.args)?,
        other => return unsupported(format!("an expression of another kind: {}", kind(other))),
    })
}

fn list(expressions: &Punctuated<Expr, Token![,]>) -> Result<String> {
    Ok(expressions.iter().map(print).collect::<Result<Vec<_>>>()?.join(", "))
}

fn method(receiver: &Expr, method: &str, arguments: &Punctuated<Expr, Token![,]>) -> Result<String> {
    let receiver = print(receiver)?;
    let arguments = list(arguments)?;
    Ok(match (receiver.as_str(), method) {
        ("blake_round_state", "deduce_output") => format!("blake_round(row, {arguments})"),
        (state, "deduce_output") => match state.strip_suffix("_state").filter(|name| DEDUCED.contains(name)) {
            Some(name) => format!("row.{name}({arguments})"),
            None => return unsupported(format!("a value of {state}")),
        },
        ("enabler_col", "packed_at") => "row.enabler()".into(),
        ("seq", "packed_at") => "row.sequence()".into(),
        (_, "get_m31" | "as_m31" | "low" | "high" | "inverse" | "widening_mul") => {
            format!("{receiver}.{method}({arguments})")
        }
        (_, "eq") => format!("equal({receiver}, {arguments})"),
        _ => return unsupported(format!("the method {method}")),
    })
}

fn function(function: &Expr, arguments: &Punctuated<Expr, Token![,]>) -> Result<String> {
    let Expr::Path(path) = function else { return unsupported("a call of a value") };
    let segments: Vec<_> = path.path.segments.iter().collect();
    let [of, name] = segments.as_slice() else { return unsupported("a function without a type") };
    let parameters = parameters(&of.arguments)?;
    // A kernel has one value where upstream has a vector of them.
    let of = of.ident.to_string();
    let of = of.strip_prefix("Packed").unwrap_or(&of);
    let name = name.ident.to_string();
    match (of, name.as_str()) {
        ("BigUInt" | "Felt252", "from") if arguments.len() == 1 => limbs(of, &parameters, &arguments[0]),
        ("M31" | "UInt16" | "UInt32" | "BigUInt" | "Felt252", "broadcast") => list(arguments),
        ("M31" | "UInt16" | "UInt32", "from")
        | ("UInt16" | "UInt32" | "Bool" | "Felt252", "from_m31")
        | ("UInt32" | "Felt252", "from_limbs")
        | ("BigUInt", "from_packed_felt252_array" | "from_packed_biguint")
        | ("Felt252", "from_packed_felt252width27")
        | ("Felt252Width27", "from_packed_felt252" | "from_limbs")
        | (
            "Cube252"
            | "PoseidonFullRoundChain"
            | "Poseidon3PartialRoundsChain"
            | "PoseidonRoundKeys"
            | "BlakeG"
            | "BlakeRoundSigma"
            | "TripleXor32"
            | "PartialEcMulGeneric",
            "deduce_output",
        ) => Ok(format!("{of}{parameters}::{name}({})", list(arguments)?)),
        // They read the points of the preprocessed columns.
        ("PedersenPointsTableWindowBits9" | "PedersenPointsTableWindowBits18", "deduce_output") => {
            Ok(format!("row.pedersen_point({})", list(arguments)?))
        }
        ("PartialEcMulWindowBits9", "deduce_output") => Ok(format!("row.partial_ec_mul<9>({})", list(arguments)?)),
        ("PartialEcMulWindowBits18", "deduce_output") => {
            Ok(format!("row.partial_ec_mul<18>({})", list(arguments)?))
        }
        _ => unsupported(format!("the function {of}::{name}")),
    }
}

/// A number given as an array of 64-bit limbs.
fn limbs(of: &str, parameters: &str, value: &Expr) -> Result<String> {
    let Expr::Array(array) = value else { return unsupported(format!("{of} of another value than limbs")) };
    let mut limbs = Vec::new();
    for limb in &array.elems {
        let Expr::Lit(ExprLit { lit: Lit::Int(limb), .. }) = limb else {
            return unsupported("a limb that is computed");
        };
        limbs.push(format!("{}ull", limb.base10_digits()));
    }
    Ok(format!("{of}{parameters}::from(array({}))", limbs.join(", ")))
}

/// The numbers of `Type::<1, 2, 3>`.
fn parameters(arguments: &PathArguments) -> Result<String> {
    let PathArguments::AngleBracketed(brackets) = arguments else { return Ok(String::new()) };
    let mut numbers = Vec::new();
    for argument in &brackets.args {
        let GenericArgument::Const(Expr::Lit(ExprLit { lit: Lit::Int(number), .. })) = argument else {
            return unsupported("a parameter that is not a number");
        };
        numbers.push(number.base10_digits().to_string());
    }
    Ok(format!("<{}>", numbers.join(", ")))
}

fn kind(expression: &Expr) -> &'static str {
    match expression {
        Expr::Closure(_) => "a closure",
        Expr::Block(_) => "a block",
        Expr::If(_) => "a condition",
        Expr::Reference(_) => "a reference",
        Expr::Unary(_) => "a unary operator",
        _ => "not known",
    }
}
