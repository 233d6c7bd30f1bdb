/**
 * Watches, in what MONITOR tells, for verbs that a worker asked for under an epoch that was another's by then, and for what
 * Redis let them do.
 *
 * Owns: the list of stale asks. Its neighbour `chronicle.ts` knows which epoch each agent has.
 */
import { createHash } from "node:crypto";
import { luaSource } from "../../src/shared/redis/scripts.ts";
import { VERBS as VERB_TABLE } from "../../src/shared/redis/verbs.ts";

/** A verb that came too late. */
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
  /** Takes in one command, in order; `source` is `lua` for what a script does. */
  see(at: number, command: readonly string[], source: string): void;
}

const VERBS = ["append", "renew", "release", "settle"] as const;
type Verb = (typeof VERBS)[number];

const VERB_BY_SHA: ReadonlyMap<string, Verb> = new Map(
  VERBS.map((verb) => [createHash("sha1").update(luaSource(verb)).digest("hex"), verb]),
);
const READS = /^(hmget|hget|hexists|hkeys|hgetall|get|exists|llen|hlen|lindex|lrange|pttl|time|zscore)$/i;

/** A watch; `epochOf` says which epoch an agent has now: the greatest so far, for here Redis never forgets a claim. */
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

/** The verb in `eval[sha] <script> <number of keys> <record> … <arguments>`; settling by authority has no epoch. */
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

/** The first line of a script's own file names it; MONITOR spells line ends as escapes. */
function named(source: string): Verb | undefined {
  return VERBS.find((verb) => source.includes(`\\n-- ${verb}: `));
}
