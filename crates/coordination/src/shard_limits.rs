//! How many shards there may be, in one tenant and in all.

use shardwright_contracts::limits::{DEFAULT_MAX_SHARDS_PER_TENANT, DEFAULT_MAX_TOTAL_SHARDS};

/// Bounds that keep one tenant, or all together, from flooding a coordinator with splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardLimits {
    /// Most shards of one tenant.
    pub per_tenant: usize,
    /// Most shards of all tenants together.
    pub total: usize,
}

impl Default for ShardLimits {
    fn default() -> Self {
        Self { per_tenant: DEFAULT_MAX_SHARDS_PER_TENANT, total: DEFAULT_MAX_TOTAL_SHARDS }
    }
}

/// Which bound was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardLimitScope {
    /// That of the tenant.
    Tenant,
    /// That of all tenants together.
    Total,
}

/// There would be too many shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{additional} more would exceed the {} limit of {max} shards", match .scope {
    ShardLimitScope::Tenant => "tenant's",
    ShardLimitScope::Total => "total",
})]
pub struct ShardLimitViolation {
    /// Which bound was reached.
    pub scope: ShardLimitScope,
    /// How many shards there were to be in addition.
    pub additional: usize,
    /// The bound.
    pub max: usize,
}

impl ShardLimits {
    /// Checks that `additional` shards fit beside those that the tenant has and those there are.
    pub fn check(
        &self,
        of_tenant: usize,
        in_all: usize,
        additional: usize,
    ) -> Result<(), ShardLimitViolation> {
        for (scope, present, max) in [
            (ShardLimitScope::Tenant, of_tenant, self.per_tenant),
            (ShardLimitScope::Total, in_all, self.total),
        ] {
            if present.saturating_add(additional) > max {
                return Err(ShardLimitViolation { scope, additional, max });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive_and_the_tenants_comes_first() {
        let limits = ShardLimits { per_tenant: 10, total: 20 };
        let violation = |scope, max| Err(ShardLimitViolation { scope, additional: 2, max });
        assert_eq!(limits.check(8, 18, 2), Ok(()));
        assert_eq!(limits.check(9, 18, 2), violation(ShardLimitScope::Tenant, 10));
        assert_eq!(limits.check(8, 19, 2), violation(ShardLimitScope::Total, 20));
        assert_eq!(limits.check(9, 19, 2), violation(ShardLimitScope::Tenant, 10));
        assert!(limits.check(usize::MAX, 0, 2).is_err());
    }
}
