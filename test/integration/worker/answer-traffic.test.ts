/**
 * Guarantee: what an answer of a model makes Redis move is in proportion to it: at most five times its bytes beside what any
 * task moves, counted by Redis itself; the worker's process grows by less than 64 MB, and its event loop is never busy with one
 * thing for 250 ms. Three answers, with `ANSWERS=all` five; `model-bounds.test.ts` holds the calls of those that are too large.
 */
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import type { Scenario } from "../../../src/offline/server.ts";
import { type OwnStage, openStage, type WorkerProcess } from "../../stage/stage.ts";

const MOST_TIMES = 5;
const MOST_GROWTH_KB = 64 * 1_024;
const LONGEST_SILENCE_MS = 250;
type Content = NonNullable<Extract<Scenario, { turns: unknown }>["turns"][number]["content"]>;

const many = (
  count: number,
  id: (i: number) => string,
  more: { name?: string; input?: Record<string, unknown> } = {},
): Content =>
  Array.from({ length: count }, (_, i) => ({
    ...{ type: "tool_use" as const, id: id(i), name: "look", input: {} },
    ...more,
  }));

async function moved({ observer }: OwnStage): Promise<number> {
  const stats = await observer.info("stats");
  const of = (name: string) => Number(new RegExp(`total_net_${name}_bytes:(\\d+)`).exec(stats)?.[1]);
  return of("input") + of("output");
}

/** The most memory that a process has had, KB. */
async function peakKb(pid: number): Promise<number> {
  return Number(/VmHWM:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1]);
}

/** The longest silence that a worker told behind its first `said` lines, ms; the worker is stopped, so that all was told. */
async function silenceMs(worker: WorkerProcess, said: number): Promise<number> {
  await worker.kill("SIGTERM");
  expect(worker.stdout.at(-1)).toBe("stopped");
  expect(worker.stdout[0], "its start is told").toMatch(/^silent /);
  const told = worker.stdout.slice(said).flatMap((line) => /^silent (\d+)$/.exec(line)?.[1] ?? []);
  return Math.max(0, ...told.map(Number));
}

/** Bytes that Redis received and sent for a task whose model answers so, and how often the model was called. */
async function trafficOf(stage: OwnStage, prompt: string) {
  const before = await moved(stage);
  const calls = stage.offline.ledger.length;
  const reply = await stage.parent().task({ prompt, limits: { max_turns: 10 } });
  return { bytes: (await moved(stage)) - before, calls: stage.offline.ledger.length - calls, reply };
}

/** The one that Redis has the most work with, and the two largest. */
const ANSWERS: [string, Content][] = [
  ["600 small calls", many(600, (i) => `t${i}`)],
  ["300 calls with names of 10 KB", many(300, (i) => `t${i}`, { name: "n".repeat(10_000) })],
  ["60 MB of text", [{ type: "text", text: "x".repeat(60_000_000) }]],
];
const MORE: [string, Content][] = [
  ["64 calls with 4 KB of input", many(64, (i) => `t${i}`, { input: { a: "y".repeat(4_000) } })],
  ["10,000 calls with one id", many(10_000, () => "same")],
];

test.each([...ANSWERS, ...(process.env.ANSWERS === "all" ? MORE : [])])(
  "%s move at most five times their bytes, and neither fill the worker nor silence it",
  async (named, content) => {
    const done = { content: [{ type: "text" as const, text: "done" }] };
    const stage = await openStage({
      redis: "own",
      scenario: [
        { match: { user: "plain" }, turns: [done] },
        { match: { user: "hostile" }, turns: [{ content }, done] },
      ],
    });
    const worker = await stage.spawnWorker({ tellsSilence: true });
    // The first one loads the scripts.
    await trafficOf(stage, "plain");
    const plain = await trafficOf(stage, "plain");
    const before = await peakKb(worker.pid);
    const said = worker.stdout.length;
    const { bytes, calls, reply } = await trafficOf(stage, "hostile");
    const growth = (await peakKb(worker.pid)) - before;
    const silence = await silenceMs(worker, said);
    const answer = JSON.stringify(content).length;
    const times = (bytes - plain.bytes * calls) / answer;
    process.stdout.write(
      `${named}: ${answer} bytes moved ${bytes} (${times.toFixed(2)} times) in ${calls} calls, ${reply.stop_reason}; the worker grew by ${Math.round(growth / 1_024)} MB and was silent for ${silence} ms\n`,
    );
    expect(times).toBeLessThanOrEqual(MOST_TIMES);
    expect(growth).toBeLessThan(MOST_GROWTH_KB);
    expect(silence).toBeLessThan(LONGEST_SILENCE_MS);
  },
);
