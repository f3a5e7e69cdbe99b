use std::sync::{Arc, Mutex, PoisonError};

use shardwright_placement::NodeInstance;

use crate::host::ObjectHost;

/// The present life of a node, if it has one: who it is, and its objects.
pub(crate) struct Local {
    now: Mutex<Option<(NodeInstance, Arc<ObjectHost>)>>,
}

impl Local {
    pub(crate) fn new() -> Self {
        Self { now: Mutex::new(None) }
    }

    pub(crate) fn now(&self) -> Option<(NodeInstance, Arc<ObjectHost>)> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, life: Option<(NodeInstance, Arc<ObjectHost>)>) {
        // What was there goes after the lock does, because it may be the last of its host.
        let _before = {
            let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *now, life)
        };
    }
}
