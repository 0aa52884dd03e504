//! The code of a formatted Rust file, by its lines and their indentation.

/// `source` with comment lines and items under `#[cfg(test)]` blank; lines stay in place.
pub fn code_only(source: &str) -> String {
    let mut code = String::new();
    // The indentation of an item under test.
    let mut test: Option<&str> = None;
    for line in source.lines() {
        let text = line.trim_start();
        let indentation = &line[..line.len() - text.len()];
        if text == "#[cfg(test)]" {
            test = Some(indentation);
        } else if test.is_none() && !text.starts_with("//") {
            code.push_str(line);
        } else if test == Some(indentation)
            && (text.starts_with('}') || text.ends_with([';', ',', '}']) && !text.contains('"'))
        {
            test = None;
        }
        code.push('\n');
    }
    code
}

/// Offsets at which `word` stands in `code` as a word of its own.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_word =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = code.as_bytes();
    let whole = move |at: &usize| {
        !is_word(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !is_word(bytes.get(at + word.len()))
    };
    code.match_indices(word).map(|(at, _)| at).filter(whole)
}

/// The line of offset `at`, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_tests_are_left_out_and_lines_stay() {
        let source = "use a;\n/// b\n#[cfg(test)]\nmod c;\nfn d() {\n    #[cfg(test)]\n    e();\n}\n\
            #[cfg(test)]\nmod f {\n    fn g() {}\n}\nh\n";
        assert_eq!(code_only(source), "use a;\n\n\n\nfn d() {\n\n\n}\n\n\n\n\nh\n");
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("fn fnord xfn fn", "fn").collect::<Vec<_>>(), [0, 13]);
    }
}
