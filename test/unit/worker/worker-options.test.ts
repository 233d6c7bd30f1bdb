import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { requireWritable } from "../../../src/worker/tools/workspace.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { checkWorkerOptions } from "../../../src/worker/worker-options.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";

const model = { call: async () => ({ status: "aborted" as const }), stop: async () => {} };
const good = { redisUrl: "redis://127.0.0.1:6379", model, workspaceRoot: "/srv/workspaces" };

test("what is enough for a worker is accepted", () => {
  expect(() => checkWorkerOptions(good)).not.toThrow();
});

test.for([
  ["nothing at all", {}, ["model must be", "workspaceRoot must be", "redisUrl must be"]],
  [
    "a relative workspace root",
    { ...good, workspaceRoot: "work" },
    ["workspaceRoot must be the absolute path"],
  ],
  ["no concurrency", { ...good, concurrency: 0 }, ["concurrency must be a whole number from 1 to 5000"]],
  ["half a run", { ...good, concurrency: 1.5 }, ["concurrency must be"]],
  ["a misspelt option", { ...good, concurency: 3 }, ["concurency is no option"]],
  ["a negative grace", { ...good, drainGraceMs: -1 }, ["drainGraceMs must be"]],
  ["a logger that logs nothing", { ...good, logger: {} }, ["logger must be a logger", "child"]],
  ["a console as a logger", { ...good, logger: console }, ["logger must be a logger"]],
  [
    "a clock without time",
    { ...good, clock: {}, timing: { leaseMs: 1 } },
    ["clock must be", "timing must be"],
  ],
  [
    "lists that are none",
    { ...good, tools: 5, hooks: 5, roots: [5] },
    ["tools must", "hooks must", "roots must"],
  ],
  [
    "a hook that nothing calls",
    { ...good, hooks: [{ name: "guard", preToolCall: () => {} }] },
    ["hook guard needs one"],
  ],
  [
    "a hook without a name, and one whose function is none",
    { ...good, hooks: [{ preToolUse: () => {} }, { name: "guard", postToolUse: 5 }] },
    ["needs a name of 1 to 64 characters", "postToolUse of hook guard must be a function"],
  ],
  [
    "a hook that may take longer than ten minutes, and one without any time",
    {
      ...good,
      hooks: [
        { name: "patient", timeoutMs: 600_001, preToolUse: () => {} },
        { name: "hasty", timeoutMs: 0, preToolUse: () => {} },
      ],
    },
    [
      "the timeout of hook patient must be 1 to 600000 ms",
      "the timeout of hook hasty must be 1 to 600000 ms",
    ],
  ],
  [
    "a tool that is none",
    { ...good, tools: [{}] },
    ["tools must be a list of tools, each made with defineTool"],
  ],
  [
    "an MCP server without a command",
    { ...good, mcpServers: { a: {} } },
    ["mcpServers: a: needs command or url"],
  ],
  [
    "words of no meaning",
    { ...good, trace: "some", strict: "yes" },
    ["trace must be off or full", "strict must"],
  ],
] as const)("%s is refused, and everything that is wrong is named at once", ([, options, problems]) => {
  // biome-ignore lint/suspicious/noExplicitAny: what a caller without types would pass
  const make = () => createWorker(options as any);
  for (const problem of problems) expect(make).toThrow(problem);
  expect(make).toThrow(expect.objectContaining({ code: "invalid_config" }));
});

test.for([
  ["no key", {}],
  ["a blank key", { apiKey: " " }],
  ["an address without a scheme", { apiKey: "k", baseUrl: "localhost:1" }],
  ["an address under the name that the SDK has for it", { apiKey: "k", baseURL: "http://gateway" }],
  ["a time limit of none", { apiKey: "k", timeoutMs: 0 }],
  ["a silence that is no number", { apiKey: "k", idleTimeoutMs: "9" }],
  ["half a connection", { apiKey: "k", connections: 0.5 }],
  ["a clock without time", { apiKey: "k", clock: {} }],
] as const)("a model with %s is refused at once", ([, options]) => {
  // biome-ignore lint/suspicious/noExplicitAny: what a caller without types would pass
  expect(() => createAnthropicModel(options as any)).toThrow(
    expect.objectContaining({ code: "invalid_config" }),
  );
});

test("a worker says at its start that workspaces cannot be written, not run after run", async () => {
  const home = mkdtempSync(join(tmpdir(), "probe-"));
  closeAtEnd(() => rmSync(home, { recursive: true }));
  await expect(requireWritable(join(home, "a", "b"), systemClock)).resolves.toBeUndefined();
  await expect(requireWritable("/etc/passwd", systemClock)).rejects.toMatchObject({ code: "setup_failed" });
});

test("a worker that got no time itself while it looked does not blame the file system", async () => {
  const home = mkdtempSync(join(tmpdir(), "probe-"));
  closeAtEnd(() => rmSync(home, { recursive: true }));
  const clock = handClock();
  const looking = requireWritable(join(home, "a"), clock);
  clock.advance(60_000);
  await expect(looking).resolves.toBeUndefined();
});
