//! Adds source lines to the compiler's messages.

use crate::drivers::Unit;

/// Adds the source line and a caret below each message `name(line): …` that does not already have them.
pub(super) fn with_source(log: &str, unit: &Unit) -> String {
    let lines: Vec<_> = log.lines().collect();
    let mut text = String::with_capacity(log.len());
    for (index, line) in lines.iter().enumerate() {
        text.push_str(line);
        text.push('\n');
        let shown =
            || lines[index + 1..].iter().take_while(|line| place(line).is_none()).any(|line| is_caret(line));
        if let Some(source) = place(line).and_then(|(name, number)| source_line(unit, name, number))
            && !shown()
        {
            let indent = source.len() - source.trim_start().len();
            text.push_str(&format!("  {}\n  {}^\n", source.trim_end(), &source[..indent]));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// The file and the line that a message begins with: `ntt.cu(12): error: …`.
fn place(line: &str) -> Option<(&str, usize)> {
    let (name, rest) = line.split_once('(')?;
    let (number, rest) = rest.split_once(')')?;
    let is_message = rest.starts_with(':') && !name.is_empty() && !name.starts_with(char::is_whitespace);
    if is_message { Some((name, number.parse().ok()?)) } else { None }
}

fn is_caret(line: &str) -> bool {
    line.trim() == "^"
}

fn source_line<'a>(unit: &'a Unit, name: &str, number: usize) -> Option<&'a str> {
    let text =
        if name == unit.name { &unit.text } else { &unit.headers.iter().find(|(header, _)| header == name)?.1 };
    text.lines().nth(number.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> Unit {
        Unit {
            name: "ntt.cu".into(),
            text: "int a;\n\tint b = c;\n".into(),
            headers: vec![("field.h".into(), "struct F {};\n".into())],
            ..Unit::default()
        }
    }

    #[test]
    fn a_message_without_its_line_gets_it() {
        let log = "ntt.cu(2): error: identifier \"c\" is undefined\n\n1 error detected";
        let shown = "ntt.cu(2): error: identifier \"c\" is undefined\n  \tint b = c;\n  \t^\n\n1 error detected";
        assert_eq!(with_source(log, &unit()), shown);
    }

    #[test]
    fn a_message_with_its_line_stays() {
        let log = "ntt.cu(2): error: identifier \"c\" is undefined\n  int b = c;\n          ^";
        assert_eq!(with_source(log, &unit()), log);
    }

    #[test]
    fn the_line_of_one_message_does_not_count_for_another() {
        let log = "field.h(1): warning: odd\nntt.cu(1): error: worse\n  int a;\n      ^";
        let shown = "field.h(1): warning: odd\n  struct F {};\n  ^\nntt.cu(1): error: worse\n  int a;\n      ^";
        assert_eq!(with_source(log, &unit()), shown);
    }

    #[test]
    fn unknown_files_and_lines_are_left_alone() {
        for log in ["other.h(1): error: x", "ntt.cu(99): error: x", "ntt.cu(0): error: x", "no place at all (1)"] {
            assert_eq!(with_source(log, &unit()), log);
        }
    }
}
