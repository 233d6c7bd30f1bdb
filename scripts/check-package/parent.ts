import { createClient, createParent, type Reply, SubagentError } from "subagent-queue";

const { REDIS_URL: redisUrl = "" } = process.env;
const client = createClient({ redisUrl, model: "offline-1" });
const parent = createParent({ parentId: "typed", client, tools: ["write_file"] });
const reply: Reply = await parent.task({ prompt: "Write hello to notes.txt", limits: { max_turns: 5 } });
console.log(reply.status, reply.turns, Object.keys(reply.tools_called).join());
const { agent_id, limits } = await parent.spawn({ name: "Data Collector" });
const refusal: unknown = await parent.send("nobody", "Say hello.").catch((error: unknown) => error);
console.log(agent_id, limits.max_turns, refusal instanceof SubagentError && refusal.code);
await parent.destroy(agent_id);
await parent.stop();
await client.stop();
