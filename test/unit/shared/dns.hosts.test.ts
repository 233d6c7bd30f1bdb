/** Guarantee: what a hosts file says of a name behind a comment sign does not count. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createResolver } from "../../../src/shared/dns.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { startNameServer } from "../../helpers/name-server.ts";

test("a name that a hosts file has only in a comment is asked of the name server", async () => {
  const directory = await mkdtemp(join(tmpdir(), "names-"));
  closeAtEnd(() => rm(directory, { recursive: true }));
  const [hostsFile, searchFile] = [join(directory, "hosts"), join(directory, "resolv.conf")];
  await writeFile(hostsFile, "10.0.0.7 old.test # was db.test\n10.0.0.8 cache.test#db.test\n");
  const { server } = await startNameServer({ "db.test": ["10.1.1.1"] });
  const resolve = createResolver({ servers: [server], hostsFile, searchFile });
  expect(await resolve("db.test")).toEqual([{ address: "10.1.1.1", family: 4 }]);
  expect(await resolve("cache.test")).toEqual([{ address: "10.0.0.8", family: 4 }]);
});
