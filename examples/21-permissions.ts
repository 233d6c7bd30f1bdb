/** Permissions and hooks: tool calls that are denied, calls that wait for the parent, and your own code for each call. */
import { createParent, isPermissionQuestion } from "subagent-queue";
import type { Hook } from "subagent-queue/worker";
import { setUp } from "./setup.ts";

const audit: Hook = {
  name: "audit",
  preToolUse({ tool, input }) {
    console.log(`audit: ${tool} ${JSON.stringify(input)}`);
    return undefined;
  },
  postToolUse: ({ content }) => (content.includes("secret") ? { block: "it holds a secret" } : undefined),
};
const write = (file_path: string) => ({
  type: "tool_use" as const,
  name: "write_file",
  input: { file_path, content: "# Notes" },
});
const { client, parentId, stop } = await setUp({
  worker: { hooks: [audit] },
  offline: {
    match: { user: "Take notes" },
    turns: [
      { content: [write("notes.md"), write("README.md"), write(".github/ci.yml")] },
      { content: [{ type: "text", text: "One note was taken." }] },
    ],
  },
});
const parent = createParent({
  client,
  parentId,
  permissions: {
    allow: ["Write(*.md)"],
    ask: ["Write(README.md)"],
    // Two tools write files: a rule for one does not bind the other.
    deny: ["Write(.github/**)", "Edit(.github/**)"],
  },
});
// The call waits, without a worker, until `onQuestion` answers: "allow" lets it begin, any other text is the reason against it.
const reply = await parent.task({
  prompt: "Take notes",
  onQuestion(question) {
    console.log(`question: ${question.text.split("\n")[0]} (${isPermissionQuestion(question)})`);
    return "leave the README alone";
  },
});
console.log(`${reply.status}: ${reply.summary}`);

await parent.stop();
await stop();
