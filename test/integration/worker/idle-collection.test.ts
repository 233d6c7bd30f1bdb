import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { spawnNode } from "../../helpers/processes.ts";
import { openStage } from "../../stage/stage.ts";

const TASKS = 200;
const TURNS = 10;
const use = { content: [{ type: "tool_use" as const, name: "look_up", input: {} }] };
const done = { content: [{ type: "text" as const, text: "done" }] };

/**
 * Small functions that each call of a model passes: ours, and ioredis' own that our commands share with BullMQ's. Which of them
 * V8 has optimized by the end differs a little.
 */
const OF_A_CALL = [
  "AnswerDraft",
  "ScriptCommand",
  "begin",
  "send",
  "limitMs",
  "answer",
  "result",
  "fold",
  "replyBody",
  "boundary",
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
    args: [stage.url, stage.prefix, stage.offline.url, workspaces],
  });
  await worker.waitForLine("ready");
  const parent = stage.parent();
  for (let i = 0; i < TASKS; i += 10)
    await Promise.all(Array.from({ length: 10 }, () => parent.task("look")));

  const before = worker.stdout.length;
  process.kill(worker.pid, "SIGUSR2");
  await worker.waitForLine("collected");

  const names = (lines: readonly string[], what: RegExp) =>
    new Set(lines.flatMap((line) => what.exec(line)?.slice(1) ?? []));
  const optimized = names(worker.stdout, /completed optimizing .*<JSFunction (\S+)/);
  const dropped = names(worker.stdout.slice(before), /<SharedFunctionInfo ([^>]+)>.* weak objects/);
  const measured = OF_A_CALL.filter((name) => optimized.has(name));
  expect(measured.length).toBeGreaterThanOrEqual(AT_LEAST);
  expect(measured.filter((name) => dropped.has(name))).toEqual([]);
});
