/** Guarantee: a server that takes no input can hold up a message only as long as it lives, and ends no other process. */
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { ProcessTransport } from "../../../../../src/worker/tools/mcp/process-transport.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { until } from "../../../../helpers/until.ts";

const LIMITS = { bytes: 1024, values: 100, depth: 10 };
const message = (chars: number) => ({
  jsonrpc: "2.0" as const,
  method: "note",
  params: { text: "x".repeat(chars) },
});

/** A server whose shell runs `program`, and its process ids as it has said them on its standard error. */
async function started(program: string) {
  let said = "";
  const transport = new ProcessTransport({
    command: "/bin/sh",
    args: ["-c", `echo $$ >&2; ${program}`],
    env: { PATH: "/usr/bin:/bin" },
    cwd: undefined,
    limits: LIMITS,
    clock: systemClock,
    refused: () => {},
    complained: (bytes) => {
      said += bytes.toString();
    },
  });
  closeAtEnd(() => transport.close());
  await transport.start();
  const pid = await until(() => said.endsWith("\n") && Number(said));
  return { transport, pid };
}

it("a message that the server does not read is waited for until the server dies", async () => {
  const { transport, pid } = await started("exec sleep 60");
  let isSent = false;
  const sending = transport.send(message(1024 * 1024)).then(() => {
    isSent = true;
  });
  await new Promise(setImmediate);
  expect(isSent).toBe(false);
  process.kill(pid, "SIGKILL");
  await sending;
});

it("a server that closes its input is told of by an error of its transport, and not of the process", async () => {
  const { transport } = await started("exec 0<&-; exec sleep 60");
  const errors: Error[] = [];
  transport.onerror = (error) => void errors.push(error);
  await until(() => {
    void transport.send(message(1));
    return errors.length > 0;
  });
  expect(errors[0]).toMatchObject({ code: "EPIPE" });
});
