//! Names for runs.

use shardwright_contracts::limits::MAX_JOB_SIZE;
use shardwright_contracts::{RunId, TenantId};
use shardwright_coordination::operation::{FindRun, JobOf, NameRun};
use shardwright_coordination::{InfraError, Job, NameRunError};
use shardwright_store::{
    Commit, CommitError, Expect, Key, Revision, ScanPage, Snapshot, Store, Versioned,
};

use crate::codec::{Named, Purpose, Record};
use crate::coordinator::{Core, StoredCoordinator};
use crate::fault;
use crate::keyspace::StoreKey;

const OPERATION: &str = "name_run";

impl StoredCoordinator {
    pub(crate) async fn find_run(
        &self,
        tenant: TenantId,
        request: FindRun,
    ) -> Result<Option<RunId>, InfraError> {
        let name = request.name;
        let found = self.core.look_up::<Named>(&self.core.keys.name(tenant, name)).await?;
        Ok(found.map(|(named, _)| named.run))
    }

    pub(crate) async fn name_run(
        &self,
        tenant: TenantId,
        request: NameRun<&[u8]>,
    ) -> Result<RunId, NameRunError> {
        let NameRun { run, name, instead_of, description } = request;
        let job = &Job { name, description: description.into() };
        let length = job.description.len();
        if length > MAX_JOB_SIZE {
            return Err(NameRunError::JobTooLarge { length });
        }
        let core = &self.core;
        let (name, purpose) = (core.keys.name(tenant, job.name), core.keys.purpose(tenant, run));
        let value = Purpose { job: job.clone() }.encode();
        let mut unknown = UnknownNaming::default();
        for conflicts in 0..=core.config.conflict_retries {
            core.back_off(conflicts).await;
            let named = core.look_up::<Named>(&name).await.map_err(|error| unknown.or(error))?;
            let at = named.as_ref().map(|(_, found)| found.revision);
            // An attempt whose outcome was unknown, or somebody else's.
            match named {
                Some((named, _)) if named.run == run => return Ok(run),
                Some((named, _)) if Some(named.run) != instead_of => {
                    if unknown.may_come(at) {
                        continue;
                    }
                    return Ok(named.run);
                }
                _ => {}
            }
            if core.is_used(tenant, run).await.map_err(|error| unknown.or(error))? {
                if unknown.is_any() {
                    // It may be this call that has used it.
                    continue;
                }
                return Err(NameRunError::RunIdUsed { run });
            }
            let expect = at.map_or(Expect::Absent, Expect::At);
            let commit = Commit::builder()
                .expect(name.clone(), expect)
                .expect(purpose.clone(), Expect::Absent)
                .guard(core.keys.run(tenant, run), Expect::Absent)
                .put(name.clone(), Named { run }.encode())
                .put(purpose.clone(), value.clone())
                .build()
                .map_err(|error| fault::corrupt(OPERATION, error.to_string()))?;
            match core.store.commit(commit).await {
                Ok(_) => return Ok(run),
                Err(CommitError::Conflict(_)) => {}
                Err(error @ CommitError::Unknown(_)) => {
                    unknown.note(at, fault::commit(OPERATION, &error));
                }
                Err(error) => return Err(unknown.or(fault::commit(OPERATION, &error)).into()),
            }
        }
        Err(unknown.or(fault::contention(OPERATION)).into())
    }

    pub(crate) async fn job_of(
        &self,
        tenant: TenantId,
        request: JobOf,
    ) -> Result<Option<Job>, InfraError> {
        let run = request.run;
        let found = self.core.look_up::<Purpose>(&self.core.keys.purpose(tenant, run)).await?;
        Ok(found.map(|(purpose, _)| purpose.job))
    }

    pub(crate) async fn list_jobs(
        &self,
        tenant: TenantId,
    ) -> Result<Vec<(RunId, Job)>, InfraError> {
        let (_, entries) = self.core.list(&self.core.keys.purposes(tenant)).await?;
        let jobs = entries.iter().filter_map(|(key, found)| {
            let Some(StoreKey::Purpose(_, run)) = self.core.keys.parse(key) else { return None };
            // One that cannot be read hides no other; whoever asks for it is told.
            let Purpose { job } = Purpose::decode(&found.value).ok()?;
            Some((run, job))
        });
        Ok(jobs.collect())
    }
}

/// Attempts of one call to name a run whose outcomes are not known. As long as there are any, no
/// failure may be told as if nothing had been done.
#[derive(Default)]
struct UnknownNaming {
    /// The newest name that one of them was based on, and what to tell.
    last: Option<(Option<Revision>, InfraError)>,
}

impl UnknownNaming {
    fn note(&mut self, basis: Option<Revision>, error: InfraError) {
        let before = self.last.take().and_then(|(basis, _)| basis);
        self.last = Some((basis.max(before), error));
    }

    const fn is_any(&self) -> bool {
        self.last.is_some()
    }

    /// What to tell of a failure.
    fn or(&self, error: InfraError) -> InfraError {
        self.last.as_ref().map_or(error, |(_, unknown)| unknown.clone())
    }

    /// Whether one of them may still be applied to a name that was found so. What is older than
    /// its basis says nothing about it.
    fn may_come(&self, found: Option<Revision>) -> bool {
        self.last.as_ref().is_some_and(|(basis, _)| *basis >= found)
    }
}

impl Core {
    async fn look_up<T: Record>(&self, key: &Key) -> Result<Option<(T, Versioned)>, InfraError> {
        let (found, _) = self.load_one(key).await?;
        decode(found)
    }

    async fn is_used(&self, tenant: TenantId, run: RunId) -> Result<bool, InfraError> {
        let keys = [self.keys.run(tenant, run), self.keys.purpose(tenant, run)];
        let loaded = self.store.load(&keys).await;
        let snapshot = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        Ok(snapshot.values.iter().any(Option::is_some))
    }

    /// What was under a key at a revision or later.
    async fn look_up_since<T: Record>(
        &self,
        key: &Key,
        at: Revision,
    ) -> Result<Option<(T, Versioned)>, InfraError> {
        for stale_reads in 0..=self.config.conflict_retries {
            self.back_off(stale_reads).await;
            let (found, as_of) = self.load_one(key).await?;
            if as_of >= at {
                return decode(found);
            }
        }
        Err(fault::contention(OPERATION))
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
        let name = match self.look_up_since::<Purpose>(&purpose, at).await {
            Ok(Some((Purpose { job }, _))) => self.keys.name(tenant, job.name),
            Ok(None) => return Ok(None),
            Err(InfraError::Corrupt { .. }) => return self.name_pointing_to(tenant, run, at).await,
            Err(error) => return Err(error),
        };
        let named = match self.look_up_since::<Named>(&name, at).await {
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
                Named::decode(&found.value).is_ok_and(|named| named.run == run)
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
