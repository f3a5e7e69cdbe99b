//! Names and labels of runs.

use bytes::Bytes;
use shardwright_contracts::limits::MAX_RUN_DESCRIPTION_SIZE;
use shardwright_contracts::{RunId, TenantId};
use shardwright_coordination::operation::{FindRun, LabelOf, NameRun};
use shardwright_coordination::{InfraError, NameRunError, RunLabel};
use shardwright_engine::codec::Record;
use shardwright_engine::listing;
use shardwright_engine::transact::{self, Decided, Decision, Read, Settled, Transaction};
use shardwright_engine::{Operation, operation};
use shardwright_store::{Commit, Expect, Key, Revision, ScanPage, Versioned};

use crate::attempts::Attempts;
use crate::coordinator::{Core, StoredCoordinator};
use crate::keys::StoreKey;
use crate::reading::RECORDS_PER_PAGE;
use crate::records::{RunLabelRecord, RunNameRecord};

const NAME: Operation = operation!("name_run");
const FIND: Operation = operation!("find_run");
const LABEL: Operation = operation!("label_of");
const LIST: Operation = operation!("list_labels");

impl StoredCoordinator {
    pub(crate) async fn find_run(
        &self,
        tenant: TenantId,
        request: FindRun,
    ) -> Result<Option<RunId>, InfraError> {
        let name = request.name;
        let (key, since) = (self.core.keys.name(tenant, name), Revision::ZERO);
        let found = self.core.look_up::<RunNameRecord>(&key, since, FIND).await?;
        Ok(found.map(|(named, _)| named.run))
    }

    pub(crate) async fn name_run(
        &self,
        tenant: TenantId,
        request: NameRun<&[u8]>,
    ) -> Result<RunId, NameRunError> {
        let NameRun { run, name, instead_of, description } = request;
        let label = &RunLabel { name, description: description.into() };
        let length = label.description.len();
        if length > MAX_RUN_DESCRIPTION_SIZE {
            return Err(NameRunError::LabelTooLarge { length });
        }
        let keys = [
            self.core.keys.name(tenant, label.name),
            self.core.keys.run(tenant, run),
            self.core.keys.label(tenant, run),
        ];
        let value = RunLabelRecord { label: label.clone() }.encode();
        let core = &self.core;
        let mut naming =
            Naming { core, keys, run, value, instead_of, attempts: Attempts::default() };
        core.driver.transact(&mut naming).await
    }

    pub(crate) async fn label_of(
        &self,
        tenant: TenantId,
        request: LabelOf,
    ) -> Result<Option<RunLabel>, InfraError> {
        let run = request.run;
        let (key, since) = (self.core.keys.label(tenant, run), Revision::ZERO);
        let found = self.core.look_up::<RunLabelRecord>(&key, since, LABEL).await?;
        Ok(found.map(|(label, _)| label.label))
    }

    pub(crate) async fn list_labels(
        &self,
        tenant: TenantId,
    ) -> Result<Vec<(RunId, RunLabel)>, InfraError> {
        let (_, entries) = self.core.list(&self.core.keys.labels(tenant), LIST).await?;
        let labels = entries.iter().filter_map(|(key, found)| {
            let Some(StoreKey::Label(_, run)) = self.core.keys.parse(key) else { return None };
            // A label that cannot be read does not hide others. `label_of` reports it.
            let RunLabelRecord { label } = RunLabelRecord::decode(&found.value).ok()?;
            Some((run, label))
        });
        Ok(labels.collect())
    }
}

/// Names a run.
struct Naming<'c> {
    core: &'c Core,
    /// Of the name, the run and the run's label.
    keys: [Key; 3],
    run: RunId,
    value: Bytes,
    instead_of: Option<RunId>,
    /// Attempts that were overtaken, based on a revision of the name.
    attempts: Attempts<Option<Revision>>,
}

/// The run of a name, and whether the new run id is used.
struct NameBasis {
    named: Option<(RunNameRecord, Revision)>,
    is_used: bool,
}

impl Transaction for Naming<'_> {
    type Basis = NameBasis;
    type Answer = (RunId, Option<Revision>);
    type Output = RunId;
    type Error = NameRunError;

    fn operation(&self) -> Operation {
        NAME
    }

    async fn load(&mut self, read: Read) -> Result<(NameBasis, Read), InfraError> {
        let loaded = listing::load_all(&self.core.store, &self.keys, NAME).await?;
        let ([named, run, label], _) = loaded;
        let named = listing::decode_if_found(named.as_ref(), NAME)?;
        let is_used = run.is_some() || label.is_some();
        Ok((NameBasis { named, is_used }, read))
    }

    async fn decide(&mut self, basis: &NameBasis) -> Decided<Self::Answer, NameRunError> {
        let run = self.run;
        let at = basis.named.as_ref().map(|(_, at)| *at);
        let expect = match &basis.named {
            Some((named, _)) if named.run == run => return Ok(Decision::Answer((run, at))),
            Some((named, _)) if Some(named.run) != self.instead_of => {
                // A read that is older than the change that overtook an attempt proves nothing.
                return Ok(match self.attempts.unresolved_since(&at) {
                    Some(_) => Decision::Reload,
                    None => Decision::Answer((named.run, at)),
                });
            }
            Some((_, at)) => Expect::At(*at),
            None => Expect::Absent,
        };
        if basis.is_used {
            // An attempt of this call may have used it.
            let refusal = NameRunError::RunIdUsed { run };
            return transact::refuse(refusal, self.attempts.unresolved());
        }
        let [name, run_key, label] = self.keys.clone();
        let commit = Commit::builder()
            .expect(name.clone(), expect)
            .expect(label.clone(), Expect::Absent)
            .guard(run_key, Expect::Absent)
            .put(name, RunNameRecord { run }.encode())
            .put(label, self.value.clone());
        Ok(Decision::Commit(commit, (run, at)))
    }

    fn not_stored(&mut self, (_, at): Self::Answer, settled: &Settled) {
        if let Settled::Overtaken(error) = settled {
            self.attempts.note(at, None, error);
        }
    }

    fn finish(
        &mut self,
        _: NameBasis,
        (run, _): Self::Answer,
        _: Option<(&Commit, Revision)>,
    ) -> RunId {
        run
    }
}

impl Core {
    /// Loads a record at a revision or later.
    async fn look_up<T: Record>(
        &self,
        key: &Key,
        since: Revision,
        operation: Operation,
    ) -> Result<Option<(T, Revision)>, InfraError> {
        let keys = std::slice::from_ref(key);
        let ([found], _) = listing::load_since(&self.driver, keys, since, operation).await?;
        listing::decode_if_found(found.as_ref(), operation)
    }

    /// The name that still points to a run, to delete with the run, read at a revision or later.
    pub(crate) async fn name_of(
        &self,
        tenant: TenantId,
        run: RunId,
        at: Revision,
        operation: Operation,
    ) -> Result<Option<(Key, Expect)>, InfraError> {
        let label = self.keys.label(tenant, run);
        let name = match self.look_up::<RunLabelRecord>(&label, at, operation).await {
            Ok(Some((RunLabelRecord { label }, _))) => self.keys.name(tenant, label.name),
            Ok(None) => return Ok(None),
            Err(InfraError::Corrupt { .. }) => {
                return self.name_pointing_to(tenant, run, at, operation).await;
            }
            Err(error) => return Err(error),
        };
        let named = match self.look_up::<RunNameRecord>(&name, at, operation).await {
            // A name that cannot be read is left for an operator.
            Err(InfraError::Corrupt { .. }) => return Ok(None),
            named => named?,
        };
        let points_here = named.filter(|(named, _)| named.run == run);
        Ok(points_here.map(|(_, at)| (name, Expect::At(at))))
    }

    /// The name that points to a run whose label cannot be read.
    async fn name_pointing_to(
        &self,
        tenant: TenantId,
        run: RunId,
        at: Revision,
        operation: Operation,
    ) -> Result<Option<(Key, Expect)>, InfraError> {
        let mut name = None;
        let look = |is_first: bool, page: ScanPage| {
            if is_first {
                name = None;
            }
            let points_here = |(_, found): &(Key, Versioned)| {
                RunNameRecord::decode(&found.value).is_ok_and(|named| named.run == run)
            };
            let here = page.entries.into_iter().find(points_here);
            name = name.take().or(here.map(|(key, found)| (key, Expect::At(found.revision))));
            Ok(())
        };
        let names = self.keys.names(tenant);
        listing::visit_since(&self.driver, &names, RECORDS_PER_PAGE, at, operation, look).await?;
        Ok(name)
    }
}
