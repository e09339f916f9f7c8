//! Expressions.

use syn::punctuated::Punctuated;
use syn::{BinOp, Expr, ExprLit, Lit, Member, Token, UnOp};

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
                BinOp::BitAnd(_) => "&",
                BinOp::BitOr(_) => "|",
                BinOp::BitXor(_) => "^",
                BinOp::Shl(_) => "<<",
                BinOp::Shr(_) => ">>",
                _ => return unsupported("an operator other than + - * & | ^ << >>"),
            };
            format!("({} {operator} {})", print(&binary.left)?, print(&binary.right)?)
        }
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => format!("(-{})", print(&unary.expr)?),
        Expr::Array(array) => format!("array({})", list(&array.elems)?),
        Expr::Tuple(tuple) => format!("tuple({})", list(&tuple.elems)?),
        Expr::Index(index) => format!("{}[{}]", print(&index.expr)?, print(&index.index)?),
        Expr::Field(field) => match &field.member {
            Member::Named(name) => format!("{}.{name}", print(&field.base)?),
            Member::Unnamed(place) => format!("get<{}>({})", place.index, print(&field.base)?),
        },
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
        (state, "deduce_output") => match state.strip_suffix("_state").filter(|name| DEDUCED.contains(name)) {
            Some(name) => format!("row.{name}({arguments})"),
            None => return unsupported(format!("a value of {state}")),
        },
        ("enabler_col", "packed_at") => "row.enabler()".into(),
        ("seq", "packed_at") => "row.sequence()".into(),
        (_, "get_m31" | "as_m31" | "low" | "high" | "inverse") => format!("{receiver}.{method}({arguments})"),
        (_, "eq") => format!("equal({receiver}, {arguments})"),
        _ => return unsupported(format!("the method {method}")),
    })
}

fn function(function: &Expr, arguments: &Punctuated<Expr, Token![,]>) -> Result<String> {
    let Expr::Path(path) = function else { return unsupported("a call of a value") };
    let mut segments = Vec::new();
    for segment in &path.path.segments {
        if !segment.arguments.is_none() {
            return unsupported(format!("{} with parameters", segment.ident));
        }
        segments.push(segment.ident.to_string());
    }
    let [of, name] = segments.as_slice() else { return unsupported("a function without a type") };
    // A kernel has one value where upstream has a vector of them.
    let of = of.strip_prefix("Packed").unwrap_or(of);
    let arguments = list(arguments)?;
    match (of, name.as_str()) {
        ("M31" | "UInt16" | "UInt32", "broadcast") => Ok(arguments),
        ("M31" | "UInt16" | "UInt32", "from") => Ok(format!("{of}::from({arguments})")),
        ("UInt16" | "UInt32" | "Bool", "from_m31") | ("UInt32" | "Felt252", "from_limbs") => {
            Ok(format!("{of}::{name}({arguments})"))
        }
        _ => unsupported(format!("the function {of}::{name}")),
    }
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
