----------------------------- MODULE ShardRunCheck -----------------------------
(*****************************************************************************)
(* Definitions for TLC: which states are equal, where to stop, and which     *)
(* situations must occur, so that no property holds vacuously.               *)
(*****************************************************************************)
EXTENDS ShardRun, TLC

CONSTANTS
  MaxGrants       \* upper bound on the sum of all fences

Symmetry == Permutations(Workers)

\* Only the position of its log entry matters of an op id, so positions replace ids.
PlaceOf(s, op) ==
  IF op \in LoggedOps(s) THEN CHOOSE i \in DOMAIN shard[s].log : shard[s].log[i].op = op ELSE 0

\* After the end of the run, time and the kind of failure do not matter.
ViewOf(s) ==
  LET r == shard[s] IN
  <<r.lo, r.hi, r.cursor, r.status, r.owner, IF RunIsActive THEN r.left ELSE 0, r.fence,
    [i \in DOMAIN r.log |-> <<r.log[i].kind, r.log[i].arg>>],
    r.parent, r.origin, IF r.origin = "residual" THEN PlaceOf(r.parent, r.born) ELSE 0>>

ViewOfRun == IF run.status \in {"Failed", "Cancelled"} THEN "given up" ELSE run

View == <<ViewOfRun, [s \in Existing |-> ViewOf(s)], wrote, processed>>

RECURSIVE FenceSum(_)
FenceSum(s) == IF s = 0 THEN 0 ELSE shard[s].fence + FenceSum(s - 1)

Bounded == FenceSum(MaxShards) <= MaxGrants

-------------------------------------------------------------------------------
(* Each situation below must occur, or a property could hold vacuously: its negation must be    *)
(* violated. To check all of them in one search, TLC prints a name when its situation first     *)
(* occurs. The caller compares the printed names with the wanted ones.                          *)

\* Kinds of steps.
StepWitnesses ==
  << "acquire", "renew", "checkpoint", "complete", "park", "release", "replace", "residual",
     "unpark", "replay", "pause", "resume", "complete run", "fail run", "cancel run", "tick",
     "take over", "acquire again", "acquire what was unparked", "renew to a later deadline",
     "write while paused", "evict", "replay after expiry", "replay after the run",
     "replay after eviction" >>

StepHappens(name) ==
  LET s == step'.slot IN
  CASE name = "take over" -> step'.tag = "acquire" /\ shard[s].owner # NoWorker
    [] name = "acquire again" -> step'.tag = "acquire" /\ shard[s].owner = step'.worker
    [] name = "acquire what was unparked" ->
         step'.tag = "acquire" /\ \E i \in DOMAIN shard[s].log : shard[s].log[i].kind = "unpark"
    [] name = "renew to a later deadline" ->
         step'.tag = "renew" /\ shard'[s].left > shard[s].left
    [] name = "write while paused" -> step'.tag = "checkpoint" /\ run.paused
    [] name = "evict" -> /\ step'.tag = "checkpoint"
                         /\ Len(shard'[s].log) = Len(shard[s].log)
    [] name = "replay after expiry" ->
         step'.tag = "replay" /\ RunIsActive /\ shard[s].status = "Active" /\ Expired(s)
    [] name = "replay after the run" -> step'.tag = "replay" /\ ~RunIsActive
    [] name = "replay after eviction" -> step'.tag = "replay" /\ step'.op \notin LoggedOps(s)
    [] OTHER -> step'.tag = name

\* Kinds of states: each reason to refuse a request, and other situations.
StateWitnesses ==
  << "conflict", "run ended", "terminal", "stale fence", "expired", "not the owner", "invalid",
     "stale fence of the owner itself", "late by nothing", "parked and nothing else left",
     "two holders of two shards" >>

Refused(why) ==
  \E s \in Existing, w \in Workers :
    \E f \in FencesToTry(s), r \in Wishes(s, UnusedOp(s)) \union Borrowed(s) :
      Answer(s, r, LeaseAnswer(w, s, f)) = why

StateHappens(name) ==
  CASE name = "stale fence of the owner itself" ->
         \E s \in Existing : /\ shard[s].owner # NoWorker /\ shard[s].fence > 1
                             /\ LeaseAnswer(shard[s].owner, s, shard[s].fence - 1) = "stale fence"
    [] name = "late by nothing" ->
         \E s \in Existing : /\ shard[s].owner # NoWorker /\ shard[s].left = 0
                             /\ LeaseAnswer(shard[s].owner, s, shard[s].fence) = "expired"
    [] name = "parked and nothing else left" ->
         /\ \E s \in Existing : shard[s].status = "Parked"
         /\ \A s \in Existing : shard[s].status # "Active"
    [] name = "two holders of two shards" ->
         \E s, t \in Existing : /\ shard[s].left > 0 /\ shard[t].left > 0
                                /\ shard[s].owner # shard[t].owner
    [] OTHER -> Refused(name)

\* Register 100 counts the steps seen and 200 the states. Registers 101, 102, … and 201, 202, …
\* record which. Each worker of TLC has its own registers.
ASSUME \A i \in 100 .. 300 : TLCSet(i, IF i \in {100, 200} THEN 0 ELSE FALSE)

Note(count, i, name) ==
  /\ TLCSet(count + i, TRUE)
  /\ TLCSet(count, TLCGet(count) + 1)
  /\ PrintT("witness: " \o name)

NoteSteps ==
  \/ TLCGet(100) = Len(StepWitnesses)
  \/ \A i \in DOMAIN StepWitnesses :
       TLCGet(100 + i) \/ ~StepHappens(StepWitnesses[i]) \/ Note(100, i, StepWitnesses[i])

NoteStates ==
  \/ TLCGet(200) = Len(StateWitnesses)
  \/ \A i \in DOMAIN StateWitnesses :
       TLCGet(200 + i) \/ ~StateHappens(StateWitnesses[i]) \/ Note(200, i, StateWitnesses[i])

\* The list itself, for the caller.
ASSUME \A i \in DOMAIN StepWitnesses : PrintT("wanted: " \o StepWitnesses[i])
ASSUME \A i \in DOMAIN StateWitnesses : PrintT("wanted: " \o StateWitnesses[i])

===============================================================================
