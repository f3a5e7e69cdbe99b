use shardwright_contracts::{CursorInput, ShardInput, SpecInput, SplitPart};

/// A field of a request with bytes of type `B`, which can be converted to bytes of type `C`.
pub(super) trait ByteField<B, C> {
    /// The converted field.
    type Changed;

    /// Converts each of its bytes.
    fn change<'b>(&'b self, change: &mut impl FnMut(&'b B) -> C) -> Self::Changed
    where
        B: 'b;
}

impl<B, C> ByteField<B, C> for B {
    type Changed = C;

    fn change<'b>(&'b self, change: &mut impl FnMut(&'b B) -> C) -> C
    where
        B: 'b,
    {
        change(self)
    }
}

impl<B, C> ByteField<B, C> for CursorInput<B> {
    type Changed = CursorInput<C>;

    fn change<'b>(&'b self, change: &mut impl FnMut(&'b B) -> C) -> CursorInput<C>
    where
        B: 'b,
    {
        self.map(change)
    }
}

impl<B, C> ByteField<B, C> for SpecInput<B> {
    type Changed = SpecInput<C>;

    fn change<'b>(&'b self, change: &mut impl FnMut(&'b B) -> C) -> SpecInput<C>
    where
        B: 'b,
    {
        self.map(change)
    }
}

impl<B, C> ByteField<B, C> for Vec<SplitPart<B>> {
    type Changed = Vec<SplitPart<C>>;

    fn change<'b>(&'b self, change: &mut impl FnMut(&'b B) -> C) -> Vec<SplitPart<C>>
    where
        B: 'b,
    {
        self.iter().map(|part| part.map(&mut *change)).collect()
    }
}

impl<B, C> ByteField<B, C> for Vec<ShardInput<B>> {
    type Changed = Vec<ShardInput<C>>;

    fn change<'b>(&'b self, change: &mut impl FnMut(&'b B) -> C) -> Vec<ShardInput<C>>
    where
        B: 'b,
    {
        self.iter().map(|shard| shard.map(&mut *change)).collect()
    }
}
