------------------------------- MODULE ShardRun -------------------------------
(*****************************************************************************)
(* One run of Shardwright: shards of a small keyspace that workers lease,    *)
(* advance, split, park and finish, and the rules by which the coordinator   *)
(* accepts or refuses what they send.                                        *)
(*                                                                           *)
(* Three choices keep the state space small without leaving behaviours out:  *)
(*                                                                           *)
(* - Time is relative. A lease stores how many ticks its deadline lies       *)
(*   ahead; `now >= deadline` reads `left <= 0`, and no clock needs a bound. *)
(* - A request is no object that travels. Any worker may present any         *)
(*   request under any fence up to the current one at any moment, which      *)
(*   contains all that a paused worker may still send, whatever arrives      *)
(*   late, twice or out of order, and what only a forger could send.         *)
(* - An op id is remembered only where the coordinator remembers it. A retry *)
(*   that comes after its entry was evicted is one more fresh request, which *)
(*   is just what the coordinator takes it for.                              *)
(*****************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  Workers,        \* who may lease; interchangeable
  NoWorker,       \* owner of an unleased shard
  NumKeys,        \* the manifest is one root shard over the keys 0 .. NumKeys-1
  MaxShards,      \* the root and all shards derived from it
  LeaseTicks,     \* how far ahead a granted or renewed deadline lies
  LogCapacity,    \* entries that a shard's op log can hold
  FenceCap,       \* where fences stop counting; out of reach unless behaviours must not end
  KeepHistory     \* FALSE: record neither who wrote nor what the last step was

VARIABLES
  run,            \* [status, paused]
  shard,          \* slot -> record; a slot that is not in use has status "absent"
  wrote,          \* history: slot -> workers whose write was accepted under its fence
  processed,      \* history: keys that an accepted writer said it is done with
  step            \* history: what the last step was; no part of the view

vars == <<run, shard, wrote, processed, step>>
core == <<run, shard, wrote, processed>>

Keys  == 0 .. (NumKeys - 1)
NoKey == -1
Slots == 1 .. MaxShards
Root  == 1
NoOp  == 0
\* Enough that one is free whatever the log and the residuals of a shard remember.
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

\* A request is an op id with what it asks for: the payload is kind and argument.
Ask(op, kind, arg) == [op |-> op, kind |-> kind, arg |-> arg]

LoggedOps(s) == {shard[s].log[i].op : i \in DOMAIN shard[s].log}
Residuals(s) == {t \in Existing : shard[t].parent = s /\ shard[t].origin = "residual"}
BornOps(s)   == {shard[t].born : t \in Residuals(s)}

\* Any unused id is as good as any other, so one of them stands for all.
UnusedOp(s) ==
  LET unused == OpIds \ (LoggedOps(s) \union BornOps(s))
  IN  CHOOSE o \in unused : \A p \in unused : o <= p

Logged(s, r) ==
  LET longer == Append(shard[s].log, r)
  IN  IF Len(longer) > LogCapacity THEN Tail(longer) ELSE longer

\* What is remembered of the op id: "replayed", "conflict", or "new" when it is not known.
\* A residual split is also recognised by the shard it made, since its parent goes on working
\* and its entry may be evicted.
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

\* What becomes of anything that worker w presents under fence f, if the op log has no answer.
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
(* What an accepted request makes of the shards; `kept` is the record with its new log *)

Unleased(record) == [record EXCEPT !.owner = NoWorker, !.left = 0]

Checkpoint(s, kept, key) ==
  [shard EXCEPT ![s] = [kept EXCEPT !.cursor = key]]

Complete(s, kept, key) ==
  [shard EXCEPT ![s] = [Unleased(kept) EXCEPT !.cursor = key, !.status = "Done"]]

Park(s, kept) ==
  [shard EXCEPT ![s] = [Unleased(kept) EXCEPT !.status = "Parked"]]

Release(s, kept) ==
  [shard EXCEPT ![s] = Unleased(kept)]

\* Derived shards take the next slots; real ids follow from parent, op id and place.
NextSlot == Cardinality(Existing) + 1

\* The parent retires; what it had done goes to the first child.
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

\* The keys that a request reports as done beyond those reported before.
Reported(s, r) ==
  CASE r.kind = "checkpoint" -> {k \in Range(s) : shard[s].cursor < k /\ k <= r.arg}
    [] r.kind = "complete"   -> {k \in Range(s) : shard[s].cursor < k}
    [] OTHER                 -> {}

-------------------------------------------------------------------------------
(* Actions of workers *)

Label(tag, s, w, f, op) ==
  IF KeepHistory THEN [tag |-> tag, slot |-> s, worker |-> w, fence |-> f, op |-> op] ELSE NoStep

NewFence(f) == IF f >= FenceCap THEN f ELSE f + 1

\* The history of writers begins anew with every fence.
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

\* Leases that a worker may have a copy of. All stale fences are alike: the newest will do.
FencesToTry(s) == {f \in {shard[s].fence - 1, shard[s].fence} : f >= 1}

Renew(w, s) ==
  \E f \in FencesToTry(s) :
    /\ LeaseAnswer(w, s, f) = "accepted"
    /\ shard' = [shard EXCEPT ![s].left = LeaseTicks]
    /\ step' = Label("renew", s, w, f, NoOp)
    /\ UNCHANGED <<run, wrote, processed>>

\* What a worker may want. One key beyond the keyspace is tried, too, so that the bounds have
\* something to refuse; a shard is completed at its last key, or without one if it seemed empty.
Wishes(s, op) ==
  {Ask(op, "checkpoint", k) : k \in 0 .. NumKeys}
    \union {Ask(op, "complete", k) : k \in {NoKey, shard[s].hi - 1}}
    \union {Ask(op, kind, NoKey) : kind \in {"park", "release"}}
    \union {Ask(op, kind, k) : kind \in {"replace", "residual"}, k \in Keys}

\* Other requests under an op id that is remembered: a mistake of the sender.
Borrowed(s) ==
  {Ask(op, kind, NoKey) : op \in LoggedOps(s), kind \in {"park", "release"}}
    \union {Ask(op, "residual", k) : op \in BornOps(s), k \in Keys}

Accept(w, s, r) ==
  /\ shard' = After(s, r)
  /\ wrote' = IF KeepHistory THEN [wrote EXCEPT ![s] = @ \union {w}] ELSE wrote
  /\ processed' = processed \union Reported(s, r)
  /\ run' = run

\* One request under a lease. What is refused changes nothing and is no step, so a lease that
\* can only be refused needs no list of requests.
Send(w, s) ==
  \E f \in FencesToTry(s) :
    LET lease == LeaseAnswer(w, s, f)
    IN  /\ lease = "accepted"
        /\ \E r \in Wishes(s, UnusedOp(s)) \union Borrowed(s) :
             /\ Answer(s, r, lease) = "accepted"
             /\ Accept(w, s, r)
             /\ step' = Label(r.kind, s, w, f, r.op)

\* What may be sent again: all that is logged, and the residual splits that still show.
Retries(s) ==
  {shard[s].log[i] : i \in DOMAIN shard[s].log}
    \union {Ask(shard[t].born, "residual", shard[t].lo) : t \in Residuals(s)}

\* A request that was accepted before arrives once more, under a lease that is worth nothing now.
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

\* Pause is a flag of an active run; a run that has ended is not paused.
Pause  == RunIsActive /\ ~run.paused /\ SetRun("pause", "Active", TRUE)
Resume == RunIsActive /\ run.paused /\ SetRun("resume", "Active", FALSE)

AllSettled == \A s \in Existing : shard[s].status \in {"Done", "Split"}

CompleteRun == RunIsActive /\ AllSettled /\ SetRun("complete run", "Done", FALSE)
FailRun     == RunIsActive /\ SetRun("fail run", "Failed", FALSE)
CancelRun   == RunIsActive /\ SetRun("cancel run", "Cancelled", FALSE)

\* Every deadline comes one tick nearer; a deadline that has passed stays passed.
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

ByNobody == (\E s \in Existing : Retry(s)) \/ Tick

Next == (\E w \in Workers : ByWorker(w)) \/ ByOperator \/ ByNobody

Spec == Init /\ [][Next]_vars

-------------------------------------------------------------------------------
(* Properties of every state *)

\* Every variable has the shape that the rest of this module takes for granted.
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

\* Parking is never invalid, so its answer tells what the guard thinks of the lease.
AnswerToPark(w, s, f) == Answer(s, Ask(UnusedOp(s), "park", NoKey), LeaseAnswer(w, s, f))

\* A write that is not from the owner, under the current fence and before the deadline, is refused.
ZombiesRefused ==
  \A s \in Existing, w \in Workers : \A f \in FencesToTry(s) :
    AnswerToPark(w, s, f) = "accepted" => Holds(w, s, f)

\* The holder is heard for as long as its lease lasts, also in a run that is paused.
HolderHeard ==
  \A s \in Existing, w \in Workers : \A f \in FencesToTry(s) :
    Holds(w, s, f) => AnswerToPark(w, s, f) = "accepted"

\* A shard that is done, split or parked, and a slot not in use, has neither owner nor deadline.
OnlyActiveShardsAreLeased ==
  \A s \in Slots :
    /\ shard[s].status # "Active" => shard[s].owner = NoWorker
    /\ shard[s].owner = NoWorker => shard[s].left = 0

\* The shards that were not replaced cover every key of the manifest, and no key twice.
LeavesTile ==
  /\ \A k \in Keys : Cardinality({s \in Leaves : k \in Range(s)}) = 1
  /\ \A s \in Existing : Range(s) # {} /\ Range(s) \subseteq Keys

\* A cursor is absent or lies within the range of its shard.
CursorInBounds == \A s \in Existing : shard[s].cursor = NoKey \/ shard[s].cursor \in Range(s)

\* A cursor never claims a key that no accepted writer has reported.
CursorTellsTheTruth ==
  \A s \in Existing : \A k \in Range(s) : k <= shard[s].cursor => k \in processed

\* An op log holds no more than its capacity, and no op id twice.
LogBoundedAndUnique ==
  \A s \in Slots :
    /\ Len(shard[s].log) <= LogCapacity
    /\ Cardinality(LoggedOps(s)) = Len(shard[s].log)

\* A retry of anything still in the log, and of any residual split, gets its answer again: from
\* whichever worker, under any fence, after expiry, after the shard's end and after the run's.
RetryAnswered ==
  \A s \in Existing : \A r \in Retries(s) :
    IF r.kind = "unpark" THEN UnparkAnswer(s, r) = "replayed"
    ELSE \A w \in Workers, f \in FencesToTry(s) :
           Answer(s, r, LeaseAnswer(w, s, f)) = "replayed"

\* One op id makes at most one residual of a shard, also after its log entry is gone.
OneResidualPerOp ==
  \A s \in Existing : \A t, u \in Residuals(s) : shard[t].born = shard[u].born => t = u

\* When a run is done, each of its shards is done or split, and each key was reported by a writer
\* that was accepted; a done shard alone vouches for the keys of its range.
DoneMeansProcessed ==
  /\ run.status = "Done" => AllSettled /\ processed = Keys
  /\ \A s \in Existing : shard[s].status = "Done" => Range(s) \subseteq processed

-------------------------------------------------------------------------------
(* Properties of every step *)

Before(s)      == shard[s].status # "absent"
Work(r)        == <<r.lo, r.hi, r.cursor, r.status, r.log>>
Holder(s)      == step'.slot = s /\ Holds(step'.worker, s, step'.fence)
IsUnpark(s)    == step'.tag = "unpark" /\ step'.slot = s /\ shard[s].status = "Parked"

\* What a shard has done changes, and its deadline moves away, only by a request of its holder;
\* unparking and a new grant are the exceptions.
OnlyTheHolderWrites ==
  [][ \A s \in Slots : Before(s) =>
        /\ Work(shard'[s]) # Work(shard[s]) => Holder(s) \/ IsUnpark(s)
        /\ shard'[s].left > shard[s].left => Holder(s) \/ step'.tag = "acquire"
        /\ processed' # processed => \E t \in Existing : Holder(t) ]_vars

\* Fences never fall, and each grant and each unparking raises the shard's fence.
FencesRise ==
  [][ \A s \in Slots :
        /\ shard'[s].fence >= shard[s].fence
        /\ (step'.tag \in {"acquire", "unpark"} /\ step'.slot = s)
             => shard'[s].fence > shard[s].fence ]_vars

\* A lease that has not expired is not given to anybody, not even once more to its owner.
LiveLeasesStand ==
  [][ \A s \in Slots : step'.tag = "acquire" /\ step'.slot = s =>
        shard[s].owner = NoWorker \/ shard[s].left = 0 ]_vars

\* A paused run grants no lease.
PausedGrantsNothing ==
  [][ run.paused => \A s \in Slots : shard'[s].owner \in {NoWorker, shard[s].owner}
                                     /\ step'.tag # "acquire" ]_vars

\* A shard that is done or split never changes again; a parked one only by being unparked.
TerminalStaysTerminal ==
  [][ \A s \in Slots :
        /\ shard[s].status \in {"Done", "Split"} => shard'[s] = shard[s]
        /\ shard[s].status = "Parked" =>
             shard'[s] = shard[s] \/ (IsUnpark(s) /\ shard'[s].status = "Active") ]_vars

\* A split happens in one step: the new shards are there, active, unleased and empty-handed, at
\* the moment when the parent retires or shrinks, and together they hold just what it held.
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

\* A cursor never goes back, whoever holds the shard.
CursorForward ==
  [][ \A s \in Slots : Before(s) => shard'[s].cursor >= shard[s].cursor ]_vars

\* While an op id is in a shard's log, a request that carries it changes nothing: not as a replay,
\* and not as another request that borrows the id.
OneEffectPerOp ==
  [][ step'.slot \in Slots =>
        (step'.op \in LoggedOps(step'.slot) => UNCHANGED core) ]_vars

\* What was accepted becomes the newest entry of the log, and only the oldest gives way to it.
LogKeepsTheNewest ==
  [][ \A s \in Slots :
        LET old      == shard[s].log
            new      == shard'[s].log
            accepted == step'.slot = s /\ step'.op # NoOp /\ step'.tag # "replay"
        IN  IF ~accepted THEN new = old
            ELSE /\ new # <<>> /\ new[Len(new)].op = step'.op
                 /\ SubSeq(new, 1, Len(new) - 1)
                      = IF Len(old) < LogCapacity THEN old ELSE Tail(old) ]_vars

\* Whoever releases, parks, completes or replaces a shard gives it back in the same step.
GivenBackAtOnce ==
  [][ step'.tag \in {"release", "park", "complete", "replace"} =>
        shard'[step'.slot].owner = NoWorker ]_vars

\* A run that has ended stays as it is, and so do all its shards; only the clock goes on.
RunEndIsFinal ==
  [][ run.status # "Active" =>
        /\ run' = run
        /\ \A s \in Slots : /\ [shard'[s] EXCEPT !.left = 0] = [shard[s] EXCEPT !.left = 0]
                             /\ shard'[s].left <= shard[s].left
        /\ UNCHANGED <<wrote, processed>> ]_vars

===============================================================================
