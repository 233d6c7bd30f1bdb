/** Guarantee: on the path of a call no object is of a hidden class of its own (the turn's budget, rule 17). */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { spawnNode } from "../../helpers/processes.ts";
import { openStage } from "../../stage/stage.ts";

const TASKS = 80;
const TURNS = 5;
/** A place that makes a class for each object does so for each run, but for the first few. */
const OFTEN = TASKS / 2;
const use = { content: [{ type: "tool_use" as const, name: "look_up", input: {} }] };
const done = { content: [{ type: "text" as const, text: "done" }] };

test("no field is added again and again to a class that V8 does not keep", async () => {
  const stage = await openStage({ redis: "own", scenario: [{ turns: [...Array(TURNS).fill(use), done] }] });
  const directory = await mkdtemp(join(tmpdir(), "saq-classes-"));
  closeAtEnd(() => rm(directory, { recursive: true, force: true }));
  const log = join(directory, "v8.log");
  const worker = await spawnNode("test/helpers/fixtures/collecting-worker.ts", {
    nodeOptions: ["--log-maps", "--no-log-maps-details", "--no-logfile-per-isolate", `--logfile=${log}`],
    args: [stage.url, stage.prefix, stage.offline.url, directory],
  });
  const readyMs = Number(/ready after (\d+) ms/.exec(await worker.waitForLine("ready after"))?.[1]);
  const parent = stage.parent();
  for (let i = 0; i < TASKS; i += 10)
    await Promise.all(Array.from({ length: 10 }, () => parent.task("look")));
  await worker.kill("SIGTERM");

  // map,Transition,<µs>,<from>,<to>,<code>,<line>,<column>,<why>,<field>: "prototype" says that the transition is kept nowhere.
  const added = new Map<string, number>();
  const lines = await readFile(log, "utf8");
  const isMeasured = (us: string | undefined) => Number(us) >= readyMs * 1_000;
  // V8 has said what it does with classes, also while the calls were made.
  expect([...lines.matchAll(TRANSITION)].filter(([, us]) => isMeasured(us)).length).toBeGreaterThan(0);
  expect([...lines.matchAll(UNKEPT)].length).toBeGreaterThan(0);
  for (const [, us, place = "", field] of lines.matchAll(UNKEPT)) {
    if (!isMeasured(us)) continue;
    const name = `${field} at ${place}`;
    added.set(name, (added.get(name) ?? 0) + 1);
  }
  // Fields named by symbols are Node's own.
  const often = [...added].filter(([name, times]) => times >= OFTEN && !name.startsWith("symbol"));
  expect(often).toEqual([]);
});

const TRANSITION = /^map,Transition,(\d+),/gm;
const UNKEPT = /^map,Transition,(\d+),\w+,\w+,\w+,(\d+,\d+),prototype,(.+)$/gm;
