/** A parent that goes away: its sub-agent hands back what it has, and whoever comes next reads it. */
import { createParent } from "subagent-queue";
import { setUp } from "./setup.ts";

// A sub-agent with a lot to look at, and what it says when it is asked for what it has.
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

// As long as this process lives it renews the lease. `keep`, `finish` or `destroy` says what becomes of the agents after it.
const lease = { onParentGone: "finish" as const, ms: 1_000 };
const parent = createParent({ client, parentId, lease });
const { agent_id } = await parent.spawn({ name: "reader" });
await parent.send(agent_id, "Read all the notes.");
console.log("the parent goes away, its sub-agent works");
await parent.stop();

// A parent of the same name, without a lease: some ten seconds later the reply is in its channel, for seven days.
const heir = createParent({ client, parentId });
const reply = await heir.waitAny([agent_id]);
console.log(`${reply.agent_id}: ${reply.status}, ${reply.stop_reason}: ${reply.summary}`);

await heir.stop();
await stop();
