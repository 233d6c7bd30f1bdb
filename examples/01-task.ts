/** A task: a sub-agent with fresh context looks something up; only its summary comes back. */
import { createParent } from "subagent-queue";
import { SAMPLE, setUp } from "./setup.ts";

const { client, parentId, stop } = await setUp({ opens: SAMPLE });
const parent = createParent({ client, parentId, tools: ["read_file", "glob", "grep"] });

const reply = await parent.task({ prompt: "Which testing framework does this project use?" });

console.log(reply.summary);
console.log(`${reply.status} after ${reply.turns} turns, ${reply.tokens} tokens; tools:`, reply.tools_called);

await parent.stop();
await stop();
