/** The table of checks: every trouble the doctor knows, where it shows in the facts, how it is said and repaired. Pure. */
import { TIMING } from "../../shared/protocol/limits.ts";
import { isLive } from "../../shared/redis/inspection.ts";
import type { GateState } from "../../shared/redis/provider-limiter.ts";
import { formatCount } from "../terminal/figures.ts";
import type { AgentTrouble } from "./agents.ts";
import { nearlyUsed } from "./budget.ts";
import { agentName, type Facts, formatSpan, ownerName, sentence, type WorkspaceSight } from "./facts.ts";
import type { Area, Finding } from "./report.ts";

/** How `--fix` repairs a trouble: a check of the sweeper, the `mend` script, a key moved aside, a directory deleted. */
export type Repair = "check" | "mend" | "move" | "delete";

/** One kind of trouble. Sentences are templates, see {@link sentence}. */
interface Check {
  /** Where it is shown, and how bad it is. */
  kind: readonly [Area, Finding["severity"]];
  what: string;
  todo: string;
  /** What it was found at: names, or a number where there are none, or sentences of their own. */
  at(facts: Facts): readonly string[] | number | readonly Partial<Finding>[];
  /** Absent: `--fix` leaves it alone. */
  fix?: { by: Repair; did: string };
}

const FIX = "doctor --fix";
const LET_SWEEP = `${FIX} does what is due; a live worker does it by itself`;
const START_WORKER = "start one: subagent-queue worker, with the same REDIS_URL and SUBAGENT_PREFIX";
/** Replies that are older than this wait for a parent that may not come back. */
export const OLD_REPLIES_MS = 3_600_000;
/** Unacked replies that will be gone within this time are about to be lost. */
const EXPIRES_WITHIN_MS = 86_400_000;
const SKEW_MS = 5_000;
const NEARLY_FULL_PERCENT = 90;

/** The names of agents at which a trouble was seen. */
const agentsWith = (trouble: AgentTrouble) => (facts: Facts) =>
  facts.suspects
    .filter(({ troubles }) => troubles.includes(trouble))
    .map(({ sight }) => agentName(sight.address, sight.record?.agentId));

/** A trouble of agents that the sweeper repairs as soon as it checks them. */
const swept = (at: AgentTrouble, kind: "warn" | "error", what: string, did: string) =>
  ({ kind: ["agents", kind], what, todo: LET_SWEEP, at: agentsWith(at), fix: { by: "check", did } }) as const;
/** A trouble of the keys around a record, which the `mend` script repairs. */
const mended = (at: AgentTrouble, kind: "warn" | "error", what: string, does: string, did: string) =>
  ({
    kind: ["agents", kind],
    what,
    todo: `${FIX} ${does}`,
    at: agentsWith(at),
    fix: { by: "mend", did },
  }) as const;

/** The checks by their stable names, in the order in which they are reported. */
export const CHECKS = {
  redis_settings: {
    kind: ["redis", "warn"],
    what: "a setting of Redis",
    todo: "",
    at: serverProblems,
  },
  redis_trouble: {
    kind: ["redis", "error"],
    what: "Redis takes no new work",
    todo: "repair Redis; work goes on by itself when Redis takes writes again",
    at: ({ servers }) => distinct(servers.flatMap(({ troubles }) => troubles)).map((what) => ({ what })),
  },
  redis_memory: {
    kind: ["redis", "warn"],
    what: "Redis is nearly full",
    todo: "raise maxmemory, or ack replies that no parent reads",
    at: fullServers,
  },
  wakes_not_taken: {
    kind: ["workers", "error"],
    what: "#wake (waits|wait) while workers have free places",
    todo: "restart the workers that take nothing; a worker that was killed is forgotten after 30 s",
    at: ({ areWakesStuck, wakes }) => (areWakesStuck ? wakes.waiting : 0),
  },
  work_without_workers: {
    kind: ["workers", "error"],
    what: "no worker is live, and #agent (waits|wait) for one",
    todo: START_WORKER,
    at: waitingForWorkers,
  },
  no_workers: {
    kind: ["workers", "warn"],
    what: "no worker is live",
    todo: START_WORKER,
    at: (facts) => (facts.workers.length === 0 && waitingForWorkers(facts) === 0 ? 1 : 0),
  },
  mixed_versions: {
    kind: ["workers", "warn"],
    what: "the workers run #version",
    todo: "finish the upgrade: agents written by the newer version wait for its workers",
    at: ({ workers }) => several(workers.map(({ worker }) => worker.version)),
  },
  differing_tools: {
    kind: ["workers", "warn"],
    what: "#tool (is|are) missing at some workers",
    todo: "give all workers the same tools, or prefixes of their own: every worker may take every agent",
    at: ({ workers }) =>
      distinct(workers.flatMap(({ worker }) => worker.tools)).filter((tool) =>
        workers.some(({ worker }) => !worker.tools.includes(tool)),
      ),
  },
  differing_models: {
    kind: ["workers", "warn"],
    what: "the workers announce #model",
    todo: "give all workers the same provider and SUBAGENT_MODEL, or prefixes of their own",
    at: ({ workers }) => several(workers.flatMap(({ worker }) => worker.model ?? [])),
  },
  clock_skew: {
    kind: ["workers", "warn"],
    what: "#clock (is|are) off by more than 5 s against Redis'",
    todo: "synchronise the clocks (NTP); deadlines keep Redis' time, but logs and stamps will mislead",
    at: wrongClocks,
  },
  paused: {
    kind: ["workers", "warn"],
    what: "an operator paused the installation: no model call begins",
    todo: "subagent-queue resume, when it may go on",
    at: ({ pause }) =>
      pause ? [`since ${pause.at}${pause.reason === undefined ? "" : `: ${pause.reason}`}`] : [],
  },
  queue_paused: {
    kind: ["workers", "error"],
    what: "the wake queue itself was paused: no worker takes anything",
    todo: "resume it with the tool that paused it (a Bull Board that may write, BullMQ's Queue.resume)",
    at: ({ wakes, pause }) => (wakes.isPaused && pause === undefined ? 1 : 0),
  },
  provider_denied: {
    kind: ["workers", "error"],
    what: "#(provider gate|provider gates) (is|are) closed: the provider refuses the API key",
    todo: "give the workers a key that works (ANTHROPIC_API_KEY) and restart them; waiting runs go on by themselves",
    at: gatesIn("denied"),
  },
  provider_closed: {
    kind: ["workers", "warn"],
    what: "#(provider gate|provider gates) (is|are) closed or slowed: the provider asked for less",
    todo: "nothing is lost, it opens by itself; less often with a lower SUBAGENT_CONCURRENCY or a higher limit",
    at: gatesIn("closed", "slowed"),
  },
  stale_queued: swept(
    "stale_queued",
    "error",
    "#agent (is|are) queued, overdue, and no wake will start (it|them)",
    "#agent woken",
  ),
  stale_running: swept(
    "stale_running",
    "error",
    "#agent (runs|run) under a lease that is long over",
    "#agent woken for another worker",
  ),
  stale_waiting: swept(
    "stale_waiting",
    "error",
    "#agent (waits|wait) for an answer beyond its deadline",
    "#agent given the default answer",
  ),
  overdue_age: swept(
    "overdue_age",
    "error",
    "#agent should have ended: a message went unanswered for too long",
    "#agent ended",
  ),
  overdue_idle: swept(
    "overdue_idle",
    "warn",
    "#agent should have ended: the idle time is over",
    "#agent ended",
  ),
  unwatched: {
    kind: ["agents", "error"],
    what: "the sweeper would never check #agent: the deadline set does not have (it|them) in time",
    todo: `${FIX} puts them there`,
    at: agentsWith("unwatched"),
    fix: { by: "check", did: "#agent put into the deadline set" },
  },
  leaked_slots: mended(
    "leaked_slots",
    "error",
    "#place of a parent's quota (is|are) taken by agents that ended or are gone",
    "frees them",
    "#place freed",
  ),
  uncounted: mended(
    "uncounted",
    "error",
    "#agent (lives|live) outside the quota of the parent",
    "counts them again",
    "#agent counted again",
  ),
  unnamed: mended(
    "unnamed",
    "warn",
    "#agent cannot be reached by name: the registry leads elsewhere",
    "registers those whose name is free; the others end by themselves",
    "#agent registered",
  ),
  orphaned_keys: mended(
    "orphaned_keys",
    "warn",
    "#agent ended or (is|are) gone and left keys behind",
    "removes them",
    "the keys of #agent removed",
  ),
  breaking_off: {
    kind: ["agents", "error"],
    what: "#agent (breaks|break) off again and again and (comes|come) no further",
    todo: "the workers' log says why, at the uid; it ends as failed by itself, worker_lost, after 8 breaks in a row",
    at: agentsWith("breaking_off"),
  },
  budgets: {
    kind: ["agents", "warn"],
    what: "#budget (is|are) used by 80 % or more",
    todo: "from 100 % on the runs under it hand back what they have: raise it, or wait for a tenant's window",
    at: nearlyUsed,
  },
  newer_records: {
    kind: ["agents", "warn"],
    what: "#agent (was|were) written by a newer version and not examined",
    todo: "use the doctor of that version",
    at: agentsWith("newer_records"),
  },
  unswept: {
    kind: ["agents", "warn"],
    what: "#agent (is|are) overdue though workers are live: no sweeper checks (it|them)",
    todo: `restart the workers: their sweepers do not work; ${FIX} checks once`,
    // Without workers no sweeper can have checked; that is said once, about the workers.
    at: (facts) => (facts.workers.length > 0 ? agentsWith("unswept")(facts) : []),
    fix: { by: "check", did: "#agent checked" },
  },
  stray_members: {
    kind: ["agents", "warn"],
    what: "#(entry|entries) of the deadline set (names|name) no live agent",
    todo: LET_SWEEP,
    at: (facts) => [...agentsWith("stray_members")(facts), ...facts.strangers],
    fix: { by: "check", did: "#(entry|entries) taken out of the deadline set" },
  },
  wrong_types: {
    kind: ["agents", "error"],
    what: "#key (has|have) a type that this product never writes there",
    todo: `another program writes under this prefix: give it its own; ${FIX} moves these keys to …:aside:…`,
    at: ({ misfits }) => misfits.map(({ key, type, expected }) => `${key} (${type}, must be ${expected})`),
    fix: { by: "move", did: "#key moved aside" },
  },
  unreadable: {
    kind: ["agents", "error"],
    what: "#agent cannot be read: a key has another type, or its record no such status",
    todo: "another program writes under this prefix: give it one of its own, then delete these agents' keys",
    at: ({ unreadable }) => unreadable.map(({ address }) => agentName(address)),
  },
  incomplete: {
    kind: ["agents", "warn"],
    what: "not everything was examined",
    todo: "the rest is as it was: an installation of this size wants a Redis of its own",
    at: ({ reached, bounds }) => {
      const limits = reached.map((bound) => `${formatCount(bounds[bound])} ${bound}`).join(" and ");
      return reached.length > 0
        ? [{ what: `the examination stopped after ${limits}`, names: [...reached] }]
        : [];
    },
  },
  expiring_replies: {
    kind: ["replies", "error"],
    what: "#parent will lose unacked replies within a day",
    todo: "read them: subagent-queue replies --parent <id> --ack",
    at: (facts) => oldReplies(facts, true),
  },
  unacked_replies: {
    kind: ["replies", "warn"],
    what: "#parent left replies unacked for more than an hour",
    todo: "is the parent still there? subagent-queue replies --parent <id> shows them; unacked ones go after 7 days",
    at: (facts) => oldReplies(facts, false),
  },
  missing_workspaces: {
    kind: ["workspaces", "warn"],
    what: "the files of #(live agent|live agents) are not on this machine",
    todo: "put SUBAGENT_WORKSPACES on a volume that all hosts share; a run that goes on elsewhere tells the model",
    at: ({ workspaces }) => (workspaces.isThere ? workspaces.missing : []),
  },
  orphaned_workspaces: {
    kind: ["workspaces", "warn"],
    what: "#workspace (belongs|belong) to no agent of this installation",
    todo: "another prefix or Redis may use this directory; otherwise look at them and delete them",
    at: directoriesThat((directory) => directory.fate === "unknown" && !isDeletable(directory)),
  },
  old_workspaces: {
    kind: ["workspaces", "warn"],
    what: "#workspace of ended agents (is|are) older than 30 days",
    todo: `${FIX} deletes them`,
    at: directoriesThat(isDeletable),
    fix: { by: "delete", did: "#workspace deleted" },
  },
} as const satisfies Record<string, Check>;

/** The name of a check. */
export type CheckName = keyof typeof CHECKS;

const MOST_NAMES = 100;

/** Everything that the facts show, in the order of the table. */
export function findingsIn(facts: Facts): Finding[] {
  return Object.entries<Check>(CHECKS).flatMap(([check, { kind, what, todo, at, fix }]) => {
    const [area, severity] = kind;
    return asFindings(at(facts)).flatMap((found) => {
      const { names = [], count = names.length || 1 } = found;
      if (count === 0) return [];
      const known = { check, area, severity, what: sentence(what, count), todo, fixable: fix !== undefined };
      return [{ ...known, ...found, count, names: names.slice(0, MOST_NAMES) }];
    });
  });
}

function asFindings(found: ReturnType<Check["at"]>): readonly Partial<Finding>[] {
  if (typeof found === "number") return [{ count: found }];
  const names = found.filter((each) => typeof each === "string");
  const findings = found.filter((each) => typeof each !== "string");
  return names.length > 0 ? [{ names }, ...findings] : findings;
}

/** What all nodes of a cluster have in common is said once. */
function serverProblems({ servers, isProduction }: Facts): Partial<Finding>[] {
  const problems = new Map(
    servers.flatMap(({ problems }) =>
      problems.map(({ sentence, severity }) => [sentence, severity] as const),
    ),
  );
  const isError = (severity: string) => severity === "unusable" || (severity === "unsafe" && isProduction);
  return [...problems].map(([what, severity]) => ({ what, severity: isError(severity) ? "error" : "warn" }));
}

function fullServers({ servers }: Facts): Partial<Finding>[] {
  const used = servers.map(({ usedMemoryBytes, maxMemoryBytes }) =>
    maxMemoryBytes > 0 ? usedMemoryBytes / maxMemoryBytes : 0,
  );
  const fullest = Math.round(100 * Math.max(0, ...used));
  // A server that refuses writes is a trouble already.
  if (fullest < NEARLY_FULL_PERCENT || servers.some(({ troubles }) => troubles.length > 0)) return [];
  return [{ what: `Redis uses ${fullest} % of its memory: beyond 100 % spawns and messages are refused` }];
}

function waitingForWorkers({ workers, agents }: Facts): number {
  if (workers.length > 0) return 0;
  return agents.filter((sight) => isLive(sight) && ["queued", "running"].includes(sight.record.status))
    .length;
}

/** Clocks that differ from Redis': one name a host, this machine included. */
function wrongClocks({ workers, nowMs, hostNowMs, host }: Facts): string[] {
  const skews = new Map([[host, hostNowMs - nowMs]]);
  for (const { worker, announcedAtMs } of workers) {
    if (worker.now !== undefined && worker.host !== host) skews.set(worker.host, worker.now - announcedAtMs);
  }
  return [...skews]
    .filter(([, skewMs]) => Math.abs(skewMs) > SKEW_MS)
    .map(([name, skewMs]) => `${name} ${formatSpan(Math.abs(skewMs))} ${skewMs > 0 ? "ahead" : "behind"}`);
}

function gatesIn(...states: readonly GateState["state"][]): (facts: Facts) => string[] {
  const nameOf = ({ name, state, reason, until }: GateState) =>
    `${name} ${state} (${reason})${until ? ` until ${until}` : ""}`;
  return ({ gates }) => gates.filter(({ state }) => states.includes(state)).map(nameOf);
}

function oldReplies({ oldReplies }: Facts, areExpiring: boolean): string[] {
  return oldReplies
    .filter(({ oldestMs }) => oldestMs > TIMING.replyTtlMs - EXPIRES_WITHIN_MS === areExpiring)
    .sort((a, b) => b.oldestMs - a.oldestMs)
    .map(
      ({ parent, unacked, oldestMs }) => `${ownerName(parent)} (${unacked}, oldest ${formatSpan(oldestMs)})`,
    );
}

function directoriesThat(condition: (directory: WorkspaceSight) => boolean): (facts: Facts) => string[] {
  return ({ workspaces: { isThere, directories } }) =>
    isThere ? directories.filter(condition).map(({ path }) => path) : [];
}

/** Whether `--fix` may delete it: nothing has changed in it for 30 days, and the agent of its stamp has ended. */
export function isDeletable({ uid, fate, isOld }: WorkspaceSight): boolean {
  return uid !== undefined && fate !== "live" && isOld;
}

function distinct(texts: readonly string[]): string[] {
  return [...new Set(texts)].sort();
}

function several(texts: readonly string[]): string[] {
  const found = distinct(texts);
  return found.length > 1 ? found : [];
}
