import { expect, test } from "vitest";
import { spawnNode } from "../../helpers/processes.ts";
import { startProvider } from "../../unit/worker/model/scripted-provider.ts";

const CALLS = 2_000;
/** Of 8,000 that each call sends. A full collection on the way makes the growth smaller, never larger. */
const MOST_BYTES_A_CALL = 2_000;

test("what a call has sent is gone with the next small collection: ended calls do not grow old", async () => {
  const answer = { type: "message", role: "assistant", model: "m", stop_reason: "end_turn" };
  const content = [{ type: "text", text: "done" }];
  const usage = { input_tokens: 1, output_tokens: 1 };
  const provider = await startProvider((response) => {
    provider.received.length = 0;
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ ...answer, content, usage }));
  });
  const caller = await spawnNode("test/helpers/fixtures/model-caller.ts", {
    args: [provider.baseUrl, `${CALLS}`],
  });
  await caller.closed;
  expect(caller.stderr).toEqual([]);
  expect(Number(caller.stdout[0])).toBeLessThan(MOST_BYTES_A_CALL);
});
