//! Help texts below the options, wrapped at the width of the terminal.

/// The longest line of the source.
const SOURCE: usize = 120;

/// The end of the short help, where the long one has more.
const SHORT: &str = "`--help` explains more, with examples.";

/// `command` and all its subcommands, with each paragraph of their help texts on one line. Values may be negative
/// numbers, which the parser of each value refuses by name.
pub fn flowing(command: clap::Command) -> clap::Command {
    let text = command.get_after_help().map(|text| joined(&text.to_string()));
    let command = match text {
        Some(text) if command.has_subcommands() => command.after_help(text),
        Some(text) => command.after_help(SHORT).after_long_help(text),
        None => command,
    };
    let takes_value = |arg: &clap::Arg| arg.get_action().takes_values();
    let command = command.mut_args(|arg| match takes_value(&arg) {
        true => arg.allow_negative_numbers(true),
        false => arg,
    });
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
