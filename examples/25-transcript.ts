/** A transcript: the whole conversation of a sub-agent, and a new sub-agent that continues it after the end. */
import { createParent } from "subagent-queue";
import { SAMPLE, setUp } from "./setup.ts";

const { client, parentId, stop } = await setUp({ opens: SAMPLE });

// The transcript is kept for an hour after the ack; without transcript_ms the ack deletes it.
const parent = createParent({ client, parentId, transcript_ms: 3_600_000 });
const { agent_id, summary } = await parent.task("Which testing framework does this project use?");
console.log(summary);

const { entries } = await parent.transcript(agent_id);
for (const entry of entries) {
  if (entry.kind === "told") console.log(`${entry.message} told: ${entry.text}`);
  if (entry.kind === "said")
    console.log(`${entry.message} said: ${entry.content.map(({ type }) => type).join(", ")}`);
  if (entry.kind === "called") console.log(`${entry.message} called: ${entry.name}`);
}

// A new agent with its own limits, which knows the old conversation.
const resumed = await parent.resume(agent_id, "How many TODO comments are there?");
console.log(`${resumed.agent_id} goes on from ${resumed.resumes} with run ${resumed.run}`);
const reply = await parent.waitAny([resumed.agent_id]);
console.log(`${reply.status} after ${reply.turns} turns of its own: ${reply.summary.split("\n").at(-1)}`);

await parent.stop();
await stop();
