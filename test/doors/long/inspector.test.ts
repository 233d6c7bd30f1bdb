/** The MCP inspector's command line, an ordinary client, with a sub-agent that works for 65 s: longer than clients wait. */
import { beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { spawnNode } from "../../helpers/processes.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";
import { startCommandLineApi } from "../command-line-api.ts";
import { toolPath } from "../outside-tools.ts";

const RUN_MS = 65_000;
const CLIENTS_WAIT_MS = 60_000;
const Result = z.looseObject({
  content: z.array(z.looseObject({ text: z.string() })),
  structuredContent: z.record(z.string(), z.unknown()).optional(),
});

let stage: Stage;
let apiUrl: string;

beforeAll(async () => {
  stage = await openStage({
    scenario: { turns: [{ content: [{ type: "text", text: "found it" }], latencyMs: RUN_MS }] },
  });
  await stage.startWorker();
  apiUrl = (await startCommandLineApi(stage)).url;
});

/** A call of parent `era`; resolves to what the inspector prints. */
async function call(era: "legacy" | "modern", tool: string, input: object) {
  const inspector = await spawnNode(toolPath("inspector/clients/launcher/build/index.js"), {
    args: [
      ...["--cli", `${apiUrl}/mcp?parent=${era}`, "--transport", "http", "--protocol-era", era, "--quiet"],
      ...["--method", "tools/call", "--tool-name", tool, "--tool-args-json", JSON.stringify(input)],
    ],
  });
  const { code } = await inspector.closed;
  expect(code, [...inspector.stdout, ...inspector.stderr].join("\n")).toBe(0);
  return Result.parse(JSON.parse(inspector.stdout.join("\n")));
}

test("a client of the older revision is answered in time, and finds the reply later", async () => {
  const { answer, tookMs } = await timed(() => call("legacy", "task", { prompt: "Look for it" }));
  expect(tookMs).toBeLessThan(CLIENTS_WAIT_MS);
  expect(answer.structuredContent).toMatchObject({ agent_id: "task", status: "working" });
  await until(async () => (await stage.parent("legacy").get("task")).status === "ended", {
    timeoutMs: 2 * RUN_MS,
  });
  const later = await call("legacy", "check_sub_agent", { agent_id: "task" });
  expect(later.content[0]?.text).toContain("found it");
});

test("a client of the newest revision follows the task, and gets the reply from its one call", async () => {
  const { answer, tookMs } = await timed(() => call("modern", "task", { prompt: "Look for it" }));
  expect(tookMs).toBeGreaterThan(RUN_MS);
  expect(answer.structuredContent).toMatchObject({ status: "succeeded", summary: "found it" });
});

async function timed(work: () => Promise<z.infer<typeof Result>>) {
  const begunMs = performance.now();
  const answer = await work();
  const tookMs = performance.now() - begunMs;
  console.info(
    `answered after ${(tookMs / 1_000).toFixed(1)} s: ${JSON.stringify(answer.structuredContent)}`,
  );
  return { answer, tookMs };
}
