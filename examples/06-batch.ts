/** 25 tasks through a parent that may have ten sub-agents at a time. */
import { createParent } from "subagent-queue";
import { setUp } from "./setup.ts";

const { client, parentId, stop } = await setUp();
const parent = createParent({ client, parentId });

const pages = Array.from({ length: 25 }, (_, i) => `page-${i + 1}.md`);
const replies = await parent.taskAll(pages.map((page) => `Write \`# ${page}\` to ${page}`));

const [first] = replies;
const written = replies.filter((reply) => reply.status === "succeeded");
const turns = replies.reduce((sum, reply) => sum + reply.turns, 0);
console.log(first?.summary);
console.log(`${written.length} of ${pages.length} pages, in their order, after ${turns} turns`);
console.log(`still alive: ${(await parent.list()).length}`);

await parent.stop();
await stop();
