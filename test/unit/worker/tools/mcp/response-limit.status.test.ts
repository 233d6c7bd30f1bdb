/** An answer with a status that HTTP does not know cannot be handed on. */
import { createServer } from "node:http";
import { expect, it, onTestFinished, vi } from "vitest";
import { boundedFetch } from "../../../../../src/worker/tools/mcp/response-limit.ts";
import { latch } from "../../../../helpers/latch.ts";
import { listenUntilEnd } from "../../../../helpers/listen.ts";

it("an answer with an unknown status is refused, and its connection ends though the server goes on", async () => {
  const closed = latch();
  const server = createServer((_, response) => {
    response.once("close", closed.open);
    response.writeHead(999).write("x".repeat(100_000));
  });
  const url = await listenUntilEnd(server);
  const answers: Response[] = [];
  const real = fetch;
  // Held here: what is collected as garbage is ended by that.
  const spy = vi.spyOn(globalThis, "fetch").mockImplementation(async (...asked) => {
    const answer = await real(...asked);
    answers.push(answer);
    return answer;
  });
  onTestFinished(() => spy.mockRestore());
  const ask = boundedFetch({ bytes: 1_000, values: 100, depth: 20 }, () => {});
  await expect(ask(url)).rejects.toThrow("999");
  expect(answers.map(({ bodyUsed }) => bodyUsed)).toEqual([true]);
  await closed.opened;
});
