//! Names of tenants, runs and derived shards, and texts with names in place of ids.

use std::collections::BTreeMap;

use shardwright_contracts::{RunId, ShardId, TenantId};

use super::literal::number;

/// The first run id: far from the ids of shards and operations, so that texts are unambiguous.
const FIRST_RUN: u64 = 0x7275_6e00_0000_0000;
/// Ids up to this one come from a script and are shown in decimal.
const LAST_PLAIN_ID: u64 = 0xff_ffff;

#[derive(Default)]
pub(super) struct Names {
    tenants: Vec<String>,
    runs: Vec<String>,
    derived: BTreeMap<ShardId, String>,
}

impl Names {
    /// The tenant of that name. A new name gets a new id.
    pub(super) fn tenant(&mut self, name: &str) -> TenantId {
        TenantId::from_bytes([position(&mut self.tenants, name) as u8 + 1; TenantId::SIZE])
    }

    /// The run of that name. A new name gets a new id.
    pub(super) fn run(&mut self, name: &str) -> RunId {
        RunId::from_raw(FIRST_RUN + position(&mut self.runs, name) as u64)
    }

    /// The shard of that name: a number, or a name from the answer of a split.
    pub(super) fn shard(&self, name: &str) -> Result<ShardId, String> {
        let derived = self.derived.iter().find(|(_, derived)| *derived == name);
        derived.map(|(id, _)| *id).map_or_else(
            || number(name).map(ShardId::from_raw).map_err(|_| format!("no shard `{name}` yet")),
            Ok,
        )
    }

    /// Names a shard that a split of `parent` made, unless it has a name.
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

    /// The text with names in place of ids.
    pub(super) fn in_text(&self, text: &str) -> String {
        let mut named = String::new();
        for piece in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
            let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            let name = match word.len() {
                16 => u64::from_str_radix(word, 16).ok().map(|raw| self.of(raw)),
                64 => self.tenant_name(word),
                _ => None,
            };
            named.push_str(name.as_deref().unwrap_or(word));
            named.push_str(&piece[word.len()..]);
        }
        named
    }

    fn of(&self, raw: u64) -> String {
        if raw <= LAST_PLAIN_ID {
            return raw.to_string();
        }
        let run = raw.checked_sub(FIRST_RUN).and_then(|index| self.runs.get(index as usize));
        let name = run.or_else(|| self.derived.get(&ShardId::from_raw(raw)));
        name.cloned().unwrap_or_else(|| format!("{raw:#x}"))
    }

    fn tenant_name(&self, hex: &str) -> Option<String> {
        let index = usize::from_str_radix(hex.get(..2)?, 16).ok()?.checked_sub(1)?;
        self.tenants.get(index).cloned()
    }
}

/// The position of a name in a list. A missing name is appended.
fn position(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}
