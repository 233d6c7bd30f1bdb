/** Guarantee: a command that keeps a refused connection open without a word does not keep its place in the proxy. */
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openEgress, SOCKET_NAME } from "../../../../../src/worker/tools/sandbox/egress.ts";
import { parseEgress } from "../../../../../src/worker/tools/sandbox/egress-policy.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { until } from "../../../../helpers/until.ts";

it("a connection whose tunnel was refused is cut when its command says nothing more", async () => {
  const policy = parseEgress("site.test:80", "");
  if ("problem" in policy) throw new Error(policy.problem);
  const egress = await openEgress(policy, { connections: 1, silenceMs: 200 });
  closeAtEnd(async () => void (await egress.close()));
  /** Asks for a tunnel to a host that is not on the list, and keeps its own side open. */
  const refused = () =>
    new Promise<Socket | undefined>((resolve) => {
      const socket = connect({ path: join(egress.directory, SOCKET_NAME), allowHalfOpen: true });
      closeAtEnd(() => void socket.destroy());
      let said = "";
      socket.on("error", () => resolve(undefined)).on("close", () => resolve(undefined));
      socket.on("data", (bytes) => (said += bytes));
      socket.on("end", () => resolve(said.startsWith("HTTP/1.1 403") ? socket : undefined));
      socket.write("CONNECT other.test:80 HTTP/1.1\r\nhost: x\r\n\r\n");
    });
  const first = await refused();
  expect(first?.destroyed).toBe(false);
  // The only place is free again, though the command has not closed its side.
  await until(async () => (await refused()) !== undefined);
  expect(first?.destroyed).toBe(false);
});
