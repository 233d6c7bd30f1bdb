import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { listDirectory, startOf } from "../../../../../src/worker/tools/files/list.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { spawnNode } from "../../../../helpers/processes.ts";

/** A directory, and another one beside it with a directory and a file in it. */
function places(): { inside: string; outside: string } {
  const base = realpathSync(mkdtempSync(join(tmpdir(), "list-")));
  closeAtEnd(() => rmSync(base, { recursive: true, force: true }));
  const [inside, outside] = [join(base, "inside"), join(base, "outside")];
  for (const directory of [inside, outside, join(outside, "sub")]) mkdirSync(directory);
  writeFileSync(join(outside, "sub/secret.txt"), "");
  return { inside, outside };
}

async function namesIn(directory: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { path } of listDirectory(Buffer.from(directory))) names.push(basename(path.toString()));
  return names.sort();
}

describe("a listing of what an agent filled", () => {
  it("reaches each entry in the open directory itself", async () => {
    const { outside } = places();
    for await (const { at, path, isDirectory } of listDirectory(Buffer.from(outside))) {
      expect(isDirectory).toBe(true);
      expect(lstatSync(at).ino).toBe(lstatSync(path).ino);
    }
    expect(await namesIn(join(outside, "sub"))).toEqual(["secret.txt"]);
  });

  it("begins at a path without links, or nowhere", async () => {
    const { inside, outside } = places();
    symlinkSync(outside, join(inside, "link"));
    expect(await startOf(join(inside, "link"))).toEqual([Buffer.from(outside)]);
    expect(await startOf(join(inside, "none"))).toEqual([]);
  });
});

describe.runIf(process.platform === "linux")("a link in the place of a directory that was listed", () => {
  it("leads nowhere, neither itself nor on the way to another one", async () => {
    const { inside, outside } = places();
    symlinkSync(outside, join(inside, "link"));
    writeFileSync(join(inside, "file"), "");
    expect(await namesIn(join(inside, "link"))).toEqual([]);
    expect(await namesIn(join(inside, "link/sub"))).toEqual([]);
    expect(await namesIn(join(inside, "file"))).toEqual([]);
    expect(await namesIn(join(inside, "none"))).toEqual([]);
    expect(await namesIn(join(outside, "sub"))).toEqual(["secret.txt"]);
  });

  it("opens nothing outside to this user, also while a command swaps the two", async () => {
    const { inside, outside } = places();
    mkdirSync(join(inside, "shut"));
    writeFileSync(join(inside, "shut/in"), "");
    symlinkSync(outside, join(inside, "link"));
    chmodSync(outside, 0o755);
    chmodSync(join(outside, "sub"), 0);
    const owned = [join(inside, ".."), inside, join(inside, "shut"), outside, join(outside, "sub")];
    if (process.getuid?.() === 0) for (const path of owned) chownSync(path, 65_534, 65_534);
    const program = "test/unit/worker/tools/files/fixtures/counting-process.ts";
    const counting = await spawnNode(program, { args: [inside] });
    await counting.waitForLine(/^counted /, { timeoutMs: 250_000 });
    expect([outside, join(outside, "sub")].map((path) => lstatSync(path).mode & 0o777)).toEqual([0o755, 0]);
  });
});
