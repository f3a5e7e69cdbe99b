--------------------------- MODULE ShardRunLiveness ---------------------------
(*****************************************************************************)
(* What must happen in a run, not only what must not. Workers may crash for  *)
(* good, and everything that the specification allows may go on for ever;    *)
(* from a moment on that nobody foresees, nothing new goes wrong.            *)
(*                                                                           *)
(* The clock ticks for ever here as well, since deadlines are relative, and  *)
(* fences saturate, since nothing remembers a fence that is not current. So  *)
(* no bound cuts a behaviour short, and no property holds because of one.    *)
(*****************************************************************************)
EXTENDS ShardRun

VARIABLES
  up,             \* workers that have not crashed; at least one stays
  healed          \* whether the trouble is over

all == <<run, shard, wrote, processed, step, up, healed>>

World == <<up, healed>>

InitAll == Init /\ up = Workers /\ healed = FALSE

-------------------------------------------------------------------------------

Crash(w) == ~healed /\ up # {w} /\ up' = up \ {w} /\ UNCHANGED <<vars, healed>>

Heal == ~healed /\ healed' = TRUE /\ UNCHANGED <<vars, up>>

\* The next key if there is one, else the end of the shard, by whoever holds it.
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

\* Operators of a healed run unpark what is parked, resume and end it, and do nothing else.
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

\* Somebody asks for a free shard sooner or later, time passes, operators do their duty, and who
\* gets to hold shards again and again makes a step forward now and then. No holder has to renew,
\* and none has to finish under its first lease.
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

\* An active shard that nobody holds gets leased, unless the run ends or is paused first.
FreeShardsGetLeased ==
  \A s \in Slots : Waiting(s) ~> (Leased(s) \/ ~RunIsActive \/ run.paused)

\* A crashed worker does not hold a shard for ever, unless the run ends or is paused first.
CrashedHoldersAreReplaced ==
  \A s \in Slots :
    (RunIsActive /\ shard[s].owner \in Workers \ up)
      ~> (shard[s].owner \in up \/ ~RunIsActive \/ run.paused)

\* Once healed, a run that has not ended gets done, whatever was crashed, parked, paused or split.
HealedRunsGetDone == (healed /\ RunIsActive) ~> (run.status = "Done")

===============================================================================
