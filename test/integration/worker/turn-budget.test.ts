/**
 * Guarantee: a turn costs Redis two awaited trips, a fixed number of commands and a bounded number of bytes, whatever the
 * number of its tools and whether a parent watches. Counted, not timed.
 */
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { z } from "zod";
import { systemClock } from "../../../src/shared/clock.ts";
import { CEILING, TASK_LIMITS } from "../../../src/shared/protocol/limits.ts";
import { VERBS } from "../../../src/shared/redis/verbs.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { startPrivateRedis } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const TURNS = 4;
const TEXT = "The model says what it is about to do. ".repeat(5);
const RESULT = "What the tool has found. ".repeat(20);
const lookup = defineTool({
  name: "lookup",
  description: "Looks something up.",
  input: z.object({ n: z.int() }),
  run: async () => RESULT,
});

/** One command of a client with those that its script ran. */
interface Trip {
  verb: string;
  words: string[];
  inner: string[][];
}

/** The verb whose script has so many keys and this second one, of those that a run calls from its first commit on. */
const BY_KEYS = new Map(
  (["renew", "append", "settle"] as const).map((verb) => [
    `${VERBS[verb].keys.length} ${VERBS[verb].keys[1]}`,
    verb,
  ]),
);
const READS = new Set([
  "time",
  "hget",
  "hmget",
  "hgetall",
  "hlen",
  "llen",
  "lindex",
  "exists",
  "publish",
  "xrevrange",
]);
/** They change nothing here, and what changes nothing is not written to the append-only file. */
const NOTHING_DONE = new Set(["persist", "del"]);

/** Every command about the agent, as the server runs it; nothing else may be under way while it begins. */
async function recordTrips(url: string): Promise<{ of(uid: string): Trip[] }> {
  const redis = new Redis(url, { enableReadyCheck: false });
  await redis.ping();
  const monitor = await redis.monitor();
  closeAtEnd(async () => {
    monitor.disconnect();
    await redis.quit();
  });
  const seen: { words: string[]; isInner: boolean }[] = [];
  monitor.on("monitor", (_at: string, words: string[], source: string) =>
    seen.push({ words, isInner: source === "lua" }),
  );
  return {
    of(uid) {
      const trips: Trip[] = [];
      let current: Trip | undefined;
      for (const { words, isInner } of seen) {
        if (isInner) current?.inner.push(words);
        else {
          const isAbout = words.some((word) => word.includes(`agent:${uid}`));
          const verb = BY_KEYS.get(`${words[2]} ${words[4]?.split(":").at(-1)}`) ?? words[0] ?? "";
          current = isAbout ? { verb, words, inner: [] } : undefined;
          if (current) trips.push(current);
        }
      }
      return trips;
    },
  };
}

/** How the keys of a parent begin under the usual prefix: those of a test are longer. */
const USUAL_KEYS = "saq:{default/p0}:";

/** Bytes of the append-only file, where the parent's keys began as usual and not with `keys`. */
function writtenBytes({ inner }: Trip, keys: string): number {
  const writes = inner.filter(
    ([name = ""]) => !READS.has(name.toLowerCase()) && !NOTHING_DONE.has(name.toLowerCase()),
  );
  const sizes = writes.flatMap((words) =>
    words.map((word) => {
      const bytes = Buffer.byteLength(word.replace(keys, USUAL_KEYS));
      return 5 + `${bytes}`.length + bytes;
    }),
  );
  return sizes.reduce((sum, size) => sum + size, writes.length * 4 + "*1$5MULTI*1$4EXEC".length + 12);
}

/** As many turns as a run may have, and no alert before the last of them: from its alert on a run has it in its progress. */
const LONG = {
  limits: { ...TASK_LIMITS, max_turns: CEILING.max_turns },
  alerts: { turns: CEILING.max_turns },
};

async function tripsOfTurns(
  tools: number,
  isWatched: boolean,
  { turns: count = TURNS, tool = lookup } = {},
): Promise<{ trips: Trip[]; keys: string }> {
  const calls = Array.from({ length: tools }, (_, n) => ({
    type: "tool_use" as const,
    name: "lookup",
    input: { n },
  }));
  const turn = { content: [{ type: "text" as const, text: TEXT }, ...calls] };
  // No two turns may make the same calls again and again.
  const turns = Array.from({ length: count }, (_, k) => ({
    content: turn.content.map((block) =>
      block.type === "text" ? block : { ...block, input: { n: block.input.n + 100 * k } },
    ),
  }));
  const { url } = await startPrivateRedis();
  const trips = await recordTrips(url);
  const installation = await openStage({
    redis: { url },
    scenario: { turns: [...turns, { content: [{ type: "text", text: "done" }] }] },
  });
  await installation.startWorker({ tools: [tool] });
  const agent = await (isWatched ? installation.watchedTask("go") : installation.task("go", LONG));
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", turns: count + 1 });
  await until(() => trips.of(agent.uid).some(({ verb }) => verb === "settle"));
  const all = trips.of(agent.uid).filter(({ verb }) => verb !== "renew");
  const from = all.findIndex(({ verb }) => verb === "append");
  const { replies } = installation.keys.parent(agent);
  return {
    trips: all.slice(
      from,
      all.findIndex(({ verb }) => verb === "settle"),
    ),
    keys: replies.slice(0, replies.lastIndexOf(":") + 1),
  };
}

const names = ({ inner }: Trip) =>
  inner
    .map(([name = ""]) => name.toLowerCase())
    .sort()
    .join(" ");

const RESULTS_TRIP = "exists hlen hmget hmget hset llen persist rpush time xadd";
/** With the answer the record gets what the run has come to, and the purchase behind the results. */
const ANSWER_TRIP = `${RESULTS_TRIP} hset`;
const sorted = (words: string) => words.split(" ").sort().join(" ");

/** Bytes of a turn with an answer of 200 characters and one result of 500; and of each tool more, besides its result. */
const MOST_BYTES_OF_TURN = 2_048;
const MOST_BYTES_OF_TOOL = 380;
/** A tool that took no measurable time does not say how much it was: on a busy machine each says so, in its result and its event. */
const MOST_BYTES_OF_DURATION = 24;

test.for([
  { tools: 1, isWatched: false },
  { tools: 8, isWatched: false },
  { tools: 1, isWatched: true },
  { tools: 8, isWatched: true },
])(
  "a turn of $tools tools, watched: $isWatched, is two trips of the same commands and of bounded bytes",
  async ({ tools, isWatched }) => {
    const { trips, keys } = await tripsOfTurns(tools, isWatched);
    // A watcher sees the run begin before its first call ends.
    const turns = isWatched ? trips.slice(1) : trips;
    expect(turns.map(({ verb }) => verb)).toEqual(Array.from({ length: 2 * TURNS }, () => "append"));
    const told = isWatched ? " publish xrevrange" : "";
    // The first turn consumes the message and is the first to advance.
    for (let turn = 1; turn < TURNS; turn += 1) {
      const [answer, results] = turns.slice(2 * turn, 2 * turn + 2);
      if (!answer || !results) throw new RangeError(`turn ${turn} is missing`);
      expect([names(answer), names(results)]).toEqual([
        sorted(ANSWER_TRIP + told),
        sorted(RESULTS_TRIP + told),
      ]);
      const more = (tools - 1) * (MOST_BYTES_OF_TOOL + RESULT.length);
      const most = MOST_BYTES_OF_TURN + more + tools * MOST_BYTES_OF_DURATION;
      expect(writtenBytes(answer, keys) + writtenBytes(results, keys)).toBeLessThanOrEqual(most);
    }
  },
);

/** Bytes of words as they are sent, with one digit in place of each number and drawn id: numbers of messages, tokens and time grow. */
function bytesOf(words: readonly string[]): number {
  return words.reduce((sum, word) => {
    const bytes = Buffer.byteLength(word.replaceAll(/toolu_\w+|\d+/g, "0"));
    return sum + bytes + `$${bytes}`.length + 4;
  }, 0);
}

/** The cost of a turn: for each command its name and bytes, first that of the client, then those of its script. */
const costOf = (turn: readonly Trip[]) =>
  turn.map(({ words, inner }) =>
    [words, ...inner].map((each) => `${each[0]?.toLowerCase()} ${bytesOf(each)}`),
  );

/** Digits by which the numbers of one turn may be longer than those of another, in its file; each is there a few times. */
const MOST_MORE_DIGITS = 64;

test("the last turn before the end of the longest run costs what the second one costs, to Redis and in its file", async () => {
  // One call more says that it is done, and the one at the cap would be told to be the last.
  const count = CEILING.max_turns - 2;
  // It takes time that can be measured: a call without does not say how long it took.
  const slow = { ...lookup, run: () => systemClock.sleep(3).then(() => RESULT) };
  const { trips, keys } = await tripsOfTurns(1, false, { turns: count, tool: slow });
  expect(trips).toHaveLength(2 * count);
  const turns = Array.from({ length: count }, (_, n) => trips.slice(2 * n, 2 * n + 2));
  const costs = turns.map(costOf);
  for (let n = 2; n < count; n += 1) expect(costs[n], `turn ${n + 1}`).toEqual(costs[1]);
  const [second, last] = [turns[1], turns[count - 1]].map((turn) =>
    (turn ?? []).reduce((sum, trip) => sum + writtenBytes(trip, keys), 0),
  );
  expect(Math.abs(Number(last) - Number(second))).toBeLessThanOrEqual(MOST_MORE_DIGITS);
});
