//! Limits of the number of shards, per tenant and in total.

use shardwright_contracts::limits::{DEFAULT_MAX_SHARDS_PER_TENANT, DEFAULT_MAX_TOTAL_SHARDS};

/// Limits that keep splits of one tenant, or of all, from overloading a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardLimits {
    /// Maximum shards of one tenant.
    pub per_tenant: usize,
    /// Maximum shards of all tenants.
    pub total: usize,
}

impl Default for ShardLimits {
    fn default() -> Self {
        Self { per_tenant: DEFAULT_MAX_SHARDS_PER_TENANT, total: DEFAULT_MAX_TOTAL_SHARDS }
    }
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardLimitScope {
    /// The limit of the tenant.
    Tenant,
    /// The limit of all tenants.
    Total,
}

/// A limit of shards would be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{additional} more shards would exceed the {} limit of {max}; {current} exist",
    match .scope {
    ShardLimitScope::Tenant => "tenant's",
    ShardLimitScope::Total => "total",
})]
pub struct ShardLimitViolation {
    /// The limit that was reached.
    pub scope: ShardLimitScope,
    /// The number of shards that exist.
    pub current: usize,
    /// The number of additional shards.
    pub additional: usize,
    /// The limit.
    pub max: usize,
}

impl ShardLimits {
    /// Checks that `additional` shards are within both limits.
    pub fn check(
        &self,
        of_tenant: usize,
        in_all: usize,
        additional: usize,
    ) -> Result<(), ShardLimitViolation> {
        for (scope, current, max) in [
            (ShardLimitScope::Tenant, of_tenant, self.per_tenant),
            (ShardLimitScope::Total, in_all, self.total),
        ] {
            if current.saturating_add(additional) > max {
                return Err(ShardLimitViolation { scope, current, additional, max });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive_and_tenant_first() {
        let limits = ShardLimits { per_tenant: 10, total: 20 };
        let violation = |scope, max| {
            let current = max - 1;
            Err(ShardLimitViolation { scope, current, additional: 2, max })
        };
        assert_eq!(limits.check(8, 18, 2), Ok(()));
        assert_eq!(limits.check(9, 18, 2), violation(ShardLimitScope::Tenant, 10));
        assert_eq!(limits.check(8, 19, 2), violation(ShardLimitScope::Total, 20));
        assert_eq!(limits.check(9, 19, 2), violation(ShardLimitScope::Tenant, 10));
        assert!(limits.check(usize::MAX, 0, 2).is_err());
    }
}
