/** A parent that stops: its sub-agent replies with what it has, and the next process of that parent reads the reply. */
import { createParent } from "subagent-queue";
import { setUp } from "./setup.ts";

// A turn of a sub-agent with much work.
const look = (n: number) => ({
  latencyMs: 2_000,
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern: `${n}*.md` } }],
});
const { client, parentId, stop } = await setUp({
  offline: {
    turns: Array.from({ length: 20 }, (_, n) => look(n)),
    hand_back: { content: [{ type: "text", text: "No notes so far; the rest is not read." }] },
  },
});

// This process renews the lease while it lives. Then `keep`, `finish` or `destroy` decides about the agents.
const lease = { onParentGone: "finish" as const, ms: 1_000 };
const parent = createParent({ client, parentId, lease });
const { agent_id } = await parent.spawn({ name: "reader" });
await parent.send(agent_id, "Read all the notes.");
console.log("the parent goes away, its sub-agent works");
await parent.stop();

// A parent with the same id, without a lease: after about ten seconds its channel has the reply, for seven days.
const heir = createParent({ client, parentId });
const reply = await heir.waitAny([agent_id]);
console.log(`${reply.agent_id}: ${reply.status}, ${reply.stop_reason}: ${reply.summary}`);

await heir.stop();
await stop();
