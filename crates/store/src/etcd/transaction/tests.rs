use bytes::Bytes;
use prost::Message;

use super::*;
use crate::key::Key;
use crate::store::SessionId;

const SERVER: EtcdServerLimits = EtcdServerLimits { operations: 128, bytes: 1_572_864 };

fn composer(prefix: usize) -> Composer {
    let namespace = Namespace::new(Bytes::from(vec![b'n'; prefix]));
    Composer { budget: RequestBudget::new(&SERVER, &namespace), namespace }
}

/// The largest commit: all keys have the maximum length.
fn heaviest(limits: &StoreLimits, bytes: usize) -> Commit {
    let key = |number: usize| Key::from(format!("{number:0width$}", width = limits.key_bytes));
    let short = |number: usize| Key::from(format!("{number}"));
    let mut builder = Commit::builder();
    let mut left = bytes;
    for number in 0..limits.expectations {
        builder = builder.guard(key(number), Expect::At(Revision::new(i64::MAX.unsigned_abs())));
        left -= limits.key_bytes;
    }
    let session = SessionId::new(i64::MAX.unsigned_abs());
    for number in 1..limits.writes {
        left -= short(number).as_bytes().len();
        builder = builder.put_in_session(short(number), "", session);
    }
    builder.put_in_session(key(0), vec![0; left - limits.key_bytes], session).build().unwrap()
}

/// Counts like a server: the longest list of a transaction, and then the lists inside it.
fn passes(txn: &TxnRequest, left: usize) -> bool {
    let longest = txn.compare.len().max(txn.success.len()).max(txn.failure.len());
    let inner = txn.success.iter().chain(&txn.failure).filter_map(|one| match &one.request {
        Some(Request::RequestTxn(inner)) => Some(inner),
        _ => None,
    });
    longest <= left && inner.into_iter().all(|inner| passes(inner, left - longest))
}

#[test]
fn every_commit_within_the_limits_fits_into_a_request() {
    for prefix in [1, 12, 64] {
        let composer = composer(prefix);
        let limits = composer.budget.limits();
        let commit = heaviest(&limits, limits.bytes);
        assert_eq!(commit.check(&limits), Ok(()));
        assert_eq!(commit.bytes(), limits.bytes);
        let request = composer.request(&[&commit]);
        assert!(passes(&request, SERVER.operations), "prefix {prefix}");
        // The server adds a header with the name of a user.
        let size = request.encoded_len() + 256;
        assert!(size <= SERVER.bytes, "prefix {prefix}: {size}");
        assert!(SERVER.bytes - size < 25_000, "prefix {prefix}: {size} is far below the limit");
    }
}

#[test]
fn one_expectation_more_than_the_limit_would_not_pass() {
    let composer = composer(12);
    let limits = composer.budget.limits();
    assert_eq!((limits.expectations, limits.writes), (114, 114 * 13));
    let more = StoreLimits { expectations: limits.expectations + 1, ..limits };
    let request = composer.request(&[&heaviest(&more, limits.bytes)]);
    assert!(!passes(&request, SERVER.operations));
    let more = StoreLimits { writes: limits.writes + 1, ..limits };
    let request = composer.request(&[&heaviest(&more, limits.bytes)]);
    assert!(!passes(&request, SERVER.operations));
}

fn small(number: usize, operations: usize) -> Commit {
    let builder = (0..operations).fold(Commit::builder(), |builder, at| {
        let key = Key::from(format!("{number}/{at}"));
        builder.expect(key.clone(), Expect::Absent).put(key, "value")
    });
    builder.build().unwrap()
}

/// A commit that first expects the gate of a run.
fn gated(gate: &str, number: usize, operations: usize) -> Commit {
    let gate = Key::from(gate.to_owned());
    let guarded = Commit::builder().guard(gate, Expect::At(Revision::new(3)));
    let builder = (1..operations).fold(guarded, |builder, at| {
        let key = Key::from(format!("{number}/{at}"));
        builder.expect(key.clone(), Expect::Absent).put(key, "value")
    });
    builder.put(Key::from(format!("{number}/last")), "value").build().unwrap()
}

fn size(commits: &[Commit]) -> BatchSize {
    let mut size = BatchSize::default();
    for commit in commits {
        let (expectations, writes) = (commit.expectations().len(), commit.writes().len());
        size.commits += 1;
        size.operations += expectations + writes;
        size.longest = size.longest.max(expectations).max(writes);
        size.bytes += commit.bytes();
    }
    size
}

/// The largest number of commits of this many operations that fit.
fn most(budget: &RequestBudget, operations: usize) -> usize {
    let size = |commits| BatchSize { commits, longest: operations, ..BatchSize::default() };
    (2..).take_while(|commits| budget.fits(&size(*commits))).last().unwrap()
}

#[test]
fn a_batch_that_fits_passes_whatever_its_groups() {
    let composer = composer(12);
    for operations in [1, 3, 13, 14, 64, 100] {
        let most = most(&composer.budget, operations);
        // This many expect each gate, and the last commit expects its own.
        for company in [most, 100, 64, 8, 7, 3, 1] {
            let commit = |number: usize| {
                let gate = format!("gate/{}", number / company);
                if number % 50 == 49 {
                    small(number, operations)
                } else {
                    gated(&gate, number, operations)
                }
            };
            let commits: Vec<Commit> = (0..=most).map(commit).collect();
            assert!(composer.budget.fits(&size(&commits[..most])), "{most} of {operations}");
            assert!(!composer.budget.fits(&size(&commits)), "{most} of {operations} and one");
            let all: Vec<&Commit> = commits.iter().take(most).collect();
            for request in [composer.request(&all), composer.outcome_check(&all)] {
                assert!(passes(&request, SERVER.operations), "{most} of {operations}, {company}");
                assert!(request.encoded_len() <= SERVER.bytes);
            }
        }
    }
}

#[test]
fn a_request_holds_more_commits_than_one_list() {
    let budget = composer(12).budget;
    assert!(most(&budget, 3) > 400, "{}", most(&budget, 3));
    assert!(most(&budget, 16) > 256, "{}", most(&budget, 16));
    assert!(most(&budget, 100) > 20, "{}", most(&budget, 100));
}

fn inner(operation: &RequestOp) -> &TxnRequest {
    match &operation.request {
        Some(Request::RequestTxn(inner)) => inner,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_shared_expectation_is_compared_once_without_reads() {
    let composer = composer(12);
    let commits: Vec<Commit> = (0..100).map(|number| gated("gate", number, 3)).collect();
    let commits: Vec<&Commit> = commits.iter().collect();
    let request = composer.request(&commits);
    let groups: Vec<&TxnRequest> = request.success.iter().map(inner).collect();
    let lists = |txn: &&TxnRequest| (txn.compare.len(), txn.success.len(), txn.failure.len());
    assert_eq!(groups.iter().map(lists).collect::<Vec<_>>(), [(1, 64, 0), (1, 36, 0)]);
    for commit in groups.iter().flat_map(|group| group.success.iter().map(inner)) {
        assert_eq!(lists(&commit), (2, 3, 0));
    }
    // A few commits do not form a group.
    let request = composer.request(&commits[..7]);
    let groups: Vec<&TxnRequest> = request.success.iter().map(inner).collect();
    assert_eq!(groups.iter().map(lists).collect::<Vec<_>>(), [(0, 7, 0)]);
    for commit in groups.iter().flat_map(|group| group.success.iter().map(inner)) {
        assert_eq!(lists(&commit), (3, 3, 0));
    }
}

fn answered(succeeded: bool, inner: Vec<TxnResponse>) -> TxnResponse {
    let inner =
        inner.into_iter().map(|one| ResponseOp { response: Some(Response::ResponseTxn(one)) });
    TxnResponse { succeeded, responses: inner.collect(), ..TxnResponse::default() }
}

#[test]
fn each_commit_of_a_group_gets_its_own_answer() {
    let composer = composer(12);
    // Eight expect the first gate, eight the second, which has changed, and two expect others.
    let gates = ["one", "two", "one", "two"];
    let mut commits = vec![small(100, 1)];
    commits.extend((0..16).map(|number| gated(gates[number % 4], number, 2)));
    commits.push(small(101, 1));
    let commits: Vec<&Commit> = commits.iter().collect();
    let decided = |succeeded| answered(succeeded, Vec::new());
    // The third commit of the first gate conflicts, and the last one of all.
    let one = answered(true, (0..8).map(|member| decided(member != 2)).collect());
    let others = answered(true, vec![decided(true), decided(false)]);
    let answer = answered(true, vec![one.clone(), decided(false), others.clone()]);
    let applied = Some(Revision::ZERO);
    let mut expected = vec![applied];
    expected.extend((0..16).map(|number| applied.filter(|_| number % 2 == 0 && number != 4)));
    expected.push(None);
    assert_eq!(composer.decisions(&commits, answer), Some(expected));
    // A mismatched answer decides nothing.
    let short = answered(true, vec![one.clone(), others.clone()]);
    assert_eq!(composer.decisions(&commits, short), None);
    let mixed = answered(true, vec![others, decided(false), one]);
    assert_eq!(composer.decisions(&commits, mixed), None);
}

#[test]
fn an_outcome_check_reports_each_commit_in_order() {
    let decided = |succeeded| answered(succeeded, Vec::new());
    let groups = [vec![true, false, true], vec![false, true]];
    let answer = groups.iter().map(|one| one.iter().copied().map(decided).collect());
    let answer = answered(true, answer.map(|group| answered(true, group)).collect());
    assert_eq!(Composer::findings(answer), Some(groups.concat()));
}

#[test]
fn a_batch_never_exceeds_the_request_size() {
    let composer = composer(64);
    let heavy = |number: usize| {
        let key = |at: usize| Key::from(format!("{number:04}{at:01020}"));
        let builder = (0..14).fold(Commit::builder(), |builder, at| {
            builder.guard(key(at), Expect::At(Revision::new(u64::MAX >> 1)))
        });
        builder.put(Key::from(format!("{number}")), "").build().unwrap()
    };
    let commits: Vec<Commit> = (0..112).map(heavy).collect();
    let mut size = BatchSize::default();
    let mut fitting = Vec::new();
    for commit in &commits {
        size.commits += 1;
        size.operations += 15;
        size.longest = 14;
        size.bytes += commit.bytes();
        if !composer.budget.fits(&size) {
            break;
        }
        fitting.push(commit);
    }
    assert!(fitting.len() > 60 && fitting.len() < 112, "{}", fitting.len());
    assert!(composer.request(&fitting).encoded_len() + 256 <= SERVER.bytes);
}

#[test]
fn a_request_has_a_price_unless_it_only_deletes() {
    let composer = composer(12);
    let puts = small(1, 1);
    let other = small(2, 1);
    let deletes = |name: &'static str| {
        let key = Key::from(name);
        let expect = Expect::At(Revision::new(1));
        Commit::builder().expect(key.clone(), expect).delete(key).build().unwrap()
    };
    let (one, two) = (deletes("one"), deletes("two"));
    assert_eq!(composer.request(&[&puts, &other]).failure.len(), 1);
    assert_eq!(composer.request(&[&one, &puts]).failure.len(), 1);
    assert!(composer.request(&[&one, &two]).failure.is_empty());
    let large = small(1, 100);
    let larger = (0..200).fold(Commit::builder().guard(Key::from("g"), Expect::Absent), |b, at| {
        b.put(Key::from(format!("{at}")), "")
    });
    // A small single commit has a put at its top level.
    let puts = |txn: &TxnRequest| {
        txn.success.iter().all(|one| matches!(one.request, Some(Request::RequestPut(_))))
    };
    assert!(puts(&composer.request(&[&large])));
    assert_eq!(composer.request(&[&larger.build().unwrap()]).failure.len(), 1);
}

#[test]
fn revision_zero_never_matches_a_key() {
    let namespace = Namespace::new(Bytes::from_static(b"n"));
    let number = |expect| {
        let key = Key::from("a");
        compare(&namespace, &Expectation { key, expect }).target_union
    };
    assert_eq!(number(Expect::Absent), Some(TargetUnion::ModRevision(0)));
    assert_eq!(number(Expect::At(Revision::ZERO)), Some(TargetUnion::ModRevision(i64::MAX)));
    assert_eq!(number(Expect::At(Revision::new(7))), Some(TargetUnion::ModRevision(7)));
}

#[test]
fn replaced_expectations_show_whether_a_commit_was_applied() {
    let key = |name: &'static str| Key::from(name);
    let at = Expect::At(Revision::new(5));
    let commit = Commit::builder()
        .expect(key("made"), Expect::Absent)
        .expect(key("replaced"), at)
        .expect(key("removed"), at)
        .expect(key("never there"), Expect::Absent)
        .guard(key("gate"), at)
        .put(key("made"), "")
        .put(key("replaced"), "")
        .put(key("other"), "")
        .delete(key("removed"))
        .delete(key("never there"))
        .build()
        .unwrap();
    let keys: Vec<Key> = replaced(&commit).map(|expected| expected.key.clone()).collect();
    assert_eq!(keys, [key("made"), key("replaced"), key("removed")]);
}
