import { afterAll, expect, test } from "vitest";
import { type NodeProcess, spawnNode } from "./processes.ts";
import { until } from "./until.ts";

const entry = "test/helpers/fixtures/chatter.ts";

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test("a child gets its arguments and variables, and both of its streams are captured by line", async () => {
  const child = await spawnNode(entry, { args: ["to", "serve"], env: { GREETING: "hello" } });
  expect(await child.waitForLine(/^ready/)).toBe("ready to serve");
  expect(await child.waitForLine("greeting=")).toBe("greeting=hello");
  expect(child.isRunning).toBe(true);
});

test("a child that is asked to end says its farewell, and nothing it said is lost", async () => {
  const child = await spawnNode(entry);
  await child.waitForLine("tick 1");
  expect(await child.kill("SIGTERM")).toEqual({ code: 0, signal: null });
  expect(child.stdout.at(-1)).toBe("farewell");
  expect(child.isRunning).toBe(false);
});

test("a child that is killed says nothing more", async () => {
  const child = await spawnNode(entry);
  await child.waitForLine("tick 1");
  expect(await child.kill()).toEqual({ code: null, signal: "SIGKILL" });
  expect(child.stdout).not.toContain("farewell");
  expect(isAlive(child.pid)).toBe(false);
});

test("a frozen child stands still until it is thawed", async () => {
  const child = await spawnNode(entry);
  await child.waitForLine("tick 1");
  child.freeze();
  const state = async () => (await import("node:fs/promises")).readFile(`/proc/${child.pid}/stat`, "utf8");
  await until(async () => (await state()).includes(") T "), { what: "the child to be stopped" });
  const seen = child.stdout.length;
  child.thaw();
  await until(() => child.stdout.length > seen + 2, { what: "more ticks" });
});

test("waiting for a line that a dead child never said fails at once, with what it did say", async () => {
  const child = await spawnNode(entry, { args: ["--fail"] });
  await expect(child.waitForLine("never said")).rejects.toThrow(/"code":3.*ready --fail/s);
});

let leftOver: NodeProcess | undefined;

test("a child may be left behind by its test", async () => {
  leftOver = await spawnNode(entry);
  expect(leftOver.isRunning).toBe(true);
});

test("a child that was left behind by a test is gone after it", () => {
  expect(leftOver?.isRunning).toBe(false);
  expect(isAlive(leftOver?.pid ?? 0)).toBe(false);
});

afterAll(() => {
  // Process id 0 would be our own group: the test above must have had a real one.
  if (leftOver === undefined) throw new Error("the test that leaves a child behind did not run");
});
