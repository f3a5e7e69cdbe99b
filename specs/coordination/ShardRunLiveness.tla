--------------------------- MODULE ShardRunLiveness ---------------------------
(*****************************************************************************)
(* Liveness: what must happen in a run. Workers may crash for good, and      *)
(* every step of the specification may be repeated forever. From some        *)
(* unknown step on, the run is healed: nothing new goes wrong.               *)
(*                                                                           *)
(* The clock ticks forever, because deadlines are relative. Fences           *)
(* saturate, because no state depends on a fence that is not current. So no  *)
(* bound cuts a behaviour short, and no property holds because of a bound.   *)
(*****************************************************************************)
EXTENDS ShardRun

VARIABLES
  up,             \* workers that have not crashed; at least one stays
  healed          \* whether crashes and interference have ended

all == <<run, shard, wrote, processed, step, up, healed>>

World == <<up, healed>>

InitAll == Init /\ up = Workers /\ healed = FALSE

-------------------------------------------------------------------------------

Crash(w) == ~healed /\ up # {w} /\ up' = up \ {w} /\ UNCHANGED <<vars, healed>>

Heal == ~healed /\ healed' = TRUE /\ UNCHANGED <<vars, up>>

\* The holder's next request: a checkpoint at the next key, or completion after the last.
NextWish(s) ==
  LET last == shard[s].hi - 1
      next == IF shard[s].cursor = NoKey THEN shard[s].lo ELSE shard[s].cursor + 1
  IN  IF shard[s].cursor = last THEN Ask(UnusedOp(s), "complete", last)
      ELSE Ask(UnusedOp(s), "checkpoint", next)

Advance ==
  /\ \E w \in up, s \in Existing :
       LET r == NextWish(s)
       IN  /\ Answer(s, r, LeaseAnswer(w, s, shard[s].fence)) = "accepted"
           /\ Accept(w, s, r)
  /\ UNCHANGED <<step, up, healed>>

Grant(s) == (\E w \in up : Acquire(w, s)) /\ UNCHANGED World

Stir == ~healed /\ ((\E w \in up : ByWorker(w)) \/ ByOperator) /\ UNCHANGED World

Extend == (\E w \in up, s \in Existing : Renew(w, s)) /\ UNCHANGED World

Clock == Tick /\ UNCHANGED World

\* Operators of a healed run unpark shards, resume the run and end it. They do nothing else.
Repair == healed /\ ((\E s \in Existing : Unpark(s)) \/ Resume) /\ UNCHANGED World

End == healed /\ CompleteRun /\ UNCHANGED World

NextAll ==
  \/ Stir
  \/ \E w \in up : Crash(w)
  \/ Heal
  \/ \E s \in Existing : Grant(s)
  \/ Extend
  \/ Advance
  \/ Clock
  \/ Repair
  \/ End

\* A free shard is requested eventually, time passes, operators repair and end the run, and a
\* worker that repeatedly holds shards makes progress at times. No holder has to renew, and none
\* has to finish under its first lease.
Fairness ==
  /\ \A s \in Slots : WF_all(s \in Existing /\ Grant(s))
  /\ WF_all(Clock)
  /\ WF_all(Repair)
  /\ WF_all(End)
  /\ SF_all(Advance)

LiveSpec == InitAll /\ [][NextAll]_all /\ Fairness

-------------------------------------------------------------------------------
(* Properties of behaviours *)

Waiting(s) ==
  /\ RunIsActive /\ ~run.paused /\ shard[s].status = "Active"
  /\ shard[s].owner = NoWorker \/ shard[s].left = 0

Leased(s) == shard[s].owner # NoWorker /\ shard[s].left > 0

\* An active shard without a holder is leased, unless the run ends or is paused first.
FreeShardsGetLeased ==
  \A s \in Slots : Waiting(s) ~> (Leased(s) \/ ~RunIsActive \/ run.paused)

\* A crashed worker does not hold a shard forever, unless the run ends or is paused first.
CrashedHoldersAreReplaced ==
  \A s \in Slots :
    (RunIsActive /\ shard[s].owner \in Workers \ up)
      ~> (shard[s].owner \in up \/ ~RunIsActive \/ run.paused)

\* After healing, a run that has not ended completes, whatever was crashed, parked, paused or split.
HealedRunsGetDone == (healed /\ RunIsActive) ~> (run.status = "Done")

===============================================================================
