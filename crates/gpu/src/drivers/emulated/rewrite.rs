//! Translates `__shared__` declarations to C++.
//!
//! C++ has no shared memory, so the text of a unit and its headers is rewritten before it is compiled:
//!
//! | CUDA | C++ |
//! |---|---|
//! | `__shared__ T a[N][M];` | `typedef T rigel_type_a[N][M]; RIGEL_SHARED(rigel_type_a, a);` |
//! | `extern __shared__ T a[];` | `typedef T rigel_type_a; RIGEL_DYNAMIC(rigel_type_a, a);` |
//!
//! The macros of `shim/device.h` turn these into references to the block's shared memory. Line numbers do not
//! change.

/// A declaration that can't be translated: the reason and the position.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Untranslatable {
    /// The line, counted from 1.
    pub(super) line: usize,
    pub(super) reason: &'static str,
}

/// The text with its `__shared__` declarations translated.
pub(super) fn rewrite(text: &str) -> Result<String, Untranslatable> {
    if !text.contains("__shared__") {
        return Ok(text.to_owned());
    }
    let tokens = tokens(text);
    let mut out = String::with_capacity(text.len() + 256);
    // The current statement starts at this position of `out`, and at this token.
    let (mut statement_out, mut statement) = (0, 0);
    let mut scopes = Vec::new();
    let mut directive = false;
    let mut i = 0;
    while i < tokens.len() {
        let token = &tokens[i];
        if token.kind == TokenKind::Directive {
            // Macro bodies are translated like function bodies; other directives are copied.
            directive = token.text.contains("define");
        }
        if token.text == "__shared__" && token.kind == TokenKind::Word {
            let end = tokens[i..].iter().position(|t| t.text == ";" || t.kind == TokenKind::DirectiveEnd);
            if let Some(end) = end.map(|n| i + n).filter(|&end| tokens[end].text == ";") {
                let at_file_scope = !directive && scopes.last().is_none_or(|scope| *scope == Scope::Outer);
                let declaration = Declaration::parse(&tokens[statement..end])
                    .map_err(|reason| Untranslatable { line: token.line, reason })?;
                out.truncate(statement_out);
                let written = declaration
                    .translate(at_file_scope)
                    .map_err(|reason| Untranslatable { line: token.line, reason })?;
                // White space first, so that the translation is on the declaration's last line.
                tokens[statement..end].iter().for_each(|t| out.push_str(&t.line_breaks()));
                out.push_str(&written);
                i = end;
                continue;
            }
        }
        match (token.text, token.kind) {
            ("{", TokenKind::Mark) => scopes.push(Scope::of(&tokens[statement..i])),
            ("}", TokenKind::Mark) => drop(scopes.pop()),
            _ => {}
        }
        out.push_str(token.text);
        i += 1;
        let ends = matches!(token.text, ";" | "{" | "}") && token.kind == TokenKind::Mark;
        if ends || matches!(token.kind, TokenKind::Directive | TokenKind::DirectiveEnd) {
            (statement_out, statement) = (out.len(), i);
        }
        if token.kind == TokenKind::DirectiveEnd {
            directive = false;
        }
    }
    Ok(out)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// A namespace, or `extern "C"`.
    Outer,
    Inner,
}

impl Scope {
    /// The scope that a `{` opens after these tokens.
    fn of(before: &[Token]) -> Self {
        let has = |text: &str| before.iter().any(|t| t.text == text);
        let linkage = has("extern") && before.iter().any(|t| t.text == "\"C\"");
        if !has("(") && (has("namespace") || linkage) { Self::Outer } else { Self::Inner }
    }
}

/// The parts of `[extern] __shared__ [alignment] type name [dimensions]`.
struct Declaration {
    external: bool,
    alignments: Vec<String>,
    type_name: String,
    name: String,
    dimensions: String,
}

impl Declaration {
    fn parse(tokens: &[Token]) -> Result<Self, &'static str> {
        let tokens: Vec<&str> = tokens
            .iter()
            .filter(|t| t.kind != TokenKind::Space && t.kind != TokenKind::Directive)
            .map(|t| t.text)
            .collect();
        let mut external = false;
        let mut alignments = Vec::new();
        let mut parts = Vec::new();
        let mut dimensions = Vec::new();
        let (mut brackets, mut angles) = (0usize, 0i32);
        let mut i = 0;
        while i < tokens.len() {
            let text = tokens[i];
            i += 1;
            match text {
                "__shared__" | "static" => continue,
                "extern" => external = true,
                "__align__" | "alignas" if tokens.get(i) == Some(&"(") => {
                    let (argument, after) = parenthesised(&tokens, i).ok_or("a `)` is missing")?;
                    alignments.push(argument);
                    i = after;
                }
                _ if brackets > 0 || text == "[" => {
                    brackets += (text == "[") as usize;
                    brackets -= (text == "]") as usize;
                    dimensions.push(text);
                }
                "=" | "{" => return Err("a __shared__ variable can't have an initial value"),
                "," if angles == 0 => return Err("write one __shared__ variable in each declaration"),
                "(" => {
                    let (argument, after) = parenthesised(&tokens, i - 1).ok_or("a `)` is missing")?;
                    parts.push(format!("({argument})"));
                    i = after;
                }
                _ if !dimensions.is_empty() => return Err("this __shared__ declaration is not supported"),
                _ => {
                    angles += text.matches('<').count() as i32 - text.matches('>').count() as i32;
                    parts.push(text.to_owned());
                }
            }
        }
        let name = parts.pop().filter(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'));
        let name = name.ok_or("this __shared__ declaration has no name")?;
        if parts.is_empty() {
            return Err("this __shared__ declaration has no type");
        }
        Ok(Self { external, alignments, type_name: parts.join(" "), name, dimensions: dimensions.concat() })
    }

    fn translate(&self, at_file_scope: bool) -> Result<String, &'static str> {
        let Self { external, alignments, type_name, name, dimensions } = self;
        if !external {
            if at_file_scope {
                return Err("a __shared__ variable must be declared in a function (or as `extern T name[]`)");
            }
            let alignments: String = alignments.iter().map(|align| format!(", ({align})")).collect();
            return Ok(format!(
                "typedef {type_name} rigel_type_{name}{dimensions}; \
                 RIGEL_SHARED(rigel_type_{name}, {name}{alignments})"
            ));
        }
        let element = dimensions.strip_prefix("[]").ok_or("extern __shared__ memory is an array: `T name[]`")?;
        let form = if at_file_scope { "RIGEL_DYNAMIC_GLOBAL" } else { "RIGEL_DYNAMIC" };
        Ok(format!("typedef {type_name} rigel_type_{name}{element}; {form}(rigel_type_{name}, {name})"))
    }
}

/// The text between `tokens[open]`, a parenthesis, and its partner, and the index after that.
fn parenthesised(tokens: &[&str], open: usize) -> Option<(String, usize)> {
    let mut depth = 0;
    for (i, text) in tokens.iter().enumerate().skip(open) {
        depth += (*text == "(") as usize;
        depth -= (*text == ")") as usize;
        if depth == 0 {
            return Some((tokens[open + 1..i].join(" "), i + 1));
        }
    }
    None
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenKind {
    /// White space, comments, escaped line ends.
    Space,
    Word,
    Literal,
    Mark,
    /// `#name`, for a definition with the macro's name and parameters; for other directives the whole line.
    Directive,
    /// The line end that closes a directive.
    DirectiveEnd,
}

#[derive(Debug)]
struct Token<'a> {
    text: &'a str,
    kind: TokenKind,
    line: usize,
}

impl Token<'_> {
    /// The line breaks of the token, escaped if they were escaped.
    fn line_breaks(&self) -> String {
        let escaped = self.kind == TokenKind::Space && self.text.contains("\\\n");
        let one = if escaped { "\\\n" } else { "\n" };
        one.repeat(self.text.matches('\n').count())
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens: Vec<Token> = Vec::new();
    let (mut at, mut line) = (0, 1);
    let (mut in_directive, mut line_start) = (false, true);
    while at < text.len() {
        let rest = &text[at..];
        let (length, kind) = if line_start && rest.starts_with('#') {
            in_directive = true;
            (directive_length(rest), TokenKind::Directive)
        } else if in_directive && rest.starts_with('\n') {
            in_directive = false;
            (1, TokenKind::DirectiveEnd)
        } else {
            next(rest)
        };
        let token = &rest[..length];
        match kind {
            TokenKind::Space => line_start |= token.contains('\n') && !token.contains("\\\n"),
            TokenKind::DirectiveEnd => line_start = true,
            _ => line_start = false,
        }
        tokens.push(Token { text: token, kind, line });
        line += token.matches('\n').count();
        at += length;
    }
    tokens
}

/// The length and kind of the token at the start of `rest`. A space token holds at most one line end, its last
/// character (but for comments).
fn next(rest: &str) -> (usize, TokenKind) {
    let until = |what: &str, from: usize| rest[from..].find(what).map_or(rest.len(), |n| from + n + what.len());
    let first = rest.chars().next().expect("there is text left");
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), TokenKind::Space);
    }
    if rest.starts_with("/*") {
        return (until("*/", 2), TokenKind::Space);
    }
    if rest.starts_with("\\\n") {
        return (2, TokenKind::Space);
    }
    if first.is_whitespace() {
        return (first.len_utf8(), TokenKind::Space);
    }
    if let Some(raw) = rest.strip_prefix("R\"") {
        let delimiter = &raw[..raw.find('(').unwrap_or(0)];
        return (until(&format!("){delimiter}\""), 2), TokenKind::Literal);
    }
    if first == '"' || first == '\'' {
        let mut escaped = false;
        let end = rest[1..].find(|c: char| {
            let closes = c == first && !escaped;
            escaped = c == '\\' && !escaped;
            closes
        });
        return (end.map_or(rest.len(), |n| n + 2), TokenKind::Literal);
    }
    if first.is_ascii_digit() {
        // Digit separators are quotes.
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '\'' | '_')));
        return (end.unwrap_or(rest.len()), TokenKind::Literal);
    }
    if first.is_alphabetic() || first == '_' {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        return (end.unwrap_or(rest.len()), TokenKind::Word);
    }
    (if rest.starts_with("::") { 2 } else { first.len_utf8() }, TokenKind::Mark)
}

fn directive_length(rest: &str) -> usize {
    let word = rest[1..].trim_start_matches([' ', '\t']);
    let name = word.strip_prefix("define").filter(|after| after.starts_with([' ', '\t']));
    let Some(after) = name else {
        // The whole logical line, up to its end.
        let mut from = 0;
        while let Some(n) = rest[from..].find('\n') {
            if !rest[..from + n].ends_with('\\') {
                return from + n;
            }
            from += n + 1;
        }
        return rest.len();
    };
    let macro_name = after.trim_start_matches([' ', '\t']);
    let end = macro_name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(macro_name.len());
    let parameters = &macro_name[end..];
    let close = if parameters.starts_with('(') { parameters.find(')').map_or(0, |n| n + 1) } else { 0 };
    rest.len() - macro_name.len() + end + close
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(declaration: &str) -> String {
        let text = rewrite(&format!("void f() {{{declaration}}}")).unwrap();
        text.strip_prefix("void f() {").unwrap().strip_suffix('}').unwrap().to_owned()
    }

    #[test]
    fn declarations() {
        assert_eq!(
            body("__shared__ u32 t[4][N + 1];"),
            "typedef u32 rigel_type_t[4][N+1]; RIGEL_SHARED(rigel_type_t, t);"
        );
        assert_eq!(
            body("__shared__ __align__(16) Pair<A, B> p;"),
            "typedef Pair < A , B > rigel_type_p; RIGEL_SHARED(rigel_type_p, p, (16));"
        );
        assert_eq!(
            body("volatile __shared__ typename F::T x;"),
            "typedef volatile typename F :: T rigel_type_x; RIGEL_SHARED(rigel_type_x, x);"
        );
        assert_eq!(
            body("extern __shared__ uint4 all[];"),
            "typedef uint4 rigel_type_all; RIGEL_DYNAMIC(rigel_type_all, all);"
        );
        assert_eq!(
            body("extern __shared__ u32 rows[][33];"),
            "typedef u32 rigel_type_rows[33]; RIGEL_DYNAMIC(rigel_type_rows, rows);"
        );
    }

    #[test]
    fn scopes() {
        let global = "namespace a { extern \"C\" {\nextern __shared__ int s[];\n}}";
        assert!(rewrite(global).unwrap().contains("RIGEL_DYNAMIC_GLOBAL(rigel_type_s, s)"));
        let error = rewrite("\n\n__shared__ int s[3];").unwrap_err();
        assert_eq!(error.line, 3);
        let templated = "template <class T> __global__ void k(T* p) { if (p) { __shared__ T x; } }";
        assert!(rewrite(templated).unwrap().contains("RIGEL_SHARED(rigel_type_x, x)"));
    }

    #[test]
    fn other_text_is_left_alone() {
        for text in [
            "// __shared__ int a;\n/* __shared__ int b; */ \"__shared__ int c;\"",
            "int a = 1'000; char q = '\\''; // __shared__ \"",
            "R\"x(__shared__ int a;)x\"",
            "#define SHARED __shared__\n#pragma unroll\nint a;",
        ] {
            assert_eq!(rewrite(text).unwrap(), text);
        }
    }

    #[test]
    fn lines_stay() {
        let text = "#define S \\\n  extern __shared__ \\\n  int s[]; int t;\n\
                    void f() {\n __shared__\n int x\n [3]; g(); }\n";
        let out = rewrite(text).unwrap();
        let line = |text: &str, what: &str| text[..text.find(what).unwrap()].matches('\n').count();
        assert_eq!(line(&out, "g();"), line(text, "g();"));
        assert_eq!(line(&out, "void f"), line(text, "void f"));
        assert!(out.contains("RIGEL_DYNAMIC(rigel_type_s, s); int t;\nvoid"), "{out}");
    }

    #[test]
    fn what_can_not_be_translated() {
        for (text, reason) in [
            ("__shared__ int a, b;", "one __shared__ variable"),
            ("__shared__ int a = 1;", "initial value"),
            ("extern __shared__ int a;", "array"),
        ] {
            let error = rewrite(&format!("void f() {{\n{text} }}")).unwrap_err();
            assert!(error.reason.contains(reason), "{text}: {error:?}");
            assert_eq!(error.line, 2);
        }
    }
}
