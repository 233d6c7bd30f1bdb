import { expect, test } from "vitest";
import { z } from "zod";
import { type AgentSpec, PAYLOAD_VERSION } from "../../../../src/shared/protocol/agent.ts";
import { SPAWN_LIMITS } from "../../../../src/shared/protocol/limits.ts";
import { SpecCache } from "../../../../src/worker/run/spec-cache.ts";
import { createToolbox } from "../../../../src/worker/tools/registry.ts";
import { defineTool } from "../../../../src/worker/tools/tool.ts";

const spec: AgentSpec = {
  v: PAYLOAD_VERSION,
  model: "offline-1",
  limits: SPAWN_LIMITS,
  keep_alive: false,
  idle_ms: 600_000,
  tools: ["early", "late"],
};

const toolNamed = (name: string) =>
  defineTool({ name, description: "Says its name.", input: z.object({}), run: async () => name });

test("agents of one specification share one kind, and a tool that becomes known to the worker makes it anew", () => {
  let later = [toolNamed("other")];
  const toolbox = createToolbox([toolNamed("early")], () => later);
  const kinds = new SpecCache({ toolbox, roots: [], permissions: [], skills: undefined, prices: {} });
  const before = kinds.of(spec);
  expect(kinds.of(spec)).toBe(before);
  expect(kinds.of({ ...spec })).not.toBe(before);
  expect([before.toolNames, before.rules.unknownTools]).toEqual([["early"], ["late"]]);
  later = [toolNamed("late")];
  const after = kinds.of(spec);
  expect([after.toolNames, after.rules.unknownTools]).toEqual([["early", "late"], []]);
  expect(after.requestHead).toContain('"late"');
  expect(before.requestHead).not.toContain('"late"');
});

test("the worker's rules stand before those of the specification", () => {
  const permissions = [{ deny: ["early"] }];
  const toolbox = createToolbox([toolNamed("early")]);
  const kinds = new SpecCache({ toolbox, roots: [], permissions, skills: undefined, prices: {} });
  const own = { allow: ["early"] };
  expect(kinds.of({ ...spec, permissions: [own] }).rules.permissions).toEqual([...permissions, own]);
});
