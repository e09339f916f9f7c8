//! Arguments of Cairo 0 programs.
//!
//! A Cairo 0 program takes its arguments from hints, which are Python and read a value named `program_input`. The
//! virtual machine here runs no Python. It knows these statements, one or more in a hint:
//!
//! ```text
//! ids.x = program_input["key"]                       or an index: program_input[0]
//! ids.n = len(program_input["key"])                  or len(program_input)
//! segments.write_arg(ids.pointer, program_input["key"])
//! ```

use std::collections::HashMap;
use std::rc::Rc;

use cairo_vm::Felt252;
use cairo_vm::hint_processor::builtin_hint_processor::builtin_hint_processor_definition::HintFunc;
use cairo_vm::hint_processor::builtin_hint_processor::hint_utils::{
    get_ptr_from_var_name, insert_value_from_var_name,
};
use cairo_vm::types::relocatable::MaybeRelocatable;
use cairo_vm::vm::errors::hint_errors::HintError;
use serde_json::Value;

use crate::error::{Error, Result};

/// The effect of a statement, with the values of the program's input.
#[derive(Debug, PartialEq)]
enum Effect {
    /// Sets a variable.
    Set(String, Felt252),
    /// Writes an array to where a variable points.
    Write(String, Vec<Felt252>),
}

/// Functions for the hints that read the program's input, by their code.
pub(crate) fn input_hints(codes: &[String], input: Option<&Value>) -> Result<HashMap<String, Rc<HintFunc>>> {
    let reads = codes.iter().filter(|code| code.contains("program_input"));
    reads.map(|code| Ok((code.clone(), function(effects(code, input)?)))).collect()
}

fn function(effects: Vec<Effect>) -> Rc<HintFunc> {
    Rc::new(HintFunc(Box::new(move |vm, _, ids, tracking, _| {
        for effect in &effects {
            match effect {
                Effect::Set(name, value) => insert_value_from_var_name(name, *value, vm, ids, tracking)?,
                Effect::Write(name, values) => {
                    let pointer = get_ptr_from_var_name(name, vm, ids, tracking)?;
                    let values: Vec<MaybeRelocatable> = values.iter().map(|value| (*value).into()).collect();
                    vm.load_data(pointer, &values).map_err(HintError::Memory)?;
                }
            }
        }
        Ok(())
    })))
}

/// The effects of a hint's statements.
fn effects(code: &str, input: Option<&Value>) -> Result<Vec<Effect>> {
    let Some(input) = input else {
        return Err(Error::Program("it reads `program_input`, and none was given: use --args or --input".into()));
    };
    let statements = code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let effect = |statement| {
        parse(statement, input).map_err(|reason| Error::Program(format!("its hint `{statement}`: {reason}")))
    };
    statements.map(effect).collect()
}

fn parse(statement: &str, input: &Value) -> Result<Effect, String> {
    const KNOWN: &str = "only `ids.x = program_input[..]`, `ids.n = len(program_input[..])` and \
                         `segments.write_arg(ids.p, program_input[..])` are supported";
    if let Some(arguments) = statement.strip_prefix("segments.write_arg(").and_then(|rest| rest.strip_suffix(')'))
    {
        let (pointer, values) = arguments.split_once(',').ok_or(KNOWN)?;
        return Ok(Effect::Write(variable(pointer).ok_or(KNOWN)?, felts(select(values.trim(), input)?)?));
    }
    let (target, expression) = statement.split_once('=').ok_or(KNOWN)?;
    let (target, expression) = (variable(target).ok_or(KNOWN)?, expression.trim());
    if let Some(of) = expression.strip_prefix("len(").and_then(|rest| rest.strip_suffix(')')) {
        return Ok(Effect::Set(target, array(select(of, input)?)?.len().into()));
    }
    Ok(Effect::Set(target, felt(select(expression, input)?)?))
}

/// The name in `ids.name`.
fn variable(text: &str) -> Option<String> {
    let name = text.trim().strip_prefix("ids.")?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| name.to_string())
}

/// The part of the input that `program_input`, `program_input["key"]` or `program_input[index]` names.
fn select<'a>(expression: &str, input: &'a Value) -> Result<&'a Value, String> {
    let path = expression.strip_prefix("program_input").ok_or(format!("`{expression}` is not program_input"))?;
    if path.is_empty() {
        return Ok(input);
    }
    let key =
        path.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or(format!("`{path}` is no key"))?;
    let quoted = |quote| key.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    let found = match (quoted('"').or(quoted('\'')), key.parse::<usize>()) {
        (Some(name), _) => input.get(name),
        (None, Ok(index)) => input.get(index),
        (None, Err(_)) => return Err(format!("`{key}` is neither a string nor an index")),
    };
    found.ok_or(format!("the input has no {key}"))
}

fn array(value: &Value) -> Result<&Vec<Value>, String> {
    value.as_array().ok_or(format!("{value} is not an array"))
}

/// The field elements of an array.
pub(crate) fn felts(value: &Value) -> Result<Vec<Felt252>, String> {
    array(value)?.iter().map(felt).collect()
}

/// A field element: an integer, or a string in decimal or, after `0x`, hexadecimal.
fn felt(value: &Value) -> Result<Felt252, String> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return Err(format!("{value} is not a field element")),
    };
    let (negative, digits) = text.strip_prefix('-').map_or((false, text.as_str()), |digits| (true, digits));
    let parsed = if digits.starts_with("0x") { Felt252::from_hex(digits) } else { Felt252::from_dec_str(digits) };
    let parsed = parsed.map_err(|_| format!("{value} is not a field element"))?;
    Ok(if negative { -parsed } else { parsed })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn statements_read_the_input() {
        let input = json!({ "n": 100, "values": [3, "0x10", "-1"] });
        let code = "# two arguments\nids.n = program_input['n']\nids.len = len(program_input[\"values\"])\n\
                    segments.write_arg(ids.values, program_input['values'])";
        let values = vec![Felt252::from(3), Felt252::from(16), -Felt252::from(1)];
        assert_eq!(
            effects(code, Some(&input)).unwrap(),
            [
                Effect::Set("n".into(), 100.into()),
                Effect::Set("len".into(), 3.into()),
                Effect::Write("values".into(), values)
            ]
        );
        let list = json!([7]);
        assert_eq!(effects("ids.x = program_input[0]", Some(&list)).unwrap(), [Effect::Set("x".into(), 7.into())]);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let input = json!({ "n": 100, "x": "one" });
        let cases = [
            ("ids.n = program_input['m']", "the input has no 'm'"),
            ("ids.n = program_input['x']", "not a field element"),
            ("ids.n = len(program_input['n'])", "not an array"),
            ("ids.n = program_input['n'] + 1", "is no key"),
            ("print(program_input)", "are supported"),
            ("ids.n = max(program_input)", "is not program_input"),
        ];
        for (code, expected) in cases {
            let error = effects(code, Some(&input)).unwrap_err().to_string();
            assert!(error.contains(expected), "{code}: {error}");
        }
        assert!(effects("ids.n = program_input[0]", None).unwrap_err().to_string().contains("none was given"));
    }
}
