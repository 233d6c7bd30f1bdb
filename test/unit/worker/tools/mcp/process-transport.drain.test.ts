/** Many messages to a server that is slow to read. */
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { ProcessTransport } from "../../../../../src/worker/tools/mcp/process-transport.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

it("calls of many runs that wait for one server to read them are no leak of which the process warns", async () => {
  const warnings: Error[] = [];
  const note = (warning: Error): void => void warnings.push(warning);
  process.on("warning", note);
  closeAtEnd(() => void process.off("warning", note));
  const transport = new ProcessTransport({
    ...{ command: "/bin/sh", args: ["-c", "cat >/dev/null"], env: { PATH: "/usr/bin:/bin" }, cwd: undefined },
    ...{ limits: { bytes: 1_024, values: 100, depth: 10 }, clock: systemClock },
    ...{ refused: () => {}, complained: () => {} },
  });
  closeAtEnd(() => transport.close());
  await transport.start();
  const params = { text: "x".repeat(256 * 1024) };
  const message = { jsonrpc: "2.0" as const, method: "note", params };
  await Promise.all(Array.from({ length: 20 }, () => transport.send(message)));
  await transport.send({ ...message, params: {} });
  expect(warnings).toEqual([]);
});
