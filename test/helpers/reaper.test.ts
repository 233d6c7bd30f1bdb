import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { spawnNode } from "./processes.ts";
import { until } from "./until.ts";

test("a server dies with its owner and takes its directory along, even when the owner is killed", async () => {
  const owner = await spawnNode("test/helpers/fixtures/redis-owner.ts");
  const [, pid, directory = ""] = (await owner.waitForLine(/^redis /)).split(" ");
  expect(existsSync(`/proc/${pid}`) && existsSync(directory)).toBe(true);
  await owner.kill("SIGKILL");
  await until(() => !existsSync(`/proc/${pid}`) && !existsSync(directory), { what: "the server to be gone" });
});
