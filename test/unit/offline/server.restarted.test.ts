/** Guarantee: a start that failed after it was stopped takes nothing from the start after it. */
import { createServer } from "node:net";
import { expect, it } from "vitest";
import { createOfflineModel } from "../../../src/offline/server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

it("stops what was started again while the first start failed", async () => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const address = other.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  const server = createOfflineModel({ port });
  closeAtEnd(() => server.stop());
  const first = server.start();
  const freed = first.catch(() => void other.close());
  const stopped = server.stop();
  const second = server.start();
  await Promise.all([freed, stopped, second]);
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  await server.stop();
  await expect(fetch(`${server.url}/healthz`)).rejects.toThrow();
});
