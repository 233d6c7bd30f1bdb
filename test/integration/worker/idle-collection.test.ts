import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { spawnNode } from "../../helpers/processes.ts";
import { openStage } from "../../stage/stage.ts";

const TASKS = 200;
const AT_MOST = 1000;
const TURNS = 10;
const use = { content: [{ type: "tool_use" as const, name: "look_up", input: {} }] };
const done = { content: [{ type: "text" as const, text: "done" }] };

/**
 * Small functions that each call of a model passes: ours, and ioredis' own that our commands share with BullMQ's. Which of them
 * V8 has optimized by the end differs a little, and a busy machine takes longer for it.
 */
const OF_A_CALL = [
  "AnswerDraft",
  "begin",
  "limitMs",
  "result",
  "tellTurnStarted",
  "#answer",
  "#pending",
  "#add",
  "idOf",
  "isFilling",
  "sendCommand",
  "initPromise",
  "returnReply",
  "transformReply",
];
const AT_LEAST = 6;

test("a worker that collects its memory while it is idle keeps the code that was optimized for its calls", async () => {
  const turns = [...Array.from({ length: TURNS }, () => use), done];
  const stage = await openStage({ redis: "own", scenario: [{ turns }] });
  const workspaces = await mkdtemp(join(tmpdir(), "saq-collects-"));
  closeAtEnd(() => rm(workspaces, { recursive: true, force: true }));
  const worker = await spawnNode("test/helpers/fixtures/collecting-worker.ts", {
    nodeOptions: [],
    args: [stage.url, stage.prefix, stage.offline.url, workspaces],
  });
  await worker.waitForLine("ready");
  const parent = stage.parent();
  const namesAfter = (position: number, line: RegExp) =>
    new Set(worker.stdout.slice(position).flatMap((text) => line.exec(text)?.slice(1) ?? []));
  const optimizedOfACall = () => {
    const optimized = namesAfter(0, /completed (?:optimizing|compiling) .*<JSFunction (\S+)/);
    return OF_A_CALL.filter((name) => optimized.has(name));
  };

  let tasks = 0;
  while (tasks < TASKS || (tasks < AT_MOST && optimizedOfACall().length < AT_LEAST)) {
    await Promise.all(Array.from({ length: 10 }, () => parent.task("look")));
    tasks += 10;
  }

  const before = worker.stdout.length;
  process.kill(worker.pid, "SIGUSR2");
  await worker.waitForLine("collected");

  const optimized = optimizedOfACall();
  const dropped = namesAfter(before, /<SharedFunctionInfo ([^>]+)>.* weak objects/);
  expect(optimized.length).toBeGreaterThanOrEqual(AT_LEAST);
  expect(optimized.filter((name) => dropped.has(name))).toEqual([]);
});
