/**
 * What a Redis server says about itself, and what is wrong with that. Changes nothing. Each master of a cluster is asked
 * for itself.
 */
import { messageOf, SubagentError } from "../../errors.ts";
import { type RedisClient, serversOf } from "./connection.ts";

/**
 * - `unusable`: the scripts of this package do not run there.
 * - `unsafe`: accepted work may vanish; refused in production mode.
 * - `warning`: worth knowing.
 */
export type Severity = "unusable" | "unsafe" | "warning";

/** One thing that is wrong with a server's settings. */
export interface ServerProblem {
  severity: Severity;
  /** For people: what is wrong, what follows from it, and the fix. */
  sentence: string;
}

/** A server as it is now; `unknown` where it does not say. */
export interface ServerReport {
  product: "redis" | "valkey";
  /** E.g. `7.0.15`. */
  version: string;
  /** Whether accepted writes are appended to disk. */
  aof: "on" | "off" | "unknown";
  appendfsync: "always" | "everysec" | "no" | "unknown";
  /** E.g. `noeviction`. */
  evictionPolicy: string;
  role: "master" | "replica" | "unknown";
  usedMemoryBytes: number;
  /** 0: without limit. */
  maxMemoryBytes: number;
  /** What its settings make wrong, the worst first. */
  problems: ServerProblem[];
  /** Why it takes no new work at this moment: sentences about what passes by itself or has to be seen to. */
  troubles: string[];
}

/** What is asked of a server. */
export type AskedServer = Pick<RedisClient, "info" | "config">;

/** The oldest version whose commands the scripts need (`XTRIM MINID`). */
const OLDEST = "6.2";
/** The oldest version the tests run on. */
const OLDEST_TESTED = "7.0";

/**
 * Asks a server. What it keeps to itself, as managed ones do, is `unknown`, and a warning. Rejects with the connection's
 * error when it cannot be asked.
 */
export async function checkServer(redis: AskedServer): Promise<ServerReport> {
  const info = parseInfo(await unlessForbidden(redis.info(), ""));
  const setting = async (name: string): Promise<string | undefined> => {
    const answer = await unlessForbidden(redis.config("GET", name), []);
    return Array.isArray(answer) && typeof answer[1] === "string" ? answer[1] : undefined;
  };
  const [appendonly, appendfsync, policy] = await Promise.all([
    setting("appendonly"),
    setting("appendfsync"),
    setting("maxmemory-policy"),
  ]);
  return describeServer(info, { appendonly, appendfsync, policy });
}

/** What is wrong with any of the servers behind a connection; `replica`: one of them takes no writes. */
export type ServersReport = Pick<ServerReport, "role" | "problems" | "troubles">;

/**
 * Asks the server behind a connection, or every master of a cluster. A node that is away says nothing as long as another
 * one answers; rejects with the error of one when none does.
 */
export async function checkServers(redis: RedisClient): Promise<ServersReport> {
  const asked = await Promise.allSettled(serversOf(redis).map(checkServer));
  const reports = asked.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  if (reports.length === 0) return checkServer(redis);
  const problems = reports.flatMap((report) => report.problems);
  return {
    role: reports.find(({ role }) => role === "replica")?.role ?? "master",
    problems: [...new Map(problems.map((problem) => [problem.sentence, problem])).values()],
    troubles: [...new Set(reports.flatMap((report) => report.troubles))],
  };
}

/** The error of a server that must not be used, or undefined. `strict` is production mode: `unsafe` will not do either. */
export function refusalOf(
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

/** Whether Redis refused a command because it has no memory left. */
export function isOutOfMemory(error: unknown): boolean {
  return messageOf(error).startsWith("OOM ");
}

/** What an operator does about a Redis without memory. */
export const MAKE_ROOM = "raise its maxmemory, or ack replies that no parent reads";

/** What an operator does about a user of Redis that lacks rights. */
export const GIVE_RIGHTS = "give it the rights that docs/operations.md names";

/** The lines of INFO as pairs. */
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
  return { ...facts, problems: problemsOf(facts), troubles: troublesOf(facts) };
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

function troublesOf({ role, evictionPolicy, usedMemoryBytes, maxMemoryBytes }: Facts): string[] {
  const troubles: string[] = [];
  if (role === "replica") troubles.push("Redis is a read-only replica");
  if (maxMemoryBytes > 0 && usedMemoryBytes >= maxMemoryBytes && evictionPolicy === "noeviction") {
    troubles.push(`Redis has no memory left (maxmemory ${maxMemoryBytes} bytes)`);
  }
  return troubles;
}

function fix(setting: string, value: string): string {
  return `run "redis-cli config set ${setting} ${value}" and write "${setting} ${value}" into redis.conf`;
}

/** Whether a version that can be read is older; others count as new. */
function isOlder(version: string, than: string): boolean {
  const [major = Number.NaN, minor = 0] = version.split(".").map(Number);
  const [thanMajor = 0, thanMinor = 0] = than.split(".").map(Number);
  return major < thanMajor || (major === thanMajor && minor < thanMinor);
}

/** The answer, or `instead` of one that Redis refuses to give: no permission, no such command. */
async function unlessForbidden<T>(answer: Promise<T>, instead: T): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (/^(?:NOPERM|ERR unknown command|ERR unknown subcommand)/i.test(messageOf(error))) return instead;
    throw error;
  }
}
