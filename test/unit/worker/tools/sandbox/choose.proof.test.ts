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

/** Our arguments without some, as a bubblewrap reads them from a descriptor. */
const without = (pattern: string) => `exec 6< <(sed -z '${pattern}' <&6)`;

/** A bubblewrap that gets these arguments behind ours, and runs a line before. */
function bubblewrapWith(more: string, before = ""): string {
  const above = directory();
  chmodSync(above, 0o755);
  const path = join(above, "bwrap");
  writeFileSync(path, `#!/bin/bash\n${before}\nexec /usr/bin/bwrap "$1" "$2" ${more} "\${@:3}"\n`, {
    mode: 0o755,
  });
  return path;
}

/** Stands in for the program that connects commands to their proxy: it lets everything through. */
const OPEN_PROXY = `#!/usr/bin/perl
use IO::Socket::INET;
$| = 1;
my $server = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1", LocalPort => 3128);
print "ready\\n";
while (my $client = $server->accept) { while (<$client>) { last if /^\\s*$/ } print $client "HTTP/1.1 200 OK\\r\\n\\r\\n"; close $client }
`;

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
    ["capabilities", "--cap-add ALL", "capabilities"],
    ["every system call", "", "seccomp", without("/^--seccomp$/,+1d")],
    ["namespaces of its own", "", "namespaces", without("/^--disable-userns$/d; /^--seccomp$/,+1d")],
  ])("with %s is refused", async (_what, more, missing, before = "") => {
    const { runner, sentence } = await choose(bubblewrapWith(more, before));
    expect(runner).toBeUndefined();
    const [, lacks] =
      /^bash is not offered: no sandbox runs here \(bubblewrap: not isolated: ([^)]+)\)/.exec(sentence) ?? [];
    expect(lacks?.split(", ")).toContain(missing);
  });

  it("is chosen with its proxy, also by a worker that keeps new files to itself", async () => {
    const usual = process.umask(0o077);
    closeAtEnd(() => void process.umask(usual));
    const { sentence } = await chooseRunner({ mode: "bubblewrap", egress: { hosts: "listed.test" } });
    expect(sentence).toMatch(/^bash runs in bubblewrap, with a proxy to listed\.test as its network/);
  });

  it("with a proxy that refuses nothing is refused", async () => {
    const above = directory();
    chmodSync(above, 0o755);
    const forwarder = join(above, "node");
    writeFileSync(forwarder, OPEN_PROXY, { mode: 0o755 });
    const bwrap = bubblewrapWith(`--ro-bind ${forwarder} /run/egress-node`);
    const egress = { hosts: "listed.test" };
    const { runner, sentence } = await chooseRunner({ mode: "bubblewrap", production: false, bwrap, egress });
    expect(runner).toBeUndefined();
    expect(sentence).toContain("(bubblewrap: not isolated: proxy)");
  });
});
