import { expect, test } from "vitest";
import { z } from "zod";
import { createLogger } from "../../../../src/shared/logger.ts";
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

const log: string[] = [];
const logger = createLogger({ destination: { write: (line) => void log.push(line) } });
const own = { roots: [], permissions: [], skills: undefined, prices: {}, logger };

test("agents of one specification share one kind, and a tool that becomes known to the worker makes it anew", () => {
  let later = [toolNamed("other")];
  const toolbox = createToolbox([toolNamed("early")], () => later);
  const kinds = new SpecCache({ ...own, toolbox });
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
  const kinds = new SpecCache({ ...own, toolbox, permissions });
  const allow = { allow: ["early"] };
  expect(kinds.of({ ...spec, permissions: [allow] }).rules.permissions).toEqual([...permissions, allow]);
});

test("a rule for a tool that the worker does not have is told once a specification: it may be misspelt", () => {
  log.length = 0;
  const kinds = new SpecCache({ ...own, toolbox: createToolbox([toolNamed("early")]) });
  const usual = ["early", "Write(docs/**)", "Bash(git *)", "Task", "mcp__github__*", "mcp__github", "*"];
  kinds.of({ ...spec, permissions: [{ allow: usual, deny: usual, ask: usual }] });
  expect(log).toEqual([]);
  const misspelt = { ...spec, permissions: [{ deny: ["Wirte(**)"], ask: ["erly"] }, { allow: ["erly(x)"] }] };
  for (let i = 0; i < 3; i++) kinds.of(misspelt);
  expect(log.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({ level: 40, tools: ["Wirte", "erly"] }),
  ]);
});
