/** Guarantee: a log holds nothing up. Its reader may be gone, its disk full: the process goes on, and what can be written is. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync } from "node:fs";
import { expect, test } from "vitest";
import { bundled } from "../helpers/bundle.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnNode } from "../helpers/processes.ts";

const ROUNDS = 5;
const FIXTURE = "test/helpers/fixtures/log-writer.ts";
/** Takes no byte: a disk without room. */
const FULL = "/dev/full";

/** The program, its log going to `stderr`; ended with the test. */
async function writer(stderr: "pipe" | number) {
  const child = spawn(process.execPath, [await bundled(FIXTURE), String(ROUNDS)], {
    stdio: ["ignore", "pipe", stderr],
  });
  const closed = once(child, "close");
  closeAtEnd(async () => {
    child.kill("SIGKILL");
    await closed;
  });
  return { child, closed };
}

test("every line is written in its order, the one right before the exit too", async () => {
  const { closed, stderr } = await spawnNode(FIXTURE, { args: [String(ROUNDS)] });
  expect(await closed).toEqual({ code: 0, signal: null });
  const rounds = Array.from({ length: ROUNDS }, (_, n) => [`usual ${n + 1}`, `urgent ${n + 1}`]).flat();
  expect(stderr.map((line) => JSON.parse(line).msg)).toEqual([...rounds, "the last one"]);
});

test("a reader that is gone costs its lines, and holds nothing up", async () => {
  const { child, closed } = await writer("pipe");
  child.stderr?.destroy();
  child.stdout?.resume();
  expect(await closed).toEqual([0, null]);
});

test.skipIf(!existsSync(FULL))("a full disk costs lines, and holds nothing up", async () => {
  const full = openSync(FULL, "w");
  const { child, closed } = await writer(full);
  closeSync(full);
  child.stdout?.resume();
  expect(await closed).toEqual([0, null]);
});
