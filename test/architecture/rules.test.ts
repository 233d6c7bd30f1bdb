import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import {
  findHiddenActors,
  findNounlessComments,
  findPrivateWords,
  findUnknownFileNames,
  glossaryOf,
  PRIVATE_WORDS,
} from "./names.ts";
import { type OpenProgram, openProgram } from "./program.ts";
import { RULE_NAMES, RULES, type RuleName, type Tree } from "./rules.ts";

/** Files by path, as a rule would find them in the repository. */
type Files = Readonly<Record<string, string>>;

const KEYS = "export function keysUnder(prefix: string) { return { prefix }; }";

/** For every rule, trees that break it (each must give exactly one violation) and trees that keep it. */
const PLAYS: Readonly<Record<RuleName, { breaks: readonly Files[]; keeps: readonly Files[] }>> = {
  "rooms import only what the house allows": {
    breaks: [
      { "src/shared/clock.ts": `import { a } from "../worker/pool.ts";` },
      { "src/shared/clock.ts": `import type { a } from "./redis/scripts.ts";` },
      { "src/shared/protocol/ids.ts": `import { a } from "../errors.ts";` },
      { "src/shared/errors.ts": `export { a } from "./clock.ts";` },
      { "src/producer/parent.ts": `import type { Pool } from "../worker/pool.ts";` },
      { "src/worker/run.ts": `type P = import("../producer/parent.ts").Parent;` },
      { "src/worker/run.ts": `export * from "../offline/server.ts";` },
      { "src/worker/run.ts": `const cli = await import("../cli/main.ts");` },
      { "src/worker/run.ts": `const any = await import(name);` },
      { "src/worker/loop/next.ts": `import { tool } from "../tools/tool.ts";` },
      { "src/worker/loop/next.ts": `import type { Tool } from "../tools/tool.ts";` },
      { "src/worker/loop/next.ts": `import type { R } from "../tools/registry.ts";` },
      { "src/offline/server.ts": `import { clock } from "../shared/clock.ts";` },
      { "src/index.ts": `export { createPool } from "./worker/pool.ts";` },
      { "src/worker/index.ts": `export { createParent } from "../producer/parent.ts";` },
      { "src/elsewhere/thing.ts": `import { a } from "../shared/clock.ts";` },
      { "src/worker/run.ts": `import { until } from "../../test/helpers/until.ts";` },
      { "src/worker/run.mts": `import { parent } from "../producer/parent.ts";` },
      { "src/worker/run.ts": `const url = new URL("../producer/parent.ts", import.meta.url);` },
      { "src/worker/run.ts": "const url = new URL(name, import.meta.url);" },
      { "src/worker/run.ts": `import parent = require("../producer/parent.ts");` },
      { "src/worker/run.ts": `import { createClient } from "subagent-queue";` },
      { "src/worker/run/claim.ts": `import type { Pool } from "../pool.ts";` },
      { "src/worker/run/claim.ts": `import { readiness } from "../health/readiness.ts";` },
      { "src/worker/loop/next.ts": `import type { Run } from "../run/context.ts";` },
      { "src/worker/model/retry.ts": `import { next } from "../loop/next.ts";` },
      { "src/worker/model/model.ts": `import type { A } from "./anthropic/model.ts";` },
      { "src/worker/tools/registry.ts": `import type { Run } from "../run/context.ts";` },
      { "src/worker/tools/files/open.ts": `import { grep } from "../builtin/grep.ts";` },
      { "src/worker/health/health.ts": `import type { Pool } from "../pool.ts";` },
      { "src/producer/replies/client-channels.ts": `import type { Parent } from "../parent.ts";` },
      { "src/shared/redis/connection/connection.ts": `import { scripts } from "../scripts.ts";` },
      { "src/service/board/app.ts": `import { pool } from "../../worker/pool.ts";` },
      { "src/cli/terminal/text.ts": `import { ask } from "../verbs/ask.ts";` },
      { "src/cli/local/service.ts": `import { ask } from "../verbs/ask.ts";` },
      { "src/cli/verbs/ask.ts": `import { run } from "../program.ts";` },
    ],
    keeps: [
      {
        "src/shared/redis/scripts.ts": `import { a } from "../errors.ts"; import { b } from "../protocol/keys.ts";`,
      },
      { "src/worker/loop/next.ts": `import { ids } from "../../shared/protocol/ids.ts";` },
      {
        "src/cli/verbs/worker.ts": `import { a } from "../../worker/index.ts"; import { b } from "../../offline/server.ts";`,
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
      { "src/worker/run.ts": `import { createRequire } from "node:module";` },
      { "src/worker/run.ts": `import { createRequire } from "module";` },
      { "src/producer/parent.ts": `import { fork } from "node:child_process";` },
      { "src/producer/parent.ts": `import { Worker } from "node:worker_threads";` },
      { "src/worker/run.ts": `import { request } from "node:http";` },
      { "src/worker/run.ts": `import assert from "node:assert";` },
      { "src/worker/run.mts": `export type { Redis } from "ioredis";` },
      { "src/worker/run.ts": `import { Script } from "vm";` },
      { "src/worker/run.ts": `const code = await import("data:text/javascript,export default 1");` },
      { "src/worker/run.ts": `const got = await fetch("http://x");` },
      { "src/worker/run.ts": "const get = fetch;" },
      { "src/worker/run.ts": "const options = { fetch };" },
      { "src/worker/run.ts": `const socket = new WebSocket("ws://x");` },
      { "src/worker/run.ts": `const source = new EventSource("http://x");` },
    ],
    keeps: [
      {
        "src/shared/redis/connection.ts": `import { Redis } from "ioredis"; import { once } from "node:events";`,
      },
      { "src/worker/pool.ts": `import { Worker } from "bullmq";` },
      { "src/worker/model/anthropic/model.ts": `import Anthropic from "@anthropic-ai/sdk";` },
      { "src/shared/protocol/ids.ts": `import { z } from "zod"; import { createHash } from "node:crypto";` },
      { "src/service/agent-protocol/callback.ts": `await fetch("http://x");` },
      { "src/worker/run.ts": "type Get = typeof fetch; const f = (fetch: () => void) => fetch();" },
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
  "code comes in by import statements alone": {
    breaks: [
      { "src/a.ts": `import { createRequire } from "node:module";` },
      { "src/a.ts": `import module from "node:module";\nmodule.createRequire("x");` },
      { "src/a.ts": `const fs = process.getBuiltinModule("node:fs");` },
      { "src/a.ts": `import proc from "node:process";\nproc.getBuiltinModule("node:fs");` },
      { "src/a.ts": `const pool = require("./pool.ts");` },
      { "src/a.ts": `const here = import.meta.resolve("./pool.ts");` },
      { "src/a.ts": `const thread = new Worker(new URL("./pool.ts", import.meta.url));` },
      { "src/a.ts": "const here = import.meta.dirname;" },
      { "src/a.ts": `eval("1");` },
      { "src/a.ts": `const f = new Function("return process.env");` },
      { "src/a.ts": `(() => {}).constructor("return process")();` },
      { "src/a.ts": `(() => {})["constructor"]("return process")();` },
      { "src/a.ts": "const { constructor: Made } = () => {};" },
      { "src/a.ts": "const Made = Object.getPrototypeOf(async () => {}).constructor;" },
      { "src/a.ts": `Reflect.get(() => {}, "constructor");` },
      {
        "src/a.ts": `import { Worker } from "node:worker_threads";\nnew Worker("process.exit()", { eval: true });`,
      },
      { "src/a.ts": `import { Worker as Thread } from "node:worker_threads";\nnew Thread(text);` },
      { "src/a.ts": `import * as threads from "node:worker_threads";\nconst make = [threads.Worker];` },
    ],
    keeps: [
      { "src/shared/package.ts": `const url = new URL("../../package.json", import.meta.url);` },
      { "src/a.ts": "const require = (name: string) => name; require('x'); type F = Function;" },
      { "src/a.ts": `const b = await import("./b.ts");` },
      { "src/a.ts": "class A { constructor() {} }" },
      {
        "src/shared/package.ts": `import { Worker } from "node:worker_threads"; new Worker(new URL("./a.js", import.meta.url)); let w: Worker;`,
      },
    ],
  },
  "only the package's doors re-export": {
    breaks: [
      {
        "src/worker/run.ts": `import { a } from "./claim.ts"; export default a;`,
        "src/worker/claim.ts": "export const a = 1;",
      },
      { "src/shared/redis/connection.ts": `export { Redis } from "ioredis";` },
      { "src/shared/redis/connection.ts": `export * from "ioredis";` },
      { "src/shared/redis/connection.ts": `import { Redis } from "ioredis";\nexport { Redis };` },
      {
        "src/shared/redis/connection.ts": `import { Redis } from "ioredis";\nexport const Connection = Redis;`,
      },
      {
        "src/shared/redis/connection.ts": `import type { Redis } from "ioredis";\nexport type Connection = Redis;`,
      },
      { "src/a.ts": `export { b } from "./b.ts";`, "src/b.ts": "export const b = 1;" },
    ],
    keeps: [
      { "src/index.ts": `export { b } from "./b.ts";`, "src/b.ts": "export const b = 1;" },
      { "src/a.ts": `import { Redis } from "ioredis"; export const open = () => new Redis();` },
      {
        "src/a.ts":
          "const a = 1; export { a }; export const b = a; export type C = string; export type D = C;",
      },
    ],
  },
  "what is exported has a name": {
    breaks: [
      { "src/a.ts": "export default function f() {}" },
      { "src/a.ts": "export default class {}" },
      { "src/a.ts": "const a = 1;\nexport default a;" },
      { "src/a.ts": "const a = 1;\nexport { a as default };" },
      { "src/index.ts": `export * from "./b.ts";`, "src/b.ts": "export const b = 1;" },
    ],
    keeps: [
      { "src/a.ts": "export function f(a: number) { switch (a) { default: return { default: 1 }; } }" },
      { "src/index.ts": `export * as b from "./b.ts";`, "src/b.ts": "export const b = 1;" },
    ],
  },
  "an entry exports every type that its exports name": {
    breaks: [
      { "src/index.ts": "interface Hidden { a: 1 }\nexport const f = <T extends Hidden>(t: T) => t;" },
      { "src/offline/server.ts": "interface Inside { a: 1 } export interface Outside { inside: Inside }" },
      {
        "src/index.ts": `export { type A } from "./producer/a.ts";`,
        "src/producer/a.ts": `interface B { b: 1 } export interface A { b: B[] }`,
      },
      {
        "src/index.ts": `export { a } from "./producer/a.ts";`,
        "src/producer/a.ts": `export interface B { b: 1 } export function a(b: B): void {}`,
      },
      {
        "src/worker/index.ts": `export { A } from "./a.ts";`,
        "src/worker/a.ts": `class B {} export class A extends B { private c = new B(); }`,
      },
      {
        "src/worker/index.ts": `export { a } from "./a.ts";`,
        "src/worker/a.ts": `import type { B } from "./b.ts"; export const a: B = { b: 1 };`,
        "src/worker/b.ts": `export interface B { b: 1 }`,
      },
      {
        "src/index.ts": `export { a } from "./producer/a.ts";`,
        "src/producer/a.ts": `interface B { b: 1 } function b(): B { return { b: 1 }; } export const a = b();`,
      },
      {
        "src/index.ts": `export { a } from "./producer/a.ts";`,
        "src/producer/a.ts": `interface B { b: 1 } export const a = (b: B[]): void => {};`,
      },
      {
        "src/index.ts": `export { a } from "./producer/a.ts";`,
        "src/producer/a.ts": `interface B { b: 1 } const b: B = { b: 1 }; export function a() { return Promise.resolve([b]); }`,
      },
      {
        "src/index.ts": `export { A } from "./producer/a.ts";`,
        "src/producer/a.ts": `type B = { b: 1 }; const b: B = { b: 1 }; export class A { at() { return { b }; } }`,
      },
      {
        "src/index.ts": `export { A } from "./producer/a.ts";`,
        "src/producer/a.ts": `class B { #b = 1; } export class A { b = new B(); }`,
      },
      {
        "src/offline/server.ts":
          "interface B { b: 1 } const b: B = { b: 1 }; export const a = new Map([[1, b]]);",
      },
      {
        "src/index.ts": `export { a } from "./producer/a.ts";`,
        "src/producer/a.ts": `interface B { b: 1 } const b: B = { b: 1 }; export const a: typeof b = { b: 1 };`,
      },
    ],
    keeps: [
      {
        "src/index.ts": `export { type A, type B, c } from "./producer/a.ts";`,
        "src/producer/a.ts": `export interface B { b: 1 } export interface A<T> { b: B; t: T } export const c = () => { type D = 1; const d: D = 1; return d; }`,
      },
      {
        "src/index.ts": `export { A } from "./producer/a.ts";`,
        "src/producer/a.ts": `interface B { b: 1 } export class A { #b: B = { b: 1 }; private c: B = this.#b; }`,
      },
      {
        "src/index.ts": `export { type B, a, C, d } from "./producer/a.ts";`,
        "src/producer/a.ts": `export interface B { b: 1 } interface D { d: 1 } const b: B = { b: 1 }; const d0: D = { d: 1 }; export const a = [b]; export class C { b = b; #d = d0; private e = d0; } export function d<T>(t: T) { return { t, n: d0.d }; }`,
      },
    ],
  },
  "nothing has the type any": {
    breaks: [
      { "src/a.ts": "const a: Array<any> = [];" },
      { "src/a.ts": "const a = b as any;" },
      { "src/a.ts": "const a = JSON.parse('1');" },
      { "src/a.ts": "const { a } = JSON.parse('{}');" },
      { "src/a.mts": "const a: any = 1;" },
    ],
    keeps: [
      { "src/a.ts": "const a: unknown = JSON.parse('1'); const b = missing;" },
      { "src/a.ts": `const any: unknown = "any"; // any` },
    ],
  },
  "nothing is cast from unknown": {
    breaks: [
      { "src/worker/run.ts": "export const f = (given: object) => given as { a: string };" },
      { "src/a.ts": "const a: unknown = 1; const b = 2;\nconst c = a as string;" },
      { "src/a.ts": "function f(a: unknown) { return <string>a; }" },
      { "src/a.ts": "interface A { b: 1 }\nconst a = JSON.parse('1') as A;" },
      { "src/a.ts": "const key = (a: unknown): unknown => a;\nconst b = key(1) as string;" },
      { "src/a.ts": "const b = 1; const a = b as unknown as string;" },
      { "src/a.ts": "const b = 1; const a = (b as never) as string;" },
      { "src/a.ts": "const b = 1; const a = <string>(<unknown>b);" },
    ],
    keeps: [
      {
        "src/a.ts":
          "const b: string = ''; const a = b as unknown; const c = b as 'x'; const e = 'f' as const;",
      },
    ],
  },
  "what has the type any is taken as unknown": {
    breaks: [
      {
        "src/a.ts": "export const f = (text: string): Promise<number> => Promise.resolve(JSON.parse(text));",
      },
      { "src/a.ts": "interface A { b: 1 }\nconst a: A = JSON.parse('1');" },
      { "src/a.ts": "interface A { b: 1 }\nfunction f(text: string): A { return JSON.parse(text); }" },
      { "src/a.ts": "const f = (text: string) => JSON.parse(text);" },
      { "src/a.ts": "const f = (): { a: 1 } => ({ a: JSON.parse('1') });" },
      { "src/a.ts": "const f = (a: string) => a;\nf(JSON.parse('1'));" },
      { "src/a.ts": "const a = String(JSON.parse('1').a);" },
      { "src/a.ts": "for (const a of JSON.parse('[]')) {}" },
      { "src/a.ts": "const { parse } = JSON;" },
      { "src/a.ts": "const f: (text: string) => { a: 1 } = JSON.parse;" },
      { "src/a.ts": "const a: string[] = ['1'].map(JSON.parse);" },
      { "src/a.ts": "const a: string[] = ['1'].map((text) => JSON.parse(text));" },
      { "src/a.ts": "const a: Promise<string> = Promise.resolve('1').then((text) => JSON.parse(text));" },
      { "src/a.ts": "const a: string = Reflect.get({}, 'a');" },
      { "src/a.ts": "const f = async (): Promise<any> => 1;\nconst a: string = await f();" },
      { "src/a.ts": "class A { b: string = JSON.parse('1'); }" },
      { "src/a.ts": "let a: string;\na = JSON.parse('1');" },
    ],
    keeps: [
      {
        "src/a.ts":
          "const a: unknown = JSON.parse('1'); const b = String(JSON.parse('1')); const c = typeof Reflect.get({}, 'a'); let d: unknown; d = JSON.parse('1'); JSON.parse('1');",
      },
      { "src/a.ts": `import { z } from "zod"; const a = z.string().parse(JSON.parse("1"));` },
      { "src/a.ts": "function f(text: string): unknown { return text ? JSON.parse(text) : 1; }" },
    ],
  },
  "no comment silences the compiler": {
    breaks: [
      { "src/a.ts": "// @ts-ignore\nconst a = 1;" },
      { "src/a.ts": "/* @ts-expect-error later */\nconst a = 1;" },
      { "src/a.ts": "// @ts-nocheck\n" },
    ],
    keeps: [{ "src/a.ts": `const a = "@ts-ignore"; // ts-ignore is refused` }],
  },
  "no bare error is made": {
    breaks: [
      { "src/a.ts": `throw new Error("x");` },
      { "src/a.ts": `throw Error("x");` },
      { "src/a.ts": `throw new TypeError("x");` },
      { "src/a.ts": `const kept = new RangeError("y");` },
      { "src/a.ts": `const Renamed = SyntaxError;` },
      { "src/a.ts": `Promise.reject(new AggregateError([]));` },
      { "src/a.ts": `class Own extends Error {}` },
      { "src/a.ts": `throw "x";` },
      { "src/a.ts": "throw { code: 1 };" },
    ],
    keeps: [
      { "src/a.ts": `import { QueueError } from "./b.ts"; throw new QueueError("x");` },
      { "src/a.ts": "function f(a: unknown, b: Error) { if (a instanceof TypeError) throw a; throw b; }" },
      { "src/shared/errors.ts": "export class QueueError extends Error {}" },
    ],
  },
  "no file has more than 400 lines": {
    breaks: [{ "src/a.ts": "export {};\n".repeat(401) }],
    keeps: [{ "src/a.ts": "export {};\n".repeat(400) }],
  },
  "the doctor and the offline rules stay small": {
    breaks: [
      {
        "src/offline/rules/a.ts": "export {};\n".repeat(150),
        "src/offline/rules/b.ts": "export {};\n".repeat(151),
      },
      {
        "src/cli/doctor/a.ts": "export {};\n".repeat(400),
        "src/cli/doctor/b.ts": "export {};\n".repeat(400),
        "src/cli/doctor/c.ts": "export {};\n".repeat(400),
        "src/cli/doctor/d.ts": "export {};\n".repeat(101),
      },
    ],
    keeps: [
      {
        "src/offline/a.ts": "export {};\n".repeat(100),
        "src/offline/rules/a.ts": "export {};\n".repeat(150),
        "src/offline/rules/b.ts": "export {};\n".repeat(150),
      },
    ],
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
      { "src/a.ts": `import proc from "node:process";\nconst a = proc.env;` },
      { "src/a.ts": `import * as proc from "node:process";\nconst a = proc.env;` },
      { "src/a.ts": `import { env as surroundings } from "process";` },
      { "src/a.ts": "const p = process;\nconst a = p.env;" },
      { "src/a.mts": "const a = process.env.HOME;" },
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
      { "src/a.ts": "const Today = Date;" },
      { "src/a.ts": "const { now } = { now: Date.now };" },
      { "src/a.ts": "const timers = { setInterval };" },
      { "src/a.ts": `import timers from "node:timers";\ntimers.setTimeout(() => {}, 1);` },
      { "src/a.ts": `import { scheduler } from "node:timers/promises";` },
      {
        "src/a.ts": `import * as timers from "node:timers";\nconst all = timers;\nall["setInterval"](f, 1);`,
      },
      {
        "src/a.ts": `import { now } from "./b.ts";\nconst f = () => { const { now } = Date; return now(); }; now();`,
        "src/b.ts": "export function now() {}",
      },
    ],
    keeps: [
      {
        "src/a.ts": `import { now, setTimeout } from "./b.ts";\nsetTimeout(); const Date = { now }; Date.now();`,
        "src/b.ts": "export function setTimeout() {} export const now = () => 1;",
      },
      { "src/shared/clock.ts": "setTimeout(() => Date.now(), 1);" },
      { "src/offline/server.ts": "setTimeout(() => new Date(), 1);" },
      { "src/a.ts": "const a = new Date(1); clock.setTimeout(f); clearTimeout(t); const b: Date = a;" },
      { "src/a.ts": "interface Clock { setTimeout(f: () => void): void; performance: number }" },
      { "src/a.ts": "function f(setTimeout: () => void) { setTimeout(); }" },
      { "src/a.ts": "type Timer = ReturnType<typeof setTimeout>; const a = Date.parse('x');" },
    ],
  },
  "one file composes an installation": {
    breaks: [
      {
        "src/shared/protocol/keys.ts": KEYS,
        "src/cli/a.ts": `import { keysUnder } from "../shared/protocol/keys.ts"; keysUnder("saq");`,
      },
      {
        "src/shared/protocol/keys.ts": KEYS,
        "src/cli/a.ts": `import { keysUnder as named } from "../shared/protocol/keys.ts"; const keys = named();`,
      },
    ],
    keeps: [
      {
        "src/shared/protocol/keys.ts": KEYS,
        "src/shared/redis/installation.ts": `import { keysUnder } from "../protocol/keys.ts"; export const a = keysUnder("saq");`,
        "src/cli/a.ts": `import { a } from "../shared/redis/installation.ts"; a;`,
      },
    ],
  },
  "chance is a parameter": {
    breaks: [
      { "src/a.ts": "const a = Math.random();" },
      { "src/a.ts": "const random = Math.random;" },
      { "src/a.ts": `const a = Math["random"]();` },
      { "src/a.ts": "const { random } = Math;" },
      { "src/a.ts": "const { random: chance } = Math;" },
      { "src/a.ts": "function f(random = Math.random()) {}" },
    ],
    keeps: [
      { "src/a.ts": "function f(random = Math.random) { return random(); }" },
      { "src/a.ts": "const { random = Math.random } = options;" },
    ],
  },
  "the loop is pure": {
    breaks: [
      { "src/worker/loop/next.ts": `fetch("http://x");` },
      { "src/worker/loop/next.ts": "const a = Math.random();" },
      { "src/worker/loop/next.ts": "function f(random = Math.random) {}" },
      { "src/worker/loop/next.ts": "const { random } = Math;" },
      { "src/worker/loop/next.ts": "const a = Date.now();" },
      { "src/worker/loop/next.ts": "const a = new Date(1);" },
      { "src/worker/loop/next.ts": "const a = process.pid;" },
      { "src/worker/loop/next.ts": "queueMicrotask(f);" },
      { "src/worker/loop/next.ts": "const a = crypto.randomUUID();" },
      { "src/worker/loop/next.ts": "const f = async () => {\n  await g();\n};" },
      { "src/worker/loop/next.ts": "let calls = 0;" },
      { "src/worker/loop/next.ts": "export let calls = 0;" },
      { "src/worker/loop/next.ts": "const a = { fetch };" },
      { "src/worker/loop/next.ts": "const a = new AbortController();" },
      { "src/worker/loop/next.mts": "const a = performance.now();" },
      { "src/worker/loop/next.ts": "const a = Intl.DateTimeFormat().format();" },
      { "src/worker/loop/next.ts": `import { randomInt } from "node:crypto";` },
      {
        "src/worker/loop/next.ts": `import { newUid } from "../../shared/protocol/ids.ts";\nexport const f = () => newUid();`,
        "src/shared/protocol/ids.ts": `import { randomBytes } from "node:crypto"; export function newUid() { return randomBytes(9); }`,
      },
      {
        "src/worker/loop/next.ts": `import { a } from "../../shared/protocol/a.ts";\nexport const f = () => a();`,
        "src/shared/protocol/a.ts": `import { b } from "./b.ts"; export const a = () => b.c();`,
        "src/shared/protocol/b.ts": "class B { c() { return Date.now(); } } export const b = new B();",
      },
      {
        "src/worker/loop/next.ts": `import * as all from "../../shared/protocol/a.ts";\nconst b = () => all.a();`,
        "src/shared/protocol/a.ts": "export function a(random = Math.random) { return random(); }",
      },
      {
        "src/worker/loop/next.ts": `import { A } from "../../shared/protocol/a.ts";\nexport const f = () => A.at();`,
        "src/shared/protocol/a.ts": `export const A = { at: () => new Date() };`,
      },
      {
        "src/worker/loop/next.ts": `import { a } from "../../shared/protocol/a.ts";\nexport const f = () => a();`,
        "src/shared/protocol/a.ts": "let calls = 0; export const a = () => calls++;",
      },
      {
        "src/worker/loop/next.ts": `import { a } from "../../shared/protocol/a.ts";\nexport const f = () => a(1);`,
        "src/shared/protocol/a.ts":
          "const seen = new Set<number>(); export const a = (b: number) => seen.add(b).size;",
      },
      { "src/worker/loop/next.ts": "const seen = new Map<string, number>();" },
      { "src/worker/loop/next.ts": "const seen: Set<string> = new Set();" },
      { "src/worker/loop/next.ts": "const seen = new WeakSet();" },
      { "src/worker/loop/next.ts": "export const seen: string[] = [];" },
      { "src/worker/loop/next.ts": "const seen = { calls: 0 };" },
      { "src/worker/loop/next.ts": "const seen = { calls: { a: [1] } } as const satisfies object, b = [1];" },
      { "src/worker/loop/next.ts": "const seen: Record<string, number> = {};" },
      { "src/worker/loop/next.ts": "const seen: ReadonlyMap<string, string[]> = new Map();" },
      { "src/worker/loop/next.ts": "const count = (() => { let n = 0; return () => n++; })();" },
      { "src/worker/loop/next.ts": "class Tally { static calls = 0; }" },
      { "src/worker/loop/next.ts": "const place = /a/g;" },
      { "src/worker/loop/next.ts": "export function f() {}\nf.calls = 0;" },
      { "src/worker/loop/next.ts": "export function f() { Object.assign(f, { calls: 1 }); }" },
      {
        "src/worker/loop/next.ts": "export function f() { Object.defineProperty(f, 'calls', { value: 1 }); }",
      },
      {
        "src/worker/loop/next.ts": `import { S } from "../../shared/protocol/a.ts";\nexport const f = () => { S.n += 1; };`,
        "src/shared/protocol/a.ts": "export const S = { n: 0 };",
      },
      {
        "src/worker/loop/next.ts": `import { S } from "../../shared/protocol/a.ts";\nexport const f = () => ++S.of.n;`,
        "src/shared/protocol/a.ts": "export const S = { of: { n: 0 } };",
      },
      {
        "src/worker/loop/next.ts": `import { S } from "../../shared/protocol/a.ts";\nexport const f = () => delete S["n"];`,
        "src/shared/protocol/a.ts": "export const S: { n?: number } = { n: 0 };",
      },
      {
        "src/worker/loop/next.ts": `import { a } from "../../shared/protocol/a.ts";\nexport const f = () => a();`,
        "src/shared/protocol/a.ts": "const S = { n: 0 }; export const a = () => S.n++;",
      },
    ],
    keeps: [
      {
        "src/worker/loop/next.ts":
          "export function f(a: number[]) { let sum = 0; for (const b of a) sum += Math.max(b, 1); return sum; }",
      },
      {
        "src/worker/loop/next.ts":
          "const a: ReadonlyMap<number, string> = new Map([[1, JSON.stringify({})]]); const b = Buffer.byteLength('x');",
      },
      {
        "src/worker/loop/next.ts":
          "const a = { b: { c: [1] } } as const; const d: Readonly<Partial<Record<'a', readonly string[]>>> = {}; const e = /a/; const f = () => { const g = new Map(); const h = /a/g; return [g, h]; };",
      },
      {
        "src/worker/loop/next.ts": `import type { newUid } from "../../shared/protocol/a.ts"; import { A, b, type C } from "../../shared/protocol/a.ts"; const c = (clock: C) => b(clock.now()); type U = typeof newUid;`,
        "src/shared/protocol/a.ts":
          "export interface C { now(): number } export function newUid() { return Math.random(); } export class A {} export const b = (a: number) => Math.max(a, 1);",
      },
      { "src/worker/run/run.ts": `fetch("http://x");` },
    ],
  },
  "nothing ambient is handed on whole": {
    breaks: [
      { "src/a.ts": "const { env } = process;" },
      { "src/a.ts": "const p = process;" },
      { "src/a.ts": `Reflect.get(process, "env");` },
      { "src/a.ts": "const a = process[name];" },
      { "src/a.ts": "const a = { process };" },
      { "src/a.ts": `import proc from "node:process";\nexport { proc };` },
      { "src/a.ts": "const a = globalThis.process.pid;" },
      { "src/a.ts": "const a = global.process.pid;" },
    ],
    keeps: [
      { "src/a.ts": "const a = process.pid; const b: typeof process | undefined = undefined;" },
      { "src/a.ts": `import proc from "node:process"; const a = proc.pid; const b = proc["platform"];` },
    ],
  },
  "only the service handles signals": {
    breaks: [
      { "src/cli/main.ts": `process.on("SIGTERM", stop);` },
      { "src/worker/pool.ts": `process.once("SIGINT", stop);` },
      { "src/worker/pool.ts": "for (const signal of signals) process.once(signal, stop);" },
      { "src/worker/pool.ts": `import proc from "node:process";\nproc.prependListener("SIGHUP", stop);` },
      { "src/worker/pool.ts": "const listen = process.on;" },
    ],
    keeps: [
      { "src/cli/process.ts": `process.on("SIGTERM", stop);` },
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
  "only the command line owns the process": {
    breaks: [
      { "src/worker/run.ts": `process.stdout.write("x");` },
      { "src/worker/run.ts": "process.exit(1);" },
      { "src/worker/run.ts": "process.exitCode = 1;" },
      { "src/worker/run.ts": `import { argv } from "node:process";` },
      { "src/worker/run.ts": `import { stderr } from "node:process";\nconst a = 1;` },
    ],
    keeps: [
      { "src/cli/main.ts": "process.exit(1);" },
      { "src/worker/run.ts": "child.stdout.pipe(process.pid);" },
    ],
  },
  "Lua reads its input by name": {
    breaks: [
      { "src/a.lua": "return redis.call('GET', record)" },
      { "src/a.lua": "-- Reads.\nreturn redis.call('GET', KEYS[1])" },
      { "src/a.lua": "-- Reads.\nlocal given = ARGV\nreturn given[1]" },
      { "src/a.lua": "-- Reads.\nfor i = 2, #ARGV do f(i) end" },
      { "src/a.lua": "-- Reads.\nreturn unpack(KEYS)" },
      { "src/shared/redis/lua/include/age.lua": "-- Age.\nlocal age = ARGV[1]" },
    ],
    keeps: [
      {
        "src/a.lua":
          "-- Reads KEYS[1].\nlocal a = 'KEYS[9]' -- ARGV[9]\n--[[ KEYS[8]\n]]\nlocal b = [[ARGV[7]]]",
      },
      { "src/shared/redis/lua/include/base.lua": "-- Reads lists.\nlocal a = ARGV[at]" },
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
  "every file of src is read by the compiler or is Lua": {
    breaks: [{ "src/worker/run.js": "export {};" }, { "src/worker/run.cjs": "" }, { "src/data.json": "{}" }],
    keeps: [{ "src/worker/run.ts": "", "src/worker/run.mts": "", "src/shared/redis/lua/a.lua": "" }],
  },
};

/** Names that a reader has to be told, and names that explain themselves. */
const NAMES: Files = {
  "src/a.ts":
    "export const openValve = 1; export interface Agent { barren_deaths: 1; deaths: 2 } // nobody may\nconst look = 1;",
  "src/a.lua": "local live, looks_left = 1, 2\nlocal function mend_it() end\n-- a look\n-- What it says",
};

const REPOSITORY = join(import.meta.dirname, "../..");

/** All plays in one program, each in a directory of its own; packages are the repository's. */
const plays = [NAMES, ...RULE_NAMES.flatMap((rule) => [...PLAYS[rule].breaks, ...PLAYS[rule].keeps])];
const program = openPlays(
  Object.fromEntries(
    plays.flatMap((play, index) =>
      Object.entries(play).map(([path, text]) => [`${index}/${path}`, text] as const),
    ),
  ),
  { moduleDetection: "force" },
);
afterAll(() => program.close());

/**
 * Compiles these files, by their paths. They stand on the disk: the compiler would ask for files in memory one by one, thousands of times.
 */
function openPlays(files: Files, compilerOptions: object): OpenProgram {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "plays-")));
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    }
    symlinkSync(join(REPOSITORY, "node_modules"), join(root, "node_modules"));
    const compiled = Object.keys(files).filter((path) => /\.[cm]?ts$/.test(path));
    // Without a list of its own it would inherit the repository's, and compile all of that.
    const config = {
      extends: join(REPOSITORY, "tsconfig.json"),
      compilerOptions,
      files: compiled,
      include: [],
    };
    writeFileSync(join(root, "tsconfig.json"), JSON.stringify(config));
    return openProgram({ root, config: join(root, "tsconfig.json") });
  } finally {
    rmSync(root, { recursive: true });
  }
}

/** The tree of one play, with the paths that its files would have in the repository. */
function treeOf(files: Files): Tree {
  const folder = `${plays.indexOf(files)}/`;
  const own = (path: string) => path.slice(folder.length);
  const sources = program.sources.filter(({ path }) => path.startsWith(`${folder}src/`));
  const paths = Object.keys(files);
  return {
    sources: sources.map((source) => ({
      ...source,
      path: own(source.path),
      imports: source.imports.map((each) => {
        const { target } = each;
        return { ...each, target: target?.startsWith(folder) ? own(target) : target };
      }),
      meaningOf: (node) => {
        const meaning = source.meaningOf(node);
        return meaning?.home.startsWith(folder) ? { ...meaning, home: own(meaning.home) } : meaning;
      },
    })),
    lua: paths.filter((path) => path.endsWith(".lua")).map((path) => ({ path, text: files[path] ?? "" })),
    paths,
  };
}

describe.for(RULE_NAMES)("%s", (rule) => {
  test.for(PLAYS[rule].breaks)("is broken by example %$", (files) => {
    const violations = RULES[rule](treeOf(files));
    expect(
      new Set(violations.map(({ path, line }) => `${path}:${line}`)),
      JSON.stringify(files),
    ).toHaveProperty("size", 1);
    expect(Object.keys(files)).toContain(violations[0]?.path);
    expect(violations[0]?.line).toBeGreaterThanOrEqual(1);
  });

  test.for(PLAYS[rule].keeps)("is kept by example %$", (files) => {
    expect(RULES[rule](treeOf(files)), JSON.stringify(files)).toEqual([]);
  });
});

describe("the rules on names", () => {
  const { sources, lua } = treeOf(NAMES);

  test("find private words in exports, fields and Lua locals, and in nothing else", () => {
    const found = findPrivateWords(sources, lua, new Set()).map(({ message }) => message);
    expect(found).toEqual([
      'openValve: say "pause reasons"',
      'barren_deaths: say "crashes without progress"',
      'looks_left: say "checks"',
      'mend_it: say "repair"',
    ]);
    expect(findPrivateWords(sources, lua, new Set(PRIVATE_WORDS.keys()))).toEqual([]);
  });

  test("find a comment that hides who acts", () => {
    expect(findHiddenActors(sources, lua)).toHaveLength(1);
  });

  test("find a comment that begins with a question word", () => {
    expect(findNounlessComments(sources, lua)).toMatchObject([{ path: "src/a.lua", line: 4 }]);
  });

  test("find a file name outside of the glossary and the field's terms", () => {
    const paths = [
      "src/worker/turnstile.ts",
      "src/worker/pool.ts",
      "src/worker/run/claim-run.ts",
      "test/turnstile.ts",
    ];
    expect(findUnknownFileNames(paths, ["worker", "claim", "run"]).map(({ path }) => path)).toEqual([
      "src/worker/turnstile.ts",
    ]);
    expect(findUnknownFileNames(["src/worker/pool.ts"], [])).toHaveLength(1);
  });

  test("read no word where there is no glossary", () => {
    expect(glossaryOf("# A\n\n## States\n\n| word | meaning |\n")).toEqual([]);
    expect(
      glossaryOf("# A\n\n## Words\n\n| word | meaning |\n| --- | --- |\n| epoch | x |\n\n## B\n| no |"),
    ).toEqual(["epoch"]);
  });
});

test("a file that does not parse is an error and not a file without violations", () => {
  expect(() => openPlays({ "a.ts": "const = ;" }, { noLib: true, types: [] })).toThrow(SyntaxError);
});
