/** A chain of models: while the provider limits the first one, the next one answers at its own price; the reply names it. */
import { createParent } from "subagent-queue";
import { setUp } from "./setup.ts";

// The provider limits the first call for 30 s; the run does not wait for that.
const limited = { status: 429, headers: { "retry-after": "30" } };
const { client, parentId, stop } = await setUp({
  offline: { turns: [{ content: [{ type: "text", text: "Vitest." }], failures: [limited] }] },
});
const parent = createParent({ client, parentId, model: "sonnet", fallback_models: ["Haiku"] });

const reply = await parent.task("Which testing framework does this project use?");
console.log(`${reply.status} by ${reply.model}: ${reply.summary}`);

await parent.stop();
await stop();
