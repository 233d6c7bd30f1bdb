/**
 * The diagnosis from the facts. The table of checks has every trouble that the doctor knows: how the facts show it, its text,
 * and its repair. Each area gets one summary line. Pure.
 */
import { TIMING } from "../../shared/protocol/limits.ts";
import { isLive } from "../../shared/redis/inspection.ts";
import type { LimiterState } from "../../shared/redis/provider-limiter.ts";
import type { UnackedReplies } from "../../shared/redis/survey.ts";
import { formatCount, formatPlural, formatSpan, sentence } from "../terminal/numbers.ts";
import { agentName, type Facts, ownerName, type WorkspaceSnapshot } from "./facts.ts";
import { Area, type DoctorReport, type Finding } from "./report.ts";

/** How `--fix` repairs a trouble: a check of the sweeper, the `repair` script, a key moved aside, a directory deleted. */
export type Repair = "check" | "repair" | "move" | "delete";

/** Result of a check: names of the affected items, or their number if they have no names, or parts of findings. */
type Found = readonly string[] | number | readonly Partial<Finding>[];

/** One kind of trouble. Sentences are templates, see {@link sentence}. */
interface Check {
  area: Area;
  severity: Finding["severity"];
  what: string;
  todo: string;
  /** Finds the trouble in the facts; `check` is the name of the row. */
  at(facts: Facts, check: string): Found;
  /** The repair and its report. Absent: `--fix` does not repair it. */
  fix?: { by: Repair; did: string };
}

/** Builds a row of the table. The text has two lines: the trouble, what to do. The arguments: its check, its repair. */
const row =
  (severity: Check["severity"], area: Area) =>
  (text: TemplateStringsArray, ...parts: readonly string[]) => {
    const [what = "", todo = ""] = String.raw(text, ...parts).split(/\n\s*/);
    return (at: Check["at"], by?: Repair, did = ""): Check => ({
      ...{ area, severity, what, todo, at },
      ...(by && { fix: { by, did } }),
    });
  };
const warn = (area: Area) => row("warn", area);
const error = (area: Area) => row("error", area);

const FIX = "doctor --fix";
const LET_SWEEP = `${FIX} does what is due; a live worker does it by itself`;
const START_WORKER = "start one: subagent-queue worker, with the same REDIS_URL and SUBAGENT_PREFIX";
/** Unacked replies older than this are reported: their parent may not come back. */
export const OLD_REPLIES_MS = 3_600_000;
/** Unacked replies that expire within this time are reported as an error. */
const EXPIRES_WITHIN_MS = 86_400_000;
const SKEW_MS = 5_000;
const NEARLY_FULL_PERCENT = 90;
/** The share of a budget at which a run's model is warned. */
const NEARLY_USED = 0.8;

/** Returns the names of the agents with the trouble `trouble`, which is also the row's name. */
const suspects = (facts: Facts, trouble: string) =>
  facts.suspects
    .filter(({ troubles }) => troubles.some((each) => each === trouble))
    .map(({ snapshot }) => agentName(snapshot.address, snapshot.record?.agentId));

/** The checks by their stable names, in the order in which they are reported. */
const CHECKS = {
  redis_settings: warn("redis")`a setting of Redis`(serverProblems),
  redis_trouble: error("redis")`Redis takes no new work
    repair Redis; work goes on by itself when Redis takes writes again`(({ servers }) =>
    distinct(servers.flatMap(({ troubles }) => troubles)).map((what) => ({ what })),
  ),
  redis_memory: warn("redis")`Redis is nearly full
    raise maxmemory, or ack replies that no parent reads`(fullServers),
  wakes_not_taken: error("workers")`#wake (waits|wait) while workers have free slots
    restart the workers that take nothing; a worker that was killed is forgotten after 30 s`(
    ({ areWakesStuck, wakes }) => (areWakesStuck ? wakes.waiting : 0),
  ),
  work_without_workers: error("workers")`no worker is live, and #agent (waits|wait) for one
    ${START_WORKER}`(waitingForWorkers),
  no_workers: warn("workers")`no worker is live
    ${START_WORKER}`((facts) => (facts.workers.length === 0 && waitingForWorkers(facts) === 0 ? 1 : 0)),
  mixed_versions: warn("workers")`the workers run #version
    finish the upgrade: agents written by the newer version wait for its workers`(({ workers }) =>
    several(workers.map(({ worker }) => worker.version)),
  ),
  differing_tools: warn("workers")`#tool (is|are) missing on some workers
    give all workers the same tools, or prefixes of their own: any worker may take any agent`(missingTools),
  differing_models: warn("workers")`the workers announce #model
    give all workers the same provider and SUBAGENT_MODEL, or prefixes of their own`(({ workers }) =>
    several(workers.flatMap(({ worker }) => worker.model ?? [])),
  ),
  clock_skew: warn("workers")`#clock (is|are) off by more than 5 s against Redis'
    synchronise the clocks (NTP): schedules, webhook signatures and logs go by them`(wrongClocks),
  refused_entries: warn("workers")`#(intake entry|intake entries) failed, and no parent could be told
    the reasons: redis-cli XRANGE '{saq}:intake-refused' - + (your prefix for saq); DEL that key once they are dealt with, and XDEL '{saq}:intake-stream' what still stands there`(
    ({ refusedEntries: { count, newest } }) => [{ count, names: newest }],
  ),
  paused: warn("workers")`an operator paused the installation: no model call begins
    subagent-queue resume, when it may go on`(({ pause }) =>
    pause ? [`since ${pause.at}${pause.reason === undefined ? "" : `: ${pause.reason}`}`] : [],
  ),
  queue_paused: error("workers")`the wake queue itself was paused: no worker takes anything
    resume it with the tool that paused it (a Bull Board that may write, BullMQ's Queue.resume)`(
    ({ wakes, pause }) => (wakes.isPaused && pause === undefined ? 1 : 0),
  ),
  provider_denied: error("workers")`#limiter (is|are) closed: the provider refuses the API key or its account
    for billing fill up the account, else give the workers a key that works (ANTHROPIC_API_KEY) and restart them; waiting runs go on by themselves`(
    limitersIn("denied"),
  ),
  provider_closed: warn("workers")`#limiter (is|are) closed or slowed: the provider asked for less
    no run is lost, and it opens by itself; to see this less, lower SUBAGENT_CONCURRENCY or raise the provider's limit`(
    limitersIn("closed", "slowed"),
  ),
  stale_queued: error("agents")`#agent (is|are) queued, overdue, and no wake will start (it|them)
    ${LET_SWEEP}`(suspects, "check", "#agent woken"),
  stale_running: error("agents")`#agent (runs|run) under a lease that expired long ago
    ${LET_SWEEP}`(suspects, "check", "#agent woken for another worker"),
  stale_waiting: error("agents")`#agent (waits|wait) for an answer beyond its deadline
    ${LET_SWEEP}`(suspects, "check", "#agent given the default answer"),
  overdue_age: error("agents")`#agent should have ended: a message went unanswered for too long
    ${LET_SWEEP}`(suspects, "check", "#agent ended"),
  overdue_idle: warn("agents")`#agent should have ended: the idle time is over
    ${LET_SWEEP}`(suspects, "check", "#agent ended"),
  deadline_missing: error("agents")`the deadline set lacks #agent: no sweeper would check (it|them) in time
    ${FIX} puts them there`(suspects, "check", "#agent put into the deadline set"),
  leaked_slots: error("agents")`#slot of a parent's quota (is|are) taken by agents that ended or are gone
    ${FIX} frees them`(suspects, "repair", "#slot freed"),
  uncounted: error("agents")`#agent (lives|live) outside the quota of the parent
    ${FIX} counts them again`(suspects, "repair", "#agent counted again"),
  unnamed: warn("agents")`#agent cannot be reached by name: the registry names another agent or none
    ${FIX} registers those whose name is free; others end`(suspects, "repair", "#agent registered"),
  orphaned_keys: warn("agents")`#agent ended or (is|are) gone and left keys behind
    ${FIX} removes them`(suspects, "repair", "the keys of #agent removed"),
  breaking_off: error("agents")`#agent (breaks|break) off repeatedly without progress
    search the workers' logs for the uid; after 8 failures in a row the run ends failed, worker_lost`(
    suspects,
  ),
  budgets: warn("agents")`#budget (is|are) used by 80 % or more
    at 100 % the runs under it hand back what they have: raise it, or wait for a tenant's window`(nearlyUsed),
  newer_records: warn("agents")`#agent (was|were) written by a newer version and not examined
    use the doctor of that version`(suspects),
  // Without workers there is no sweeper; a check of the workers already reports that.
  unswept: warn("agents")`#agent (is|are) overdue though workers are live: no sweeper checks (it|them)
    restart the workers: their sweepers do not work; ${FIX} checks once`(
    (facts, check) => (facts.workers.length > 0 ? suspects(facts, check) : []),
    "check",
    "#agent checked",
  ),
  stray_members: warn("agents")`#(entry|entries) of the deadline set (names|name) no live agent
    ${LET_SWEEP}`(
    (facts, check) => [...suspects(facts, check), ...facts.strayMembers],
    "check",
    "#(entry|entries) taken out of the deadline set",
  ),
  wrong_types: error("agents")`#key (has|have) a type that this product never writes there
    another program writes under this prefix: give it its own; ${FIX} moves these keys to …:aside:…`(
    ({ mistyped }) => mistyped.map(({ key, type, expected }) => `${key} (${type}, must be ${expected})`),
    "move",
    "#key moved aside",
  ),
  unreadable: error("agents")`#agent cannot be read: a key has the wrong type, or the record an unknown value
    another program writes under this prefix: give it one of its own, then delete these agents' keys`(
    ({ unreadable }) => unreadable.map(({ address }) => agentName(address)),
  ),
  incomplete: warn("agents")`not everything was examined
    the rest was left alone: give an installation of this size a Redis of its own`(reachedBounds),
  expiring_replies: error("replies")`#parent will lose unacked replies within a day
    read them: subagent-queue replies --parent <id> --ack`((facts) => oldReplies(facts, true)),
  unacked_replies: warn("replies")`#parent left replies unacked for more than an hour
    is the parent still there? subagent-queue replies --parent <id> shows them; unacked ones go after 7 days`(
    (facts) => oldReplies(facts, false),
  ),
  webhooks: warn("replies")`replies are not pushed: #webhook (fails|fail), or no process pushes for (it|them)
    repair the receiver (after a 410 set the webhook again), and run subagent-queue api; webhook show --parent <id> says when it is tried again`(
    ({ unpushed }) => unpushed.map((each) => repliesOf(each, `: ${each.problem ?? "no API process pushes"}`)),
  ),
  full_workspaces: error("workspaces")`the disk of the workspaces is full
    make room there: runs that need a workspace wait for it, and go on within five minutes`(
    ({ workspaces: { isFull } }) => Number(isFull),
  ),
  missing_workspaces: warn("workspaces")`the files of #(live agent|live agents) are not on this machine
    put SUBAGENT_WORKSPACES on a volume that all hosts share; a run that goes on elsewhere tells the model`(
    ({ workspaces }) => workspaces.missing,
  ),
  orphaned_workspaces: warn("workspaces")`#workspace (belongs|belong) to no agent of this installation
    another prefix or Redis may use this directory; otherwise look at them and delete them`(
    directoriesThat(({ agentState, isDeletable }) => agentState === "unknown" && !isDeletable),
  ),
  old_workspaces: warn("workspaces")`#workspace of ended agents (is|are) older than 30 days
    ${FIX} deletes them`(
    directoriesThat(({ isDeletable }) => isDeletable),
    "delete",
    "#workspace deleted",
  ),
};

/** Returns the repair of a check; undefined if `--fix` has none. */
export function repairOf(check: string): Check["fix"] {
  return new Map<string, Check>(Object.entries(CHECKS)).get(check)?.fix;
}

const MOST_NAMES = 100;

/** Returns all findings in the facts, in the order of the table. */
export function findingsIn(facts: Facts): Finding[] {
  return Object.entries<Check>(CHECKS).flatMap(([check, { area, severity, what, todo, at, fix }]) => {
    return asFindings(at(facts, check)).flatMap((found) => {
      const { names = [], count = names.length || 1 } = found;
      if (count === 0) return [];
      const known = { check, area, severity, what: sentence(what, count), todo, fixable: fix !== undefined };
      return [{ ...known, ...found, count, names: names.slice(0, MOST_NAMES) }];
    });
  });
}

function asFindings(found: Found): readonly Partial<Finding>[] {
  if (typeof found === "number") return [{ count: found }];
  const names = found.filter((each) => typeof each === "string");
  const findings = found.filter((each) => typeof each !== "string");
  return names.length > 0 ? [{ names }, ...findings] : findings;
}

/** Returns the problems of the Redis servers, each once for all nodes of a cluster. */
function serverProblems({ servers, isProduction }: Facts): Partial<Finding>[] {
  const all = servers.flatMap(({ problems }) => problems);
  const problems = new Map(all.map(({ sentence, severity }) => [sentence, severity] as const));
  const isError = (severity: string) => severity === "unusable" || (severity === "unsafe" && isProduction);
  return [...problems].map(([what, severity]) => ({ what, severity: isError(severity) ? "error" : "warn" }));
}

function fullServers({ servers }: Facts): Partial<Finding>[] {
  const used = servers.map(({ usedMemoryBytes: taken, maxMemoryBytes: most }) =>
    most > 0 ? taken / most : 0,
  );
  const fullest = Math.round(100 * Math.max(0, ...used));
  // `redis_trouble` already reports a server that refuses writes.
  if (fullest < NEARLY_FULL_PERCENT || servers.some(({ troubles }) => troubles.length > 0)) return [];
  return [{ what: `Redis uses ${fullest} % of its memory: beyond 100 % spawns and messages are refused` }];
}

function reachedBounds({ reached, bounds }: Facts): Partial<Finding>[] {
  const limits = reached.map((bound) => `${formatCount(bounds[bound])} ${bound}`).join(" and ");
  return limits ? [{ what: `the examination stopped after ${limits}`, names: [...reached] }] : [];
}

function missingTools({ workers }: Facts): string[] {
  const all = distinct(workers.flatMap(({ worker }) => worker.tools));
  return all.filter((tool) => workers.some(({ worker }) => !worker.tools.includes(tool)));
}

function waitingForWorkers({ workers, agents }: Facts): number {
  if (workers.length > 0) return 0;
  return agents.filter(
    (snapshot) => isLive(snapshot) && ["queued", "running"].includes(snapshot.record.status),
  ).length;
}

/** Returns the hosts, this one included, whose clocks differ from Redis' clock. */
function wrongClocks({ workers, nowMs, hostNowMs, host }: Facts): string[] {
  const skews = new Map([[host, hostNowMs - nowMs]]);
  for (const { worker, announcedAtMs } of workers) {
    if (worker.now !== undefined && worker.host !== host) skews.set(worker.host, worker.now - announcedAtMs);
  }
  const wrong = [...skews].filter(([, skewMs]) => Math.abs(skewMs) > SKEW_MS);
  // In whole seconds: a measured hour misses an hour by some milliseconds, and a span is rounded down.
  const spanOf = (skewMs: number) => formatSpan(Math.round(Math.abs(skewMs) / 1_000) * 1_000);
  return wrong.map(([name, skewMs]) => `${name} ${spanOf(skewMs)} ${skewMs > 0 ? "ahead" : "behind"}`);
}

function limitersIn(...states: readonly LimiterState["state"][]): (facts: Facts) => string[] {
  const nameOf = ({ name, state, reason, until }: LimiterState) =>
    `${name} ${state} (${reason})${until ? ` until ${until}` : ""}`;
  return ({ limiters }) => limiters.filter(({ state }) => states.includes(state)).map(nameOf);
}

function oldReplies({ oldReplies }: Facts, areExpiring: boolean): string[] {
  return oldReplies
    .filter(({ oldestMs }) => oldestMs > TIMING.replyTtlMs - EXPIRES_WITHIN_MS === areExpiring)
    .sort((a, b) => b.oldestMs - a.oldestMs)
    .map((each) => repliesOf(each));
}

function repliesOf({ parent, unacked, oldestMs }: UnackedReplies, why = ""): string {
  return `${ownerName(parent)} (${unacked}, oldest ${formatSpan(oldestMs)}${why})`;
}

function directoriesThat(condition: (directory: WorkspaceSnapshot) => boolean): (facts: Facts) => string[] {
  return ({ workspaces }) => workspaces.directories.filter(condition).map(({ path }) => path);
}

function distinct(texts: readonly string[]): string[] {
  return [...new Set(texts)].sort();
}

function several(texts: readonly string[]): string[] {
  const found = distinct(texts);
  return found.length > 1 ? found : [];
}

/** Returns the budgets that are nearly used, the most used first. */
function nearlyUsed({ budgets }: Facts): string[] {
  const most = budgets.filter(({ used }) => used >= NEARLY_USED).sort((a, b) => b.used - a.used);
  const shown = (used: number) => (Number.isFinite(used) ? `${Math.floor(used * 100)} %` : "unreadable");
  return most.map(({ name, used }) => `${name} (${shown(used)})`);
}

/** Returns the areas with their state, and the findings, errors first. */
export function diagnose(facts: Facts): Pick<DoctorReport, "areas" | "findings"> {
  const findings = findingsIn(facts);
  const areas = Object.entries(SUMMARIES).map(([name, summary]): DoctorReport["areas"][number] => {
    const found = findings.filter(({ area }) => area === name).map(({ severity }) => severity);
    const severity = found.includes("error") ? "error" : (found[0] ?? "ok");
    return { area: Area.parse(name), severity, summary: summary(facts) };
  });
  const rank = ({ severity }: Finding) => (severity === "error" ? 0 : 1);
  return { areas, findings: findings.sort((a, b) => rank(a) - rank(b)) };
}

/** The summary line of each area. */
const SUMMARIES = {
  redis({ servers }) {
    const [server] = servers;
    if (!server) return "unknown";
    const { product, version, aof, appendfsync, evictionPolicy, usedMemoryBytes, maxMemoryBytes } = server;
    const nodes = servers.length > 1 ? ` · ${servers.length} nodes` : "";
    const disk = aof === "on" ? `AOF ${appendfsync}` : aof === "off" ? "no AOF" : "AOF unknown";
    const limit = maxMemoryBytes > 0 ? ` of ${megabytes(maxMemoryBytes)}` : "";
    return `${product} ${version}${nodes} · ${disk} · ${evictionPolicy} · ${megabytes(usedMemoryBytes)}${limit} in use`;
  },
  workers({ workers, wakes, bash }) {
    const waiting = wakes.waiting + wakes.delayed;
    if (workers.length === 0) return `none live · ${formatPlural(waiting, "wake")} waiting`;
    const hosts = formatPlural(new Set(workers.map(({ worker }) => worker.host)).size, "host");
    const slots = workers.reduce((sum, { worker }) => sum + worker.concurrency, 0);
    const taken = `${formatCount(wakes.active)} of ${formatPlural(slots, "slot")} taken`;
    const isOffered = bash === undefined || workers.some(({ worker }) => worker.tools.includes("bash"));
    const commands = isOffered ? "" : ` · ${bash.replace(/\.$/, "")}`;
    return `${formatCount(workers.length)} live on ${hosts} · ${taken} · ${formatCount(wakes.waiting)} waiting${commands}`;
  },
  agents({ agents }) {
    const live = agents.filter(isLive);
    const inStatus = (status: string) => live.filter(({ record }) => record.status === status).length;
    const shown = ["idle", "queued", "running", "waiting"]
      .filter((status) => inStatus(status) > 0)
      .map((status) => `${formatCount(inStatus(status))} ${status}`);
    const ended = `${formatCount(agents.length - live.length)} ended`;
    return [`${formatCount(live.length)} live`, ...shown, ended].join(" · ");
  },
  replies({ channels, oldReplies }) {
    if (channels === 0) return "nothing unacked";
    const count = oldReplies.length;
    const old = count === 0 ? "none unacked for over 1 h" : `${formatCount(count)} with old ones`;
    return `${formatPlural(channels, "parent")} with a reply channel · ${old}`;
  },
  workspaces({ workspaces: { root, isThere, directories, isCut } }) {
    if (!isThere) return `not examined: there is no ${root} here (SUBAGENT_WORKSPACES)`;
    return `${isCut ? "the first " : ""}${formatCount(directories.length)} in ${root}`;
  },
} satisfies Partial<Record<Area, (facts: Facts) => string>>;

function megabytes(bytes: number): string {
  return `${formatCount(Math.ceil(bytes / 1_048_576))} MB`;
}
