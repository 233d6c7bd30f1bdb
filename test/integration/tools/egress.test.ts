/** Programs of a sandbox on their way out: real curl, git and npm, through the proxy to servers on this machine. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { bashTool } from "../../../src/worker/tools/builtin/bash.ts";
import { runTool } from "../../../src/worker/tools/registry.ts";
import { chooseRunner, type RunnerOptions } from "../../../src/worker/tools/sandbox/choose.ts";
import type { NetworkUse } from "../../../src/worker/tools/sandbox/runner.ts";
import type { Tool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openScene, type Scene, stoppedBy } from "../../unit/worker/tools/scene.ts";

const PACKAGE = {
  name: "package",
  "dist-tags": { latest: "1.0.0" },
  versions: { "1.0.0": { name: "package", version: "1.0.0", description: "found" } },
};

let scene: Scene;
let tool: Tool;
let port: number;
let forbidden: number;
const uses: NetworkUse[] = [];

const choose = (more: Partial<RunnerOptions>) =>
  chooseRunner({
    clock: systemClock,
    mode: "sandboxed",
    production: true,
    acceptUnsandboxed: false,
    ...more,
  });

beforeAll(async () => {
  scene = await openScene();
  const repository = join(scene.base, "repository.git");
  const git = (...args: string[]) =>
    execFileSync("git", args, {
      env: { PATH: process.env.PATH, HOME: scene.base, GIT_CONFIG_NOSYSTEM: "1" },
    });
  git("init", "--quiet", "--bare", "--initial-branch=main", repository);
  const tree = git("-C", repository, "hash-object", "-t", "tree", "-w", "/dev/null").toString().trim();
  const who = ["-c", "user.name=a", "-c", "user.email=a@b"];
  const commit = git("-C", repository, ...who, "commit-tree", tree, "-m", "first")
    .toString()
    .trim();
  git("-C", repository, "update-ref", "refs/heads/main", commit);
  git("-C", repository, "update-server-info");
  const secret = createServer((_, answer) => void answer.end("CANARY"));
  const server = createServer((incoming, answer) => {
    const path = new URL(incoming.url ?? "/", "http://x").pathname;
    const file = join(repository, path.slice("/repository.git".length));
    if (path === "/away")
      return void answer.writeHead(302, { location: `http://127.0.0.1:${forbidden}/` }).end();
    if (path === "/package") return void answer.end(JSON.stringify(PACKAGE));
    if (path.startsWith("/repository.git/") && existsSync(file)) return void answer.end(readFileSync(file));
    answer.writeHead(path === "/" ? 200 : 404).end("hello from outside");
  });
  for (const each of [secret, server]) {
    await new Promise<void>((resolve) => void each.listen(0, "127.0.0.1", resolve));
    closeAtEnd(() => {
      each.closeAllConnections();
      each.close();
    });
  }
  forbidden = (secret.address() as AddressInfo).port;
  port = (server.address() as AddressInfo).port;
  const { runner, sentence } = await choose({ egress: { hosts: `127.0.0.1:${port}`, ranges: "127.0.0.1" } });
  const user = process.getuid?.() === 0 ? ", as the user nobody" : "";
  expect(sentence).toBe(`bash runs in bubblewrap, with a proxy to 127.0.0.1:${port} as its network${user}.`);
  if (runner === undefined) throw new Error(sentence);
  tool = bashTool(runner, systemClock, (use) => uses.push(use));
});

async function bash(command: string) {
  const call = { id: "toolu_1", name: "bash", input: { command } };
  return runTool(tool, call, scene.context(), { offered: ["bash"], clock: systemClock, stop: stoppedBy() });
}

describe("commands with a list of hosts", () => {
  it("tells the model which hosts there are", () => {
    expect(tool.description).toContain(`you reach 127.0.0.1:${port}`);
  });

  it("reach them with curl and git, and what they used is told to the worker's log", async () => {
    uses.length = 0;
    expect((await bash(`curl -sS http://127.0.0.1:${port}/`)).content).toBe("hello from outside");
    expect(uses).toEqual([{ requests: 1, bytes: "hello from outside".length, refused: [] }]);
    expect((await bash("echo nothing of the network")).isError).toBe(false);
    expect(uses).toHaveLength(1);
    const cloned = await bash(
      `git clone -q http://127.0.0.1:${port}/repository.git r && git -C r log --format=%s`,
    );
    expect(cloned).toMatchObject({ content: expect.stringContaining("first"), isError: false });
  });

  it.runIf(existsSync("/usr/bin/npm"))("reach them with npm, and with the proxy as a tunnel", async () => {
    const viewed = await bash(
      `npm view package description --registry http://127.0.0.1:${port}/ --no-update-notifier`,
    );
    expect(viewed.content).toContain("found");
    expect((await bash(`curl -sSp http://127.0.0.1:${port}/`)).content).toBe("hello from outside");
  });

  it("reach nothing else: not by the proxy, not past it, not by a redirect", async () => {
    const { content } = await bash(`
      curl -sS http://127.0.0.1:${forbidden}/; curl -sSp http://127.0.0.1:${forbidden}/; curl -sSL http://127.0.0.1:${port}/away
      curl -sS --noproxy '*' --max-time 2 http://127.0.0.1:${port}/; curl -sS --max-time 2 --noproxy '*' http://127.0.0.1:${forbidden}/
      exec 8<>/dev/tcp/127.0.0.1/${forbidden} && cat <&8
      curl -sS http://169.254.169.254/latest/meta-data/; curl -sS http://localhost:${forbidden}/; curl -sS "http://[::1]:${forbidden}/"
      true`);
    expect(content).not.toContain("CANARY");
    expect(content).not.toContain("hello from outside");
    expect(content).toContain(
      `[not reached: 127.0.0.1:${forbidden}, 169.254.169.254:80, localhost:${forbidden}, ::1:${forbidden}]`,
    );
  });

  it("leave the proxy when they end, and wait for no process of ours", async () => {
    expect((await bash("sleep 0.1 & wait; jobs; echo waited")).content).toBe("waited");
    const before = process.getActiveResourcesInfo().filter((kind) => kind === "PipeWrap").length;
    await bash(`(curl -sS http://127.0.0.1:${port}/ &) ; exec 9<>/dev/tcp/127.0.0.1/3128; echo`);
    expect(process.getActiveResourcesInfo().filter((kind) => kind === "PipeWrap").length).toBeLessThanOrEqual(
      before,
    );
  });

  it("are refused a list that cannot be read, and told where there is no way to give them one", async () => {
    await expect(choose({ egress: { hosts: "https://x" } })).rejects.toMatchObject({
      code: "invalid_config",
    });
    const own = await choose({ mode: "bubblewrap", egress: { hosts: "site.test", ranges: "10.0.0.0/8" } });
    expect(own.sentence).toContain("with a proxy to site.test as its network");
  });
});
