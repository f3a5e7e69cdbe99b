//! Names for runs.

use shardwright_contracts::limits::MAX_JOB_SIZE;
use shardwright_contracts::{Env, RunId, TenantId};
use shardwright_coordination::{AsyncRunDirectory, InfraError, Job, NameRunError, RunName};
use shardwright_store::{Commit, CommitError, Expect, Key, Store, Versioned};

use crate::codec::{Named, Purpose, Record};
use crate::coordinator::{Core, StoredCoordinator};
use crate::fault;
use crate::keyspace::StoreKey;

const OPERATION: &str = "name_run";

impl<S: Store, E: Env> AsyncRunDirectory for StoredCoordinator<S, E> {
    async fn find_run(&self, tenant: TenantId, name: RunName) -> Result<Option<RunId>, InfraError> {
        let found = self.core.look_up::<Named>(&self.core.keys.name(tenant, name)).await?;
        Ok(found.map(|(named, _)| named.run))
    }

    async fn name_run(
        &self,
        tenant: TenantId,
        run: RunId,
        job: &Job,
        instead_of: Option<RunId>,
    ) -> Result<RunId, NameRunError> {
        let length = job.description.len();
        if length > MAX_JOB_SIZE {
            return Err(NameRunError::JobTooLarge { length });
        }
        let core = &self.core;
        let (name, purpose) = (core.keys.name(tenant, job.name), core.keys.purpose(tenant, run));
        let value = Purpose { job: job.clone() }.encode();
        let mut unknown = None;
        for conflicts in 0..=core.config.conflict_retries {
            core.back_off(conflicts).await;
            let named = core.look_up::<Named>(&name).await?;
            // An attempt whose outcome was unknown, or somebody else's.
            match named {
                Some((named, _)) if named.run == run => return Ok(run),
                Some((named, _)) if Some(named.run) != instead_of => return Ok(named.run),
                _ => {}
            }
            if core.is_used(tenant, run).await? {
                return Err(NameRunError::RunIdUsed { run });
            }
            let expect = named.map_or(Expect::Absent, |(_, found)| Expect::At(found.revision));
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
                Err(error @ CommitError::Unknown(_)) => unknown = Some(error),
                Err(error) => return Err(fault::commit(OPERATION, &error).into()),
            }
        }
        let trouble = unknown.map(|error| fault::commit(OPERATION, &error));
        Err(trouble.unwrap_or_else(|| fault::contention(OPERATION)).into())
    }

    async fn job_of(&self, tenant: TenantId, run: RunId) -> Result<Option<Job>, InfraError> {
        let found = self.core.look_up::<Purpose>(&self.core.keys.purpose(tenant, run)).await?;
        Ok(found.map(|(purpose, _)| purpose.job))
    }

    async fn list_jobs(&self, tenant: TenantId) -> Result<Vec<(RunId, Job)>, InfraError> {
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

impl<S: Store, E: Env> Core<S, E> {
    async fn look_up<T: Record>(&self, key: &Key) -> Result<Option<(T, Versioned)>, InfraError> {
        let loaded = self.store.load(std::slice::from_ref(key)).await;
        let snapshot = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        let Some(found) = snapshot.values.into_iter().next().flatten() else { return Ok(None) };
        let record = T::decode(&found.value).map_err(|error| fault::decode(OPERATION, &error))?;
        Ok(Some((record, found)))
    }

    async fn is_used(&self, tenant: TenantId, run: RunId) -> Result<bool, InfraError> {
        let keys = [self.keys.run(tenant, run), self.keys.purpose(tenant, run)];
        let loaded = self.store.load(&keys).await;
        let snapshot = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        Ok(snapshot.values.iter().any(Option::is_some))
    }

    /// The name that still points to a run, to be taken away with it.
    pub(crate) async fn name_of(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> Result<Option<(Key, Expect)>, InfraError> {
        // What cannot be read stays, for somebody to look at.
        let purpose = self.look_up::<Purpose>(&self.keys.purpose(tenant, run)).await;
        let Ok(Some((Purpose { job }, _))) = purpose else { return Ok(None) };
        let name = self.keys.name(tenant, job.name);
        let named = match self.look_up::<Named>(&name).await {
            Err(InfraError::Corrupt { .. }) => return Ok(None),
            named => named?,
        };
        let points_here = named.filter(|(named, _)| named.run == run);
        Ok(points_here.map(|(_, found)| (name, Expect::At(found.revision))))
    }
}
