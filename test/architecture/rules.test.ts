import { describe, expect, test } from "vitest";
import { RULE_NAMES, RULES, type RuleName, type Tree } from "./rules.ts";
import { parseSource } from "./source.ts";

/** Files by path, as a rule would find them in the repository. */
type Files = Readonly<Record<string, string>>;

/** For every rule, trees that break it (each must give exactly one violation) and trees that keep it. */
const PLAYS: Readonly<Record<RuleName, { breaks: readonly Files[]; keeps: readonly Files[] }>> = {
  "rooms import only what the house allows": {
    breaks: [
      { "src/shared/clock.ts": `import { a } from "../worker/pool.ts";` },
      { "src/shared/clock.ts": `import type { a } from "./redis/connection.ts";` },
      { "src/shared/protocol/ids.ts": `import { a } from "../errors.ts";` },
      { "src/shared/errors.ts": `export { a } from "./clock.ts";` },
      { "src/producer/parent.ts": `import type { Pool } from "../worker/pool.ts";` },
      { "src/worker/run.ts": `type P = import("../producer/parent.ts").Parent;` },
      { "src/worker/run.ts": `export * from "../offline/server.ts";` },
      { "src/worker/run.ts": `const cli = await import("../cli/main.ts");` },
      { "src/worker/run.ts": `const any = await import(name);` },
      { "src/worker/loop/next.ts": `import { tool } from "../tools/tool.ts";` },
      { "src/worker/loop/next.ts": `import type { R } from "../tools/registry.ts";` },
      { "src/offline/server.ts": `import { clock } from "../shared/clock.ts";` },
      { "src/index.ts": `export { createPool } from "./worker/pool.ts";` },
      { "src/worker/index.ts": `export { createParent } from "../producer/parent.ts";` },
      { "src/elsewhere/thing.ts": `import { a } from "../shared/clock.ts";` },
      { "src/worker/run.ts": `import { until } from "../../test/helpers/until.ts";` },
    ],
    keeps: [
      {
        "src/shared/redis/scripts.ts": `import { a } from "../errors.ts"; import { b } from "../protocol/keys.ts";`,
      },
      { "src/worker/loop/next.ts": `import type { Tool } from "../tools/tool.ts";` },
      { "src/worker/loop/next.ts": `import { ids } from "../../shared/protocol/ids.ts";` },
      {
        "src/cli/main.ts": `import { a } from "../worker/index.ts"; import { b } from "../offline/server.ts";`,
      },
      { "src/index.ts": `export { createParent } from "./producer/parent.ts";` },
    ],
  },
  "every package comes in by its one door": {
    breaks: [
      { "src/producer/parent.ts": `import type { Redis } from "ioredis";` },
      { "src/worker/sweeper.ts": `import { Worker } from "bullmq";` },
      { "src/worker/run.ts": `import type { Message } from "@anthropic-ai/sdk/resources/messages.js";` },
      { "src/worker/run.ts": `import { leftPad } from "left-pad";` },
      { "src/shared/protocol/ids.ts": `import { readFile } from "node:fs/promises";` },
      { "src/worker/loop/next.ts": `import { randomUUID } from "node:crypto";` },
      { "src/offline/server.ts": `import { pino } from "pino";` },
    ],
    keeps: [
      {
        "src/shared/redis/connection.ts": `import { Redis } from "ioredis"; import { once } from "node:events";`,
      },
      { "src/worker/pool.ts": `import { Worker } from "bullmq";` },
      { "src/worker/model/anthropic.ts": `import Anthropic from "@anthropic-ai/sdk";` },
      { "src/shared/protocol/ids.ts": `import { z } from "zod"; import { createHash } from "node:crypto";` },
    ],
  },
  "no file can import itself by any way round": {
    breaks: [
      { "src/a.ts": `import "./a.ts";` },
      { "src/a.ts": `import type { B } from "./b.ts";`, "src/b.ts": `import { a } from "./a.ts";` },
      {
        "src/a.ts": `export * from "./b.ts";`,
        "src/b.ts": `type C = import("./c.ts").C;`,
        "src/c.ts": `const a = await import("./a.ts");`,
      },
    ],
    keeps: [
      {
        "src/a.ts": `import "./b.ts"; import "./c.ts";`,
        "src/b.ts": `import "./c.ts";`,
        "src/c.ts": "export {};",
      },
    ],
  },
  "nothing has the type any": {
    breaks: [{ "src/a.ts": "const a: Array<any> = [];" }, { "src/a.ts": "const a = b as any;" }],
    keeps: [{ "src/a.ts": `const any: unknown = "any"; // any` }],
  },
  "nothing is cast by way of unknown": {
    breaks: [
      { "src/a.ts": "const a = b as unknown as C;" },
      { "src/a.ts": "const a = (b as never) as C;" },
      { "src/a.ts": "const a = <C>(<unknown>b);" },
    ],
    keeps: [{ "src/a.ts": "const a = b as unknown; const c = d as C; const e = f as const;" }],
  },
  "no comment silences the compiler": {
    breaks: [
      { "src/a.ts": "// @ts-ignore\nconst a = 1;" },
      { "src/a.ts": "/* @ts-expect-error later */\nconst a = 1;" },
      { "src/a.ts": "// @ts-nocheck\n" },
    ],
    keeps: [{ "src/a.ts": `const a = "@ts-ignore"; // ts-ignore is refused` }],
  },
  "no bare Error is thrown": {
    breaks: [{ "src/a.ts": `throw new Error("x");` }, { "src/a.ts": `throw Error("x");` }],
    keeps: [{ "src/a.ts": `throw new QueueError("x"); const kept = new Error("y");` }],
  },
  "no file has more than 250 lines": {
    breaks: [{ "src/a.ts": "export {};\n".repeat(251) }],
    keeps: [{ "src/a.ts": "export {};\n".repeat(250) }],
  },
  "no function has more than 50 lines": {
    breaks: [
      { "src/a.ts": `function a() {${"\n".repeat(50)}}` },
      { "src/a.ts": `const a = async () => {${"\n".repeat(50)}};` },
      { "src/a.ts": `class A { #a() {${"\n".repeat(50)}} }` },
      { "src/a.ts": `const a = { get a() {${"\n".repeat(50)}} };` },
    ],
    keeps: [{ "src/a.ts": `${"\n".repeat(60)}function a() {${"\n".repeat(49)}}` }],
  },
  "every export is documented": {
    breaks: [
      { "src/a.ts": "export const a = 1;" },
      { "src/a.ts": "// not TSDoc\nexport function a() {}" },
      { "src/a.ts": "/** */\nexport class A {}" },
      { "src/a.ts": "const a = 1;\nexport { a };" },
      { "src/a.ts": "export default () => 1;" },
      { "src/a.ts": "/** The first. */\nexport const a = 1;\nexport interface B {}" },
      { "src/a.ts": "/** Both of them. */\n// but interrupted\nexport const { a } = b;" },
    ],
    keeps: [
      {
        "src/a.ts": `export { a } from "./b.ts";\nexport * from "./c.ts";\nexport type { D } from "./d.ts";`,
      },
      { "src/a.ts": `import { a } from "./b.ts";\nexport { a };` },
      { "src/a.ts": "/** An id. */\nexport const Id = z.string();\nexport type Id = z.infer<typeof Id>;" },
      { "src/a.ts": "/** Counts. */\nexport function a(b: 1): 1;\nexport function a(b: 2): 2;" },
      { "src/a.ts": "/** The way in. */\nexport default class Main {}" },
      { "src/a.ts": "/** A door. */\nconst a = 1;\nexport { a };" },
    ],
  },
  "only config reads the environment": {
    breaks: [
      { "src/a.ts": "const a = process.env.HOME;" },
      { "src/a.ts": `const a = process["env"];` },
      { "src/a.ts": "const a = globalThis.process?.env;" },
      { "src/a.ts": "const { env } = process;" },
      { "src/cli/main.ts": `import { env } from "node:process";` },
    ],
    keeps: [
      { "src/shared/config.ts": "const a = process.env.HOME;" },
      { "src/offline/server.ts": "const a = process.env.HOME;" },
      { "src/a.ts": "const a = options.env; const b = process.pid;" },
    ],
  },
  "only the clock knows the time": {
    breaks: [
      { "src/a.ts": "setTimeout(() => {}, 1);" },
      { "src/a.ts": "const wait = { interval: setInterval };" },
      { "src/a.ts": "globalThis.setTimeout(f, 1);" },
      { "src/a.ts": "const a = Date.now();" },
      { "src/a.ts": "const a = new Date();" },
      { "src/a.ts": "const a = Date();" },
      { "src/a.ts": "const a = performance.now();" },
      { "src/a.ts": "const a = process.hrtime.bigint();" },
      { "src/a.ts": "const a = AbortSignal.timeout(1);" },
      { "src/a.ts": "const a = setTimeout as Timer;" },
      { "src/a.ts": `import { setTimeout as sleep } from "node:timers/promises";` },
      { "src/a.ts": `import { performance as p } from "node:perf_hooks";` },
    ],
    keeps: [
      { "src/shared/clock.ts": "setTimeout(() => Date.now(), 1);" },
      { "src/offline/server.ts": "setTimeout(() => new Date(), 1);" },
      { "src/a.ts": "const a = new Date(ms); clock.setTimeout(f); clearTimeout(t); const b: Date = a;" },
      { "src/a.ts": "interface Clock { setTimeout(f: () => void): void; performance: number }" },
    ],
  },
  "only the service handles signals": {
    breaks: [
      { "src/cli/main.ts": `process.on("SIGTERM", stop);` },
      { "src/worker/pool.ts": `process.once("SIGINT", stop);` },
      { "src/worker/pool.ts": "for (const signal of signals) process.once(signal, stop);" },
    ],
    keeps: [
      { "src/cli/service.ts": `process.on("SIGTERM", stop);` },
      {
        "src/cli/main.ts": `process.on("exit", stop); process.kill(1, "SIGTERM"); child.on("SIGTERM", stop);`,
      },
    ],
  },
  "only the command line talks to the console": {
    breaks: [
      { "src/worker/run.ts": `console.log("x");` },
      { "src/worker/run.ts": "const sink = console;" },
      { "src/worker/run.ts": "globalThis.console.error(1);" },
      { "src/worker/run.ts": `import { log } from "node:console";` },
    ],
    keeps: [{ "src/cli/main.ts": `console.log("x");` }, { "src/worker/run.ts": `const a = "console.log";` }],
  },
  "every Lua script names its keys and arguments": {
    breaks: [
      { "src/a.lua": "return redis.call('GET', KEYS[1])" },
      { "src/a.lua": "-- Reads.\n-- KEYS record\nreturn redis.call('HGET', KEYS[1], ARGV[1])" },
      { "src/a.lua": "-- Reads.\n-- KEYS record\nreturn redis.call('GET', KEYS[2])" },
      { "src/a.lua": "-- Reads.\n-- ARGV a b c\nlocal a = ARGV[4]" },
      { "src/a.lua": "-- Reads.\n-- ARGV a b c\nlocal a = ARGV[i + 1]" },
      { "src/a.lua": "-- Reads.\nlocal a = 1\n-- KEYS late\nlocal b = KEYS[1]" },
    ],
    keeps: [
      { "src/a.lua": "-- Reads.\n-- KEYS record\n-- ARGV a b c\nlocal a = { KEYS[1], ARGV[2], ARGV[3] }" },
      { "src/a.lua": "-- Reads.\n-- ARGV a b\n--   c d\nlocal a = ARGV[4]" },
      { "src/a.lua": "-- Reads.\n-- ARGV a (key value)…\nfor i = 2, #ARGV do f(ARGV[i]) end" },
      { "src/a.lua": "-- Reads.\nlocal a = 'KEYS[9]' -- ARGV[9]\n--[[ KEYS[8]\n]]\nlocal b = [[ARGV[7]]]" },
    ],
  },
  "every unit test mirrors a source": {
    breaks: [{ "test/unit/worker/run.test.ts": "", "src/worker/pool.ts": "" }],
    keeps: [
      {
        "src/worker/run.ts": "",
        "test/unit/worker/run.test.ts": "",
        "test/unit/worker/run.caps.test.ts": "",
        "test/integration/run.test.ts": "",
      },
    ],
  },
  "src has no drawers": {
    breaks: [{ "src/worker/utils.ts": "" }, { "src/shared/helpers/clock.ts": "" }],
    keeps: [{ "src/worker/run.ts": "", "test/helpers/until.ts": "" }],
  },
};

function treeOf(files: Files): Tree {
  const paths = Object.keys(files);
  const under = (ending: string) => paths.filter((path) => path.startsWith("src/") && path.endsWith(ending));
  return {
    sources: under(".ts").map((path) => parseSource(path, files[path] ?? "")),
    lua: under(".lua").map((path) => ({ path, text: files[path] ?? "" })),
    paths,
  };
}

describe.for(RULE_NAMES)("%s", (rule) => {
  test.for(PLAYS[rule].breaks)("is broken by example %$", (files) => {
    const violations = RULES[rule](treeOf(files));
    expect(violations, JSON.stringify(files)).toHaveLength(1);
    expect(Object.keys(files)).toContain(violations[0]?.path);
    expect(violations[0]?.line).toBeGreaterThanOrEqual(1);
  });

  test.for(PLAYS[rule].keeps)("is kept by example %$", (files) => {
    expect(RULES[rule](treeOf(files)), JSON.stringify(files)).toEqual([]);
  });
});

test("a file that does not parse is an error and not a file without violations", () => {
  expect(() => parseSource("src/a.ts", "const = ;")).toThrow(SyntaxError);
});
