/**
 * Guarantee: a task with a request key is a durable promise. Callers are killed at random points, before the spawn, during
 * the run, between reply and ack and after it; each call made again gives the one result, bought once.
 * `CALLER_KILLS` (default 30): so many calls are cut off by SIGKILL.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Reply } from "../../src/shared/protocol/reply.ts";
import { type NodeProcess, spawnNode } from "../helpers/processes.ts";
import { seeded } from "../helpers/seeded.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const KILLS = Number(process.env.CALLER_KILLS ?? 30);
const SEED = Number(process.env.CALLER_SEED ?? 7);
const TASKS_OF_A_PARENT = 10;
/** A round's parents; more would wait for the places of the workers. */
const MOST_PARENTS = 3;
/** Callers of a round that are killed before the one that lives; once each where there are rounds enough. */
const KILLED_CALLERS = KILLS < 1_000 ? 4 : 1;
const PROMISED_WITHIN_MS = 500;
const TURNS = 2;

const scenario = {
  turns: [
    { content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }], latencyMs: 20 },
    { content: [{ type: "text" as const, text: "Answer to {{user}}" }], latencyMs: 20 },
  ],
};

interface Results {
  /** Key → every reply that a caller got. */
  replies: Map<string, Reply[]>;
  kills: number;
}

interface Call {
  parentId: string;
  key: string;
  prompt: string;
}

function callsOf(round: number): Call[] {
  const parents = Math.min(MOST_PARENTS, Math.ceil(KILLS / 3 / TASKS_OF_A_PARENT));
  return Array.from({ length: parents * TASKS_OF_A_PARENT }, (_, i) => {
    const key = `r${round}-t${i}`;
    return { parentId: `p${round}-${i % parents}`, key, prompt: `question ${key}` };
  });
}

async function startCaller({ prefix, url }: Stage, calls: readonly Call[], random: () => number) {
  const made = calls.map((call) => ({ ...call, delayMs: Math.floor(random() * PROMISED_WITHIN_MS) }));
  const settings = JSON.stringify({ redisUrl: url, prefix, calls: made });
  return spawnNode("test/helpers/fixtures/calling-process.ts", { args: [settings] });
}

/** Adds what a caller got; answers how many calls it did not get through. */
function gather({ stdout }: NodeProcess, calls: readonly Call[], { replies }: Results): number {
  const done = stdout.filter((line) => line.startsWith("done "));
  for (const line of done) {
    const [, key = "", json = ""] = /^done (\S+) (.*)$/.exec(line) ?? [];
    replies.set(key, [...(replies.get(key) ?? []), Reply.parse(JSON.parse(json))]);
  }
  return calls.length - done.length;
}

test(`${KILLS} kills of the caller: one result a task, the same to each caller, bought once`, {
  timeout: 300_000 + KILLS * 1_000,
}, async () => {
  const stage = await openStage({ scenario });
  for (let i = 0; i < 2; i++) await stage.startWorker({ concurrency: 20 });
  const random = seeded(SEED).next;
  const results: Results = { replies: new Map(), kills: 0 };
  const calls: Call[] = [];
  for (let round = 0; results.kills < KILLS; round++) {
    const mine = callsOf(round);
    calls.push(...mine);
    for (let life = 0; life < KILLED_CALLERS && results.kills < KILLS; life++) {
      const caller = await startCaller(stage, mine, random);
      await caller.waitForLine("ready");
      await sleep(random() * 1.5 * PROMISED_WITHIN_MS);
      await caller.kill();
      results.kills += gather(caller, mine, results);
    }
    const last = await startCaller(stage, mine, random);
    expect(await last.closed).toMatchObject({ code: 0 });
    expect(gather(last, mine, results)).toBe(0);
  }
  for (const { key, prompt } of calls) {
    const [first, ...others] = results.replies.get(key) ?? [];
    expect(first).toMatchObject({ status: "succeeded", summary: `Answer to ${prompt}`, message_ids: [key] });
    for (const other of others) expect(other).toEqual(first);
  }
  const bought = stage.offline.ledger.map(({ conversation, turn }) => `${conversation} ${turn}`);
  expect(bought.length).toBe(TURNS * calls.length);
  expect(new Set(bought).size).toBe(bought.length);
  process.stdout.write(`${results.kills} callers killed, ${calls.length} results, each bought once\n`);
});
