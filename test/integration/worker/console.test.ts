/** Guarantee: a worker's log is lines of JSON, also where its Redis is not set as BullMQ wants it. */
import { expect, test, vi } from "vitest";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { startPrivateRedis } from "../../helpers/redis.ts";
import { openStage } from "../../stage/stage.ts";

const SILENT = createLogger({ level: "silent" });
const NODE = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];

test.each([
  ["a server", [], ""],
  ["a node of a cluster", NODE, "+cluster"],
])(
  "%s that evicts keys is a line of the worker's log, and nothing on the console",
  async (_, more, scheme) => {
    const server = await startPrivateRedis({ arguments: ["--maxmemory-policy", "allkeys-lru", ...more] });
    if (scheme !== "") {
      const admin = openRedis(server.url, "worker");
      closeAtEnd(() => admin.disconnect());
      await admin.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
    }
    const onConsole = [vi.spyOn(console, "warn"), vi.spyOn(console, "error")];
    for (const spy of onConsole) {
      spy.mockImplementation(() => {});
      closeAtEnd(() => spy.mockRestore());
    }
    const url = server.url.replace("redis://", `redis${scheme}://`);
    const stage = await openStage({ redis: { url } });
    const lines: string[] = [];
    const logger = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });
    await stage.startWorker({ redisUrl: url, logger });
    const intake = createIntake({
      redisUrl: url,
      prefix: stage.prefix,
      client: stage.client(),
      logger: SILENT,
    });
    closeAtEnd(() => intake.stop());
    await intake.start();
    expect(lines.join("")).toMatch(/maxmemory-policy allkeys-lru/);
    for (const spy of onConsole) expect(spy).not.toHaveBeenCalled();
  },
);
