/** A sub-agent with `keep_alive`: it keeps its conversation and its files, and takes further messages. */
import { createParent } from "subagent-queue";
import { setUp } from "./setup.ts";

const { client, parentId, stop } = await setUp();
const parent = createParent({ client, parentId, keep_alive: true, idle_ms: 60_000 });

const { agent_id } = await parent.spawn({ name: "Note taker" });
for (const message of ["Write `buy milk` to notes.md", "List the files you have"]) {
  await parent.send(agent_id, message);
  const reply = await parent.waitAny([agent_id]);
  console.log(`run ${reply.run} (${reply.agent_status}): ${reply.summary}`);
}

console.log(await parent.finish(agent_id));
console.log(await parent.destroy(agent_id));

await parent.stop();
await stop();
