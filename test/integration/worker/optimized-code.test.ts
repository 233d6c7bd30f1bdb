/**
 * Guarantee: what V8 optimizes on the path of a call stays optimized. No object there is of a hidden class of its own, no optimized
 * code is thrown away because an array is of another kind than before (the turn's budget, rules 17 and 20), and none because an
 * idle worker collects its memory.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { spawnNode } from "../../helpers/processes.ts";
import { openStage } from "../../stage/stage.ts";

const TASKS = 200;
const AT_MOST = 1_000;
const TURNS = 10;
/** A place that makes a class for each object does so for each run, but for the first few. */
const OFTEN = TASKS / 2;
/** One or two happen by chance, with what the first runs looked like. A hot `map` made seven of them. */
const MOST_DISCARDED = 2;
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

let readyMs: number;
/** V8's log of a worker that ran the tasks. */
let log: string;
/** Functions of {@link OF_A_CALL} that were optimized by the end of the tasks. */
let optimized: string[];
/** Functions whose optimized code a collection dropped. */
let dropped: Set<string>;

beforeAll(async () => {
  const stage = await openStage({ redis: "own", scenario: [{ turns: [...Array(TURNS).fill(use), done] }] });
  const directory = await mkdtemp(join(tmpdir(), "saq-optimized-"));
  closeAtEnd(() => rm(directory, { recursive: true, force: true }));
  const path = join(directory, "v8.log");
  const worker = await spawnNode("test/helpers/fixtures/collecting-worker.ts", {
    nodeOptions: [
      ...["--log-maps", "--no-log-maps-details", "--log-deopt"],
      ...["--no-logfile-per-isolate", `--logfile=${path}`],
    ],
    args: [stage.url, stage.prefix, stage.offline.url, directory],
  });
  readyMs = Number(/ready after (\d+) ms/.exec(await worker.waitForLine("ready after"))?.[1]);
  const parent = stage.parent();
  const namesAfter = (position: number, line: RegExp) =>
    new Set(worker.stdout.slice(position).flatMap((text) => line.exec(text)?.slice(1) ?? []));
  const optimizedOfACall = () => {
    const names = namesAfter(0, /completed (?:optimizing|compiling) .*<JSFunction (\S+)/);
    return OF_A_CALL.filter((name) => names.has(name));
  };

  let tasks = 0;
  while (tasks < TASKS || (tasks < AT_MOST && optimizedOfACall().length < AT_LEAST)) {
    await Promise.all(Array.from({ length: 10 }, () => parent.task("look")));
    tasks += 10;
  }

  const before = worker.stdout.length;
  process.kill(worker.pid, "SIGUSR2");
  await worker.waitForLine("collected");
  optimized = optimizedOfACall();
  dropped = namesAfter(before, /<SharedFunctionInfo ([^>]+)>.* weak objects/);
  await worker.kill("SIGTERM");
  log = await readFile(path, "utf8");
});

test("a worker that collects its memory while it is idle keeps the code that was optimized for its calls", () => {
  expect(optimized.length).toBeGreaterThanOrEqual(AT_LEAST);
  expect(optimized.filter((name) => dropped.has(name))).toEqual([]);
});

const isMeasured = (us: string | undefined) => Number(us) >= readyMs * 1_000;

test("no field is added again and again to a class that V8 does not keep", () => {
  // map,Transition,<µs>,<from>,<to>,<code>,<line>,<column>,<why>,<field>: "prototype" says that the transition is kept nowhere.
  const added = new Map<string, number>();
  // V8 has said what it does with classes, also while the calls were made.
  expect([...log.matchAll(TRANSITION)].filter(([, us]) => isMeasured(us)).length).toBeGreaterThan(0);
  expect([...log.matchAll(UNKEPT)].length).toBeGreaterThan(0);
  for (const [, us, place = "", field] of log.matchAll(UNKEPT)) {
    if (!isMeasured(us)) continue;
    const name = `${field} at ${place}`;
    added.set(name, (added.get(name) ?? 0) + 1);
  }
  // Fields named by symbols are Node's own.
  const often = [...added].filter(([name, times]) => times >= OFTEN && !name.startsWith("symbol"));
  expect(often).toEqual([]);
});

test("hardly any optimized code of ours is thrown away because an array or object is of another kind", () => {
  // code-deopt,<µs>,<size>,<code>,<inlined>,<offset>,<kind>,<position> inlined at <position>,<why>
  expect([...log.matchAll(DISCARDED)].length).toBeGreaterThan(0);
  const ours = [...log.matchAll(DISCARDED)].filter(
    ([, us, at = "", why]) => isMeasured(us) && at.startsWith("<file:") && why === "wrong map",
  );
  expect(ours.length, ours.join("\n")).toBeLessThanOrEqual(MOST_DISCARDED);
});

const TRANSITION = /^map,Transition,(\d+),/gm;
const UNKEPT = /^map,Transition,(\d+),\w+,\w+,\w+,(\d+,\d+),prototype,(.+)$/gm;
const DISCARDED = /^code-deopt,(\d+),.*?,deopt-\w+,(<[^,]*),([^,]*)$/gm;
