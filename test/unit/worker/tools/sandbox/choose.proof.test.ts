/** Guarantee: a sandbox that lacks one of its walls is refused, with the name of what is missing. */
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { chooseRunner } from "../../../../../src/worker/tools/sandbox/choose.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

function directory(): string {
  const path = mkdtempSync(join(tmpdir(), "proof-"));
  closeAtEnd(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** A bubblewrap that gets these arguments behind ours, which it reads from a descriptor. */
function bubblewrapWith(more: string): string {
  const above = directory();
  chmodSync(above, 0o755);
  const path = join(above, "bwrap");
  writeFileSync(path, `#!/bin/bash\nexec /usr/bin/bwrap "$1" "$2" ${more} "\${@:3}"\n`, { mode: 0o755 });
  return path;
}

const choose = (bwrap: string) => chooseRunner({ mode: "bubblewrap", production: false, bwrap });

describe("a sandbox", () => {
  it("is chosen with all its walls, and leaves nothing of its test", async () => {
    const temporary = directory();
    vi.stubEnv("TMPDIR", temporary);
    const { runner, sentence } = await choose("/usr/bin/bwrap").finally(() => vi.unstubAllEnvs());
    expect(runner?.kind).toBe("bubblewrap");
    expect(sentence).toMatch(/^bash runs in bubblewrap, without network(, as the user nobody)?\.$/);
    expect(readdirSync(temporary)).toEqual([]);
  });

  it.each([
    ["the host's network", "--share-net", "network"],
    ["the host's processes", "--ro-bind /proc /proc", "processes"],
    ["a writable system directory", "--tmpfs /etc", "writable:/etc"],
  ])("with %s is refused", async (_what, more, missing) => {
    const { runner, sentence } = await choose(bubblewrapWith(more));
    expect(runner).toBeUndefined();
    expect(sentence).toMatch(/^bash is not offered: no sandbox runs here \(bubblewrap: not isolated: /);
    expect(sentence).toContain(missing);
  });
});
