/** Guarantee: a command finds the limits, the names and the proxy that programs need, and nothing of the host's. */
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createBubblewrap } from "../../../../../src/worker/tools/sandbox/bubblewrap.ts";
import type { EgressPolicy } from "../../../../../src/worker/tools/sandbox/egress-policy.ts";
import { parseEgress } from "../../../../../src/worker/tools/sandbox/egress-policy.ts";
import { openScene } from "../scene.ts";

const scene = await openScene();
const asRoot = process.getuid?.() === 0;

/** Runs a command, and returns the lines that it wrote. */
async function lines(script: string, egress?: EgressPolicy): Promise<string[]> {
  const runner = createBubblewrap({ clock: systemClock, asRoot, machine: process.arch, egress });
  const { signal } = new AbortController();
  const outcome = await runner?.run({ script, workspace: scene.workspace, timeoutMs: 60_000, signal });
  return outcome?.output.split("\n").filter((line) => line !== "") ?? [];
}

it("limits, names, and hidden directories that nothing is written to", async () => {
  const keys = join(scene.readOnly, ".aws");
  mkdirSync(keys);
  const limits = "for each in c f d u n t; do ulimit -H$each; done";
  expect(await lines(`${limits}; uname -n; id -un; echo x 2>/dev/null > ${keys}/x || echo refused`)).toEqual([
    ...["0", "1048576", "4194304", "512", "1024", "600"],
    ...["sandbox", "agent", "refused"],
  ]);
});

it("a home that it may write to, characters of any script, and of /etc only what programs need to start", async () => {
  const names = ["alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "passwd"];
  const there = names.filter((name) => name === "passwd" || existsSync(join("/etc", name)));
  expect(await lines('echo "$HOME" ~agent "$LANG"; ls /etc')).toEqual(["/tmp /tmp C.UTF-8", ...there]);
});

it("the proxy under each name by which programs know one, and the certificates of the host", async () => {
  const policy = parseEgress("listed.test");
  if ("problem" in policy) throw new TypeError(policy.problem);
  const found = await lines("env | grep -i proxy | sort; [ -d /etc/ssl/certs ] && echo certificates", policy);
  const proxy = "http://127.0.0.1:3128";
  expect(found).toEqual([
    ...["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"].map((name) => `${name}=${proxy}`),
    "NODE_USE_ENV_PROXY=1",
    ...["http_proxy", "https_proxy"].map((name) => `${name}=${proxy}`),
    ...(existsSync("/etc/ssl/certs") ? ["certificates"] : []),
  ]);
});
