/** Skills: folders with a SKILL.md. The model gets their names and loads one if it fits; a parent narrows them like tools. */
import { join } from "node:path";
import { createParent } from "subagent-queue";
import { openSkills } from "subagent-queue/worker";
import { setUp } from "./setup.ts";

const skills = await openSkills([join(import.meta.dirname, "skills")]);
for (const { name, description, files } of skills.skills) console.log(`${name}: ${description} (${files})`);

const use = (input: Record<string, unknown>) => ({ type: "tool_use" as const, name: "skill", input });
const { client, parentId, stop } = await setUp({
  worker: { skills },
  offline: {
    match: { user: "What changed" },
    turns: [
      { content: [use({ name: "release-notes" })] },
      { content: [use({ name: "release-notes", file: "headings.md" })] },
      { content: [{ type: "text", text: "Added: skills." }] },
    ],
  },
});
const parent = createParent({ client, parentId });
const reply = await parent.task("What changed since the last release?");
console.log(`${reply.status}: ${reply.summary}`, reply.tools_called);

// A profile or a spawn names the allowed skills; an empty list means no `skill` tool.
const { in_force } = await parent.spawn({ name: "Plain", skills: [] });
console.log(JSON.stringify(in_force));

await parent.stop();
await stop();
