/** Guarantee: patterns that never end hold up neither the health checks of the process that searches with them nor its end. */
import { expect, test } from "vitest";
import { reportTime } from "../../helpers/figures.ts";
import { openStage, SHORT_TIMING } from "../../stage/stage.ts";

const ROUNDS = 16;
const LOOKS = 5;
const CHECK_MS = 10_000;
const EXIT_MS = 10_000;

const uses = (name: string, input: Record<string, unknown>) => ({ type: "tool_use" as const, name, input });
const victim = uses("write_file", { file_path: "victim.txt", content: `${"a".repeat(40)}!\n` });
/** Picomatch does not return from the first, nor a backtracking engine from the second; each is another one to their caches. */
const searches = Array.from({ length: ROUNDS }, (_, n) => [
  uses("glob", { pattern: `{${n},b}\\\\\\\\` }),
  uses("grep", { pattern: `^(a+)+\\1?${n}$` }),
]).flat();

test("while evil globs and expressions are searched with, /healthz answers, and SIGTERM hands the run back in time", async () => {
  const stage = await openStage({
    timing: SHORT_TIMING,
    scenario: { turns: [{ content: [victim] }, { content: searches }] },
  });
  const worker = await stage.spawnWorker({ health: true, drainGraceMs: 300 });
  const health = (await worker.waitForLine(/^health /)).slice("health ".length);
  const agent = await stage.task("search");
  await stage.recordWhere(agent, ({ progress }) => progress?.turns === 2);
  for (let look = 0; look < LOOKS; look++) {
    const answer = await fetch(`${health}/healthz`, { signal: AbortSignal.timeout(CHECK_MS) });
    expect(answer.status).toBe(200);
    await answer.text();
  }
  const searching = await stage.record(agent);
  expect(searching).toMatchObject({ status: "running", progress: { turns: 2 } });
  const startedMs = performance.now();
  expect(await worker.kill("SIGTERM")).toEqual({ code: 0, signal: null });
  expect(worker.stdout.at(-1)).toBe("stopped");
  reportTime("exit in the middle of evil searches", performance.now() - startedMs, EXIT_MS);
  expect(await stage.record(agent)).toMatchObject({ status: "queued", wake: searching.wake + 1 });
  expect(await stage.entries(agent)).toEqual([]);
});
