import { createParent } from "subagent-queue";

const parent = createParent({ parentId: "plain", redisUrl: process.env.REDIS_URL, model: "offline-1" });
const reply = await parent.task({ prompt: "Write hello to notes.txt" });
console.log(reply.status, reply.turns, Object.keys(reply.tools_called).join());
const { agent_id } = await parent.spawn({ name: "Data Collector" });
await parent.send(agent_id, "Say hello.");
for await (const entry of parent.replies()) {
  console.log(entry.agent_id, entry.kind, await entry.ack());
  break;
}
await parent.stop();
