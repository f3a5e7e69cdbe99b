//! The speed and crash safety of `shardwright run`, compared with other tools that run commands.

mod document;
mod feeding;
mod killing;
mod memory;
mod plot;
mod spawning;
mod stragglers;
mod turns;
mod workplace;

use anyhow::Result;
use cargo_metadata::Metadata;

use self::document::Section;
use self::workplace::Workplace;
use crate::system_packages::{self, Package, Proof};

const PACKAGES: &[Package] = &[
    Package {
        name: "findutils",
        proof: Proof::Program("xargs"),
        reason: "a run is compared with xargs",
    },
    Package {
        name: "parallel",
        proof: Proof::Program("parallel"),
        reason: "a run is compared with GNU parallel",
    },
    Package {
        name: "python3-pip",
        proof: Proof::File("/usr/lib/python3/dist-packages/pip/__main__.py"),
        reason: "HyperQueue comes in a Python package",
    },
];

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Row {
    /// A process per item.
    Spawning,
    /// Items fed to persistent programs and library jobs.
    Feeding,
    /// Shards, one of which takes much longer than the others.
    Stragglers,
    /// Kills, and the recovery after them.
    Killing,
    /// The memory of a run.
    Memory,
}

impl Row {
    const ALL: [Self; 5] =
        [Self::Spawning, Self::Feeding, Self::Stragglers, Self::Killing, Self::Memory];

    fn measure(self, place: &Workplace) -> Result<Section> {
        match self {
            Self::Spawning => spawning::measure(place),
            Self::Feeding => feeding::measure(place),
            Self::Stragglers => stragglers::measure(place),
            Self::Killing => killing::measure(place),
            Self::Memory => memory::measure(place),
        }
    }
}

/// Measures one row and prints it, or measures all rows and writes them into the document.
pub(crate) fn run(metadata: &Metadata, only: Option<Row>) -> Result<()> {
    system_packages::ensure(PACKAGES, &mut system_packages::Debian)?;
    let place = Workplace::make(metadata)?;
    let mut sections = Vec::new();
    for row in Row::ALL.into_iter().filter(|row| only.is_none_or(|only| only == *row)) {
        println!("{row:?} …");
        let section = row.measure(&place)?;
        println!("\n{}", section.text);
        sections.push(section);
    }
    match only {
        Some(_) => Ok(()),
        None => document::write(metadata.workspace_root.as_std_path(), &sections),
    }
}
