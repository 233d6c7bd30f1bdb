/** A registered profile: it binds every process and interface that acts as this parent; a spawn can only narrow it. */
import { createParent, SubagentError } from "subagent-queue";
import { SAMPLE, setUp } from "./setup.ts";

const { client, parentId, stop } = await setUp({ opens: SAMPLE });

const operator = createParent({ client, parentId });
const profile = {
  tools: ["Read", "Grep", "Glob"],
  limits: { max_turns: 10 },
  permissions: { deny: ["Read(**/*.env)"] },
};
const { version, changed } = await operator.register(profile);
console.log(`version ${version}, ${changed ? "changed" : "as before"}`);

// Another process does not know the profile: the receipt has the settings in force.
const parent = createParent({ client, parentId });
const agent = await parent.spawn({ name: "Reader", tools: ["Read"], limits: { max_turns: 5 } });
console.log(agent.limits.max_turns, JSON.stringify(agent.in_force));
await parent.destroy(agent.agent_id);

// A call that exceeds the profile is refused.
const wider = await parent
  .task({ prompt: "Which testing framework?", limits: { max_turns: 11 } })
  .catch((error: unknown) => error);
if (wider instanceof SubagentError) console.log(`${wider.code}: ${wider.message}`);

const reply = await parent.task({ prompt: "Which testing framework does this project use?" });
console.log(`${reply.status}: ${reply.summary}`);

await parent.stop();
await operator.stop();
await stop();
