//! The coordinator as a backend: one match from requests to typed functions.

use std::future::Future;

use shardwright_contracts::{BoxFuture, RunId, TenantId};
use shardwright_coordination::operation::widen;
use shardwright_coordination::{Answer, Backend, CoordError, Reply, Request};

use crate::coordinator::StoredCoordinator;
use crate::shard::ShardAddress;

impl Backend for StoredCoordinator {
    fn call<'a>(&'a self, tenant: TenantId, request: Request<&'a [u8]>) -> BoxFuture<'a, Answer> {
        match request {
            Request::Acquire(it) => {
                answer(self.acquire(ShardAddress { tenant, key: it.key }, it.worker))
            }
            Request::Renew(it) => answer(self.renew(tenant, it)),
            Request::Checkpoint(it) => answer(self.checkpoint(tenant, it)),
            Request::Complete(it) => answer(self.complete(tenant, it)),
            Request::ParkShard(it) => answer(self.park_shard(tenant, it)),
            Request::Release(it) => answer(self.release(tenant, it)),
            Request::SplitReplace(it) => answer(self.split_replace(tenant, it)),
            Request::SplitResidual(it) => answer(self.split_residual(tenant, it)),
            Request::RequestSplit(it) => answer(self.ask_for_split(
                ShardAddress { tenant, key: it.key },
                it.requester,
                it.patience_ms,
            )),
            Request::DeclineSplit(it) => answer(async move {
                let place = ShardAddress { tenant, key: it.lease.key() };
                self.decline(place, &it.lease, it.pause_ms).await
            }),
            Request::CreateRun(it) => answer(self.create_run(tenant, it)),
            Request::RegisterShards(it) => answer(self.register_shards(tenant, it)),
            Request::CreateRunWithShards(it) => answer(self.create_run_with_shards(tenant, it)),
            Request::GetRun(it) => answer(self.get_run(tenant, it)),
            Request::GetRunProgress(it) => answer(self.get_run_progress(tenant, it)),
            Request::ListShards(it) => answer(self.list_shards(tenant, it)),
            Request::ChangeRun(it) => answer(self.change(tenant, it.run, it.change, it.op)),
            Request::UnparkShard(it) => answer(self.unpark(tenant, it)),
            Request::CollectClaimCandidates(it) => {
                answer(self.candidates(tenant, it.run, it.worker, it.limit))
            }
            Request::Claim(it) => answer(self.claim_next_available(tenant, it)),
            Request::FindRun(it) => answer(self.find_run(tenant, it)),
            Request::NameRun(it) => answer(self.name_run(tenant, it)),
            Request::LabelOf(it) => answer(self.label_of(tenant, it)),
            Request::ListLabels(_) => answer(self.list_labels(tenant)),
            Request::PublishEstimate(it) => answer(self.publish_estimate(tenant, it)),
            Request::ListEstimates(it) => answer(self.list_estimates(tenant, it)),
        }
    }

    fn claimable<'a>(&'a self, tenant: TenantId, run: RunId) -> BoxFuture<'a, ()> {
        Box::pin(self.wait_until_claimable(tenant, run))
    }
}

/// Boxes a typed call, so that each operation takes no more room than it needs.
fn answer<'a, T: Into<Reply>, E: Into<CoordError>>(
    call: impl Future<Output = Result<T, E>> + Send + 'a,
) -> BoxFuture<'a, Answer> {
    Box::pin(async move { widen(call.await) })
}
