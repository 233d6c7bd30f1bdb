/** A run that outgrows the context window: the model summarises the older part, and the run continues from the summary. */
import { createParent } from "subagent-queue";
import { SAMPLE, setUp } from "./setup.ts";

const CHAPTER = "Once upon a time there was a queue. ".repeat(400);
const tokens = 14_000; // the window of this model; a longer request is refused
const write = (n: number) => ({
  content: [
    { type: "text" as const, text: `Chapter ${n}. ${CHAPTER}` },
    { type: "tool_use" as const, name: "glob", input: { pattern: `${n}/*` } },
  ],
});
const said = (text: string) => ({ content: [{ type: "text" as const, text }] });

const { client, parentId, stop } = await setUp({
  opens: SAMPLE,
  offline: [
    {
      match: { user: "Your own summary" },
      turns: [write(4), said("The end.")],
      repeat: true,
      windowTokens: tokens,
    },
    { turns: [1, 2, 3, 4].map(write), hand_back: said("Chapters 1 and 2: a queue."), windowTokens: tokens },
  ],
});

const parent = createParent({ client, parentId, transcript_ms: 3_600_000 });
const reply = await parent.task("Write a long story.");
console.log(`${reply.status}, ${reply.turns} turns, ${reply.compactions} of them a summary`);

const { entries } = await parent.transcript(reply.agent_id);
for (const entry of entries) {
  if (entry.kind === "compacted") console.log(`before message ${entry.before}: ${entry.text}`);
}

await parent.stop();
await stop();
