/**
 * Reads the settings of a Redis server and names their problems. Changes nothing. Each master of a cluster is checked by
 * itself.
 */
import { Cluster } from "ioredis";
import { messageOf, SubagentError } from "../../errors.ts";
import { PART_AWAY } from "./cluster.ts";
import { type RedisClient, serversOf } from "./connection.ts";

/**
 * Severity of a problem:
 * - `unusable`: the scripts of this package do not run there.
 * - `unsafe`: accepted work may vanish; refused in production mode.
 * - `warning`: worth knowing.
 */
export type Severity = "unusable" | "unsafe" | "warning";

/** One problem of a server's settings. */
export interface ServerProblem {
  severity: Severity;
  /** For people: what is wrong, what follows from it, and the fix. */
  sentence: string;
}

/** Current state of a server; `unknown` for values that it does not report. */
export interface ServerReport {
  product: "redis" | "valkey";
  /** E.g. `7.0.15`. */
  version: string;
  /** State of the append-only file, to which accepted writes go. */
  aof: "on" | "off" | "unknown";
  appendfsync: "always" | "everysec" | "no" | "unknown";
  /** E.g. `noeviction`. */
  evictionPolicy: string;
  role: "master" | "replica" | "unknown";
  usedMemoryBytes: number;
  /** 0: no limit. */
  maxMemoryBytes: number;
  /** Problems of its settings, the worst first. */
  problems: ServerProblem[];
  /** Reasons why it accepts no new work now, as sentences; some pass by themselves, others need an operator. */
  troubles: string[];
}

/** The commands that a check needs. */
export type AskedServer = Pick<RedisClient, "info" | "config">;

/** The oldest version whose commands the scripts need (`XTRIM MINID`). */
const OLDEST = "6.2";
/** The oldest version the tests run on. */
const OLDEST_TESTED = "7.0";

/**
 * Checks a server. Values that it does not report, as managed ones do, are `unknown`, and a warning. Rejects with the
 * connection's error if it cannot be asked.
 */
export async function checkServer(redis: AskedServer): Promise<ServerReport> {
  const info = parseInfo(await unlessForbidden(redis.info("default"), ""));
  const setting = async (name: string): Promise<string | undefined> => {
    const answer = await unlessForbidden(redis.config("GET", name), []);
    return Array.isArray(answer) && typeof answer[1] === "string" ? answer[1] : undefined;
  };
  const [appendonly, appendfsync, policy] = await Promise.all([
    setting("appendonly"),
    setting("appendfsync"),
    setting("maxmemory-policy"),
  ]);
  const report = describeServer(info, { appendonly, appendfsync, policy });
  // A snapshot that failed stops writes only where both settings say so.
  const isStopped =
    info.get("rdb_last_bgsave_status") === "err" &&
    (await setting("save")) &&
    (await setting("stop-writes-on-bgsave-error")) === "yes";
  if (isStopped) report.troubles.push(unwritable("a snapshot"));
  return report;
}

/** Returns the trouble of a server that refuses writes because it could not write `what` to its disk. */
function unwritable(what: string): string {
  return `Redis refuses writes, because it cannot write ${what}: is its disk full?`;
}

/** Problems of all servers behind a connection; `replica`: one of them accepts no writes. */
export type ServersReport = Pick<ServerReport, "role" | "problems" | "troubles">;

/**
 * Checks the server behind a connection, or every master of a cluster. A node that is away is skipped if another one
 * answers; rejects with the error of one if none does.
 */
export async function checkServers(redis: RedisClient): Promise<ServersReport> {
  const asked = await Promise.allSettled(serversOf(redis).map(checkServer));
  const reports = asked.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  if (reports.length === 0) return checkServer(redis);
  const problems = reports.flatMap((report) => report.problems);
  const troubles = reports.flatMap((report) => report.troubles);
  if (redis instanceof Cluster && (await isDown(redis)))
    troubles.push(`The Redis Cluster takes no commands: ${PART_AWAY}`);
  return {
    role: reports.find(({ role }) => role === "replica")?.role ?? "master",
    problems: [...new Map(problems.map((problem) => [problem.sentence, problem])).values()],
    troubles: [...new Set(troubles)],
  };
}

/** Returns true if a node says that no node serves a part of the keys: then the nodes that are left refuse all commands. */
async function isDown(cluster: Cluster): Promise<boolean> {
  const states = await Promise.allSettled(serversOf(cluster).map((node) => node.cluster("INFO")));
  return states.some((state) => state.status === "fulfilled" && /^cluster_state:fail/m.test(state.value));
}

/** Returns the error of a server that must not be used, or undefined. `strict` is production mode: it also refuses `unsafe`. */
export function serverRefusal(
  { problems }: Pick<ServerReport, "problems">,
  strict: boolean,
): SubagentError | undefined {
  const fatal = problems.filter(
    ({ severity }) => severity === "unusable" || (strict && severity === "unsafe"),
  );
  if (fatal.length === 0) return undefined;
  const mode = fatal.some(({ severity }) => severity === "unsafe") ? " in production mode" : "";
  const sentence = `This Redis cannot be used${mode}. ${fatal.map((problem) => problem.sentence).join(" ")}`;
  return new SubagentError("invalid_config", sentence, { server: fatal });
}

/** Returns true if Redis refused a command because it has no memory left. */
export function isOutOfMemory(error: unknown): boolean {
  return messageOf(error).startsWith("OOM ");
}

/** Advice to the operator of a Redis without free memory. */
export const MAKE_ROOM = "raise its maxmemory, or ack replies that no parent reads";

/** Returns true if Redis refused a command because it cannot write to its disk. */
export function isDiskRefusal(error: unknown): boolean {
  return messageOf(error).startsWith("MISCONF ");
}

/** Advice to the operator of a Redis that cannot write to its disk. */
export const REPAIR_DISK = "make room on its disk, or repair what it names";

/** Parses the lines of INFO. */
function parseInfo(text: string): ReadonlyMap<string, string> {
  const pairs = text.split(/\r?\n/).map((line) => /^([^#:]+):(.*)$/.exec(line));
  return new Map(pairs.flatMap((pair) => (pair ? [[pair[1] ?? "", pair[2] ?? ""]] : [])));
}

type Settings = Record<"appendonly" | "appendfsync" | "policy", string | undefined>;

function describeServer(info: ReadonlyMap<string, string>, settings: Settings): ServerReport {
  const valkey = info.get("valkey_version");
  const aof = info.get("aof_enabled") ?? settings.appendonly;
  const appendfsync = settings.appendfsync;
  const role = info.get("role");
  const facts = {
    product: valkey === undefined ? ("redis" as const) : ("valkey" as const),
    version: valkey ?? info.get("redis_version") ?? "unknown",
    aof:
      aof === undefined
        ? ("unknown" as const)
        : aof === "1" || aof === "yes"
          ? ("on" as const)
          : ("off" as const),
    appendfsync:
      appendfsync === "always" || appendfsync === "everysec" || appendfsync === "no"
        ? appendfsync
        : "unknown",
    evictionPolicy: info.get("maxmemory_policy") ?? settings.policy ?? "unknown",
    role:
      role === "master"
        ? ("master" as const)
        : role === "slave"
          ? ("replica" as const)
          : ("unknown" as const),
    usedMemoryBytes: Number(info.get("used_memory") ?? 0),
    maxMemoryBytes: Number(info.get("maxmemory") ?? 0),
  } satisfies Omit<ServerReport, "problems" | "troubles">;
  return { ...facts, problems: problemsOf(facts), troubles: troublesOf(facts, info) };
}

type Facts = Omit<ServerReport, "problems" | "troubles">;

function problemsOf({ product, version, aof, appendfsync, evictionPolicy }: Facts): ServerProblem[] {
  const problems: ServerProblem[] = [];
  const add = (severity: Severity, sentence: string) => problems.push({ severity, sentence });
  if (product === "redis" && isOlder(version, OLDEST)) {
    add(
      "unusable",
      `Redis ${version} lacks commands that this package needs: upgrade it to ${OLDEST_TESTED} or newer.`,
    );
  }
  if (aof === "off")
    add(
      "unsafe",
      `It keeps no append-only file, so a crash loses accepted work: ${fix("appendonly", "yes")}.`,
    );
  if (evictionPolicy !== "noeviction" && evictionPolicy !== "unknown") {
    const policy = `It evicts keys when memory is full (maxmemory-policy ${evictionPolicy})`;
    add("unsafe", `${policy}, so agents and replies would vanish: ${fix("maxmemory-policy", "noeviction")}.`);
  }
  if (aof === "unknown") {
    add(
      "warning",
      "It does not report whether it keeps an append-only file: ask its provider to enable that.",
    );
  }
  if (evictionPolicy === "unknown") {
    add("warning", "It does not report its maxmemory-policy: ask its provider for noeviction.");
  }
  if (aof === "on" && appendfsync === "no") {
    const sentence = "The operating system decides when its append-only file reaches the disk";
    add("warning", `${sentence}, so a power cut can cost half a minute: ${fix("appendfsync", "everysec")}.`);
  }
  if (product === "redis" && isOlder(version, OLDEST_TESTED) && !isOlder(version, OLDEST)) {
    add("warning", `Redis ${version} is older than what is tested: upgrade it to ${OLDEST_TESTED} or newer.`);
  }
  return problems;
}

function troublesOf(
  { aof, role, evictionPolicy, usedMemoryBytes, maxMemoryBytes }: Facts,
  info: ReadonlyMap<string, string>,
): string[] {
  const troubles: string[] = [];
  if (role === "replica") troubles.push("Redis is a read-only replica");
  if (maxMemoryBytes > 0 && usedMemoryBytes >= maxMemoryBytes && evictionPolicy === "noeviction") {
    troubles.push(`Redis has no memory left (maxmemory ${maxMemoryBytes} bytes)`);
  }
  if (aof === "on" && info.get("aof_last_write_status") === "err")
    troubles.push(unwritable("its append-only file"));
  return troubles;
}

function fix(setting: string, value: string): string {
  return `run "redis-cli config set ${setting} ${value}" and write "${setting} ${value}" into redis.conf`;
}

/** Returns true if the version is older than `than`; an unreadable one counts as new. */
function isOlder(version: string, than: string): boolean {
  const [major = Number.NaN, minor = 0] = version.split(".").map(Number);
  const [thanMajor = 0, thanMinor = 0] = than.split(".").map(Number);
  return major < thanMajor || (major === thanMajor && minor < thanMinor);
}

/** Resolves to the answer, or to `instead` if Redis refuses the command: no permission, no such command. */
async function unlessForbidden<T>(answer: Promise<T>, instead: T): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (/^(?:NOPERM|ERR unknown command|ERR unknown subcommand)/i.test(messageOf(error))) return instead;
    throw error;
  }
}
