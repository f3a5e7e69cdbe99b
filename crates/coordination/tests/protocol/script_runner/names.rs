//! Names for tenants, runs and derived shards, and texts in which names stand for ids.

use std::collections::BTreeMap;

use shardwright_contracts::{RunId, ShardId, TenantId};

use super::literal::number;

/// Runs count from here, so that a run's id is never mistaken for that of a shard or an operation.
const FIRST_RUN: u64 = 0x7275_6e00_0000_0000;
/// Ids up to this one are given by a story and told in decimal.
const LAST_PLAIN_ID: u64 = 0xff_ffff;

#[derive(Default)]
pub(super) struct Names {
    tenants: Vec<String>,
    runs: Vec<String>,
    derived: BTreeMap<ShardId, String>,
}

impl Names {
    /// The tenant of that name; the first time it is mentioned it gets an id.
    pub(super) fn tenant(&mut self, name: &str) -> TenantId {
        TenantId::from_bytes([place(&mut self.tenants, name) as u8 + 1; TenantId::SIZE])
    }

    /// The run of that name; the first time it is mentioned it gets an id.
    pub(super) fn run(&mut self, name: &str) -> RunId {
        RunId::from_raw(FIRST_RUN + place(&mut self.runs, name) as u64)
    }

    /// The shard of that name: a number, or the name that a split's answer told.
    pub(super) fn shard(&self, name: &str) -> Result<ShardId, String> {
        let derived = self.derived.iter().find(|(_, derived)| *derived == name);
        derived.map(|(id, _)| *id).map_or_else(
            || number(name).map(ShardId::from_raw).map_err(|_| format!("no shard `{name}` yet")),
            Ok,
        )
    }

    /// Names a shard that a split of `parent` made, unless it has a name already.
    pub(super) fn derive(&mut self, parent: ShardId, child: ShardId) -> String {
        if let Some(name) = self.derived.get(&child) {
            return name.clone();
        }
        let parent = self.of(parent.as_raw());
        let is_child = |name: &&String| name.rsplit_once('.').is_some_and(|(of, _)| of == parent);
        let siblings = self.derived.values().filter(is_child).count();
        let name = format!("{parent}.{}", siblings + 1);
        self.derived.insert(child, name.clone());
        name
    }

    pub(super) fn of_shard(&self, shard: ShardId) -> String {
        self.of(shard.as_raw())
    }

    pub(super) fn of_run(&self, run: RunId) -> String {
        self.of(run.as_raw())
    }

    pub(super) fn of_tenant(&self, tenant: TenantId) -> String {
        self.in_text(&tenant.to_string())
    }

    /// The text with a name wherever it has an id.
    pub(super) fn in_text(&self, text: &str) -> String {
        let mut told = String::new();
        for piece in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
            let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            let name = match word.len() {
                16 => u64::from_str_radix(word, 16).ok().map(|raw| self.of(raw)),
                64 => self.tenant_name(word),
                _ => None,
            };
            told.push_str(name.as_deref().unwrap_or(word));
            told.push_str(&piece[word.len()..]);
        }
        told
    }

    fn of(&self, raw: u64) -> String {
        if raw <= LAST_PLAIN_ID {
            return raw.to_string();
        }
        let run = raw.checked_sub(FIRST_RUN).and_then(|place| self.runs.get(place as usize));
        let name = run.or_else(|| self.derived.get(&ShardId::from_raw(raw)));
        name.cloned().unwrap_or_else(|| format!("{raw:#x}"))
    }

    fn tenant_name(&self, hex: &str) -> Option<String> {
        let place = usize::from_str_radix(hex.get(..2)?, 16).ok()?.checked_sub(1)?;
        self.tenants.get(place).cloned()
    }
}

/// Where a name stands in a list, to which it is added if need be.
fn place(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}
