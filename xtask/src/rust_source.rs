//! Just enough of a Rust lexer to look at code without its comments, strings and tests.

/// `source` with the inside of comments, strings and character literals blanked; offsets and lines stay the same.
pub fn code_only(source: &str) -> String {
    blank(source, true)
}

/// The same, but comments stay.
pub fn without_literals(source: &str) -> String {
    blank(source, false)
}

fn blank(source: &str, comments: bool) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => end_of_line(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => end_of_block_comment(bytes, at),
            b'"' => end_of_string(bytes, at),
            b'r' if !continues_word(bytes, at) => end_of_raw_string(bytes, at),
            b'\'' => end_of_character(bytes, at),
            _ => at,
        };
        if end == at {
            at += 1;
            continue;
        }
        if comments || bytes[at] != b'/' {
            for byte in out[at..end].iter_mut().filter(|byte| **byte != b'\n') {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8(out).expect("whole literals and comments were blanked")
}

/// `code`, which [`code_only`] made, with items under `#[cfg(test)]` blanked.
pub fn without_tests(code: &str) -> String {
    without_tests_of(code, code)
}

/// The string literals of `source` but for those of tests; all else is blank, and offsets and lines stay the same.
pub fn literals(source: &str) -> String {
    let plain = without_literals(source);
    let blank = |(literal, plain): (u8, u8)| match literal {
        same if same == plain && same != b'\n' => b' ',
        literal => literal,
    };
    let literals = source.bytes().zip(plain.bytes()).map(blank).collect();
    let literals = String::from_utf8(literals).expect("whole literals stay");
    without_tests_of(&literals, &code_only(source))
}

/// `text` without what is a test in `code`, which has the same offsets.
fn without_tests_of(text: &str, code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = text.as_bytes().to_vec();
    let mut from = 0;
    while let Some(found) = code[from..].find(MARK) {
        let start = from + found;
        let end = end_of_item(code.as_bytes(), start + MARK.len());
        out[start..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        from = end;
    }
    String::from_utf8(out).expect("whole items were blanked")
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, counted from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub lines: usize,
}

/// The functions of `code`, which [`code_only`] made.
pub fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for start in words(code, "fn") {
        let name: String = code[start + 2..]
            .trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let end = end_of_item(bytes, start);
        if name.is_empty() || bytes.get(end.wrapping_sub(1)) != Some(&b'}') {
            continue; // a function type, or a declaration in a trait
        }
        let lines = code[start..end].matches('\n').count() + 1;
        found.push(Function { name, line: line_of(code, start), lines });
    }
    found
}

/// Offsets at which `word` stands in `code` as a word of its own.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !continues_word(bytes, at) && !bytes.get(at + word.len()).is_some_and(|&byte| is_word(byte))
    })
}

/// The line of offset `at`, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn continues_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && is_word(bytes[at - 1])
}

fn end_of_line(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |length| at + length)
}

fn end_of_block_comment(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0;
    let mut at = at;
    while at < bytes.len() {
        match bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    break;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// `at` itself when no raw string starts there.
fn end_of_raw_string(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return at;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let inside = &bytes[open + 1..];
    inside
        .windows(close.len())
        .position(|window| window == close)
        .map_or(bytes.len(), |length| open + 1 + length + close.len())
}

/// `at` itself when the quote starts a lifetime.
fn end_of_character(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => {
            let rest = bytes.get(at + 3..).unwrap_or_default();
            let length = rest.iter().position(|&byte| byte == b'\'');
            length.map_or(bytes.len(), |length| at + 4 + length)
        }
        Some(_) => {
            let rest = &bytes[at + 1..(at + 6).min(bytes.len())];
            let width = match rest[0] {
                0x00..0x80 => 1,
                0x80..0xE0 => 2,
                0xE0..0xF0 => 3,
                _ => 4,
            };
            if rest.get(width) == Some(&b'\'') { at + 2 + width } else { at }
        }
        None => at,
    }
}

/// One past the first `;` outside brackets, or the brace that closes the first block, from `at` on.
fn end_of_item(code: &[u8], at: usize) -> usize {
    let mut depth = 0_i32;
    for (offset, byte) in code[at..].iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' => depth -= 1,
            b'}' => {
                depth -= 1;
                if depth <= 0 {
                    return at + offset + 1;
                }
            }
            b';' if depth == 0 => return at + offset + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_code_is_not() {
        for (source, code) in [
            ("a // b\nc", "a c"),
            ("a /* b /* c */ d */ e", "a e"),
            (r#"f("x\"y", z)"#, "f( , z)"),
            ("g(r#\"a\"b\"#, c)", "g( , c)"),
            (r"let q = '\''; let r = 'x';", "let q = ; let r = ;"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("let e = 'é'; t", "let e = ; t"),
            (r"let n = '\u{41}'; t", "let n = ; t"),
        ] {
            let blanked = code_only(source);
            assert_eq!(blanked.len(), source.len(), "{source}");
            assert_eq!(blanked.split_whitespace().collect::<Vec<_>>().join(" "), code, "{source}");
        }
    }

    #[test]
    fn comments_can_be_kept_and_what_they_quote_is_no_string() {
        let source = "f(\"a // b\"); // it's \"c\nd";
        assert_eq!(without_literals(source), "f(        ); // it's \"c\nd");
    }

    #[test]
    fn lines_stay_where_they_were() {
        let source = "a\n\"x\ny\"\n/* 1\n2 */ b";
        let code = code_only(source);
        assert_eq!(line_of(&code, code.find('b').unwrap()), 5);
    }

    #[test]
    fn test_items_are_left_out_and_what_follows_is_kept() {
        let code =
            "use a;\n#[cfg(test)]\nmod tests { fn x() { y; } }\nfn z() {}\n#[cfg(test)]\nmod t;\nw";
        let rest = without_tests(code);
        assert!(rest.contains("use a;") && rest.contains("fn z() {}") && rest.ends_with('w'));
        assert!(!rest.contains('x') && !rest.contains("mod"), "{rest}");
        assert_eq!(rest.matches('\n').count(), code.matches('\n').count());
    }

    #[test]
    fn functions_are_measured_with_their_signature() {
        let code = "trait T {\n    fn declared(x: [u8; 2]) -> u8;\n}\nfn long(\n    f: fn(u8) -> [u8; 2],\n) {\n    if a {\n    }\n}\nfn short() {}\n";
        let found = functions(code);
        let summary: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(summary, [("long", 4, 6), ("short", 10, 1)]);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("fn fnord xfn fn", "fn").collect::<Vec<_>>(), [0, 13]);
    }
}
