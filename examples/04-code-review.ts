/** A code reviewer with its own prompt, its counters, and an alert threshold. */
import { createParent } from "subagent-queue";
import { SAMPLE, setUp } from "./setup.ts";

const { client, parentId, stop } = await setUp({ opens: SAMPLE });
const parent = createParent({ client, parentId });

const { summary, turns, tokens, tools_called, alerts } = await parent.task({
  name: "Code reviewer",
  system: `You are a code reviewer. Read the files you are given and answer with one JSON object:
{"verdict": "approved" | "changes_requested", "findings": [{"file", "line", "severity", "message"}]}`,
  prompt: `Review ${SAMPLE}/cart.js`,
  tools: ["read_file"],
  alerts: { turns: 1 },
});

const review: { verdict: string; findings: { line: number; severity: string; message: string }[] } =
  JSON.parse(summary);
console.log(review.verdict);
for (const { line, severity, message } of review.findings)
  console.log(`  line ${line}, ${severity}: ${message}`);
console.log(`${turns} turns, ${tokens} tokens; tools:`, tools_called);
for (const { kind, threshold, value } of alerts)
  console.log(`alert: ${value} ${kind}, threshold ${threshold}`);

await parent.stop();
await stop();
