//! Which code exists only when the tests are built.

use syn::punctuated::Punctuated;
use syn::{Attribute, ImplItem, Item, Meta, Token, TraitItem};

/// Whether these attributes keep their item out of every build but the tests.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let names: Vec<String> =
            attribute.path().segments.iter().map(|segment| segment.ident.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match names.as_slice() {
            ["test" | "rstest"] | ["tokio", "test"] | ["rstest", "rstest"] => true,
            ["cfg"] => attribute.parse_args::<Meta>().is_ok_and(|meta| requires_test(&meta)),
            _ => false,
        }
    })
}

fn requires_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) => {
            let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
            let Ok(parts) = list.parse_args_with(parser) else {
                return false;
            };
            if list.path.is_ident("all") {
                parts.iter().any(requires_test)
            } else {
                // `any` with no parts is never true, but nobody writes that to exempt code.
                list.path.is_ident("any") && !parts.is_empty() && parts.iter().all(requires_test)
            }
        }
        Meta::NameValue(_) => false,
    }
}

/// The attributes of an item of any kind.
pub(crate) fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The attributes of an item inside an `impl`.
pub(crate) fn impl_item_attributes(item: &ImplItem) -> &[Attribute] {
    match item {
        ImplItem::Const(item) => &item.attrs,
        ImplItem::Fn(item) => &item.attrs,
        ImplItem::Type(item) => &item.attrs,
        ImplItem::Macro(item) => &item.attrs,
        _ => &[],
    }
}

/// The attributes of an item inside a trait.
pub(crate) fn trait_item_attributes(item: &TraitItem) -> &[Attribute] {
    match item {
        TraitItem::Const(item) => &item.attrs,
        TraitItem::Fn(item) => &item.attrs,
        TraitItem::Type(item) => &item.attrs,
        TraitItem::Macro(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exempt(attribute: &str) -> bool {
        let file = syn::parse_file(&format!("{attribute}\nfn f() {{}}")).unwrap();
        is_test(item_attributes(&file.items[0]))
    }

    #[test]
    fn code_for_tests_only_is_recognized() {
        for attribute in [
            "#[test]",
            "#[tokio::test]",
            "#[rstest]",
            "#[cfg(test)]",
            "#[cfg(all(unix, test))]",
            "#[cfg(any(test, all(test, unix)))]",
        ] {
            assert!(exempt(attribute), "{attribute}");
        }
    }

    #[test]
    fn code_that_can_be_in_another_build_is_not_test_code() {
        for attribute in [
            "",
            "#[inline]",
            "#[cfg(not(test))]",
            "#[cfg(any(test, feature = \"faults\"))]",
            "#[cfg(feature = \"test\")]",
            "#[cfg_attr(test, derive(Debug))]",
            "#[cfg(any())]",
        ] {
            assert!(!exempt(attribute), "{attribute}");
        }
    }
}
