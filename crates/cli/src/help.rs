//! Help texts below the options, wrapped at the width of the terminal.

/// The longest line of the source.
const SOURCE: usize = 120;

/// `command` and all its subcommands, with each paragraph of their help texts on one line.
pub fn flowing(command: clap::Command) -> clap::Command {
    let text = command.get_after_help().map(ToString::to_string);
    let command = match text {
        Some(text) => command.after_help(joined(&text)),
        None => command,
    };
    command.mut_subcommands(flowing)
}

/// Joins the wrapped lines of each paragraph in `text`. Indented lines stay alone. A line that ends a sentence, with
/// room for the next word, ends its paragraph.
fn joined(text: &str) -> String {
    let mut all = String::new();
    let mut before = "";
    for line in text.lines() {
        let flows = |line: &str| !line.is_empty() && !line.starts_with(' ');
        let word = line.split(' ').next().unwrap_or_default();
        let is_full = before.chars().count() + 1 + word.chars().count() > SOURCE;
        let goes_on = is_full || !before.ends_with(['.', ':']);
        if !all.is_empty() {
            all.push(if flows(before) && flows(line) && goes_on { ' ' } else { '\n' });
        }
        all += line;
        before = line;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_the_source_breaks_are_joined_and_others_are_not() {
        let text = "One begins\nand ends.\nTwo.\n\nExamples:\n  a b\n  c d\n\nExit\ncode: 0.";
        let expected = "One begins and ends.\nTwo.\n\nExamples:\n  a b\n  c d\n\nExit code: 0.";
        assert_eq!(joined(text), expected);
        let full = format!("{}.", "x".repeat(116));
        assert_eq!(joined(&format!("{full}\nmore")), format!("{full} more"));
        assert_eq!(joined(&format!("{full}\nup")), format!("{full}\nup"));
    }
}
