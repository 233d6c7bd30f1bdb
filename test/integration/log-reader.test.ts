/** Guarantee: a log holds nothing up. Its reader may be gone, its disk full: the process goes on, and what can be written is. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, existsSync, openSync, readSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLogger } from "../../src/shared/logger.ts";
import { bundled } from "../helpers/bundle.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnNode } from "../helpers/processes.ts";
import { until } from "../helpers/until.ts";

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

test("for a reader that reads nothing a megabyte waits, and every line that comes is whole", async () => {
  const path = join(await mkdtemp(join(tmpdir(), "log-")), "pipe");
  execFileSync("mkfifo", [path]);
  const pipe = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  closeAtEnd(() => closeSync(pipe));
  const logger = createLogger({ destination: pipe });
  const [written, line] = [8 * 1024 * 1024, "é".repeat(997)];
  for (let sent = 0; sent < written; sent += line.length) logger.info(line);
  const parts: Buffer[] = [];
  const part = Buffer.alloc(64 * 1024);
  const readPart = () => {
    try {
      parts.push(Buffer.from(part.subarray(0, readSync(pipe, part))));
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error;
    }
  };
  logger.warn("the last one");
  await until(() => {
    readPart();
    logger.warn("and one more");
    return parts.at(-1)?.toString().endsWith('"and one more"}\n');
  });
  const read = Buffer.concat(parts).toString();
  expect(read).not.toContain("\uFFFD");
  expect(read.length).toBeGreaterThan(1024 * 1024);
  expect(read.length).toBeLessThan(written / 2);
  for (const each of read.trimEnd().split("\n")) expect(JSON.parse(each)).toHaveProperty("msg");
});
