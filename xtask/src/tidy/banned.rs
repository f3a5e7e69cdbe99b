//! Calls that a crate may not make: walks its shipped code and looks every path up.

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{
    Attribute, ExprPath, ImplItem, Item, ItemExternCrate, ItemUse, Macro, Path as SynPath, Stmt,
    TraitItem, Type, Visibility,
};

use super::ban_table::{Profile, When};
use super::imports::{self, Import};
use super::module_tree::{Module, Tree};
use super::names::Names;
use super::test_code::{impl_item_attributes, is_test, item_attributes, trait_item_attributes};
use super::tokens::{self, Form, Mention};
use super::violation::Violation;

/// Everything in the shipped code of one target that its crate's profile bans.
pub(crate) fn check(tree: &Tree<'_>, profile: &Profile) -> BTreeSet<Violation> {
    let names = Names::collect(&tree.modules);
    let mut found = BTreeSet::new();
    for module in shipped(tree).filter(|module| !profile.exempts(&module.name)) {
        let mut scan = Scan { names: &names, profile, module, found: BTreeSet::new() };
        for attribute in module.attributes {
            scan.visit_attribute(attribute);
        }
        for item in module.items {
            // Modules are walked one by one, each with the names it knows.
            if !matches!(item, Item::Mod(_)) {
                scan.visit_item(item);
            }
        }
        found.append(&mut scan.found);
    }
    found
}

fn shipped<'t>(tree: &'t Tree<'t>) -> impl Iterator<Item = &'t Module<'t>> {
    tree.modules.iter().filter(|module| !module.test)
}

struct Scan<'s> {
    names: &'s Names,
    profile: &'s Profile,
    module: &'s Module<'s>,
    found: BTreeSet<Violation>,
}

impl Scan<'_> {
    fn report(&mut self, line: usize, what: String, why: &str) {
        let path: &Path = &self.module.file;
        self.found.insert(Violation::new(path, line, what, why));
    }

    fn mention(&mut self, mention: &Mention) {
        let Mention { segments, absolute, form, line } = mention;
        let meanings = self.names.resolve(&self.module.name, segments, *absolute);
        for mut meaning in meanings {
            if let Form::Call { .. } = form {
                meaning = called(meaning);
            } else if meaning.len() == 1 && segments.len() == 1 {
                // A single word that no import explains is a variable, not a crate.
                continue;
            }
            for ban in self.profile.bans {
                let banned = match (ban.when, form) {
                    (When::CalledUnbiased, Form::Call { biased: false }) => ban.covers(&meaning),
                    (When::CalledUnbiased, _) => None,
                    (When::Named, Form::Glob) => {
                        ban.covers(&meaning).or_else(|| ban.lies_beneath(&meaning))
                    }
                    (When::Named, _) => ban.covers(&meaning),
                };
                if let Some(banned) = banned {
                    self.report(*line, describe(&segments.join("::"), banned), ban.why);
                }
            }
        }
    }

    fn import(&mut self, import: &Import, visibility: &Visibility) {
        let Import { segments, absolute, alias, line } = import;
        let written = segments.join("::");
        for meaning in self.names.resolve(&self.module.name, segments, *absolute) {
            for ban in self.profile.bans.iter().filter(|ban| ban.when == When::Named) {
                if let Some(banned) = ban.covers(&meaning) {
                    self.report(*line, describe(&written, banned), ban.why);
                } else if let Some(banned) = ban.lies_beneath(&meaning) {
                    if alias.is_none() {
                        let what = format!("{written}::* brings in {banned}");
                        self.report(*line, what, ban.why);
                    } else if matches!(visibility, Visibility::Public(_)) {
                        let what = format!("re-export of {written}, which holds {banned}");
                        self.report(*line, what, ban.why);
                    }
                }
            }
        }
    }

    fn written(&mut self, path: &SynPath, form: Form) {
        let (segments, line) = spelled(path);
        let absolute = path.leading_colon.is_some();
        self.mention(&Mention { segments, absolute, form, line });
    }
}

/// The meaning of a path when it is called as a macro; a bare name is one of the standard ones.
fn called(mut meaning: Vec<String>) -> Vec<String> {
    if meaning.len() == 1 {
        meaning.insert(0, "std".to_owned());
    }
    if let Some(last) = meaning.last_mut() {
        last.push('!');
    }
    meaning
}

fn describe(written: &str, banned: &str) -> String {
    if written == banned { banned.to_owned() } else { format!("{written} ({banned})") }
}

fn spelled(path: &SynPath) -> (Vec<String>, usize) {
    let segments = path.segments.iter().map(|one| one.ident.unraw().to_string()).collect();
    let line = path.segments.first().map_or(0, |one| one.ident.span().start().line);
    (segments, line)
}

impl<'ast> Visit<'ast> for Scan<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !is_test(impl_item_attributes(item)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        if !is_test(trait_item_attributes(item)) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let attributes: &[Attribute] = match statement {
            Stmt::Local(local) => &local.attrs,
            Stmt::Macro(call) => &call.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        for import in imports::of_use(item) {
            self.import(&import, &item.vis);
        }
    }

    fn visit_item_extern_crate(&mut self, item: &'ast ItemExternCrate) {
        self.import(&imports::of_extern_crate(item), &item.vis);
    }

    fn visit_path(&mut self, path: &'ast SynPath) {
        self.written(path, Form::Name);
        visit::visit_path(self, path);
    }

    fn visit_expr_path(&mut self, expression: &'ast ExprPath) {
        // `<Instant>::now` is `Instant::now` in another spelling.
        if let Some(qself) = &expression.qself
            && qself.position == 0
            && let Type::Path(owner) = &*qself.ty
        {
            let (mut segments, line) = spelled(&owner.path);
            segments.extend(spelled(&expression.path).0);
            let absolute = owner.path.leading_colon.is_some();
            self.mention(&Mention { segments, absolute, form: Form::Name, line });
        }
        visit::visit_expr_path(self, expression);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let biased = tokens::begins_biased(&call.tokens);
        self.written(&call.path, Form::Call { biased });
        self.visit_token_stream(&call.tokens);
    }

    fn visit_token_stream(&mut self, stream: &'ast TokenStream) {
        for mention in tokens::mentions(stream) {
            self.mention(&mention);
        }
    }
}

#[cfg(test)]
mod tests;
