/** Agent definitions: a file in the common form defines a kind of sub-agent, for code and for a parent's model. */
import { join } from "node:path";
import { createClient, createParent } from "subagent-queue";
import { SAMPLE, setUp } from "./setup.ts";

const { client: shared, parentId, redisUrl, model, stop } = await setUp({ opens: SAMPLE });
const agents = [join(import.meta.dirname, "agents")];
const client = createClient({ redisUrl, prefix: "examples", model, agents });
for (const { name, tools = [] } of client.definitions().definitions)
  console.log(`${name}: ${tools.join(", ")}`);

const parent = createParent({ client, parentId });
const reply = await parent.task({
  agent: "test-finder",
  prompt: "Which testing framework does this project use?",
});
console.log(`${reply.status}: ${reply.summary}`);

// If a model is the parent, its tools have the definitions' names as an enum.
const [task] = parent.tools(["task"]);
console.log(JSON.stringify(task?.input_schema.properties, ["agent", "enum"]));

await parent.stop();
await client.stop();
await shared.stop();
await stop();
