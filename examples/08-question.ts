/** A sub-agent that asks its parent: it waits, without a worker, for the answer or, at the deadline, the default. */
import { createParent } from "subagent-queue";
import { setUp } from "./setup.ts";

const { client, parentId, stop } = await setUp();
const parent = createParent({ client, parentId, answer_within_ms: 60_000 });

const { agent_id } = await parent.spawn({ name: "Report writer" });
await parent.send(agent_id, "Ask your parent: Which currency shall I use? Write the answer to currency.txt");
for await (const entry of parent.replies()) {
  if (entry.kind === "question") {
    console.log(`${entry.agent_id} is ${(await parent.get(agent_id)).status}: ${entry.text}`);
    const { status, agent_status } = await parent.answer(agent_id, "Swiss francs");
    console.log(`${status}, it is ${agent_status}`);
  } else if (entry.kind === "reply") console.log(`${entry.status}: ${entry.summary}`);
  await entry.ack();
  if (entry.kind === "reply") break;
}

// A task asks the caller of `task`.
const reply = await parent.task({
  prompt: "Ask your parent: Which city?",
  onQuestion: ({ text }) => (text === "Which city?" ? "Zürich" : "Decide yourself"),
});
console.log(`${reply.status}: ${reply.summary}`);

await parent.stop();
await stop();
