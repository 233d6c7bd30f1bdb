import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createResolver, type NameSources } from "../../../src/shared/dns.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { type Known, startNameServer } from "../../helpers/name-server.ts";

/** A resolver that knows nothing of this machine; `hosts` and `settings` are the texts of its files. */
async function scene(names: Readonly<Record<string, Known>>, { hosts = "", settings = "" } = {}) {
  const directory = await mkdtemp(join(tmpdir(), "names-"));
  closeAtEnd(() => rm(directory, { recursive: true }));
  const [hostsFile, searchFile] = [join(directory, "hosts"), join(directory, "resolv.conf")];
  await Promise.all([writeFile(hostsFile, hosts), writeFile(searchFile, settings)]);
  const { server, asked } = await startNameServer(names);
  const resolve = createResolver({ servers: [server], hostsFile, searchFile } satisfies NameSources);
  return { asked, resolve: async (name: string) => (await resolve(name)).map(({ address }) => address) };
}

test("names whose server never answers delay no other name: their lookups hold no thread", async () => {
  const slow = Array.from({ length: 32 }, (_, n) => `n${n}.slow.test`);
  const { resolve } = await scene({
    ...Object.fromEntries(slow.map((name) => [name, "silent"])),
    "fast.test": ["10.0.0.1"],
  });
  const ended: string[] = [];
  for (const name of slow) resolve(name).catch(({ code }) => ended.push(code));
  expect(await resolve("fast.test")).toEqual(["10.0.0.1"]);
  expect(ended).toEqual([]);
});

test("lookups of one name at a time are one, and a later one asks again", async () => {
  const { resolve, asked } = await scene({ "one.test": ["10.0.0.1", "fd000000000000000000000000000001"] });
  const both = ["10.0.0.1", "fd00::1"];
  const found = await Promise.all(
    Array.from({ length: 16 }, (_, n) => resolve(n % 2 ? "one.test" : "ONE.test")),
  );
  expect(found).toEqual(Array(16).fill(both));
  expect(asked.toSorted()).toEqual(["one.test A", "one.test AAAA"]);
  expect(await resolve("one.test")).toEqual(both);
  expect(asked).toHaveLength(4);
});

test("a name of the hosts file, and localhost, are asked of no name server", async () => {
  const hosts = "# 10.9.9.9 db\n10.0.0.7\tdb DB.internal # primary\nfd00::7 db\nnonsense db\n";
  const { resolve, asked } = await scene({ db: ["10.1.1.1"], localhost: ["10.1.1.1"] }, { hosts });
  expect(await resolve("db")).toEqual(["10.0.0.7", "fd00::7"]);
  expect(await resolve("db.internal.")).toEqual(["10.0.0.7"]);
  expect(await resolve("localhost")).toEqual(["127.0.0.1", "::1"]);
  expect(await resolve("app.localhost")).toEqual(["127.0.0.1", "::1"]);
  expect(asked).toEqual([]);
});

test.each([
  ["receiver", "search a.test b.test", ["receiver.a.test", "receiver.b.test"]],
  [
    "receiver.team",
    "search a.test b.test",
    ["receiver.team", "receiver.team.a.test", "receiver.team.b.test"],
  ],
  [
    "receiver.team",
    "search a.test b.test\noptions timeout:1 ndots:5",
    ["receiver.team.a.test", "receiver.team.b.test"],
  ],
  ["receiver.", "search a.test b.test", ["receiver"]],
  ["receiver", "domain old.test\nsearch b.test", ["receiver.b.test"]],
  ["receiver", "", ["receiver"]],
])("the short name %s, with %j, is asked for as the system does", async (name, settings, questions) => {
  const { resolve, asked } = await scene({ [questions.at(-1) ?? ""]: ["10.0.0.1"] }, { settings });
  expect(await resolve(name)).toEqual(["10.0.0.1"]);
  expect(asked.filter((question) => question.endsWith(" A"))).toEqual(questions.map((each) => `${each} A`));
});

test("a name that no domain has does not exist, and one with addresses of one family has these", async () => {
  const { resolve } = await scene({ "six.test": ["fd000000000000000000000000000001"], "none.test": [] });
  expect(await resolve("six.test")).toEqual(["fd00::1"]);
  await expect(resolve("none.test")).rejects.toMatchObject({ code: "ENODATA" });
  await expect(resolve("unknown.test")).rejects.toMatchObject({ code: "ENOTFOUND" });
});

test("a name that one domain has not and another cannot be asked for may exist: the failure is told", async () => {
  const { resolve } = await scene({ "receiver.b.test": "broken" }, { settings: "search a.test b.test" });
  await expect(resolve("receiver")).rejects.toMatchObject({ code: "ESERVFAIL" });
});
