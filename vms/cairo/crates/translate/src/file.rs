//! A file of upstream's: what a component takes, and its rows.

use std::collections::BTreeMap;

use syn::visit::Visit;
use syn::{
    Expr, ExprClosure, ExprForLoop, ExprLit, ExprMethodCall, File, FnArg, GenericArgument, ImplItem, Item, ItemFn,
    Lit, Local, Member, Pat, PathArguments, Stmt, Type, UnOp,
};

use crate::chain::as_loops;
use crate::expression::print;
use crate::{Result, Unsupported, unsupported};

/// The inputs of a row, apart from the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// A state of the machine: pc, ap, fp. Rows after the last repeat the first.
    State,
    /// This number of words, and how often they are looked up. Rows after the last repeat the first, zero times.
    Counted {
        /// The words of an input.
        words: u32,
    },
    /// This number of words. The number of inputs is a multiple of 16, and rows after the last repeat the first 16.
    List {
        /// The words of an input.
        words: u32,
    },
    /// The number of the row and the address where the builtin's segment begins.
    Segment,
}

/// A component whose rows a kernel can make.
#[derive(Clone, Debug)]
pub struct Component {
    /// The inputs of the rows.
    pub inputs: Inputs,
    /// The number of columns.
    pub columns: u32,
    /// The components whose tables the rows are looked up in.
    pub tables: Vec<String>,
    /// The components that a row gives inputs to, with how many, and the words of each.
    pub gives: Vec<(String, u32, u32)>,
    /// The function `void NAME(Row row)` that makes a row.
    pub text: String,
}

/// The words of an input of a component, if they are field elements.
pub fn input_words(text: &str) -> Option<u32> {
    let file = syn::parse_file(text).ok()?;
    words(packed_input(&file)?).ok()
}

/// Translates the text of a component's file. `words` gives the words of an input of other components.
///
/// # Errors
/// [`Unsupported`] with the first construct that has no translation.
pub fn translate(name: &str, text: &str, words: impl Fn(&str) -> Option<u32>) -> Result<Component> {
    let uses = uses(text)?;
    let file = syn::parse_file(text).map_err(|error| Unsupported(format!("it does not parse: {error}")))?;
    let function = file.items.iter().find_map(|item| match item {
        Item::Fn(function) if function.sig.ident == "write_trace_simd" => Some(function),
        _ => None,
    });
    let Some(function) = function else { return unsupported("no function write_trace_simd") };
    let (inputs, segment) = inputs(&file, function)?;
    let relations = relations(&file);

    let mut body = Body {
        relations: &relations,
        uses: &uses,
        words: &words,
        columns: 0,
        tables: Vec::new(),
        gives: Vec::new(),
        lines: Vec::new(),
    };
    if let Some(segment) = &segment {
        body.line(&format!("const u32 {segment} = row.segment();"));
    }
    let mut rows = None;
    for statement in &function.block.stmts {
        match statement {
            Stmt::Local(local) => body.constant(local)?,
            Stmt::Expr(expression, _) => rows = rows.or(closure(expression)),
            _ => return unsupported("an item or a macro in the function"),
        }
    }
    let Some(rows) = rows else { return unsupported("no closure that makes rows") };
    let Expr::Block(block) = &*rows.body else { return unsupported("a closure that is not a block") };
    if inputs != Inputs::Segment {
        let Some(input) = input_name(rows) else { return unsupported("a closure with other parameters") };
        let value = match inputs {
            Inputs::Counted { .. } | Inputs::List { .. } => format!("row.input<{}>()", packed_type(&file)?),
            Inputs::State | Inputs::Segment => "row.state()".to_string(),
        };
        body.line(&format!("const auto {input} = {value};"));
    }
    for statement in &block.block.stmts {
        body.statement(statement)?;
    }
    let Body { columns, tables, gives, lines, .. } = body;
    let lines: String = as_loops(lines).iter().map(|line| format!("    {line}\n")).collect();
    let text = format!("__device__ __forceinline__ void {name}(Row row) {{\n{lines}}}\n");
    Ok(Component { inputs, columns, tables, gives, text })
}

/// The number of inputs that each row of a component gives to each other component.
///
/// # Errors
/// A file that does not parse.
pub fn uses(text: &str) -> Result<BTreeMap<String, u32>> {
    let file = syn::parse_file(text).map_err(|error| Unsupported(format!("it does not parse: {error}")))?;
    let fields = file.items.iter().find_map(|item| match item {
        Item::Struct(found) if found.ident == "SubComponentInputs" => Some(&found.fields),
        _ => None,
    });
    let mut uses = BTreeMap::new();
    for field in fields.into_iter().flatten() {
        // `name: [Vec<component::PackedInputType>; count]`
        if let Type::Array(array) = &field.ty
            && let Expr::Lit(ExprLit { lit: Lit::Int(count), .. }) = &array.len
            && let Type::Path(vector) = &*array.elem
            && let Some(vector) = vector.path.segments.last()
            && let PathArguments::AngleBracketed(brackets) = &vector.arguments
            && let Some(GenericArgument::Type(Type::Path(element))) = brackets.args.first()
            && let Some(component) = element.path.segments.first()
            && let Ok(count) = count.base10_parse::<u32>()
        {
            *uses.entry(component.ident.to_string()).or_insert(0) += count;
        }
    }
    Ok(uses)
}

/// The inputs of the rows, and the name of the parameter with the segment's address.
fn inputs(file: &File, function: &ItemFn) -> Result<(Inputs, Option<String>)> {
    let names: Vec<String> = function
        .sig
        .inputs
        .iter()
        .filter_map(|argument| match argument {
            FnArg::Typed(typed) => match &*typed.pat {
                Pat::Ident(name) => Some(name.ident.to_string()),
                _ => None,
            },
            FnArg::Receiver(_) => None,
        })
        .collect();
    let has = |name: &str| names.iter().any(|given| given == name);
    if let Some(segment) = names.iter().find(|name| name.ends_with("_segment_start")) {
        return Ok((Inputs::Segment, Some(segment.clone())));
    }
    if !has("inputs") {
        return unsupported("neither inputs nor a segment");
    }
    match packed_input(file) {
        Some(Type::Path(path)) if path.path.is_ident("PackedCasmState") => Ok((Inputs::State, None)),
        Some(other) if has("mults") => Ok((Inputs::Counted { words: words(other)? }, None)),
        Some(other) => Ok((Inputs::List { words: words(other)? }, None)),
        None => unsupported("no type of inputs"),
    }
}

/// The type of upstream's inputs.
fn packed_input(file: &File) -> Option<&Type> {
    file.items.iter().find_map(|item| match item {
        Item::Type(alias) if alias.ident == "PackedInputType" => Some(&*alias.ty),
        _ => None,
    })
}

/// The type of an input, as a kernel knows it.
fn packed_type(file: &File) -> Result<String> {
    fn name(of: &Type) -> Result<String> {
        Ok(match of {
            Type::Tuple(tuple) => {
                let types: Vec<String> = tuple.elems.iter().map(name).collect::<Result<_>>()?;
                format!("Tuple<{}>", types.join(", "))
            }
            Type::Array(array) => {
                format!("Array<{}, {}>", name(&array.elem)?, words(of)? / words(&array.elem)?.max(1))
            }
            Type::Path(path) => match path.path.get_ident() {
                Some(ident) => ident.to_string().trim_start_matches("Packed").to_string(),
                None => return unsupported("an input of a type with a path"),
            },
            _ => return unsupported("an input of another type"),
        })
    }
    let Some(packed) = packed_input(file) else { return unsupported("no type of inputs") };
    name(packed)
}

/// The number of words of a type that consists of field elements and 32-bit integers.
fn words(of: &Type) -> Result<u32> {
    match of {
        Type::Path(path) if ["PackedM31", "PackedUInt32"].iter().any(|name| path.path.is_ident(name)) => Ok(1),
        Type::Path(path)
            if ["PackedFelt252", "PackedFelt252Width27"].iter().any(|name| path.path.is_ident(name)) =>
        {
            Ok(8)
        }
        Type::Tuple(tuple) => tuple.elems.iter().map(words).sum(),
        Type::Array(array) => match &array.len {
            Expr::Lit(ExprLit { lit: Lit::Int(len), .. }) => {
                let len: u32 = len.base10_parse().map_err(|error| Unsupported(format!("a length: {error}")))?;
                Ok(words(&array.elem)? * len)
            }
            _ => unsupported("an array whose length is not a number"),
        },
        _ => unsupported("an input that does not consist of field elements"),
    }
}

/// The table, and which of its relations, that each field of the inputs of other components goes to.
fn relations(file: &File) -> BTreeMap<String, (String, u32)> {
    struct Loops(BTreeMap<String, (String, u32)>);
    struct Calls(Option<(String, u32)>);
    impl<'ast> Visit<'ast> for Calls {
        fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
            if call.method == "add_packed_inputs"
                && let Expr::Path(state) = &*call.receiver
                && let Some(state) = state.path.get_ident()
                && let Some(state) = state.to_string().strip_suffix("_state")
                && let Some(Expr::Lit(ExprLit { lit: Lit::Int(relation), .. })) = call.args.last()
                && let Ok(relation) = relation.base10_parse()
            {
                self.0 = Some((state.to_string(), relation));
            }
        }
    }
    impl<'ast> Visit<'ast> for Loops {
        // `for inputs in sub_component_inputs.field { state.add_packed_inputs(&inputs, relation); }`
        fn visit_expr_for_loop(&mut self, node: &'ast ExprForLoop) {
            let mut calls = Calls(None);
            calls.visit_block(&node.body);
            self.add(&node.expr, calls.0);
        }

        // `sub_component_inputs.field.iter().for_each(|inputs| { state.add_packed_inputs(inputs, relation); })`
        fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
            if call.method == "for_each"
                && let Expr::MethodCall(iter) = &*call.receiver
                && let Some(Expr::Closure(closure)) = call.args.first()
            {
                let mut calls = Calls(None);
                calls.visit_expr(&closure.body);
                self.add(&iter.receiver, calls.0);
            }
        }
    }
    impl Loops {
        fn add(&mut self, inputs: &Expr, goes_to: Option<(String, u32)>) {
            if let (Some(field), Some(goes_to)) = (field_of(inputs, "sub_component_inputs"), goes_to) {
                self.0.insert(field, goes_to);
            }
        }
    }
    let mut loops = Loops(BTreeMap::new());
    for item in &file.items {
        if let Item::Impl(block) = item {
            for item in &block.items {
                if let ImplItem::Fn(function) = item {
                    loops.visit_block(&function.block);
                }
            }
        }
    }
    loops.0
}

/// The field's name if the expression is a field of the variable.
fn field_of(expression: &Expr, variable: &str) -> Option<String> {
    let Expr::Field(field) = expression else { return None };
    let Expr::Path(base) = &*field.base else { return None };
    let Member::Named(name) = &field.member else { return None };
    base.path.is_ident(variable).then(|| name.to_string())
}

/// The closure of `(..).into_par_iter().enumerate().for_each(closure)`.
fn closure(expression: &Expr) -> Option<&ExprClosure> {
    let Expr::MethodCall(call) = expression else { return None };
    match call.args.first() {
        Some(Expr::Closure(closure)) if call.method == "for_each" => Some(closure),
        _ => None,
    }
}

/// The last name of `|(row_index, (row, lookup_data, sub_component_inputs, input))|`.
fn input_name(closure: &ExprClosure) -> Option<String> {
    let Pat::Tuple(outer) = closure.inputs.first()? else { return None };
    let Pat::Tuple(inner) = outer.elems.last()? else { return None };
    match inner.elems.last()? {
        Pat::Ident(name) if inner.elems.len() == 4 => Some(name.ident.to_string()),
        _ => None,
    }
}

struct Body<'a> {
    relations: &'a BTreeMap<String, (String, u32)>,
    uses: &'a BTreeMap<String, u32>,
    words: &'a dyn Fn(&str) -> Option<u32>,
    columns: u32,
    tables: Vec<String>,
    gives: Vec<(String, u32, u32)>,
    lines: Vec<String>,
}

impl Body<'_> {
    fn line(&mut self, line: &str) {
        self.lines.push(line.to_string());
    }

    /// A constant before the closure. Other variables there hold upstream's memory, which a kernel does not have.
    fn constant(&mut self, local: &Local) -> Result<()> {
        if let Pat::Ident(name) = &local.pat
            && let Some(init) = &local.init
            && let Expr::Call(_) = &*init.expr
            && ["M31_", "UInt16_", "UInt32_", "BigUInt_", "Felt252_"]
                .iter()
                .any(|prefix| name.ident.to_string().starts_with(prefix))
        {
            let line = format!("const auto {} = {};", name.ident, print(&init.expr)?);
            self.line(&line);
        } else if let Pat::Ident(name) = &local.pat
            && ["Felt252Width27_", "UInt64_"].iter().any(|prefix| name.ident.to_string().starts_with(prefix))
        {
            return unsupported(format!("the constant {}", name.ident));
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Stmt) -> Result<()> {
        match statement {
            Stmt::Local(local) => {
                let (Pat::Ident(name), Some(init)) = (&local.pat, &local.init) else {
                    return unsupported("a pattern in a let");
                };
                // `*mults.get(row_index).unwrap_or(..)`
                let value = match name.ident == "mult_at_row" {
                    true => "row.multiplicity()".to_string(),
                    false => print(&init.expr)?,
                };
                self.line(&format!("const auto {} = {value};", name.ident));
                Ok(())
            }
            Stmt::Expr(Expr::Assign(assign), _) => {
                let Expr::Unary(place) = &*assign.left else { return unsupported("an assignment to a variable") };
                let UnOp::Deref(_) = place.op else { return unsupported("an assignment to a variable") };
                self.assignment(&place.expr, &assign.right)
            }
            // A semicolon alone.
            Stmt::Expr(Expr::Verbatim(_), _) => Ok(()),
            _ => unsupported("a statement other than let and an assignment"),
        }
    }

    fn assignment(&mut self, place: &Expr, value: &Expr) -> Result<()> {
        if field_of(place, "lookup_data").is_some() {
            return Ok(());
        }
        let Expr::Index(index) = place else { return unsupported("an assignment to another place") };
        if let Expr::Path(row) = &*index.expr
            && row.path.is_ident("row")
            && let Expr::Lit(ExprLit { lit: Lit::Int(column), .. }) = &*index.index
        {
            let column: u32 = column.base10_parse().map_err(|error| Unsupported(format!("a column: {error}")))?;
            self.columns = self.columns.max(column + 1);
            let line = format!("row.write({column}, {});", print(value)?);
            self.line(&line);
            return Ok(());
        }
        let Some(field) = field_of(&index.expr, "sub_component_inputs") else {
            return unsupported("an assignment to another place");
        };
        let Some((table, relation)) = self.relations.get(&field).cloned() else {
            return unsupported(format!("inputs of {field}, which go nowhere"));
        };
        let value = print(value)?;
        let line = match table.as_str() {
            "memory_address_to_id" | "memory_id_to_big" | "verify_instruction" => {
                format!("row.count_{table}({value});")
            }
            _ if table.starts_with("range_check_") && table != "range_check_252_width_27"
                || table.starts_with("verify_bitwise_xor_")
                || table.starts_with("pedersen_points_table_")
                || ["blake_round_sigma", "poseidon_round_keys"].contains(&table.as_str()) =>
            {
                format!("row.count({}, {relation}, {value});", table.to_uppercase())
            }
            _ => return self.give(&table, &index.index, &value),
        };
        self.line(&line);
        if !self.tables.contains(&table) {
            self.tables.push(table);
        }
        Ok(())
    }

    /// An input of another component.
    fn give(&mut self, to: &str, number: &Expr, value: &str) -> Result<()> {
        // Once for each: to know the words, another file is read.
        if !self.gives.iter().any(|(known, ..)| known == to) {
            let (Some(count), Some(words)) = (self.uses.get(to), (self.words)(to)) else {
                return unsupported(format!("inputs of {to}"));
            };
            self.gives.push((to.to_string(), *count, words));
        }
        let before: u32 =
            self.gives.iter().take_while(|(known, ..)| known != to).map(|(_, count, words)| count * words).sum();
        let line = format!("row.give({before}u, {}, {value});", print(number)?);
        self.line(&line);
        Ok(())
    }
}
