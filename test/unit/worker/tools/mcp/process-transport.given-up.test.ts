/** Guarantee: a server is not started after its connection was given up, because nobody would end it. */
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { ProcessTransport } from "../../../../../src/worker/tools/mcp/process-transport.ts";

it("a server that is given up before it is started is not started", async () => {
  const transport = new ProcessTransport({
    command: process.execPath,
    args: ["--version"],
    env: {},
    cwd: undefined,
    limits: { bytes: 1_000, values: 10, depth: 10 },
    clock: systemClock,
    refused() {},
    complained() {},
  });
  const starting = expect(transport.start()).rejects.toThrow("It was given up before it was started.");
  await transport.close();
  await starting;
});
