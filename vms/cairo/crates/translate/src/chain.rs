//! Rounds as a loop.
//!
//! Upstream's generator unrolls chains of rounds: each gives its input to another component, and deduces the next
//! input from it. A product on the curve has 252 rounds, for which a compiler of kernels takes minutes. Here such pairs
//! of statements become a loop, if each round is the one before it with another number:
//!
//! ```text
//! row.give(0u, 1u, tuple(seq, M31_1, f(output_0)));      auto output_3 = output_0;
//! const auto output_1 = g(tuple(.., f(output_0)));       for (u32 number = 1; number < 4; ++number) {
//! row.give(0u, 2u, tuple(seq, M31_2, f(output_1)));          row.give(0u, number, tuple(.., f(output_3)));
//! const auto output_2 = g(tuple(.., f(output_1)));           output_3 = g(tuple(.., f(output_3)));
//! ..                                                     }
//! ```

/// The fewest rounds of a chain that becomes a loop. Shorter chains stay as they are.
const SHORTEST: usize = 8;

/// Replaces long chains among the statements.
pub(crate) fn as_loops(statements: Vec<String>) -> Vec<String> {
    let mut result = Vec::new();
    let mut at = 0;
    while at < statements.len() {
        match Chain::at(&statements, at) {
            Some(chain) => {
                at += 2 * chain.rounds;
                result.extend(chain.print());
            }
            None => {
                result.push(statements[at].clone());
                at += 1;
            }
        }
    }
    result
}

struct Chain<'a> {
    /// The variable that the first round reads, and the one that the last round makes.
    reads: &'a str,
    makes: &'a str,
    first: usize,
    rounds: usize,
    /// The two statements, with [`STATE`] and [`NUMBER`] for what differs.
    body: [String; 2],
}

const STATE: &str = "$state";
const NUMBER: &str = "$number";

impl<'a> Chain<'a> {
    /// The chain that begins with this statement.
    fn at(statements: &'a [String], at: usize) -> Option<Self> {
        let (reads, _) = made(statements.get(at.checked_sub(1)?)?)?;
        let (_, first, _) = give(&statements[at])?;
        let (mut rounds, mut state, mut body) = (0, reads, None);
        for pair in statements[at..].chunks_exact(2) {
            let number = first + rounds;
            let (Some((before, given, input)), Some((makes, value))) = (give(&pair[0]), made(&pair[1])) else {
                break;
            };
            if given != number {
                break;
            }
            let template = |text: &str| {
                let text = replaced(text, state, STATE);
                replaced(&text, &format!("M31_{number}"), &format!("M31::from({NUMBER})"))
            };
            let next = [format!("row.give({before}, {NUMBER}, {};", template(input)), template(value)];
            if body.get_or_insert_with(|| next.clone()) != &next || !next[1].contains(STATE) {
                break;
            }
            (state, rounds) = (makes, rounds + 1);
        }
        // What the rounds between the first and the last make is used nowhere else.
        let between: Vec<&str> =
            statements[at..at + 2 * rounds].iter().filter_map(|line| made(line)).map(|of| of.0).collect();
        let after = &statements[at + 2 * rounds..];
        let hidden = &between[..between.len().saturating_sub(1)];
        let unused = hidden.iter().all(|name| after.iter().all(|line| replaced(line, name, "") == *line));
        (rounds >= SHORTEST && unused).then_some(Self { reads, makes: state, first, rounds, body: body? })
    }

    fn print(&self) -> Vec<String> {
        let Self { reads, makes, first, rounds, body: [gives, next] } = self;
        let concrete = |text: &str| text.replace(STATE, makes).replace(NUMBER, "number");
        vec![
            format!("auto {makes} = {reads};"),
            "#pragma unroll 1".into(),
            format!("for (u32 number = {first}; number < {}; ++number) {{", first + rounds),
            format!("    {}", concrete(gives)),
            format!("    {makes} = {};", concrete(next)),
            "}".into(),
        ]
    }
}

/// The variable and the value of `const auto name = value;`.
fn made(statement: &str) -> Option<(&str, &str)> {
    statement.strip_prefix("const auto ")?.strip_suffix(';')?.split_once(" = ")
}

/// The parts of `row.give(before, number, input);`.
fn give(statement: &str) -> Option<(&str, usize, &str)> {
    let (before, rest) = statement.strip_prefix("row.give(")?.strip_suffix(';')?.split_once(", ")?;
    let (number, input) = rest.split_once("u, ")?;
    Some((before, number.parse().ok()?, input))
}

/// Replaces a word wherever it stands alone.
fn replaced(text: &str, word: &str, by: &str) -> String {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let alone = !before.ends_with(part_of_word) && !after.starts_with(part_of_word);
        result.push_str(before);
        result.push_str(if alone { by } else { word });
        rest = after;
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(count: usize) -> Vec<String> {
        let mut statements = vec!["const auto out_0 = start(seq);".to_string()];
        for number in 1..=count {
            let input = format!("tuple(seq, M31_{number}, get<2>(out_{})[1u])", number - 1);
            statements.push(format!("row.give(4u, {number}u, {input});"));
            statements.push(format!("const auto out_{number} = next({input});"));
        }
        statements.push(format!("row.write(1, out_{count});"));
        statements
    }

    #[test]
    fn long_chains_become_loops() {
        assert_eq!(
            as_loops(rounds(40)),
            [
                "const auto out_0 = start(seq);",
                "auto out_40 = out_0;",
                "#pragma unroll 1",
                "for (u32 number = 1; number < 41; ++number) {",
                "    row.give(4u, number, tuple(seq, M31::from(number), get<2>(out_40)[1u]));",
                "    out_40 = next(tuple(seq, M31::from(number), get<2>(out_40)[1u]));",
                "}",
                "row.write(1, out_40);",
            ]
        );
    }

    #[test]
    fn other_statements_stay() {
        assert_eq!(as_loops(rounds(5)), rounds(5));
        // A round in the middle is used afterwards.
        let mut used = rounds(12);
        used.push("row.write(2, out_6);".into());
        assert_eq!(as_loops(used.clone()), used);
        // One round is another one.
        let mut other = rounds(12);
        other[12] = other[12].replace("next(", "last(");
        assert_eq!(as_loops(other.clone()), other);
    }
}
