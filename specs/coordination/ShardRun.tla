------------------------------- MODULE ShardRun -------------------------------
(*****************************************************************************)
(* One run of Shardwright. Workers lease, advance, split, park and           *)
(* complete shards of a small keyspace. The coordinator accepts or refuses   *)
(* their requests.                                                           *)
(*                                                                           *)
(* Three choices keep the state space small and cover all behaviours:        *)
(*                                                                           *)
(* - Time is relative. A lease stores the ticks until its deadline.          *)
(*   `now >= deadline` is `left <= 0`, and the clock needs no bound.         *)
(* - Requests are not messages. Any worker may present any request under     *)
(*   any fence up to the current one at any time. This covers late,          *)
(*   duplicate and reordered requests of a paused worker, and forged ones.   *)
(* - An op id is stored only where the coordinator stores it. A retry        *)
(*   after the eviction of its entry is a new request, as it is for the      *)
(*   coordinator.                                                            *)
(*****************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  Workers,        \* workers that may hold leases; interchangeable
  NoWorker,       \* owner of an unleased shard
  NumKeys,        \* the manifest is one root shard over the keys 0 .. NumKeys-1
  MaxShards,      \* the root and all shards derived from it
  LeaseTicks,     \* ticks until the deadline of a granted or renewed lease
  LogCapacity,    \* entries that a shard's op log can hold
  FenceCap,       \* where fences saturate; reached only if behaviours must not end
  KeepHistory     \* FALSE: record neither writers nor the last step

VARIABLES
  run,            \* [status, paused]
  shard,          \* slot -> record; an unused slot has status "absent"
  wrote,          \* history: slot -> workers whose write was accepted under its fence
  processed,      \* history: keys that an accepted writer reported as done
  step            \* history: the last step; not part of the view

vars == <<run, shard, wrote, processed, step>>
core == <<run, shard, wrote, processed>>

Keys  == 0 .. (NumKeys - 1)
NoKey == -1
Slots == 1 .. MaxShards
Root  == 1
NoOp  == 0
\* Enough that one id is unused, whatever the log and the residuals of a shard contain.
OpIds == 1 .. (LogCapacity + MaxShards)

NoStep == [tag |-> "none", slot |-> 0, worker |-> NoWorker, fence |-> 0, op |-> NoOp]

Existing == {s \in Slots : shard[s].status # "absent"}
Leaves   == {s \in Existing : shard[s].status # "Split"}
Range(s) == shard[s].lo .. (shard[s].hi - 1)

Absent == [lo |-> 0, hi |-> 0, cursor |-> NoKey, status |-> "absent", owner |-> NoWorker,
           left |-> 0, fence |-> 0, log |-> <<>>, parent |-> 0, origin |-> "none", born |-> NoOp]

Fresh(lo, hi, parent, origin, born) ==
  [Absent EXCEPT !.lo = lo, !.hi = hi, !.status = "Active",
                 !.parent = parent, !.origin = origin, !.born = born]

Init ==
  /\ run = [status |-> "Active", paused |-> FALSE]
  /\ shard = [s \in Slots |-> IF s = Root THEN Fresh(0, NumKeys, 0, "root", NoOp) ELSE Absent]
  /\ wrote = [s \in Slots |-> {}]
  /\ processed = {}
  /\ step = NoStep

-------------------------------------------------------------------------------
(* Requests and the op log *)

\* A request is an op id and a payload: kind and argument.
Ask(op, kind, arg) == [op |-> op, kind |-> kind, arg |-> arg]

LoggedOps(s) == {shard[s].log[i].op : i \in DOMAIN shard[s].log}
Residuals(s) == {t \in Existing : shard[t].parent = s /\ shard[t].origin = "residual"}
BornOps(s)   == {shard[t].born : t \in Residuals(s)}

\* Unused ids are interchangeable, so one represents all.
UnusedOp(s) ==
  LET unused == OpIds \ (LoggedOps(s) \union BornOps(s))
  IN  CHOOSE o \in unused : \A p \in unused : o <= p

Logged(s, r) ==
  LET longer == Append(shard[s].log, r)
  IN  IF Len(longer) > LogCapacity THEN Tail(longer) ELSE longer

\* Looks up an op id: "replayed", "conflict", or "new" if it is not known. A residual split is
\* also recognised by the shard that it created: its parent stays active, so its entry may be
\* evicted.
Remembered(s, r) ==
  IF r.op \in LoggedOps(s)
  THEN IF \E i \in DOMAIN shard[s].log : shard[s].log[i] = r THEN "replayed" ELSE "conflict"
  ELSE IF r.kind = "residual" /\ r.op \in BornOps(s)
  THEN IF \E t \in Residuals(s) : shard[t].born = r.op /\ shard[t].lo = r.arg
       THEN "replayed" ELSE "conflict"
  ELSE "new"

-------------------------------------------------------------------------------
(* The guard: op log, run, terminal, fence, expiry, owner, and only then the payload *)

Expired(s) == shard[s].left <= 0

\* The answer to any request of worker w under fence f, if the op log has none.
LeaseAnswer(w, s, f) ==
  IF run.status # "Active" THEN "run ended"
  ELSE IF shard[s].status # "Active" THEN "terminal"
  ELSE IF f # shard[s].fence THEN "stale fence"
  ELSE IF Expired(s) THEN "expired"
  ELSE IF w # shard[s].owner THEN "not the owner"
  ELSE "accepted"

InBounds(s, k) == shard[s].lo <= k /\ k < shard[s].hi
Forward(s, k)  == k >= shard[s].cursor

MaySplit(s, boundary, slots) ==
  /\ shard[s].lo < boundary /\ boundary < shard[s].hi
  /\ boundary > shard[s].cursor
  /\ Cardinality(Existing) + slots <= MaxShards

Valid(s, r) ==
  CASE r.kind = "checkpoint" -> InBounds(s, r.arg) /\ Forward(s, r.arg)
    [] r.kind = "complete"   -> \/ r.arg = NoKey /\ shard[s].cursor = NoKey
                                \/ InBounds(s, r.arg) /\ Forward(s, r.arg)
    [] r.kind = "replace"    -> MaySplit(s, r.arg, 2)
    [] r.kind = "residual"   -> MaySplit(s, r.arg, 1)
    [] OTHER                 -> TRUE

Answer(s, r, lease) ==
  LET known == Remembered(s, r)
  IN  IF known # "new" THEN known
      ELSE IF lease # "accepted" THEN lease
      ELSE IF ~Valid(s, r) THEN "invalid"
      ELSE "accepted"

-------------------------------------------------------------------------------
(* Effects of accepted requests on shards; `kept` is the record with its new log *)

Unleased(record) == [record EXCEPT !.owner = NoWorker, !.left = 0]

Checkpoint(s, kept, key) ==
  [shard EXCEPT ![s] = [kept EXCEPT !.cursor = key]]

Complete(s, kept, key) ==
  [shard EXCEPT ![s] = [Unleased(kept) EXCEPT !.cursor = key, !.status = "Done"]]

Park(s, kept) ==
  [shard EXCEPT ![s] = [Unleased(kept) EXCEPT !.status = "Parked"]]

Release(s, kept) ==
  [shard EXCEPT ![s] = Unleased(kept)]

\* Derived shards use the next slots. Real ids are derived from parent, op id and index.
NextSlot == Cardinality(Existing) + 1

\* The parent retires. The first child gets its cursor.
SplitReplace(s, kept, boundary) ==
  LET first  == [Fresh(kept.lo, boundary, s, "child", NoOp) EXCEPT !.cursor = kept.cursor]
      second == Fresh(boundary, kept.hi, s, "child", NoOp)
  IN  [shard EXCEPT ![s] = [Unleased(kept) EXCEPT !.status = "Split"],
                    ![NextSlot] = first,
                    ![NextSlot + 1] = second]

\* The parent keeps its lease and the lower part.
SplitResidual(s, kept, boundary, op) ==
  LET rest == Fresh(boundary, kept.hi, s, "residual", op)
  IN  [shard EXCEPT ![s] = [kept EXCEPT !.hi = boundary],
                    ![NextSlot] = rest]

After(s, r) ==
  LET kept == [shard[s] EXCEPT !.log = Logged(s, r)]
  IN  CASE r.kind = "checkpoint" -> Checkpoint(s, kept, r.arg)
        [] r.kind = "complete"   -> Complete(s, kept, r.arg)
        [] r.kind = "park"       -> Park(s, kept)
        [] r.kind = "release"    -> Release(s, kept)
        [] r.kind = "replace"    -> SplitReplace(s, kept, r.arg)
        [] r.kind = "residual"   -> SplitResidual(s, kept, r.arg, r.op)

\* The keys that a request reports as done, without those reported before.
Reported(s, r) ==
  CASE r.kind = "checkpoint" -> {k \in Range(s) : shard[s].cursor < k /\ k <= r.arg}
    [] r.kind = "complete"   -> {k \in Range(s) : shard[s].cursor < k}
    [] OTHER                 -> {}

-------------------------------------------------------------------------------
(* Actions of workers *)

Label(tag, s, w, f, op) ==
  IF KeepHistory THEN [tag |-> tag, slot |-> s, worker |-> w, fence |-> f, op |-> op] ELSE NoStep

NewFence(f) == IF f >= FenceCap THEN f ELSE f + 1

\* Every new fence clears the history of writers.
WroteUnderNewFence(s) == [wrote EXCEPT ![s] = IF shard'[s].fence = shard[s].fence THEN @ ELSE {}]

Acquire(w, s) ==
  /\ run.status = "Active"
  /\ ~run.paused
  /\ shard[s].status = "Active"
  /\ shard[s].owner = NoWorker \/ Expired(s)
  /\ shard' = [shard EXCEPT ![s].owner = w,
                            ![s].left = LeaseTicks,
                            ![s].fence = NewFence(@)]
  /\ wrote' = WroteUnderNewFence(s)
  /\ step' = Label("acquire", s, w, 0, NoOp)
  /\ UNCHANGED <<run, processed>>

\* Fences that a worker may present. Stale fences are interchangeable, so the newest represents all.
FencesToTry(s) == {f \in {shard[s].fence - 1, shard[s].fence} : f >= 1}

Renew(w, s) ==
  \E f \in FencesToTry(s) :
    /\ LeaseAnswer(w, s, f) = "accepted"
    /\ shard' = [shard EXCEPT ![s].left = LeaseTicks]
    /\ step' = Label("renew", s, w, f, NoOp)
    /\ UNCHANGED <<run, wrote, processed>>

\* Requests that a worker may send. One key is beyond the keyspace, so that the bounds have
\* something to refuse. A shard is completed at its last key, or without a key if it seemed empty.
Wishes(s, op) ==
  {Ask(op, "checkpoint", k) : k \in 0 .. NumKeys}
    \union {Ask(op, "complete", k) : k \in {NoKey, shard[s].hi - 1}}
    \union {Ask(op, kind, NoKey) : kind \in {"park", "release"}}
    \union {Ask(op, kind, k) : kind \in {"replace", "residual"}, k \in Keys}

\* Other requests under a known op id: an error of the sender.
Borrowed(s) ==
  {Ask(op, kind, NoKey) : op \in LoggedOps(s), kind \in {"park", "release"}}
    \union {Ask(op, "residual", k) : op \in BornOps(s), k \in Keys}

Accept(w, s, r) ==
  /\ shard' = After(s, r)
  /\ wrote' = IF KeepHistory THEN [wrote EXCEPT ![s] = @ \union {w}] ELSE wrote
  /\ processed' = processed \union Reported(s, r)
  /\ run' = run

\* One request under a lease. A refusal changes nothing and is no step, so no requests are
\* enumerated for a lease that is always refused.
Send(w, s) ==
  \E f \in FencesToTry(s) :
    LET lease == LeaseAnswer(w, s, f)
    IN  /\ lease = "accepted"
        /\ \E r \in Wishes(s, UnusedOp(s)) \union Borrowed(s) :
             /\ Answer(s, r, lease) = "accepted"
             /\ Accept(w, s, r)
             /\ step' = Label(r.kind, s, w, f, r.op)

\* Requests that may be retried: all logged ones, and residual splits with an existing shard.
Retries(s) ==
  {shard[s].log[i] : i \in DOMAIN shard[s].log}
    \union {Ask(shard[t].born, "residual", shard[t].lo) : t \in Residuals(s)}

\* An accepted request arrives again, under a lease that is no longer valid.
Retry(s) ==
  \E r \in Retries(s) :
    /\ Answer(s, r, "stale fence") = "replayed"
    /\ UNCHANGED core
    /\ step' = Label("replay", s, NoWorker, 0, r.op)

-------------------------------------------------------------------------------
(* Actions of operators, and the clock *)

UnparkAnswer(s, r) ==
  LET known == Remembered(s, r)
  IN  IF known # "new" THEN known
      ELSE IF run.status # "Active" THEN "run ended"
      ELSE IF shard[s].status # "Parked" THEN "not parked"
      ELSE "accepted"

Unpark(s) ==
  \E op \in LoggedOps(s) \union {UnusedOp(s)} :
    LET r == Ask(op, "unpark", NoKey)
    IN  /\ UnparkAnswer(s, r) = "accepted"
        /\ shard' = [shard EXCEPT ![s].status = "Active",
                                  ![s].log = Logged(s, r),
                                  ![s].fence = NewFence(@)]
        /\ wrote' = WroteUnderNewFence(s)
        /\ step' = Label("unpark", s, NoWorker, 0, op)
        /\ UNCHANGED <<run, processed>>

SetRun(tag, status, paused) ==
  /\ run' = [status |-> status, paused |-> paused]
  /\ step' = Label(tag, 0, NoWorker, 0, NoOp)
  /\ UNCHANGED <<shard, wrote, processed>>

RunIsActive == run.status = "Active"

\* Pause is a flag of an active run. An ended run is not paused.
Pause  == RunIsActive /\ ~run.paused /\ SetRun("pause", "Active", TRUE)
Resume == RunIsActive /\ run.paused /\ SetRun("resume", "Active", FALSE)

AllSettled == \A s \in Existing : shard[s].status \in {"Done", "Split"}

CompleteRun == RunIsActive /\ AllSettled /\ SetRun("complete run", "Done", FALSE)
FailRun     == RunIsActive /\ SetRun("fail run", "Failed", FALSE)
CancelRun   == RunIsActive /\ SetRun("cancel run", "Cancelled", FALSE)

\* Every deadline gets one tick closer. An expired lease stays expired.
Tick ==
  /\ \E s \in Slots : shard[s].left > 0
  /\ shard' = [s \in Slots |->
                 IF shard[s].left > 0 THEN [shard[s] EXCEPT !.left = @ - 1] ELSE shard[s]]
  /\ step' = Label("tick", 0, NoWorker, 0, NoOp)
  /\ UNCHANGED <<run, wrote, processed>>

-------------------------------------------------------------------------------

ByWorker(w) == \E s \in Existing : Acquire(w, s) \/ Renew(w, s) \/ Send(w, s)

ByOperator ==
  (\E s \in Existing : Unpark(s)) \/ Pause \/ Resume \/ CompleteRun \/ FailRun \/ CancelRun

ByEnvironment == (\E s \in Existing : Retry(s)) \/ Tick

Next == (\E w \in Workers : ByWorker(w)) \/ ByOperator \/ ByEnvironment

Spec == Init /\ [][Next]_vars

-------------------------------------------------------------------------------
(* Properties of every state *)

\* Every variable has the type that the rest of this module assumes.
TypeOK ==
  /\ run \in [status : {"Active", "Done", "Failed", "Cancelled"}, paused : BOOLEAN]
  /\ DOMAIN shard = Slots
  /\ \A s \in Slots :
       LET r == shard[s] IN
       /\ r.lo \in 0 .. NumKeys /\ r.hi \in 0 .. NumKeys
       /\ r.cursor \in Keys \union {NoKey}
       /\ r.status \in {"absent", "Active", "Done", "Split", "Parked"}
       /\ r.owner \in Workers \union {NoWorker}
       /\ r.left \in 0 .. LeaseTicks
       /\ r.fence \in Nat
       /\ r.parent \in 0 .. MaxShards
       /\ r.origin \in {"none", "root", "child", "residual"}
       /\ r.born \in OpIds \union {NoOp}
       /\ \A i \in DOMAIN r.log : r.log[i].op \in OpIds
  /\ wrote \in [Slots -> SUBSET Workers]
  /\ processed \subseteq Keys
  /\ Existing = 1 .. Cardinality(Existing)

\* Under one fence of a shard, the writes of at most one worker are accepted.
OneWriterPerFence == \A s \in Slots : Cardinality(wrote[s]) <= 1

Holds(w, s, f) ==
  /\ run.status = "Active" /\ shard[s].status = "Active"
  /\ shard[s].fence = f /\ shard[s].left > 0 /\ shard[s].owner = w

\* The payload of a park is always valid, so its answer shows the guard's decision about the lease.
AnswerToPark(w, s, f) == Answer(s, Ask(UnusedOp(s), "park", NoKey), LeaseAnswer(w, s, f))

\* A write that is not from the owner, under the current fence and before the deadline, is refused.
ZombiesRefused ==
  \A s \in Existing, w \in Workers : \A f \in FencesToTry(s) :
    AnswerToPark(w, s, f) = "accepted" => Holds(w, s, f)

\* The holder's requests are accepted while its lease lasts, also in a paused run.
HolderHeard ==
  \A s \in Existing, w \in Workers : \A f \in FencesToTry(s) :
    Holds(w, s, f) => AnswerToPark(w, s, f) = "accepted"

\* A done, split or parked shard and an unused slot have neither owner nor deadline.
OnlyActiveShardsAreLeased ==
  \A s \in Slots :
    /\ shard[s].status # "Active" => shard[s].owner = NoWorker
    /\ shard[s].owner = NoWorker => shard[s].left = 0

\* The shards that were not replaced cover every key of the manifest exactly once.
LeavesTile ==
  /\ \A k \in Keys : Cardinality({s \in Leaves : k \in Range(s)}) = 1
  /\ \A s \in Existing : Range(s) # {} /\ Range(s) \subseteq Keys

\* A cursor is absent or lies within the range of its shard.
CursorInBounds == \A s \in Existing : shard[s].cursor = NoKey \/ shard[s].cursor \in Range(s)

\* Every key up to a cursor was reported by an accepted writer.
CursorMatchesWork ==
  \A s \in Existing : \A k \in Range(s) : k <= shard[s].cursor => k \in processed

\* An op log never exceeds its capacity and has no duplicate op id.
LogBoundedAndUnique ==
  \A s \in Slots :
    /\ Len(shard[s].log) <= LogCapacity
    /\ Cardinality(LoggedOps(s)) = Len(shard[s].log)

\* A retry of a logged request, and of any residual split, gets the same answer: from any worker,
\* under any fence, after expiry, and after the end of the shard and the run.
RetryAnswered ==
  \A s \in Existing : \A r \in Retries(s) :
    IF r.kind = "unpark" THEN UnparkAnswer(s, r) = "replayed"
    ELSE \A w \in Workers, f \in FencesToTry(s) :
           Answer(s, r, LeaseAnswer(w, s, f)) = "replayed"

\* One op id creates at most one residual of a shard, also after its log entry was evicted.
OneResidualPerOp ==
  \A s \in Existing : \A t, u \in Residuals(s) : shard[t].born = shard[u].born => t = u

\* When a run is done, each of its shards is done or split, and each key was reported by an
\* accepted writer. When a shard is done, each key of its range was reported.
DoneMeansProcessed ==
  /\ run.status = "Done" => AllSettled /\ processed = Keys
  /\ \A s \in Existing : shard[s].status = "Done" => Range(s) \subseteq processed

-------------------------------------------------------------------------------
(* Properties of every step *)

Before(s)      == shard[s].status # "absent"
Work(r)        == <<r.lo, r.hi, r.cursor, r.status, r.log>>
Holder(s)      == step'.slot = s /\ Holds(step'.worker, s, step'.fence)
IsUnpark(s)    == step'.tag = "unpark" /\ step'.slot = s /\ shard[s].status = "Parked"

\* A shard's progress changes, and its deadline is extended, only by a request of its holder. The
\* exceptions are unpark and a new grant.
OnlyTheHolderWrites ==
  [][ \A s \in Slots : Before(s) =>
        /\ Work(shard'[s]) # Work(shard[s]) => Holder(s) \/ IsUnpark(s)
        /\ shard'[s].left > shard[s].left => Holder(s) \/ step'.tag = "acquire"
        /\ processed' # processed => \E t \in Existing : Holder(t) ]_vars

\* Fences never fall. Each grant and each unpark raises the shard's fence.
FencesRise ==
  [][ \A s \in Slots :
        /\ shard'[s].fence >= shard[s].fence
        /\ (step'.tag \in {"acquire", "unpark"} /\ step'.slot = s)
             => shard'[s].fence > shard[s].fence ]_vars

\* A live lease is not granted again, also not to its owner.
LiveLeasesStand ==
  [][ \A s \in Slots : step'.tag = "acquire" /\ step'.slot = s =>
        shard[s].owner = NoWorker \/ shard[s].left = 0 ]_vars

\* A paused run grants no lease.
PausedGrantsNothing ==
  [][ run.paused => \A s \in Slots : shard'[s].owner \in {NoWorker, shard[s].owner}
                                     /\ step'.tag # "acquire" ]_vars

\* A done or split shard never changes. A parked shard changes only by unpark.
TerminalStaysTerminal ==
  [][ \A s \in Slots :
        /\ shard[s].status \in {"Done", "Split"} => shard'[s] = shard[s]
        /\ shard[s].status = "Parked" =>
             shard'[s] = shard[s] \/ (IsUnpark(s) /\ shard'[s].status = "Active") ]_vars

\* A split is one step. The new shards appear active, unleased and with empty logs in the step in
\* which the parent retires or shrinks. Together they cover exactly its range.
SplitsAreAtomic ==
  [][ LET born == {s \in Slots : ~Before(s) /\ shard'[s].status # "absent"}
          Span(r) == r.lo .. (r.hi - 1)
      IN  /\ \A s \in Slots : Before(s) /\ shard'[s].status = "Split" /\ shard[s].status # "Split"
               => born # {}
          /\ born # {} =>
               \E p \in Slots :
                 LET heirs == IF shard'[p].status = "Split" THEN born ELSE born \union {p}
                 IN  /\ Before(p) /\ shard[p].status = "Active" /\ step'.slot = p
                     /\ \A s \in born : /\ shard'[s].status = "Active"
                                        /\ shard'[s].owner = NoWorker
                                        /\ shard'[s].log = <<>>
                                        /\ shard'[s].parent = p
                     /\ UNION {Span(shard'[s]) : s \in heirs} = Range(p)
                     /\ \A s, t \in heirs : s # t => Span(shard'[s]) \intersect Span(shard'[t]) = {}
                     /\ \A s \in Slots \ (born \union {p}) : shard'[s] = shard[s] ]_vars

\* A cursor never goes back, under any holder.
CursorForward ==
  [][ \A s \in Slots : Before(s) => shard'[s].cursor >= shard[s].cursor ]_vars

\* While an op id is in a shard's log, a request with this id changes nothing: neither a replay nor
\* another request that reuses the id.
OneEffectPerOp ==
  [][ step'.slot \in Slots =>
        (step'.op \in LoggedOps(step'.slot) => UNCHANGED core) ]_vars

\* An accepted request becomes the newest log entry. Only the oldest entry is evicted for it.
LogKeepsTheNewest ==
  [][ \A s \in Slots :
        LET old      == shard[s].log
            new      == shard'[s].log
            accepted == step'.slot = s /\ step'.op # NoOp /\ step'.tag # "replay"
        IN  IF ~accepted THEN new = old
            ELSE /\ new # <<>> /\ new[Len(new)].op = step'.op
                 /\ SubSeq(new, 1, Len(new) - 1)
                      = IF Len(old) < LogCapacity THEN old ELSE Tail(old) ]_vars

\* Release, park, complete and replace end the lease in the same step.
GivenBackAtOnce ==
  [][ step'.tag \in {"release", "park", "complete", "replace"} =>
        shard'[step'.slot].owner = NoWorker ]_vars

\* An ended run and its shards do not change. Only the clock continues.
RunEndIsFinal ==
  [][ run.status # "Active" =>
        /\ run' = run
        /\ \A s \in Slots : /\ [shard'[s] EXCEPT !.left = 0] = [shard[s] EXCEPT !.left = 0]
                             /\ shard'[s].left <= shard[s].left
        /\ UNCHANGED <<wrote, processed>> ]_vars

===============================================================================
