import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal, testClient } from "../../helpers/parents.ts";

/** Returns a client of a Redis that nothing serves, and the path of its CA file, which does not exist. */
function clientWithoutItsFile() {
  const folder = mkdtempSync(join(tmpdir(), "client-opening-"));
  closeAtEnd(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "ca.pem");
  return { client: testClient({ redisUrl: `rediss://127.0.0.1:1?ca=${file}` }), file };
}

const UNREADABLE = refusal("invalid_config", /cannot be used/);

test("a client that could not be opened tries again at its next call", async () => {
  const { client, file } = clientWithoutItsFile();
  await expect(client.start()).rejects.toMatchObject(UNREADABLE);
  await expect(client.start()).rejects.toMatchObject(UNREADABLE);
  writeFileSync(file, "");
  await expect(client.start()).rejects.toMatchObject(refusal("redis_unavailable"));
});

test("a client that could not be opened stops, before and after its failure is known", async () => {
  const { client } = clientWithoutItsFile();
  const starting = expect(client.start()).rejects.toMatchObject(UNREADABLE);
  await expect(client.stop()).resolves.toBeUndefined();
  await starting;
  const { client: later } = clientWithoutItsFile();
  await expect(later.start()).rejects.toMatchObject(UNREADABLE);
  await expect(later.stop()).resolves.toBeUndefined();
});
