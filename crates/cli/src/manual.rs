//! `rigel completions` and `rigel man`: what shells and `man` know about the command line.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::terminal::Refusal;
use crate::{Cli, Failure};

#[derive(clap::Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

const COMPLETIONS_HELP: &str = "\
To install them:
  bash  rigel completions bash > ~/.local/share/bash-completion/completions/rigel
  zsh   rigel completions zsh > FOLDER/_rigel, where FOLDER is one of $fpath
  fish  rigel completions fish > ~/.config/fish/completions/rigel.fish";

#[derive(clap::Args)]
#[command(after_help = "`rigel man prove | man -l -` shows a page without installing it.")]
pub struct Manual {
    /// The command, such as `prove` or `bench plonky3` [default: rigel itself]
    command: Vec<String>,
    /// Write the pages of all commands into this folder, such as ~/.local/share/man/man1
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    folder: Option<PathBuf>,
}

/// Prints the completions of a shell.
pub fn completions(arguments: &Completions) -> Result<bool, Failure> {
    // Into memory first: the generator panics if it can't write, as when its reader has gone.
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "rigel", &mut text);
    io::stdout().write_all(&text)?;
    Ok(true)
}

/// Prints a page of the manual, or writes all.
pub fn print(arguments: &Manual) -> Result<bool, Failure> {
    let mut all = Cli::command();
    all.build();
    if let Some(folder) = &arguments.folder {
        std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(all, folder))
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        return Ok(true);
    }
    let mut command = &all;
    for name in &arguments.command {
        command = command
            .find_subcommand(name)
            .ok_or_else(|| Refusal::Usage(format!("`{}` has no command `{name}`", command.get_name())))?;
    }
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text)?;
    io::stdout().write_all(&text)?;
    Ok(true)
}
