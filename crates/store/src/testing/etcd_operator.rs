//! Operations on an etcd cluster by its operator.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use tonic::transport::Endpoint;
use tonic::{Response, Status};

use crate::etcd::connection::Connection;
use crate::etcd::wire::{
    AlarmMember, AlarmRequest, AlarmType, AuthEnableRequest, AuthRoleAddRequest,
    AuthRoleGrantPermissionRequest, AuthUserAddRequest, AuthUserChangePasswordRequest,
    AuthUserGrantRoleRequest, CompactionRequest, Compare, DefragmentRequest, Permission,
    PutRequest, RequestOp, ResponseOp, StatusRequest, TxnRequest, alarm_request, compare,
    permission, request_op, response_op,
};
use crate::etcd::{EtcdOptions, EtcdTimeouts};
use crate::key::{Key, StoreRange};
use crate::store::Revision;

const LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// A connection to one member, for operations that a store does not need.
#[derive(Debug)]
pub struct EtcdOperator {
    connection: Connection,
}

/// The status of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdStatus {
    /// Whether it is the leader.
    pub is_leader: bool,
    /// Its latest revision.
    pub revision: Revision,
    /// The size of its database.
    pub database_bytes: u64,
}

impl EtcdOperator {
    /// Connects to the only endpoint of `options`, as soon as it answers and has a leader.
    pub async fn connect(options: &EtcdOptions) -> io::Result<Self> {
        let deadline = Instant::now() + LIMIT;
        let endpoint = crate::etcd::client::endpoints(options).map_err(io::Error::other)?;
        let [endpoint] = <[Endpoint; 1]>::try_from(endpoint)
            .map_err(|_several| io::Error::other("an operator connects to one member"))?;
        let timeouts = EtcdTimeouts { connect: Duration::from_secs(1), ..options.timeouts };
        let options = options.clone().timeouts(timeouts);
        loop {
            match Connection::open(&endpoint, 0, &options).await {
                Ok(connection) => return Ok(Self { connection }),
                Err(failure) if Instant::now() > deadline => {
                    return Err(io::Error::other(failure.fault));
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// The status of the member.
    pub async fn status(&self) -> io::Result<EtcdStatus> {
        let request = self.connection.request(StatusRequest {}, LIMIT);
        let status = done(self.connection.maintenance().status(request).await)?;
        let header = status.header.unwrap_or_default();
        Ok(EtcdStatus {
            is_leader: status.leader == header.member_id,
            revision: Revision::new(header.revision.unsigned_abs()),
            database_bytes: status.database_bytes.unsigned_abs(),
        })
    }

    /// Puts a value if the key was last written at a revision, or never for revision zero, in the
    /// simplest request. Returns the new revision unless the compare failed.
    pub async fn compare_and_swap(
        &self,
        key: Bytes,
        revision: Revision,
        value: Bytes,
    ) -> io::Result<Option<Revision>> {
        let request = self.connection.request(swap(key, revision, value)?, LIMIT);
        let answer = done(self.connection.kv().txn(request).await)?;
        let now = Revision::new(answer.header.unwrap_or_default().revision.unsigned_abs());
        Ok(answer.succeeded.then_some(now))
    }

    /// The same for several keys in one request, each decided separately. Returns the new revisions
    /// of those whose compare succeeded.
    pub async fn compare_and_swap_each(
        &self,
        swaps: impl IntoIterator<Item = (Bytes, Revision, Bytes)>,
    ) -> io::Result<Vec<Option<Revision>>> {
        let inner = |(key, revision, value)| {
            let request = request_op::Request::RequestTxn(swap(key, revision, value)?);
            Ok::<_, io::Error>(RequestOp { request: Some(request) })
        };
        let success = swaps.into_iter().map(inner).collect::<io::Result<Vec<_>>>()?;
        let request = TxnRequest { success, ..TxnRequest::default() };
        let answer = done(self.connection.kv().txn(self.connection.request(request, LIMIT)).await)?;
        let now = Revision::new(answer.header.unwrap_or_default().revision.unsigned_abs());
        let swapped = |operation: ResponseOp| match operation.response {
            Some(response_op::Response::ResponseTxn(inner)) => inner.succeeded.then_some(now),
            _ => None,
        };
        Ok(answer.responses.into_iter().map(swapped).collect())
    }

    /// Compacts the history before a revision, and waits until it is done.
    pub async fn compact(&self, revision: Revision) -> io::Result<()> {
        let revision = i64::try_from(revision.get()).map_err(io::Error::other)?;
        let request = CompactionRequest { revision, physical: true };
        let request = self.connection.request(request, LIMIT);
        done(self.connection.kv().compact(request).await).map(drop)
    }

    /// Frees the disk space of deleted keys.
    pub async fn defragment(&self) -> io::Result<()> {
        let request = self.connection.request(DefragmentRequest {}, LIMIT);
        done(self.connection.maintenance().defragment(request).await).map(drop)
    }

    /// The number of alarms.
    pub async fn alarms(&self) -> io::Result<usize> {
        self.alarm(AlarmMember::default(), alarm_request::Action::Get).await.map(|all| all.len())
    }

    /// Disarms all alarms.
    pub async fn disarm(&self) -> io::Result<()> {
        for alarm in self.alarm(AlarmMember::default(), alarm_request::Action::Get).await? {
            self.alarm(alarm, alarm_request::Action::Deactivate).await?;
        }
        Ok(())
    }

    /// Raises the alarm of exhausted space.
    pub async fn raise_no_space(&self) -> io::Result<()> {
        let alarm = AlarmMember { alarm: AlarmType::Nospace.into(), ..AlarmMember::default() };
        self.alarm(alarm, alarm_request::Action::Activate).await.map(drop)
    }

    async fn alarm(
        &self,
        alarm: AlarmMember,
        action: alarm_request::Action,
    ) -> io::Result<Vec<AlarmMember>> {
        let AlarmMember { member_id, alarm } = alarm;
        let request = AlarmRequest { action: action.into(), member_id, alarm };
        let request = self.connection.request(request, LIMIT);
        Ok(done(self.connection.maintenance().alarm(request).await)?.alarms)
    }

    /// Creates a user and a role of the same name, with access to all keys under `prefix`.
    pub async fn add_user(
        &self,
        user: &str,
        password: &str,
        prefix: Option<&str>,
    ) -> io::Result<()> {
        let (name, password) = (user.to_owned(), password.to_owned());
        let mut auth = self.connection.auth();
        let add = AuthUserAddRequest { name: name.clone(), password };
        done(auth.user_add(self.connection.request(add, LIMIT)).await)?;
        let add = AuthRoleAddRequest { name: name.clone() };
        done(auth.role_add(self.connection.request(add, LIMIT)).await)?;
        let grant = AuthUserGrantRoleRequest { user: name.clone(), role: name };
        done(auth.user_grant_role(self.connection.request(grant, LIMIT)).await)?;
        match prefix {
            Some(prefix) => self.allow(user, &StoreRange::prefix(prefix.to_owned())).await,
            None => Ok(()),
        }
    }

    /// Grants a user access to a range of keys.
    pub async fn allow(&self, user: &str, range: &StoreRange) -> io::Result<()> {
        let permission = Some(anything_in(range));
        let grant = AuthRoleGrantPermissionRequest { name: user.to_owned(), permission };
        let grant = self.connection.request(grant, LIMIT);
        done(self.connection.auth().role_grant_permission(grant).await).map(drop)
    }

    /// Sets the password of a user, perhaps to the same one. The members then drop all tokens of
    /// that user.
    pub async fn change_password(&self, user: &str, password: &str) -> io::Result<()> {
        let (name, password) = (user.to_owned(), password.to_owned());
        let change = AuthUserChangePasswordRequest { name, password };
        let change = self.connection.request(change, LIMIT);
        done(self.connection.auth().user_change_password(change).await).map(drop)
    }

    /// Enables authentication. There must be a user `root` with a role of the same name.
    pub async fn require_users(&self) -> io::Result<()> {
        let request = self.connection.request(AuthEnableRequest {}, LIMIT);
        done(self.connection.auth().auth_enable(request).await).map(drop)
    }
}

fn anything_in(range: &StoreRange) -> Permission {
    Permission {
        kind: permission::Kind::Readwrite.into(),
        key: range.start().to_bytes(),
        range_end: range.end().map(Key::to_bytes).unwrap_or_default(),
    }
}

fn swap(key: Bytes, revision: Revision, value: Bytes) -> io::Result<TxnRequest> {
    let revision = i64::try_from(revision.get()).map_err(io::Error::other)?;
    let compare = Compare {
        result: compare::Result::Equal.into(),
        target: compare::Target::Mod.into(),
        key: key.clone(),
        target_union: Some(compare::TargetUnion::ModRevision(revision)),
    };
    let put = request_op::Request::RequestPut(PutRequest { key, value, lease: 0 });
    let put = RequestOp { request: Some(put) };
    Ok(TxnRequest { compare: vec![compare], success: vec![put], failure: Vec::new() })
}

fn done<T>(result: Result<Response<T>, Status>) -> io::Result<T> {
    result.map(Response::into_inner).map_err(io::Error::other)
}
