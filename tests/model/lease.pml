/* The lease protocol: one job, workers that claim, run, freeze, crash and stop, a reaper, and a clock that may end any
   lease at any moment. Every atomic block is one statement of the store; between two of them anything may happen.

   Checked for every interleaving (see .ci/spin):
     at most one end is accepted, and none under an old token, whoever answers late;
     charged attempts never exceed MAX, and starts never exceed MAX + interruptions;
     an atomic handler's effect exists exactly as often as its ack was accepted;
     the job always ends, as long as the reaper and some worker go on (claim `ends`).  */

#define MAX 2          /* max_attempts */
#define WORKERS 2
#define CRASHES 2      /* how often a worker may be lost */
#define STOPS 2        /* how often a graceful stop may cut a run short */
#define EXPIRIES 3     /* how often the clock may end a lease under a worker that lives */

mtype = { READY, LEASED, SUCCEEDED, DEAD };

mtype state = READY;
byte token = 0;
byte attempts = 0;
byte interruptions = 0;
bool lease_lives = false;

byte ends = 0;         /* ends that the store accepted */
byte acks = 0;
byte effects = 0;      /* of an atomic handler: committed with its ack */
byte starts = 0;
byte crashes = 0;
byte stops = 0;
byte expiries = 0;
bool held_by_living = false;
bool stale_accepted = false;    /* an answer under an old token changed something */
#define note stale_accepted = (stale_accepted || token != mine)

/* What the protocol rests on, one by one; the check must find each of them missing. */
#ifdef NO_TOKEN        /* an end that asks for the state alone */
#define fresh (state == LEASED)
#else
#define fresh (token == mine && state == LEASED)
#endif
#ifdef FREE_REAP       /* a reaper that charges nothing */
#define reaped attempts--
#else
#define reaped skip
#endif

#define uncounted (attempts > MAX || starts > MAX + interruptions)
#define broken (ends > 1 || stale_accepted || acks > 1 || effects != acks || uncounted)
#define over (state == SUCCEEDED || state == DEAD)

inline failed() {      /* by the row as it is: another attempt, or dead */
    if
    :: attempts < MAX -> state = READY
    :: else -> state = DEAD; ends++
    fi;
    token++; lease_lives = false
}

proctype Worker() {
    byte mine;
    bool started;
idle:
    do
    :: atomic { state == READY -> state = LEASED; token++; attempts++; lease_lives = true;
                held_by_living = true; mine = token };
       started = false; break
    :: over -> goto out
    od;
held:
    do
    :: !started -> atomic { starts++; started = true }            /* also late, after its lease has ended */
    :: started -> atomic {                                        /* ack */
           if
           :: fresh -> note; state = SUCCEEDED; ends++; acks++; effects++; lease_lives = false
           :: else -> skip                                        /* stale: changes nothing, the effect rolls back */
           fi }; goto idle
    :: started -> atomic {                                        /* fail */
           if
           :: fresh -> note; failed()
           :: else -> skip
           fi }; goto idle
    :: atomic { fresh && !lease_lives -> lease_lives = true }    /* heartbeat */
    :: stops < STOPS -> atomic {                                  /* graceful stop: released by its own token */
           stops++;
           if
           :: fresh ->
              note; state = READY; attempts--; token++; lease_lives = false;
              if :: started -> interruptions++ :: else fi
           :: else -> skip
           fi }; goto idle
    :: crashes < CRASHES -> atomic {                              /* lost, and replaced: the row is all that is left */
           crashes++;
           if :: token == mine -> held_by_living = false :: else fi
           }; goto idle
    od;
out:
}

/* A lost worker's lease ends by the clock; a living one's may, if it was frozen or cut off. */
proctype Clock() {
    do
    :: atomic { state == LEASED && lease_lives && !held_by_living -> lease_lives = false }
    :: atomic { state == LEASED && lease_lives && expiries < EXPIRIES -> expiries++; lease_lives = false }
    :: over -> break
    od
}

proctype Reaper() {
    do
#ifndef NO_REAPER
    :: atomic { state == LEASED && !lease_lives -> reaped; failed() }
#endif
    :: over -> break
    od
}

/* Watches after every step. */
active proctype Monitor() {
    do
    :: atomic { broken -> assert(false) }
    :: over && _nr_pr == 1 -> break
    od;
    assert(ends == 1)
}

init {
    atomic { run Worker(); run Worker(); run Clock(); run Reaper() }
}

ltl ends_always { <> over }
