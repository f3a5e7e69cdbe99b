use std::path::Path;

use shardwright_contracts::RunId;
use shardwright_coordination::{AsyncRunManagement as _, RunName, RunQueryError};
use shardwright_jobs::TENANT;
use shardwright_jobs::description::{Mode, Results};
use shardwright_jobs::output::{Output, RECEIPT, RESULTS};
use shardwright_jobs::verify::{Findings, Written, verify};

use crate::arguments::runs::VerifyArguments;
use crate::commands::{find, print_json};
use crate::console::{errln, outln};
use crate::exit::Exit;
use crate::state::State;
use crate::store::{Coordinator, OpenMode, OpenStore as _, StoreAddress};

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &VerifyArguments,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(OpenMode::Read).await?;
    let name = arguments.run.run;
    let (run, description) = find(&coordinator, name).await?;
    anyhow::ensure!(
        description.mode != Mode::Library,
        "run {name} was created by a program that uses the library; only that program can verify it"
    );
    ensure_finished(&coordinator, name, run).await?;
    let state = store.state_folder();
    let state = std::fs::canonicalize(state).unwrap_or_else(|_| state.to_owned());
    let output = Output::of(&description.results, &state, name).await?;
    let source = if arguments.without_source {
        None
    } else {
        let ours = [state.clone(), output.folder().to_owned()];
        let ours: Vec<_> = ours.into_iter().filter(|folder| folder.exists()).collect();
        Some(description.source.open(&[], &state, &ours).await?)
    };
    let (folder, _fetched) = output.readable().await?;
    let missing = missing_files(&output, &folder);
    if !missing.is_empty() {
        return report(json, name, &missing);
    }
    let own = (description.results == Results::Local).then(|| output.journal_folder(run));
    let written = Written {
        folder: &folder,
        results: output.location(RESULTS),
        own_segments: own,
        objects: output.objects(),
        journals: output.journals(run).await?,
    };
    let source = source.as_ref();
    let findings = verify(&coordinator, name, run, &description, &written, source).await?;
    report(json, name, &findings)
}

/// Rejects a run that has no receipt.
async fn ensure_finished(
    coordinator: &Coordinator,
    name: RunName,
    run: RunId,
) -> anyhow::Result<()> {
    let state = match coordinator.get_run(TENANT, run).await {
        Ok(record) => State::of(&record, &coordinator.get_run_progress(TENANT, run).await?),
        Err(RunQueryError::RunNotFound(_)) => State::NotBegun,
        Err(error) => return Err(error.into()),
    };
    match state {
        State::Done | State::DoneButParked { .. } => Ok(()),
        State::Cancelled => anyhow::bail!("run {name} was cancelled: it has no receipt"),
        State::Failed => anyhow::bail!("run {name} has failed: it has no receipt"),
        state => anyhow::bail!("run {name} is not finished ({state}): it has no receipt yet"),
    }
}

/// Checks that the result file and the receipt exist and are files.
fn missing_files(output: &Output, folder: &Path) -> Findings {
    let mut findings = Findings::default();
    for file in [RESULTS, RECEIPT] {
        let path = folder.join(file);
        let wrong = match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "is missing",
            // Other errors occur again when the file is read.
            Err(_) => continue,
            Ok(_) if path.is_file() => continue,
            Ok(_) => "is not a file",
        };
        findings.add(format!("{} {wrong}", output.location(file)));
    }
    findings
}

fn report(json: bool, name: RunName, findings: &Findings) -> anyhow::Result<Exit> {
    for note in findings.notes() {
        errln!("{note}");
    }
    if json {
        print_json(&serde_json::json!({
            "name": name.as_str(), "holds": findings.is_empty(), "findings": findings.kept(),
            "more": findings.more(),
        }))?;
    } else {
        for finding in findings.kept() {
            outln!("{finding}");
        }
        if findings.more() > 0 {
            outln!("and {} more", findings.more());
        }
        let holds = if findings.is_empty() { "holds" } else { "does not hold" };
        outln!("{name}: the receipt {holds}");
    }
    Ok(if findings.is_empty() { Exit::Done } else { Exit::Findings })
}
