/** Guarantee: each option of a worker is taken within its form, and named with that form beyond it. */
import { expect, test } from "vitest";
import { z } from "zod";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { checkWorkerOptions, type WorkerOptions } from "../../../src/worker/worker-options.ts";

const model = { call: async () => ({ status: "aborted" as const }), stop: async () => {} };
const good = { redisUrl: "redis://127.0.0.1:6379", model, workspaceRoot: "/srv/workspaces" };
const tool = defineTool({ name: "look_up", description: "d", input: z.object({}), run: async () => "" });

const FORMS: { [K in keyof WorkerOptions]?: { takes: unknown[]; refuses: unknown[] } } = {
  admit: { takes: [() => {}], refuses: ["yes", {}, null] },
  tools: {
    takes: [[], [tool]],
    refuses: [
      [tool, 5],
      [tool, {}],
      [{ ...tool, run: undefined }],
      [{ ...tool, check: "yes" }],
      [{ ...tool, timeoutMs: 0 }],
      [{ ...tool, name: 5 }],
      [{ ...tool, inputSchema: undefined }],
    ],
  },
  roots: { takes: [[]], refuses: [[5], [{ path: "/a", realPath: "/a", mode: "ro" }, 5], {}] },
  hooks: { takes: [[]], refuses: [[null], 5, {}] },
  mcpServers: { takes: [{}], refuses: [5, "name"] },
  concurrency: { takes: [1, 5_000], refuses: [0, 5_001, 1.5, "3", Number.NaN] },
  drainGraceMs: { takes: [0, 0.5, 1e9], refuses: [-1, Number.POSITIVE_INFINITY, Number.NaN, "5"] },
  isolation: {
    takes: [{ file: "/usr/bin/worker", args: [] }],
    refuses: [{}, { file: 5 }, { file: "" }, "/usr/bin/worker", null, () => {}],
  },
  trace: { takes: ["off", "full"], refuses: ["on", true, ""] },
  random: { takes: [Math.random], refuses: [0.5, null] },
};
const cases = Object.entries(FORMS).flatMap(([name, { takes, refuses }]) => [
  ...takes.map((value) => [name, value, true] as const),
  ...refuses.map((value) => [name, value, false] as const),
]);

test.for(cases)("%s: %o is within its form: %s", ([name, value, isTaken]) => {
  const check = () => checkWorkerOptions({ ...good, [name]: value } as WorkerOptions);
  if (isTaken) expect(check).not.toThrow();
  else expect(check).toThrow(new RegExp(`^The worker.*\\b${name}`, "s"));
});

test("a Redis address of another form is refused before anything is opened", () => {
  expect(() => checkWorkerOptions({ ...good, redisUrl: "http://127.0.0.1:6379" })).toThrow(/redis/);
});
