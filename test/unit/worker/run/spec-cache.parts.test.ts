/** Guarantee: an agent is offered, told and asked for exactly what its specification and its worker allow. */
import { expect, test } from "vitest";
import { z } from "zod";
import { createLogger } from "../../../../src/shared/logger.ts";
import { type AgentSpec, PAYLOAD_VERSION } from "../../../../src/shared/protocol/agent.ts";
import { SPAWN_LIMITS } from "../../../../src/shared/protocol/limits.ts";
import { ASK_TOOL } from "../../../../src/shared/protocol/message.ts";
import { SKILL_TOOL } from "../../../../src/shared/protocol/permissions.ts";
import { SpecCache, type SpecSources } from "../../../../src/worker/run/spec-cache.ts";
import type { SkillLibrary } from "../../../../src/worker/skills/library.ts";
import { skillToolFor } from "../../../../src/worker/skills/skill-tool.ts";
import { createToolbox } from "../../../../src/worker/tools/registry.ts";
import { defineTool, type Tool } from "../../../../src/worker/tools/tool.ts";

const spec: AgentSpec = {
  v: PAYLOAD_VERSION,
  model: "offline-1",
  limits: SPAWN_LIMITS,
  keep_alive: false,
  idle_ms: 600_000,
};

const toolNamed = (name: string) =>
  defineTool({ name, description: "Says its name.", input: z.object({}), run: async () => name });
const library: SkillLibrary = {
  skills: ["pdf", "sql"].map((name) => ({ name, description: `For ${name}.`, files: [] })),
  problems: [],
  read: async (name) => `How to use ${name}.`,
};

/** Prepares a specification in a worker with these tools and the skills pdf and sql. */
function prepared(more: Partial<AgentSpec>, tools: readonly Tool[] = [], over: Partial<SpecSources> = {}) {
  const toolbox = createToolbox([...tools, ...skillToolFor(library, undefined)]);
  const logger = createLogger({ level: "silent" });
  const sources = { toolbox, roots: [], permissions: [], skills: library, prices: {}, logger, ...over };
  return new SpecCache(sources).of({ ...spec, ...more });
}

test("the tools of a server that the agent must not use are left out, whatever their names", () => {
  const served = { ...toolNamed("mcp__git__log"), server: "mcp__git" };
  const names = (disallowed_tools: string[]) =>
    prepared({ disallowed_tools, tools: ["plain", "mcp__git__log"] }, [toolNamed("plain"), served]).toolNames;
  expect(names([])).toEqual(["mcp__git__log", "plain"]);
  expect(names(["mcp__git"])).toEqual(["plain"]);
  expect(names(["plain"])).toEqual(["mcp__git__log"]);
});

test("an agent with named skills is listed those, and has the tool that loads them beside its allowlist", () => {
  const { toolNames, requestHead } = prepared({ tools: ["plain"], skills: ["pdf"] }, [toolNamed("plain")]);
  expect(toolNames).toEqual(["plain", SKILL_TOOL]);
  expect(requestHead).toContain("- pdf: For pdf.");
  expect(requestHead).not.toContain("sql");
});

test("an agent that cannot load a skill is told of none", () => {
  const { toolNames, requestHead } = prepared({ tools: ["plain"] }, [toolNamed("plain")]);
  expect(toolNames).toEqual(["plain"]);
  expect(requestHead).not.toContain("For pdf.");
});

test("a parent with an answer time can be asked to permit a call, also where the agent asks no questions", () => {
  const asks = (more: Partial<AgentSpec>) => {
    const { rules } = prepared({ tools: ["plain"], ...more }, [toolNamed("plain"), toolNamed(ASK_TOOL)]);
    return [rules.canAsk, rules.canBePermitted];
  };
  expect(asks({ answer_ms: 1_000 })).toEqual([false, true]);
  expect(asks({ answer_ms: 1_000, tools: ["plain", ASK_TOOL] })).toEqual([true, true]);
  expect(asks({ tools: ["plain", ASK_TOOL] })).toEqual([false, false]);
});

test("a directory is described as what the operator opened it for, and thresholds are the agent's own", () => {
  const roots = [
    { path: "/srv/repo", realPath: "/srv/repo", mode: "ro" as const },
    { path: "/srv/out", realPath: "/srv/out", mode: "rw" as const },
  ];
  const alerts = { turns: 3 };
  const { requestHead, rules } = prepared({ alerts }, [], { roots });
  expect(requestHead).toContain("/srv/repo (read-only), /srv/out (read-write)");
  expect(rules.alerts).toEqual(alerts);
});
