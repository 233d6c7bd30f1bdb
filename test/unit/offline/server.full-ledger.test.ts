/** Guarantee: a ledger whose disk is full ends no offline model; it answers nothing until there is room. */
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createOfflineModel } from "../../../src/offline/server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

test("a call whose entry finds no room ends no server; the next is refused with the reason, until there is room", async () => {
  const place = mkdtempSync(join(tmpdir(), "ledger-"));
  closeAtEnd(() => rmSync(place, { recursive: true, force: true }));
  const [there, away] = [join(place, "there"), join(place, "away")];
  mkdirSync(there);
  const offline = createOfflineModel({ ledgerPath: join(there, "ledger.jsonl") });
  closeAtEnd(() => offline.stop());
  await offline.start();
  const ask = async () => {
    const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "hi" }] });
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${offline.url}/v1/messages`, { method: "POST", headers, body });
    return `${response.status} ${await response.text()}`;
  };
  // Where the directory is not, nothing can be appended.
  renameSync(there, away);
  expect(await ask()).toMatch(/^200 /);
  expect(await ask()).toMatch(/^500 .*The ledger cannot be appended to .*ENOENT/);
  renameSync(away, there);
  expect(await ask()).toMatch(/^200 /);
  await offline.stop();
  const lines = readFileSync(join(there, "ledger.jsonl"), "utf8").trimEnd().split("\n");
  expect(lines.map((line) => JSON.parse(line).seq)).toEqual([1, 2]);
});
