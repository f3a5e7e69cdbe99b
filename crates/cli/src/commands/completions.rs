use clap::CommandFactory as _;

use crate::arguments::Arguments;
use crate::exit::Exit;

pub(crate) fn run(shell: clap_complete::Shell) -> Exit {
    clap_complete::generate(
        shell,
        &mut Arguments::command(),
        "shardwright",
        &mut std::io::stdout(),
    );
    Exit::Done
}
