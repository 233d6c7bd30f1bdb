/** The asynchronous calls: spawn, poll, cancel, retrieve. */
import { setTimeout } from "node:timers/promises";
import { createParent } from "subagent-queue";
import { setUp } from "./setup.ts";

const says = (user: string, text: string, latencyMs = 0) => ({
  match: { user },
  turns: [{ latencyMs, content: [{ type: "text" as const, text }] }],
});
const { client, parentId, stop } = await setUp({
  offline: [says("short", "The short one is done."), says("long", "Nobody will read this.", 3_600_000)],
});
const parent = createParent({ client, parentId });

// Spawn: both begin at once, on any worker.
const short = await parent.spawn({ name: "short" });
const long = await parent.spawn({ name: "long" });
await parent.send(short.agent_id, "Do the short work.");
await parent.send(long.agent_id, "Do the long work.");

// Retrieve: the first reply of the two.
const first = await parent.waitAny([short.agent_id, long.agent_id]);
console.log(`${first.agent_id}: ${first.status}: ${first.summary}`);

// Poll: a read does not extend an agent's life and costs no turn.
while ((await parent.get(long.agent_id)).status !== "running") await setTimeout(100);
for (const { agent_id, status } of await parent.list()) console.log(`${agent_id}: ${status}`);

// Cancel: the model call is aborted at once, and the channel gets an entry about the end.
console.log(await parent.destroy(long.agent_id));
const end = await parent.waitAny([long.agent_id]);
console.log(`${end.agent_id}: ${end.status}, ${end.stop_reason}`);

await parent.stop();
await stop();
