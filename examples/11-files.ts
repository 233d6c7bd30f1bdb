/** Files in, files out: a task has a file, its reply lists the files in the workspace at the end, with digests. */
import { createParent } from "subagent-queue";
import { setUp } from "./setup.ts";

const { client, parentId, stop } = await setUp({
  offline: {
    turns: [
      { content: [{ type: "tool_use", name: "read_file", input: { file_path: "orders.csv" } }] },
      {
        content: [{ type: "tool_use", name: "write_file", input: { file_path: "sum.txt", content: "42\n" } }],
      },
      { content: [{ type: "text", text: "The orders come to 42; sum.txt has it." }] },
    ],
  },
});
const parent = createParent({ client, parentId });

const reply = await parent.task({
  prompt: "Add up orders.csv and leave the sum in sum.txt",
  files: [{ path: "orders.csv", content: "item,price\nbook,30\npen,12\n" }],
});

console.log(`${reply.status}: ${reply.summary}`);
for (const { path, size_bytes, sha256 = "" } of reply.files ?? [])
  console.log(`  ${path}, ${size_bytes} bytes, ${sha256.slice(0, 12)}`);

await parent.stop();
await stop();
