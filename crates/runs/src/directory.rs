//! Names for runs.

use bytes::Bytes;
use shardwright_contracts::limits::MAX_RUN_DESCRIPTION_SIZE;
use shardwright_contracts::{RunId, TenantId};
use shardwright_coordination::operation::{FindRun, LabelOf, NameRun};
use shardwright_coordination::{InfraError, NameRunError, RunLabel};
use shardwright_engine::codec::Record;
use shardwright_engine::fault;
use shardwright_engine::transact::{Decided, Decision, Read, Settled, Transaction};
use shardwright_store::{Commit, Expect, Key, Revision, ScanPage, Snapshot, Store, Versioned};

use crate::coordinator::{Core, StoredCoordinator};
use crate::keys::StoreKey;
use crate::records::{RunLabelRecord, RunNameRecord};

const OPERATION: &str = "name_run";

impl StoredCoordinator {
    pub(crate) async fn find_run(
        &self,
        tenant: TenantId,
        request: FindRun,
    ) -> Result<Option<RunId>, InfraError> {
        let name = request.name;
        let found = self.core.look_up::<RunNameRecord>(&self.core.keys.name(tenant, name)).await?;
        Ok(found.map(|(named, _)| named.run))
    }

    pub(crate) async fn name_run(
        &self,
        tenant: TenantId,
        request: NameRun<&[u8]>,
    ) -> Result<RunId, NameRunError> {
        let NameRun { run, name, instead_of, description } = request;
        let job = &RunLabel { name, description: description.into() };
        let length = job.description.len();
        if length > MAX_RUN_DESCRIPTION_SIZE {
            return Err(NameRunError::LabelTooLarge { length });
        }
        let keys = [
            self.core.keys.name(tenant, job.name),
            self.core.keys.run(tenant, run),
            self.core.keys.purpose(tenant, run),
        ];
        let value = RunLabelRecord { job: job.clone() }.encode();
        let core = &self.core;
        let mut naming = Naming { core, keys, run, value, instead_of, overtaken: None };
        core.driver.transact(&mut naming).await
    }

    pub(crate) async fn label_of(
        &self,
        tenant: TenantId,
        request: LabelOf,
    ) -> Result<Option<RunLabel>, InfraError> {
        let run = request.run;
        let found =
            self.core.look_up::<RunLabelRecord>(&self.core.keys.purpose(tenant, run)).await?;
        Ok(found.map(|(purpose, _)| purpose.job))
    }

    pub(crate) async fn list_labels(
        &self,
        tenant: TenantId,
    ) -> Result<Vec<(RunId, RunLabel)>, InfraError> {
        let (_, entries) = self.core.list(&self.core.keys.purposes(tenant)).await?;
        let jobs = entries.iter().filter_map(|(key, found)| {
            let Some(StoreKey::Purpose(_, run)) = self.core.keys.parse(key) else { return None };
            // One that cannot be read hides no other; whoever asks for it is told.
            let RunLabelRecord { job } = RunLabelRecord::decode(&found.value).ok()?;
            Some((run, job))
        });
        Ok(jobs.collect())
    }
}

/// A name for a run.
struct Naming<'c> {
    core: &'c Core,
    /// Of the name, the run and the run's label.
    keys: [Key; 3],
    run: RunId,
    value: Bytes,
    instead_of: Option<RunId>,
    /// The revision of the name that an overtaken attempt was based on, and what to report.
    overtaken: Option<(Option<Revision>, InfraError)>,
}

/// What a name stands for, and whether the run id is used.
struct NameBasis {
    named: Option<(RunNameRecord, Versioned)>,
    is_used: bool,
}

impl Transaction for Naming<'_> {
    type Basis = NameBasis;
    type Answer = (RunId, Option<Revision>);
    type Output = RunId;
    type Error = NameRunError;

    fn operation(&self) -> &'static str {
        OPERATION
    }

    async fn load(&mut self, read: Read) -> Result<(NameBasis, Read), InfraError> {
        let loaded = self.core.store.load(&self.keys).await;
        let snapshot = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        let mut found = snapshot.values.into_iter();
        let named = decode(found.next().flatten())?;
        Ok((NameBasis { named, is_used: found.any(|found| found.is_some()) }, read))
    }

    async fn decide(&mut self, basis: &NameBasis) -> Decided<Self::Answer, NameRunError> {
        let run = self.run;
        let at = basis.named.as_ref().map(|(_, found)| found.revision);
        let expect = match &basis.named {
            Some((named, _)) if named.run == run => return Ok(Decision::Answer((run, at))),
            Some((named, _)) if Some(named.run) != self.instead_of => {
                // A read that is older than the change which overtook an attempt says nothing.
                let is_stale = self.overtaken.as_ref().is_some_and(|(known, _)| *known >= at);
                return Ok(match is_stale {
                    true => Decision::Reload,
                    false => Decision::Answer((named.run, at)),
                });
            }
            Some((_, found)) => Expect::At(found.revision),
            None => Expect::Absent,
        };
        if basis.is_used {
            // It may be an attempt of this call that has used it.
            return match self.overtaken.clone() {
                Some((_, unknown)) => Err(unknown),
                None => Ok(Decision::Refuse(NameRunError::RunIdUsed { run })),
            };
        }
        let [name, run_key, purpose] = self.keys.clone();
        let commit = Commit::builder()
            .expect(name.clone(), expect)
            .expect(purpose.clone(), Expect::Absent)
            .guard(run_key, Expect::Absent)
            .put(name, RunNameRecord { run }.encode())
            .put(purpose, self.value.clone());
        Ok(Decision::Commit(commit, (run, at)))
    }

    fn not_stored(&mut self, (_, at): Self::Answer, settled: &Settled) {
        if let Settled::Overtaken(error) = settled {
            // A later attempt may be decided on an older read.
            let known = self.overtaken.as_ref().and_then(|(known, _)| *known);
            self.overtaken = Some((at.max(known), error.clone()));
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
    async fn look_up<T: Record>(&self, key: &Key) -> Result<Option<(T, Versioned)>, InfraError> {
        let (found, _) = self.load_one(key).await?;
        decode(found)
    }

    /// What was under a key at a revision or later.
    async fn look_up_since<T: Record>(
        &self,
        key: &Key,
        at: Revision,
    ) -> Result<Option<(T, Versioned)>, InfraError> {
        let read = || async {
            let (found, as_of) = self.load_one(key).await?;
            Ok((as_of >= at).then_some(found))
        };
        decode(self.driver.read_until(OPERATION, read).await?)
    }

    async fn load_one(&self, key: &Key) -> Result<(Option<Versioned>, Revision), InfraError> {
        let loaded = self.store.load(std::slice::from_ref(key)).await;
        let Snapshot { values, revision } =
            loaded.map_err(|error| fault::read(OPERATION, &error))?;
        Ok((values.into_iter().next().flatten(), revision))
    }

    /// The name that still points to a run, to be taken away with it. The run was as it was found
    /// at a revision.
    pub(crate) async fn name_of(
        &self,
        tenant: TenantId,
        run: RunId,
        at: Revision,
    ) -> Result<Option<(Key, Expect)>, InfraError> {
        let purpose = self.keys.purpose(tenant, run);
        let name = match self.look_up_since::<RunLabelRecord>(&purpose, at).await {
            Ok(Some((RunLabelRecord { job }, _))) => self.keys.name(tenant, job.name),
            Ok(None) => return Ok(None),
            Err(InfraError::Corrupt { .. }) => return self.name_pointing_to(tenant, run, at).await,
            Err(error) => return Err(error),
        };
        let named = match self.look_up_since::<RunNameRecord>(&name, at).await {
            // What cannot be read stays, for somebody to look at.
            Err(InfraError::Corrupt { .. }) => return Ok(None),
            named => named?,
        };
        let points_here = named.filter(|(named, _)| named.run == run);
        Ok(points_here.map(|(_, found)| (name, Expect::At(found.revision))))
    }

    /// The name that points to a run of which nothing else tells what it is called.
    async fn name_pointing_to(
        &self,
        tenant: TenantId,
        run: RunId,
        at: Revision,
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
        self.visit_since(&self.keys.names(tenant), at, OPERATION, look).await?;
        Ok(name)
    }
}

fn decode<T: Record>(found: Option<Versioned>) -> Result<Option<(T, Versioned)>, InfraError> {
    let Some(found) = found else { return Ok(None) };
    let record = T::decode(&found.value).map_err(|error| fault::decode(OPERATION, &error))?;
    Ok(Some((record, found)))
}
