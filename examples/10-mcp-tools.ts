/** Tools of an MCP server: here the reference file server from npm, for one directory and an agent that may only read. */
import { join } from "node:path";
import { createParent } from "subagent-queue";
import { SAMPLE, setUp } from "./setup.ts";

const server = join(
  import.meta.dirname,
  "../node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
);
const read = "mcp__files__read_text_file";
const { client, parentId, stop } = await setUp({
  mcpServers: { files: { command: process.execPath, args: [server, SAMPLE] } },
  // The offline model's rules know no MCP tools.
  offline: {
    turns: [
      { content: [{ type: "tool_use", name: read, input: { path: `${SAMPLE}/package.json` } }] },
      { content: [{ type: "text", text: "The manifest says:\n{{last_tool_result}}" }] },
    ],
  },
});
const parent = createParent({ client, parentId });

const { status, summary, tools_called } = await parent.task({
  prompt: `What does ${SAMPLE}/package.json say?`,
  tools: [read],
});
console.log(status, tools_called);
console.log(summary);

await parent.stop();
await stop();
