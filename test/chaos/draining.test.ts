/**
 * Guarantee: workers can be stopped and replaced under load: nothing is lost, nothing is done twice, nobody waits long.
 * Restarts of the whole fleet: `DRAIN_ROUNDS` (default 1).
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Reply } from "../../src/shared/protocol/reply.ts";
import { durations, reportTime } from "../helpers/figures.ts";
import { watchHandOvers } from "../helpers/handovers.ts";
import { until } from "../helpers/until.ts";
import { LONG_TIMING, openStage, type Stage, type WorkerProcess } from "../stage/stage.ts";

const ROUNDS = Number(process.env.DRAIN_ROUNDS ?? 1);
const WORKERS = 4;
const PARENTS = 4;
const TASKS_OF_A_PARENT = 4;
const LONGEST_WAIT_MS = 5_000;
const LONGEST_EXIT_MS = 25_000;

const text = (words: string) => ({ type: "text" as const, text: words });
const call = (name: string, input: object) => ({ type: "tool_use" as const, name, input: { ...input } });

/** Ends a process as an operator does; answers how long that took, ms. */
async function terminate(worker: WorkerProcess): Promise<number> {
  const startedMs = performance.now();
  const ending = await worker.kill("SIGTERM");
  const tookMs = performance.now() - startedMs;
  expect(ending, worker.stderr.join("\n")).toEqual({ code: 0, signal: null });
  expect(worker.stdout.at(-1)).toBe("stopped");
  reportTime("exit", tookMs, LONGEST_EXIT_MS);
  expect(() => process.kill(worker.pid, 0)).toThrow(/ESRCH/);
  return tookMs;
}

/** Turns that were bought and whole, each as often as it was. */
function servedTurns({ offline }: Stage): string[] {
  const served = offline.ledger.filter(({ status }) => status === "served");
  return served.map(({ conversation, turn }) => `${conversation} ${turn}`);
}

function notesOf({ workspaceRoot }: Stage, { parent_id, agent_id }: Reply): Promise<string> {
  return readFile(
    join(workspaceRoot, "default", parent_id, "agents", agent_id, "workspace", "notes.txt"),
    "utf8",
  );
}

test("a rolling restart of all workers under load loses nothing, does nothing twice and keeps nobody waiting", {
  timeout: 300_000 + ROUNDS * 60_000,
}, async () => {
  const installation = await openStage({
    redis: "own",
    timing: LONG_TIMING,
    latencyMs: 150,
    scenario: {
      turns: [
        { content: [call("note", { line: "one", ms: 150 }), call("look", { line: "one", ms: 300 })] },
        { content: [call("note", { line: "two", ms: 400 })] },
        { content: [text("All noted.")] },
      ],
    },
  });
  const handOvers = await watchHandOvers(installation.url);
  const workers = await Promise.all(Array.from({ length: WORKERS }, () => installation.spawnWorker()));
  const replies: Reply[] = [];
  let restarting = true;
  let asked = 0;
  const work = Array.from({ length: PARENTS * TASKS_OF_A_PARENT }, async (_, i) => {
    const parent = installation.parent(`parent-${i % PARENTS}`);
    while (restarting) {
      asked += 1;
      replies.push(await parent.task({ prompt: `task ${asked}` }));
    }
  });
  await until(() => replies.length >= PARENTS);

  const exits: number[] = [];
  for (let i = 0; i < WORKERS * ROUNDS; i++) {
    const leaving = workers[i % WORKERS] as WorkerProcess;
    exits.push(await terminate(leaving));
    workers[i % WORKERS] = await installation.spawnWorker();
  }
  restarting = false;
  await Promise.all(work);

  await handOvers.caughtUp();
  const nowMs = Date.now();
  const released = handOvers.waits("released", nowMs);
  process.stdout.write(
    `rolling restart: ${asked} tasks, ${durations("handed back", released)}; ` +
      `${durations("every wait", handOvers.waits("all", nowMs))}; ${durations("exits", exits)}\n`,
  );
  expect(released.length, "restarts hit active runs").toBeGreaterThanOrEqual(WORKERS * ROUNDS);
  expect(handOvers.all, "each wait is told once").toHaveLength(asked + released.length);
  reportTime("longest wait", Math.max(...handOvers.waits("all", nowMs)), LONGEST_WAIT_MS);
  expect(replies).toHaveLength(asked);
  const came = replies.map(({ status, turns, summary }) => `${status} ${turns} ${summary}`);
  expect(new Set(came)).toEqual(new Set(["succeeded 3 All noted."]));
  expect(handOvers.entries.size).toBe(asked);
  expect([...handOvers.entries.values()].filter((count) => count !== 1)).toEqual([]);
  const served = servedTurns(installation);
  expect(served).toHaveLength(asked * 3);
  expect(new Set(served).size).toBe(asked * 3);
  for (const reply of replies) expect(await notesOf(installation, reply), reply.agent_id).toBe("one\ntwo\n");
});

test("a worker that is stopped with 20 runs in hung model calls and long tools hands all of them back and is gone in 25 s", async () => {
  const done = { content: [text("done")] };
  const installation = await openStage({
    redis: "own",
    timing: LONG_TIMING,
    scenario: [
      { match: { user: "tool" }, turns: [{ content: [call("linger", { label: "{{user}}" })] }, done] },
      { match: { user: "silent" }, turns: [{ ...done, failures: [{ stream: { stallAfterChunks: 0 } }] }] },
      { match: { user: "stalled" }, turns: [{ ...done, failures: [{ stream: { stallAfterChunks: 2 } }] }] },
    ],
  });
  const handOvers = await watchHandOvers(installation.url);
  const stopping = await installation.spawnWorker({ concurrency: 20 });
  const kinds = ["tool", "tool", "silent", "stalled"];
  const agents = await Promise.all(
    Array.from({ length: 20 }, (_, i) => installation.task(`${kinds[i % 4]} ${i}`)),
  );
  const began = () => stopping.stdout.filter((line) => line.startsWith("began")).length;
  await until(() => began() === 10 && installation.offline.inFlight === 10);
  const other = await installation.spawnWorker({ concurrency: 20 });

  const exitMs = await terminate(stopping);
  const replies = await Promise.all(agents.map((agent) => installation.reply(agent)));
  await handOvers.caughtUp();
  const released = handOvers.waits("released", Date.now());
  process.stdout.write(
    `stop with 20 runs: exit ${Math.round(exitMs)} ms, ${durations("handed back", released)}\n`,
  );
  expect(released).toHaveLength(20);
  reportTime("longest wait after a hand-back", Math.max(...released), LONGEST_WAIT_MS);
  expect(stopping.stdout.filter((line) => line.startsWith("ended"))).toHaveLength(10);
  for (const [i, reply] of replies.entries()) {
    expect(reply).toMatchObject({ status: "succeeded", summary: "done", turns: i % 4 < 2 ? 2 : 1 });
    const agent = agents[i] as (typeof agents)[number];
    expect(await installation.entries(agent)).toHaveLength(1);
    expect(await installation.record(agent)).toMatchObject({ worker: other.id, crashes_without_progress: 0 });
  }
  // What was cut off is not begun a second time: the next worker tells the model that its effect is unknown.
  expect(other.stdout.filter((line) => line.startsWith("began"))).toEqual([]);
  const served = servedTurns(installation);
  expect(new Set(served).size).toBe(served.length);
  expect(served).toHaveLength(30);
});
