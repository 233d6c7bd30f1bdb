/** A code reviewer with a schema: its answer is checked against the schema and returned as a typed value. */
import { createParent } from "subagent-queue";
import { z } from "zod";
import { SAMPLE, setUp } from "./setup.ts";

const Review = z.object({
  verdict: z.enum(["approved", "changes_requested", "incomplete"]),
  summary: z.string(),
  findings: z.array(
    z.object({
      file: z.string(),
      line: z.int().min(1),
      severity: z.enum(["info", "warning", "error"]),
      message: z.string(),
    }),
  ),
});

const { client, parentId, stop } = await setUp({ opens: SAMPLE });
const parent = createParent({ client, parentId });

const reply = await parent.task({
  name: "Code reviewer",
  prompt: `Review ${SAMPLE}/cart.js`,
  tools: ["read_file"],
  output_schema: Review,
});

// `output` is a Review. A run that succeeded has one; a run that reached a cap may have one.
if (reply.status === "succeeded") {
  const { verdict, findings } = reply.output;
  console.log(`${verdict}: ${findings.length} findings`);
  for (const { line, severity, message } of findings) console.log(`  line ${line}, ${severity}: ${message}`);
} else {
  console.log(`${reply.status} (${reply.stop_reason}): ${reply.summary}`);
}

await parent.stop();
await stop();
