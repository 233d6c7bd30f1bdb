/**
 * Finds, in the reports of MONITOR, verbs that a worker sent with an epoch that was no longer the agent's, and whether Redis
 * let them write.
 *
 * Owns: the list of stale asks. `chronicle.ts` knows the epoch of each agent.
 */
import { createHash } from "node:crypto";
import { luaSource } from "../../src/shared/redis/scripts.ts";
import { VERBS as VERB_TABLE } from "../../src/shared/redis/verbs.ts";

/** A verb with an outdated epoch. */
export interface StaleAsk {
  at: number;
  uid: string;
  verb: Verb;
  epoch: number;
  /** Whether the script wrote anything. */
  wrote: boolean;
}

/** See the module's header. */
export interface StaleWatch {
  readonly asks: readonly StaleAsk[];
  /** Reads the next command; `source` is `lua` for a command of a script. */
  see(at: number, command: readonly string[], source: string): void;
}

const VERBS = ["append", "renew", "release", "settle"] as const;
type Verb = (typeof VERBS)[number];

const VERB_BY_SHA: ReadonlyMap<string, Verb> = new Map(
  VERBS.map((verb) => [createHash("sha1").update(luaSource(verb)).digest("hex"), verb]),
);
const READS = /^(hmget|hget|hexists|hkeys|hgetall|get|exists|llen|hlen|lindex|lrange|pttl|time|zscore)$/i;

/** Returns a watch. `epochOf` returns an agent's current epoch, i.e. the greatest so far: Redis loses no claim in these tests. */
export function watchStaleAsks(prefix: string, epochOf: (uid: string) => number | undefined): StaleWatch {
  const asks: StaleAsk[] = [];
  let pending: StaleAsk | undefined;
  return {
    asks,
    see(at, command, source) {
      if (source === "lua") {
        if (pending && !READS.test(command[0] ?? "")) pending.wrote = true;
        return;
      }
      pending = undefined;
      const asked = readAsk(prefix, command);
      const epoch = asked && epochOf(asked.uid);
      if (!asked || epoch === undefined || asked.epoch >= epoch) return;
      pending = { at, ...asked, wrote: false };
      asks.push(pending);
    },
  };
}

/** Parses the verb in `eval[sha] <script> <number of keys> <record> … <arguments>`. Only a worker's `settle` has an epoch. */
function readAsk(prefix: string, [how = "", script = "", keys, record = "", ...rest]: readonly string[]) {
  const verb = /^evalsha$/i.test(how)
    ? VERB_BY_SHA.get(script)
    : /^eval$/i.test(how)
      ? named(script)
      : undefined;
  if (!verb || !record.startsWith(`${prefix}:{`)) return undefined;
  const args = rest.slice(Number(keys) - 1);
  const argument = (name: string) => {
    const { context, args: named } = VERB_TABLE[verb];
    return args[context.length + Object.keys(named).indexOf(name)];
  };
  if (verb === "settle" && argument("authority") !== "worker") return undefined;
  return { uid: record.split(":agent:")[1] ?? "", verb, epoch: Number(argument("epoch")) };
}

/** Finds the verb by the first line of its script. MONITOR escapes line ends. */
function named(source: string): Verb | undefined {
  return VERBS.find((verb) => source.includes(`\\n-- ${verb}: `));
}
