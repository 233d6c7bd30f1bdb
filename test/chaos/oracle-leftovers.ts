/** The oracle's last part: judges the keys and jobs that Redis holds when all work is over. */
import { addressOfMember } from "../../src/shared/protocol/keys.ts";
import { until } from "../helpers/until.ts";
import type { Stage } from "../stage/stage.ts";
import type { Violation } from "./evidence.ts";
import { PARENT_IDS } from "./load.ts";

/** Time (ms) after the last reply within which quota slots, deadlines and wakes must be gone. */
const WITHIN_MS = 60_000;

/** PTTL's answer for a key without a TTL. */
const FOR_EVER = -1;

const RECORD = /:agent:[^:]+$/;

/** Kinds of keys that outlive their agents, each with its own TTL: see the table in docs/protocol.md. */
const OUTLIVE = [
  /:registry$/,
  /:usage$/,
  /:replies$/,
  /:history$/,
  /:timelines$/,
  /:request:[^:]+$/,
  /:ack:[^:]+$/,
  /:charged:[^:]+$/,
  RECORD,
  /:agent:[^:]+:timeline$/,
  /:agent:[^:]+:transcript$/,
  /:agent:[^:]+:message:[^:]+$/,
];

/**
 * Returns the violations in the data left by so many agents, and the time (ms) until the temporary data was gone. Waits at most
 * `withinMs` for that.
 */
export async function judgeLeftovers(
  installation: Stage,
  agents: number,
  withinMs = WITHIN_MS,
): Promise<{ violations: Violation[]; settledMs: number }> {
  const startedMs = performance.now();
  const violations: Violation[] = [];
  const findings = async () => [
    ...(await places(installation)),
    ...(await looksDue(installation)),
    ...(await jobs(installation)),
  ];
  let last: Violation[] = [];
  await until(
    async () => {
      last = await findings();
      return last.length === 0;
    },
    { timeoutMs: withinMs, everyMs: 250 },
  ).catch(() => violations.push(...last));
  const settledMs = performance.now() - startedMs;
  violations.push(...(await keysLeft(installation, agents)));
  return { violations, settledMs };
}

async function places({ redis, keys }: Stage): Promise<Violation[]> {
  const found = PARENT_IDS.map(async (parentId) => {
    const { live, replies } = keys.parent({ tenant: "default", parentId });
    const [uids, unread] = await Promise.all([redis.hkeys(live), redis.xlen(replies)]);
    return [
      ...uids.map((uid) => ({ broken: "no place in a quota is leaked", detail: `${parentId}: ${uid}`, uid })),
      ...(unread > 0 ? [{ broken: "what was acked is gone", detail: `${parentId}: ${unread} entries` }] : []),
    ];
  });
  return (await Promise.all(found)).flat();
}

/**
 * Finds due deadlines, and hints without a deadline, of agents with a record. A spawn that never arrived leaves a hint without a
 * record until its idle time would be over. An agent destroyed while a sweeper moved its deadline keeps it until it is due.
 */
async function looksDue({ redis, keys }: Stage): Promise<Violation[]> {
  const [due, members, marks] = await Promise.all([
    redis.zrangebyscore(keys.deadlines, "-inf", Date.now()),
    redis.zrange(keys.deadlines, 0, -1),
    redis.hkeys(keys.hintGrace),
  ]);
  const known = new Set(members);
  const broken = "nobody looks at agents that have ended";
  const found = [...due, ...marks.filter((mark) => !known.has(mark))].map(async (member) => {
    const address = addressOfMember(member);
    if (address && (await redis.exists(keys.agent(address).record)) === 0) return [];
    return [{ broken, detail: member, uid: address?.uid ?? "" }];
  });
  return (await Promise.all(found)).flat();
}

/** Finds jobs that are left. Without BullMQ's stalled check, a dead worker's job stays active without a lock and is ignored. */
async function jobs({ redis, keys }: Stage): Promise<Violation[]> {
  const queue = `${keys.bullPrefix}:${keys.wakeQueue}`;
  const [first, ranked, taken, delayed, nextLookMs] = await Promise.all([
    redis.llen(`${queue}:wait`),
    redis.zcard(keys.rankedWakes),
    redis.lrange(`${queue}:active`, 0, -1),
    redis.zcard(`${queue}:delayed`),
    redis.pttl(`${queue}:stalled-check`),
  ]);
  const wait = first + ranked;
  const locked = await Promise.all(taken.map((job) => redis.exists(`${keys.wakeJob(job)}:lock`)));
  const active = nextLookMs === FOR_EVER ? locked.filter((lock) => lock > 0).length : taken.length;
  if (wait + active + delayed === 0) return [];
  const detail = `${wait} waiting, ${active} active, ${delayed} delayed`;
  return [{ broken: "no wake is left", detail }];
}

async function keysLeft({ redis, prefix }: Stage, agents: number): Promise<Violation[]> {
  const violations: Violation[] = [];
  // A scan may return a key more than once.
  const records = new Set<string>();
  for (let cursor = "0", first = true; first || cursor !== "0"; first = false) {
    const [next, found] = await redis.scan(cursor, "MATCH", `${prefix}:{*`, "COUNT", 1_000);
    cursor = next;
    const lives = await Promise.all(found.map((key) => redis.pttl(key)));
    found.forEach((key, i) => {
      const uid = /:agent:([^:]+)/.exec(key)?.[1];
      const about = { ...(uid !== undefined && { uid }) };
      if (RECORD.test(key)) records.add(key);
      if (!OUTLIVE.some((kind) => kind.test(key)))
        violations.push({ broken: "nothing else is left of an ended agent", detail: key, ...about });
      else if ((lives[i] ?? -1) < 0)
        violations.push({ broken: "what is left of an ended agent goes by itself", detail: key, ...about });
    });
  }
  if (records.size !== agents) {
    const detail = `${records.size} records of ${agents} agents`;
    violations.push({ broken: "the record of an ended agent is kept for a while", detail });
  }
  return violations;
}
