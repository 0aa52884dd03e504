//! `thermocline manuals`: manual pages and completions of shells, for packages.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Arguments of `manuals`.
#[derive(Args)]
pub struct ManualArgs {
    /// Folder such as /usr/share: pages go to its man/man1, completions to the folder of each shell
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes the pages and completions of `command`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(command: clap::Command, args: &ManualArgs) -> anyhow::Result<()> {
    let pages = args.folder.join("man/man1");
    fs::create_dir_all(&pages)?;
    let mut command = command.disable_help_subcommand(true);
    for (shell, folder) in [
        (Shell::Bash, "bash-completion/completions"),
        (Shell::Fish, "fish/vendor_completions.d"),
        (Shell::Zsh, "zsh/vendor-completions"),
    ] {
        let folder = args.folder.join(folder);
        fs::create_dir_all(&folder)?;
        clap_complete::generate_to(shell, &mut command, "thermocline", folder)?;
    }
    Ok(clap_mangen::generate_to(command, pages)?)
}
