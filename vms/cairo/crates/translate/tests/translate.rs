//! Files in the style of upstream's generator, and what becomes of them.

use rigel_cairo_translate::{Inputs, input_words, translate, uses};

/// A component with one statement in its closure.
fn file(statement: &str) -> String {
    format!(
        "pub type PackedInputType = ([PackedM31; 2], PackedFelt252Width27);
        impl ClaimGenerator {{
            pub fn write_trace(mut self, small_state: &small::ClaimGenerator) {{
                for inputs in sub_component_inputs.range_check_9_9_b {{
                    range_check_9_9_state.add_packed_inputs(&inputs, 1);
                }}
                sub_component_inputs.other.iter().for_each(|inputs| {{
                    other_state.add_packed_inputs(inputs, 0);
                }});
            }}
        }}
        struct SubComponentInputs {{
            range_check_9_9_b: [Vec<range_check_9_9::PackedInputType>; 1],
            other: [Vec<other::PackedInputType>; 3],
        }}
        fn write_trace_simd(inputs: Vec<PackedInputType>, n_rows: usize) -> Trace {{
            let M31_5 = PackedM31::broadcast(M31::from(5));
            (trace.par_iter_mut(), inputs.into_par_iter()).into_par_iter().enumerate().for_each(
                |(row_index, (row, lookup_data, sub_component_inputs, component_input))| {{ {statement} }},
            );
            (trace, lookup_data)
        }}"
    )
}

/// The translation of one statement.
fn statement(statement: &str) -> Result<String, String> {
    let component = translate("component", &file(statement), |name| (name == "other").then_some(4));
    let component = component.map_err(|error| error.to_string())?;
    let lines: Vec<&str> = component.text.lines().map(str::trim).collect();
    let first = lines.iter().position(|line| line.starts_with("const auto component_input")).unwrap() + 1;
    Ok(lines[first..lines.len() - 1].join(" "))
}

#[test]
fn statements_become_cpp() {
    for (rust, cpp) in [
        ("let a = component_input.0[1];", "const auto a = get<0>(component_input)[1u];"),
        ("*row[7] = ((M31_5) + ((a) * (M31_5)));", "row.write(7, (M31_5 + (a * M31_5)));"),
        ("let b = PackedUInt16::from_m31(a);", "const auto b = UInt16::from_m31(a);"),
        ("let c = (a, [b, b]);", "const auto c = tuple(a, array(b, b));"),
        ("let d = memory_address_to_id_state.deduce_output(a);", "const auto d = row.memory_address_to_id(a);"),
        ("let e = blake_round_state.deduce_output((a, b));", "const auto e = blake_round(row, tuple(a, b));"),
        ("*sub_component_inputs.range_check_9_9_b[0] = [a, a];", "row.count(RANGE_CHECK_9_9, 1, array(a, a));"),
        ("*sub_component_inputs.other[2] = a;", "row.give(0u, 2u, a);"),
        ("*lookup_data.anything = [a];", ""),
    ] {
        assert_eq!(statement(rust).as_deref(), Ok(cpp), "{rust}");
    }
}

#[test]
fn other_constructs_are_refused() {
    for (rust, reason) in [
        ("let a = if b { c } else { d };", "a condition"),
        ("let a = b.sqrt();", "the method sqrt"),
        ("let a = PackedM31::random();", "the function M31::random"),
        ("let a = b % c;", "an operator other than"),
        ("for a in b { }", "a statement other than"),
        ("*elsewhere = a;", "an assignment to another place"),
        ("*sub_component_inputs.unknown[0] = a;", "inputs of unknown, which go nowhere"),
        ("let a = sponge_state.deduce_output(b);", "a value of sponge_state"),
    ] {
        let refused = statement(rust).expect_err(rust);
        assert!(refused.contains(reason), "{rust}: {refused}");
    }
}

#[test]
fn a_component_says_what_it_takes_and_gives() {
    let text = file("*row[3] = M31_5; *sub_component_inputs.other[0] = component_input;");
    let component = translate("component", &text, |_| Some(4)).unwrap();
    assert_eq!((component.inputs, component.columns), (Inputs::List { words: 10 }, 4));
    assert_eq!(component.gives, [("other".to_string(), 3, 4)]);
    assert!(component.text.contains("row.input<Tuple<Array<M31, 2>, Felt252Width27>>()"), "{}", component.text);
    assert_eq!(input_words(&text), Some(10));
    assert_eq!(
        uses(&text).unwrap().into_iter().collect::<Vec<_>>(),
        [("other".into(), 3), ("range_check_9_9".into(), 1)]
    );
}
