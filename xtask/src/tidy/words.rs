//! Libraries state facts: commands and flags of the program are worded in `cli` alone.

use crate::repo::{File, Violation};
use crate::rust_source::{code_only, line_of};

/// Crates with a command line of their own.
const WITH_FLAGS: [&str; 3] = ["cli", "sim", "shell"];

/// Groups of commands, as a text in backquotes names them.
const COMMANDS: [&str; 4] = ["`thermocline ", "`lab ", "`device ", "`volume "];

/// Files of libraries that still name commands or flags. Entries only go.
const RATCHET: [&str; 17] = [
    "crates/lab/src/outcome/attempts.rs",
    "crates/lab/src/reproduce/point/table.rs",
    "crates/nand/src/profile/check.rs",
    "crates/record/src/waterfall.rs",
    "crates/workload/src/synthetic/app.rs",
    "crates/workload/src/synthetic/btree/keys.rs",
    "crates/workload/src/synthetic/btree/mod.rs",
    "crates/workload/src/synthetic/error.rs",
    "crates/workload/src/synthetic/generator.rs",
    "crates/workload/src/synthetic/hse.rs",
    "crates/workload/src/synthetic/kvcache.rs",
    "crates/workload/src/synthetic/lsm/mod.rs",
    "crates/workload/src/synthetic/lsm/store.rs",
    "crates/workload/src/synthetic/objects.rs",
    "crates/workload/src/trace/detect.rs",
    "crates/workload/src/trace/formats/block_layer.rs",
    "crates/workload/src/trace/input.rs",
];

/// Libraries that name a command or a flag, and listed files without one. Code itself has neither.
pub fn check(files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_library(&file.path)) {
        let text = code_only(file.text.as_deref().unwrap_or_default());
        let listed = RATCHET.contains(&file.path.as_str());
        match named(&text) {
            Some(at) if !listed => {
                let message = "a library names a command or a flag; word it in `cli`";
                found.push(Violation::new(&file.path, line_of(&text, at), message));
            }
            None if listed => {
                let message = "no command or flag is left; remove its entry in xtask's ratchet";
                found.push(Violation::new(&file.path, 0, message));
            }
            _ => {}
        }
    }
    found
}

fn is_library(path: &str) -> bool {
    let Some((name, rest)) = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
    else {
        return false;
    };
    let tests = rest == "tests.rs" || rest.ends_with("/tests.rs") || rest.contains("tests/");
    rest.ends_with(".rs") && !tests && !WITH_FLAGS.contains(&name)
}

/// The first command or flag in `text`. Flags with an underscore are those of fio.
fn named(text: &str) -> Option<usize> {
    let commands = COMMANDS.iter().filter_map(|command| text.find(command));
    let is_flag = |at: &usize| {
        let flag =
            text[at + 2..].split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        let flag = flag.into_iter().next().unwrap_or_default();
        flag.starts_with(|c: char| c.is_ascii_lowercase()) && !flag.contains('_')
    };
    let flags = text.match_indices("--").map(|(at, _)| at).filter(is_flag);
    commands.chain(flags).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let file = File { path: path.into(), size: 0, text: Some(text.into()) };
        check(&[file])
            .into_iter()
            .filter(|one| !one.path.starts_with("xtask"))
            .map(|v| v.line)
            .collect()
    }

    #[test]
    fn a_library_names_no_command_and_no_flag() {
        for text in [
            "const A: &str =\n    \"say `thermocline device attach`\";\n",
            "const A: &str =\n    \"give a larger --span\";\n",
            "const A: &str =\n    r\"`lab list lsm` shows it\";\n",
        ] {
            assert_eq!(found("crates/workload/src/a.rs", text), [2], "{text}");
            assert!(found("crates/cli/src/a.rs", text).is_empty());
            assert!(found("crates/nbd/src/a/tests.rs", text).is_empty());
        }
    }

    #[test]
    fn comments_tests_and_flags_of_others_are_free() {
        for text in [
            "/// `thermocline format --example`\nfn f() {}\n",
            "#[cfg(test)]\nmod tests {\n    const A: &str = \"--span\";\n}\n",
            "const A: &str = \"fio --write_iolog and `a -- b`\";\n",
        ] {
            assert!(found("crates/workload/src/a.rs", text).is_empty(), "{text}");
        }
    }
}
