/** The names under which tools are asked for: ours, and those that the ecosystem writes (`Read`, `Grep`, `Bash`). */
import { z } from "zod";

/** The common names and ours. No tool can have a common name: those of tools begin with a small letter. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ["Read", "read_file"],
  ["Write", "write_file"],
  ["Edit", "edit_file"],
  ["MultiEdit", "edit_file"],
  ["Glob", "glob"],
  ["LS", "glob"],
  ["Grep", "grep"],
  ["Bash", "bash"],
  ["Skill", "skill"],
  ["AskUserQuestion", "ask_parent"],
  ["Task", "task"],
  ["Agent", "agent"],
  ["AgentTool", "agent"],
]);

/** The name of the tool that loads skills. */
export const SKILL_TOOL = "skill";

/** The names a sub-agent never gets: there is no nesting. */
export const SPAWNING_TOOLS: readonly string[] = [
  "agent",
  "destroy_sub_agent",
  "list_sub_agents",
  "spawn_sub_agent",
  "task",
];

/** Finds tools that are too many to be listed. */
export const FIND_TOOLS = "find_tools";
/** Calls a tool that {@link FIND_TOOLS} found. */
export const USE_TOOL = "use_tool";

/** The tool and input that a model's call means: of {@link USE_TOOL} those that it names. */
export function calledTool(name: string, input: unknown): { name: string; input: unknown } {
  if (name !== USE_TOOL || typeof input !== "object" || input === null) return { name, input };
  if (!("name" in input) || typeof input.name !== "string" || !input.name.startsWith(MCP))
    return { name, input };
  return { name: input.name, input: "input" in input ? input.input : {} };
}

const MCP = "mcp__";
/** How the ecosystem writes all tools of an MCP server; `mcp__<server>` alone means the same. */
const WHOLE_SERVER = /(?<=^mcp__.*)__\*$/;

/** The name that stands for every tool of the MCP server which the tool `name` is of; undefined for other tools. */
export function mcpServerOf(name: string): string | undefined {
  const end = name.startsWith(MCP) ? name.indexOf("__", MCP.length) : -1;
  return end < 0 ? undefined : name.slice(0, end);
}

/** The name by which workers know the tool `name`. */
export function toolNameOf(name: string): string {
  return ALIASES.get(name) ?? name;
}

const MAX_TOOLS = 256;

/** A list of tools, at most 256, by our names or the common ones; duplicates are dropped. */
export const ToolNames = z
  .array(
    z
      .string()
      .trim()
      .min(1, "a tool's name is empty")
      .max(128)
      .transform((name) => toolNameOf(name).replace(WHOLE_SERVER, "")),
  )
  .max(MAX_TOOLS)
  .transform((names) => [...new Set(names)]);
