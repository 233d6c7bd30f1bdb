/** An answer with a status that HTTP does not know cannot be handed on. */
import { createServer } from "node:http";
import { expect, it } from "vitest";
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
  const ask = boundedFetch({ bytes: 1_000, values: 100, depth: 20 }, () => {});
  await expect(ask(url)).rejects.toThrow("999");
  await closed.opened;
});
