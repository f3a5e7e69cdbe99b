use crate::arguments::VerifyArguments;
use crate::commands::{find, print_json};
use crate::description::Results;
use crate::exit::Exit;
use crate::output::{Output, RESULTS};
use crate::say::say;
use crate::store::{Purpose, StoreAddress};
use crate::verify::{Written, verify};

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &VerifyArguments,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(Purpose::Look).await?;
    let name = arguments.run.run;
    let (run, description) = find(&coordinator, name).await?;
    let state = store.state_folder();
    let state = std::fs::canonicalize(state).unwrap_or_else(|_| state.to_owned());
    let output = Output::of(&description.results, &state, name).await?;
    let source = if arguments.without_source {
        None
    } else {
        let ours = [state.clone(), output.folder().to_owned()];
        let ours: Vec<_> = ours.into_iter().filter(|folder| folder.exists()).collect();
        Some(description.source.open(None, &state, &ours).await?)
    };
    let (folder, _fetched) = output.readable().await?;
    let own = (description.results == Results::Local).then(|| output.books_folder(run));
    let written = Written {
        folder: &folder,
        results: output.place(RESULTS),
        own_segments: own,
        objects: output.objects(),
        books: output.books(run).await?,
    };
    let source = source.as_ref();
    let findings = verify(&coordinator, name, run, &description, &written, source).await?;
    if json {
        print_json(&serde_json::json!({
            "name": name.as_str(), "holds": findings.is_empty(), "findings": findings.kept(),
            "more": findings.more(),
        }))?;
    } else {
        for finding in findings.kept() {
            say!("{finding}");
        }
        if findings.more() > 0 {
            say!("and {} more", findings.more());
        }
        if findings.is_empty() {
            say!("{name}: the receipt holds");
        }
    }
    Ok(if findings.is_empty() { Exit::Done } else { Exit::Findings })
}
