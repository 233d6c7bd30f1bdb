/** An API that cannot know whether it needs keys does not listen. */
import { connect } from "node:net";
import { expect, test } from "vitest";
import { createApi } from "../../../src/service/api/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { testClient } from "../../helpers/parents.ts";
import { freePort } from "../../helpers/redis-server.ts";

/** Whether anything takes a connection at the port. */
const isTaken = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true));
    socket.on("error", () => resolve(false));
    closeAtEnd(() => void socket.destroy());
  });

test("a start while Redis is away is refused, and nothing listens", async () => {
  const [redisPort, port] = [await freePort(), await freePort()];
  const client = testClient({ redisUrl: `redis://127.0.0.1:${redisPort}` });
  const api = createApi({ client, port, host: "0.0.0.0" });
  closeAtEnd(() => api.stop());
  await expect(api.start()).rejects.toMatchObject({ code: "redis_unavailable" });
  expect(await isTaken(port)).toBe(false);
});
