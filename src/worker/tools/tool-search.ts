/**
 * Search among many tools: the model lists only `find_tools`, which finds tools, and `use_tool`, which calls them.
 * A call by `use_tool` counts as a call of the tool that it names: for limits, counters and all else.
 */

import { z } from "zod";
import { FIND_TOOLS, USE_TOOL } from "../../shared/protocol/permissions.ts";
import { clip } from "../../shared/protocol/text.ts";
import type { Tool } from "./tool.ts";
import { defineTool } from "./tool.ts";

/** Highest number of MCP tools that are listed one by one. */
const MOST_LISTED = 30;
const MOST_FOUND = 10;
const MAX_FOUND_CHARS = 20_000;

/** Returns the callable tools of a run: `tools`, plus `find_tools` and `use_tool` if their servers have too many to list. */
export function withFinding(tools: readonly Tool[]): readonly Tool[] {
  const hidden = tools.filter(({ server }) => server !== undefined);
  return hidden.length <= MOST_LISTED ? tools : [...tools, findTools(hidden), useTool()];
}

/** Returns the callable tools that are listed for the model. */
export function listedOf(callable: readonly Tool[]): readonly Tool[] {
  const isSearched = callable.some(({ name }) => name === FIND_TOOLS);
  return isSearched ? callable.filter(({ server }) => server === undefined) : callable;
}

function findTools(hidden: readonly Tool[]): Tool {
  const servers = [...new Set(hidden.map(({ name }) => name.split("__")[1]))].join(", ");
  return defineTool({
    name: FIND_TOOLS,
    description: `Finds tools among ${hidden.length} of these servers: ${servers}. Answers with their names, descriptions and input schemas; call them with ${USE_TOOL}.`,
    input: z.object({ query: z.string().max(500).describe("Words for what the tool should do") }),
    idempotent: true,
    usesWorkspace: false,
    async run({ query }) {
      const words = query
        .toLowerCase()
        .split(/[^\p{L}\p{M}\p{N}]+/u)
        .filter(Boolean)
        .slice(0, 20);
      const ranked = hidden
        .map((tool) => ({ tool, score: scoreOf(tool, words) }))
        .filter(({ score }) => score > 0)
        .sort((a, b) => b.score - a.score);
      if (ranked.length === 0) return `No tool fits. There are: ${namesOf(hidden)}`;
      let text = "";
      const leftOut: Tool[] = [];
      for (const { tool } of ranked.slice(0, MOST_FOUND)) {
        const { name, description, inputSchema } = tool;
        const entry = `${name}: ${description}\ninput_schema: ${JSON.stringify(inputSchema)}\n\n`;
        if (text.length + entry.length > MAX_FOUND_CHARS) leftOut.push(tool);
        else text += entry;
      }
      if (leftOut.length > 0) text += `Left out, for their descriptions are too long: ${namesOf(leftOut)}.\n`;
      const lower = ranked.slice(MOST_FOUND).map(({ tool }) => tool);
      if (lower.length > 0)
        text += `${lower.length} more have such words, ask with others to see them: ${namesOf(lower)}.`;
      return text.trim();
    },
  });
}

/** Scores a tool: words in its name count more than words in its description. */
function scoreOf({ name, description }: Tool, words: readonly string[]): number {
  const [inName, inDescription] = [name.toLowerCase(), description.toLowerCase()];
  return words.reduce(
    (sum, word) => sum + (inName.includes(word) ? 3 : inDescription.includes(word) ? 1 : 0),
    0,
  );
}

function namesOf(tools: readonly Tool[]): string {
  return clip(tools.map(({ name }) => name).join(", "), MAX_FOUND_CHARS);
}

/** `use_tool` itself never runs: the loop reads its calls as calls of the tool that they name. */
function useTool(): Tool {
  return defineTool({
    name: USE_TOOL,
    description: `Calls a tool that ${FIND_TOOLS} found.`,
    input: z.object({
      name: z.string().describe(`As ${FIND_TOOLS} wrote it`),
      input: z.record(z.string(), z.unknown()).describe("Its input, after its schema"),
    }),
    usesWorkspace: false,
    run: async () => "Name a tool and give its input.",
  });
}
