use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use shardwright_api::UnknownWhy;
use shardwright_api::limits::{HeldLimits, Share};
use shardwright_contracts::FenceEpoch;
use shardwright_placement::{Handover, ObjectId, ShardCount};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

use super::*;
use crate::context::CallContext;
use crate::object::{Activation, Deactivation, ObjectError, ObjectType};
use crate::testing::PausedEnv;
use crate::transport::BoxFuture;

const SECOND: Duration = Duration::from_secs(1);

/// A type of objects that do what their calls request, and log their activations and deactivations.
struct Probe {
    log: Mutex<Vec<String>>,
    /// Lets calls of `block` end.
    gate: Semaphore,
    /// How objects are activated and deactivated.
    activation: Mutex<Behaviour>,
    leaving: Mutex<Behaviour>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Behaviour {
    #[default]
    Normal,
    Refuses,
    Panics,
    Hangs,
    /// Takes this many milliseconds.
    Slow(u64),
}

struct Handle(Arc<Probe>);

impl Handle {
    fn write(&self, what: String) {
        self.0.log.lock().unwrap().push(what);
    }
}

impl ObjectType for Handle {
    type Object = u64;

    async fn activate(&self, activation: &Activation) -> Result<u64, ObjectError> {
        let behaviour = *self.0.activation.lock().unwrap();
        match behaviour {
            Behaviour::Normal => {}
            Behaviour::Refuses => return Err(ObjectError::refused("not today")),
            Behaviour::Panics => panic!("as requested"),
            Behaviour::Hangs => std::future::pending().await,
            Behaviour::Slow(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        }
        let fence = activation.fence.map_or(0, FenceEpoch::as_raw);
        self.write(format!("{} is active with {fence}", activation.object.id.as_str()));
        Ok(0)
    }

    async fn handle(
        &self,
        calls: &mut u64,
        context: &CallContext,
        method: &str,
        payload: Bytes,
    ) -> Result<Bytes, ObjectError> {
        *calls += 1;
        match method {
            "count" => Ok(Bytes::from(calls.to_string())),
            "block" => {
                self.0.gate.acquire().await.unwrap().forget();
                Ok(payload)
            }
            "panic" => panic!("as requested"),
            "refuse" => Err(ObjectError::refused("no")),
            "refuse_with" => Err(ObjectError::refused(String::from_utf8_lossy(&payload))),
            "stale" => Err(ObjectError::StaleFence),
            "nest" => {
                let text = String::from_utf8(payload.to_vec()).unwrap();
                let (id, method) = text.split_once(' ').unwrap();
                self.0.gate.acquire().await.unwrap().forget();
                Ok(context.call("Probe", id, method, Bytes::new()).await?)
            }
            other => Err(ObjectError::refused(other)),
        }
    }

    async fn deactivate(&self, calls: u64, why: Deactivation) {
        let behaviour = *self.0.leaving.lock().unwrap();
        match behaviour {
            Behaviour::Normal | Behaviour::Refuses => {}
            Behaviour::Panics => panic!("as requested"),
            Behaviour::Hangs => std::future::pending().await,
            Behaviour::Slow(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        }
        self.write(format!("is inactive after {calls}, {why:?}"));
    }
}

/// Lets objects call objects of the same host.
struct Within {
    env: PausedEnv,
    host: OnceLock<Weak<ObjectHost>>,
    /// Whether all shards of other nodes are moving, and all other nodes leaving.
    others_leave: AtomicBool,
}

impl Caller for Within {
    fn now(&self) -> Duration {
        self.env.monotonic()
    }

    fn is_moving(&self, _shard: ShardId) -> bool {
        self.others_leave.load(Ordering::Relaxed)
    }

    fn is_leaving(&self, _node: &str) -> bool {
        self.others_leave.load(Ordering::Relaxed)
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Bytes, CallError>> {
        let host = self.host.get().and_then(Weak::upgrade).unwrap();
        Box::pin(async move { host.serve(call).await })
    }
}

struct World {
    host: Arc<ObjectHost>,
    probe: Arc<Probe>,
    serves: Arc<AtomicBool>,
    notice_log: Arc<NoticeLog>,
    caller: Arc<Within>,
}

fn fence(raw: u64) -> Option<FenceEpoch> {
    FenceEpoch::from_raw(raw).ok()
}

/// A node with shard 5, claimed with fence 7, and two queue slots.
fn world(options: HostOptions) -> World {
    world_with(options, &[])
}

/// The same, with objects that every shard has.
fn world_with(options: HostOptions, auto_load: &[AutoLoad]) -> World {
    let env = PausedEnv::new();
    let notice_log = Arc::new(NoticeLog::new(Arc::new(env.clone())));
    let probe = Arc::new(Probe {
        log: Mutex::default(),
        gate: Semaphore::new(0),
        activation: Mutex::default(),
        leaving: Mutex::default(),
    });
    let serves = Arc::new(AtomicBool::new(true));
    let serving = Arc::clone(&serves);
    let within = Arc::new(Within {
        env: env.clone(),
        host: OnceLock::new(),
        others_leave: AtomicBool::new(false),
    });
    let caller: Arc<dyn Caller> = within.clone();
    let num_shards = ShardCount::try_new(64).unwrap();
    let held = HeldLimits { calls: Share { all: 2, peer: 2 }, ..HeldLimits::GATE };
    let host = Arc::new(ObjectHost::new(HostParts {
        env: Arc::new(env),
        own: NodeAddress::parse("a:1").unwrap(),
        sharding: Sharding { num_shards, ..Sharding::default() },
        options,
        types: ObjectTypes::new().with("Probe", Handle(Arc::clone(&probe))),
        may_serve: Arc::new(move || serving.load(Ordering::Relaxed)),
        queue: Arc::new(Queue::new(held)),
        caller: Arc::downgrade(&caller),
        auto_load: auto_load.into(),
        notice_log: Arc::clone(&notice_log),
    }));
    assert!(within.host.set(Arc::downgrade(&host)).is_ok());
    host.slot(shard()).unwrap().take(fence(7));
    World { host, probe, serves, notice_log, caller: within }
}

fn shard() -> ShardId {
    ShardId::from_raw(5)
}

fn call(id: &str, method: &str) -> Call {
    let key = ObjectKey::new("Probe", ObjectId::parse(id).unwrap());
    Call::new(key, method, "", SECOND)
}

type Answer = Result<Bytes, CallError>;

impl World {
    fn slot(&self) -> &Arc<Slot> {
        self.host.slot(shard()).unwrap()
    }

    async fn call(&self, id: &str, method: &str) -> Answer {
        self.host.serve(call(id, method)).await
    }

    /// Makes a call in the background, and lets it get as far as it can.
    async fn begin(&self, call: Call) -> JoinHandle<Answer> {
        let host = Arc::clone(&self.host);
        let task = tokio::spawn(async move { host.serve(call).await });
        for _ in 0..20 {
            yield_now().await;
        }
        task
    }

    fn log(&self) -> Vec<String> {
        self.probe.log.lock().unwrap().clone()
    }
}

mod deleting;
mod draining;
mod ending;
mod evicting;
mod serving;
